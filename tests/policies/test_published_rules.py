"""What the published schedulers promise, on random cases."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from dally.model import MIGRATE, START, Costs, Job
from dally.policies.consolidating import ConsolidatingPolicy
from dally.policies.ordering.discrete_las import GittinsTable
from dally.policies.ordering.fairness import FinishTimeFairness
from dally.policies.registry import build
from dally.testing.strategies import Case, cases
from tests.examples import many

LEASE_S = 10.0


@settings(max_examples=many(150), deadline=None)
@given(cases(longest_s=600, constraints_too=False))
def test_gandiva_migrates_only_closer(case: Case) -> None:
    simulation = case.run(build("gandiva", {"slice_s": "30", "tier": "any"}))
    log = simulation.state.log
    tiers: dict[int, int] = {}
    for row in range(len(log)):
        if log.kinds[row] == MIGRATE:
            assert log.tiers[row] < tiers[log.jobs[row]]
        if log.kinds[row] in (START, MIGRATE):
            tiers[log.jobs[row]] = int(log.tiers[row])


class Watched(FinishTimeFairness):
    """Notes the largest rho that a job had when it finished."""

    def __init__(self) -> None:
        super().__init__(LEASE_S, 0.5)
        self.last: dict[int, float] = {}

    def finished(self, job: Job, now: float) -> None:
        self.last[int(job.index)] = self.rho(job, now)
        super().finished(job, now)


durations = st.integers(5, 300).map(float)


@settings(max_examples=many(200), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 100).map(float), durations), min_size=2, max_size=2))
def test_themis_keeps_two_users_near_their_fair_share(asks: list[tuple[float, float]]) -> None:
    """Each of two users wants the whole cluster; neither is worse off than on half of it, but for the leases.

    The worse off gets the GPUs at the next auction after the other's lease: it waits two leases at most, and a
    job that is ahead when it comes is behind by that much when it goes.
    """
    policy = build("themis", {"lease_s": str(LEASE_S), "fairness": "0.5"})
    assert isinstance(policy, ConsolidatingPolicy)
    order = Watched()
    policy.order = order
    jobs = [(submit_s, 8, duration_s) for submit_s, duration_s in sorted(asks)]
    simulation = Case([((), 8)], jobs, costs=Costs(0.0, 0.0, 0.0)).run(policy)
    assert len(order.last) == 2
    for job in simulation.jobs:
        assert order.last[int(job.index)] <= 1.0 + 2.0 * LEASE_S / job.duration_s + 1e-9


def test_gittins_index_by_hand() -> None:
    table = GittinsTable([100.0, 10.0, 10.0])
    assert table.index(0.0, 20.0) == 2 / (10 + 10 + 20)  # two of three within 20, which costs 10, 10 and 20
    assert table.index(15.0, float("inf")) == 1 / 85
    assert table.index(15.0, 50.0) == 0.0  # none done within 50
    assert table.index(100.0, 50.0) == 0.0  # nothing known
