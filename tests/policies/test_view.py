"""What a policy may ask: by hand, against what the engine then does, and that asking changes nothing."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dally.cluster.capacity import Cluster
from dally.cluster.links import Network
from dally.model import Allocation, Costs, Job, Profile, make_allocation
from dally.perf.base import SpeedModel
from dally.perf.network_model import NetworkModel
from dally.policies import events
from dally.policies.composed import ComposedPolicy
from dally.policies.events import PolicyEvent
from dally.policies.ordering.simple import SubmitOrder
from dally.policies.placement.best_fit import BestFit
from dally.policies.preemption.base import NoPreemption
from dally.policies.view import View
from dally.testing.strategies import Case
from tests.examples import many

AMONG_OTHERS = 0.2  # own slowdown beside others: how far one step may be off the settled one, relative


def grid(background: float = 0.0) -> tuple[Cluster, NetworkModel]:
    """Two racks of two machines of 2 GPUs; NICs and uplinks of 1 GB/s without latency, used by others or not."""

    def cluster_with(gbps: float) -> Cluster:
        return Cluster.grid(2, 2, 2, 1e6, gbps, gbps, 0.0, 0.0, 0.0, ideal=True)

    cluster, quiet = cluster_with(1.0 - background), cluster_with(1.0)
    assert isinstance(cluster.network, Network)
    assert isinstance(quiet.network, Network)
    # 1 s of compute and 1 GB, none of it hidden: two machines load a NIC with 2 · 1/2 · 1 GB each way.
    profile = Profile(compute_s=1.0, nbytes=1e9, overlap=0.0)
    return cluster, NetworkModel(cluster.network, quiet.network, lambda model, gpus: profile)


def gang(index: int, parts: list[tuple[int, int]]) -> tuple[Job, Allocation]:
    job = Job(index, f"j{index}", 0.0, sum(gpus for _, gpus in parts), 100.0, "m")
    return job, make_allocation(0, parts)


def place(speed: NetworkModel, index: int, parts: list[tuple[int, int]]) -> Job:
    job, allocation = gang(index, parts)
    job.allocation = allocation
    for change in speed.placed(job):
        change.job.rate = change.rate
    return job


def test_without_a_network_all_places_are_equal() -> None:
    view = View(SpeedModel(), Costs())
    job, allocation = gang(0, [(0, 2), (1, 2)])
    assert (view.best(job), view.slowdown(job, allocation), view.profile(job)) == (1.0, (1.0, 0.0), None)
    assert view.queue_of(job) == ""


def test_best_counts_the_background() -> None:
    _, speed = grid(background=0.5)
    view = View(speed, Costs())
    # 1 s of compute and 1 s of exchange on the quiet network; 2 s of it where half of the NICs is taken.
    four, allocation = gang(0, [(0, 2), (1, 2)])
    assert view.best(four) == pytest.approx(3.0 / 2.0, rel=1e-3)
    assert view.slowdown(four, allocation) == pytest.approx((3.0 / 2.0, 0.0), rel=1e-3)
    two, inside = gang(1, [(0, 2)])
    assert (view.best(two), view.slowdown(two, inside)[0]) == pytest.approx((1.0, 1.0))


def test_harm_is_weighed_by_gpus_and_a_move_takes_its_own_load_along() -> None:
    _, speed = grid()
    view = View(speed, Costs())
    other = place(speed, 0, [(0, 1), (1, 1)])
    assert other.rate == pytest.approx(0.5, rel=1e-3)  # 2 s where one machine takes 1
    job, beside = gang(1, [(0, 1), (1, 1)])
    own, inflicted = view.slowdown(job, beside)
    # The other communicates half of its time: 1.5 meetings less variance; both are alike, so each suffers.
    assert own > 2.2
    assert inflicted == pytest.approx(own - 2.0, rel=0.35)
    apart = make_allocation(1, [(2, 1), (3, 1)])
    assert view.slowdown(job, apart) == pytest.approx((2.0, 0.0), rel=1e-3)
    # Where it runs already, asking about its own place counts it once.
    moved = place(speed, 1, [(0, 1), (1, 1)])
    assert view.slowdown(moved, beside)[0] == pytest.approx(1.0 / moved.rate, rel=0.1)
    assert view.slowdown(moved, apart) == pytest.approx((2.0, 0.0), rel=1e-3)


def test_restarts_and_work_at_risk() -> None:
    view = View(SpeedModel(), Costs(10.0, 2.0, 60.0))
    job = Job(0, "a", 0.0, 4, 1000.0)
    assert view.restart_s(job) == 18.0
    job.status, job.rate, job.since_s, job.work_s, job.saved_work_s = 2, 0.5, 100.0, 50.0, 40.0
    # 10 s at 100, 20 s of work more at 140, and a checkpoint each 60: at 200 it has 60 and none at risk.
    assert [view.at_risk_s(job, now) for now in (100.0, 140.0, 200.0, 230.0)] == [10.0, 30.0, 0.0, 15.0]
    assert View(SpeedModel(), Costs()).at_risk_s(job, 140.0) == 0.0


RACKS: list[tuple[tuple[str, ...], int]] = [((rack,), 4) for rack in "aabb"]
GANGS = st.tuples(st.sampled_from([0.0, 10.0, 500.0]), st.integers(2, 6), st.sampled_from([100.0, 3000.0]))


class Asking(BestFit):
    """Scatters gangs, and asks about every place before it gives it away."""

    def __init__(self) -> None:
        self.speed: SpeedModel = SpeedModel()
        self.expected: dict[int, float] = {}  # own slowdown

    def place(self, job: Job, now: float, cluster: Cluster) -> Allocation | None:
        if cluster.free_gpus < job.gpus:
            return None
        parts: dict[int, int] = {}
        while sum(parts.values()) < job.gpus:
            for machine in range(len(cluster.down)):
                if sum(parts.values()) < job.gpus and cluster.free_on(machine) > parts.get(machine, 0):
                    parts[machine] = parts.get(machine, 0) + 1
        allocation = make_allocation(0, list(parts.items()))
        before = everything(self.speed)
        own, inflicted = self.view.slowdown(job, allocation)
        for other in cluster.running.values():
            assert self.view.slowdown(other, allocation)[0] >= 1.0
        assert everything(self.speed) == before
        assert own >= 1.0
        assert inflicted >= 0.0
        self.expected[int(job.index)] = own
        return allocation


def everything(speed: SpeedModel) -> object:
    """The whole fixed point."""
    if not isinstance(speed, NetworkModel):
        return None
    contention = speed._contention
    flows = {
        job: (
            flow.comm_s, flow.rough_s, flow.duty, flow.busy, flow.change, flow.queued, flow.link, flow.link_s,
            flow.next_s, list(flow.stretches),
        )
        for job, flow in contention.flows.items()
    }  # fmt: skip
    members = [[int(flow.job) for flow in row] for row in contention.members]
    sums = [list(column) for column in (contention.needs, contention.meets, contention.variance, contention.filled)]
    asks = [(list(asks.shares), list(asks.busy), asks.meets, asks.variance) for asks in contention.shares]
    return flows, members, sums, asks, int(contention.changes)


class Checked(ComposedPolicy):
    """Holds the answers against the rates that the engine gives."""

    def __init__(self, sharing: str = "fair") -> None:
        self.asking = Asking()
        self.off: list[float] = []
        self.link_sharing = sharing
        super().__init__(SubmitOrder(), self.asking, NoPreemption())

    def on(self, event: PolicyEvent) -> None:
        super().on(event)
        job = event.job
        if event.kind == events.STARTED and job is not None:
            self._check(job)

    def _check(self, job: Job) -> None:
        own = self.asking.expected[int(job.index)]
        assert isinstance(self.asking.speed, NetworkModel)
        contention = self.asking.speed._contention
        flow = contention.flows.get(int(job.index))
        if flow is not None and contention.others(flow, None):
            self.off.append(abs(own * job.rate - 1.0))
        else:
            assert own * job.rate == pytest.approx(1.0, rel=1e-4)


@pytest.mark.parametrize("sharing", ["fair", "adadual"])
def test_asking_agrees_with_what_the_engine_then_gives(sharing: str) -> None:
    off: list[float] = []

    @settings(max_examples=many(60), deadline=None, derandomize=True, database=None)
    @given(st.lists(GANGS, min_size=4, max_size=12), st.sampled_from(["slow", "congested"]))
    def agrees(jobs: list[tuple[float, int, float]], network: str) -> None:
        policy = Checked(sharing)
        simulation = Case(RACKS, sorted(jobs), network=network).simulation(policy)
        policy.asking.speed = simulation.state.speed
        simulation.run()
        off.extend(policy.off)

    agrees()
    assert len(off) > 20
    assert sum(off) / len(off) < 0.08
    assert max(off) < AMONG_OTHERS
