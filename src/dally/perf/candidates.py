"""Places that gangs get or policies ask about, again and again: what a gang would ask of the network there."""

from __future__ import annotations

from mypy_extensions import i64

from dally.cluster.links import Network
from dally.model import Allocation, Job, Profile
from dally.perf.contention import Flow
from dally.perf.gang import gang_on
from dally.perf.iteration import Demand, demand_of

MOST_CACHED = 10_000  # flows; then all are forgotten
MOST_LINKS = 400_000  # of all demands on places that gangs got; then all are forgotten


class Candidates:
    """Flows and demands by model and place, worked out when first asked for.

    Working one out costs far more than rating it among those who run. Policies ask about the same domains at
    every pass, and gangs that take turns come back to the same places every minute.
    """

    __slots__ = ("_demands", "_flows", "_links", "_network")

    def __init__(self, network: Network) -> None:
        self._network: Network = network
        self._flows: dict[tuple[str, tuple[int, ...]], Flow] = {}
        self._demands: dict[tuple[str, tuple[int, ...]], Demand] = {}
        self._links: i64 = 0  # of these

    def flow(self, job: Job, allocation: Allocation, profile: Profile) -> Flow:
        """The flow that the job would be on that place; the caller sets whose it is and its times."""
        key = _key(job, allocation)
        result = self._flows.get(key)
        if result is None:
            if len(self._flows) >= MOST_CACHED:
                self._flows.clear()
            result = Flow(job.index, self._work_out(allocation, profile))
            self._flows[key] = result
        return result

    def demand(self, job: Job, allocation: Allocation, profile: Profile) -> Demand:
        """What the job asks for on the place it got."""
        key = _key(job, allocation)
        flow = self._flows.get(key)
        if flow is not None:
            return flow.demand
        result = self._demands.get(key)
        if result is None:
            if self._links >= MOST_LINKS:
                self._links = 0
                self._demands.clear()
            result = self._work_out(allocation, profile)
            self._links += 1 + len(result.cost.links)
            self._demands[key] = result
        return result

    def _work_out(self, allocation: Allocation, profile: Profile) -> Demand:
        gang = gang_on(self._network, allocation.machines, allocation.gpus)
        return demand_of(self._network, gang, profile)


def _key(job: Job, allocation: Allocation) -> tuple[str, tuple[int, ...]]:
    """The model, and machines and GPUs in turn: with these the job's size is known."""
    numbers: list[int] = []
    for part in range(len(allocation.machines)):
        numbers.append(int(allocation.machines[part]))
        numbers.append(int(allocation.gpus[part]))
    return job.model, tuple(numbers)
