"""Jobs that share links and do not notice: each communicates as fast as it would alone."""

from __future__ import annotations

from mypy_extensions import i64

from dally.perf.contention import Contention, Flow
from dally.perf.filling import Shares
from dally.perf.iteration import Demand
from dally.pickles import picklable

NO_CONTENTION = "none"  # its name among the ways of sharing


class NoContention(Contention):
    """Links have room for any number of jobs. Loads are counted all the same, for the log."""

    def sharing(self) -> str:
        return NO_CONTENTION

    def add(self, job: i64, demand: Demand, rank: float = 0.0) -> list[int]:
        flow = Flow(job, demand, rank)
        flow.comm_s = demand.alone_s
        self.flows[int(job)] = flow
        for link in demand.cost.links:
            self.members[link].append(flow)
        return [int(job)]

    def remove(self, job: i64) -> list[int]:
        flow = self.flows.pop(int(job))
        for link in flow.demand.cost.links:
            self.members[link].remove(flow)
        return []

    def others(self, flow: Flow, leaving: Flow | None) -> list[Flow]:
        return []

    def try_on(self, flow: Flow, leaving: Flow | None) -> None:
        flow.comm_s = flow.demand.alone_s

    def comm_if_s(self, flow: Flow, joining: Flow | None, leaving: Flow | None, known: dict[int, Shares]) -> float:
        return flow.demand.alone_s


picklable(NoContention, 0)
