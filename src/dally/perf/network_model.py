"""The speed model that knows the network: rates from placements, profiles and who else uses the links."""

from __future__ import annotations

from collections.abc import Callable

from librt.vecs import vec
from mypy_extensions import i64

from dally.cluster.links import Network
from dally.errors import unknown
from dally.model import Allocation, Job, Profile
from dally.perf.adadual_sharing import AdaDualContention
from dally.perf.base import LinkLoad, Speed, SpeedModel
from dally.perf.closest import closest_placement
from dally.perf.contention import Contention
from dally.perf.gang import gang_on
from dally.perf.iteration import Demand, demand_of

SHARINGS = ("fair", "adadual")
LOAD_STEP = 0.01  # a link's load is logged when it moved by this share of its capacity


def contention_of(sharing: str, network: Network) -> Contention:
    """The model of the network's links shared in the way of that name."""
    kappa = 1.0 + network.sharing_penalty
    if sharing == "adadual":
        return AdaDualContention(network.link_count(), kappa)
    if sharing == "fair":
        return Contention(network.link_count(), kappa)
    raise unknown("way of sharing links", sharing, SHARINGS)


class Kind:
    """All jobs of one model and size: its profile, and an iteration at the closest placement, alone."""

    __slots__ = ("closest_s", "exposed_s", "profile")

    def __init__(self, profile: Profile, closest: Demand) -> None:
        self.profile: Profile = profile
        self.closest_s: float = closest.iteration_s(closest.alone_s)
        self.exposed_s: float = self.closest_s - closest.compute_s()


class NetworkModel(SpeedModel):
    """A job's rate = its iteration at the closest placement on a quiet network ÷ its iteration here and now."""

    def __init__(
        self, network: Network, quiet: Network, profiles: Callable[[str, int], Profile], sharing: str = "fair"
    ) -> None:
        """`quiet` is the same network without background load; `profiles` gives (model, GPUs) a profile.

        `sharing`: how jobs share links, as their policy says: `fair`, or admitted by `adadual`.
        """
        self._network: Network = network
        self._quiet: Network = quiet
        self._profiles: Callable[[str, int], Profile] = profiles
        self._kinds: dict[tuple[str, int], Kind] = {}
        self._alone: dict[tuple[str, int, int], Speed] = {}  # by model, GPUs and machine
        self._contention: Contention = contention_of(sharing, network)
        self._sharing: dict[int, Job] = {}  # jobs that use links, by index
        self._logged: vec[float] = vec[float]([0.0] * int(network.link_count()))
        self._touched: dict[int, bool] = {}  # links since the loads were last asked for

    def kind(self, job: Job) -> Kind:
        """What is known of the job's model at its size."""
        key = (job.model, int(job.gpus))
        found = self._kinds.get(key)
        if found is None:
            profile = self._profiles(job.model, int(job.gpus))
            closest = closest_placement(self._quiet, job.gpus)
            found = Kind(profile, demand_of(self._quiet, closest, profile))
            self._kinds[key] = found
        return found

    def placed(self, job: Job) -> list[Speed]:
        if job.gpus == 1:
            return []
        allocation = job.allocation
        assert allocation is not None
        if len(allocation.machines) == 1:
            return [self._on_one_machine(job, allocation)]
        demand = self.demand(job)
        self._sharing[int(job.index)] = job
        self._touch(demand.cost.links)
        service_left_s = (job.duration_s - job.work_s) * float(job.gpus)
        return self._speeds(self._contention.add(job.index, demand, service_left_s))

    def demand(self, job: Job) -> Demand:
        """What a placed job asks of compute and network in each iteration."""
        allocation = job.allocation
        assert allocation is not None
        gang = gang_on(self._network, allocation.machines, allocation.gpus)
        return demand_of(self._network, gang, self.kind(job).profile)

    def _on_one_machine(self, job: Job, allocation: Allocation) -> Speed:
        """Its speed depends on nobody else: worked out once for each model, size and machine."""
        key = (job.model, int(job.gpus), int(allocation.machines[0]))
        known = self._alone.get(key)
        if known is None:
            kind = self.kind(job)
            demand = self.demand(job)
            iteration_s = demand.iteration_s(demand.alone_s)
            known = _speed(job, kind, iteration_s, iteration_s - demand.compute_s())
            self._alone[key] = known
        return Speed(job, known.rate, known.comm_rate)

    def removed(self, job: Job) -> list[Speed]:
        if int(job.index) not in self._sharing:
            return []
        del self._sharing[int(job.index)]
        self._touch(self._contention.flows[int(job.index)].demand.cost.links)
        return self._speeds(self._contention.remove(job.index))

    def _speeds(self, changed: list[int]) -> list[Speed]:
        found: list[Speed] = []
        for index in changed:
            job = self._sharing[index]
            self._touch(self._contention.flows[index].demand.cost.links)
            iteration_s = self._contention.iteration_s(index)
            found.append(_speed(job, self.kind(job), iteration_s, self._contention.exposed_s(index)))
        return found

    def _touch(self, links: vec[i64]) -> None:
        for link in links:
            self._touched[int(link)] = True

    def link_loads(self) -> list[LinkLoad]:
        found: list[LinkLoad] = []
        for link in self._touched:
            load = self._contention.load(link)
            moved = load - self._logged[link]
            if moved >= LOAD_STEP or -moved >= LOAD_STEP or (load == 0.0 and moved < 0.0):
                self._logged[link] = load
                found.append(LinkLoad(link, load))
        self._touched.clear()
        return found

    def link_name(self, link: i64) -> str:
        return self._network.link_name(int(link))

    def closest_s(self, job: Job, compute_s: float) -> float:
        kind = self.kind(job)
        compute_step_s = kind.profile.compute_s()
        return compute_s * kind.closest_s / compute_step_s if compute_step_s > 0.0 else compute_s

    def comm_floor_s(self, job: Job) -> float:
        kind = self.kind(job)
        return job.duration_s * kind.exposed_s / kind.closest_s if kind.closest_s > 0.0 else 0.0


def _speed(job: Job, kind: Kind, iteration_s: float, exposed_s: float) -> Speed:
    if iteration_s <= 0.0:
        return Speed(job, 1.0, 0.0)
    # An all-to-all over more machines has more NICs and may beat the closest placement. A trace's
    # duration is the best there is all the same: the lower bounds stand on it.
    rate = kind.closest_s / iteration_s
    return Speed(job, rate if rate < 1.0 else 1.0, exposed_s / iteration_s)
