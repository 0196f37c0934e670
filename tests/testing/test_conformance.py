"""check_policy passes every policy of ours, and catches each way of cheating."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import Phase, given, settings

from dally.cluster.capacity import Cluster
from dally.errors import PolicyError
from dally.model import Action, Job, Preempt, Start, make_allocation
from dally.policies.base import Policy
from dally.policies.placement.best_fit import BestFit
from dally.policies.queue import Queue
from dally.policies.registry import POLICIES, build
from dally.testing import InvariantError, check_policy, check_record, record_of
from dally.testing.conformance import check_causal, check_rules
from dally.testing.shifted import check_shift
from dally.testing.strategies import Case, cases
from tests.examples import many


@pytest.mark.parametrize("name", POLICIES)
def test_our_policies_keep_the_rules(name: str) -> None:
    check_policy(name, examples=many(100))


@pytest.mark.parametrize("lease_s", ["3", "7.3", "60"])
@settings(max_examples=many(60))
@given(case=cases(longest_s=120))
def test_short_leases_keep_the_rules(case: Case, lease_s: str) -> None:
    check_rules(case, lambda: build("las", {"lease_s": lease_s}))
    if lease_s != "7.3":  # sums of 7.3 s are rounded, so which of two leases ends first may depend on the clock
        check_shift(case, lambda: build("las", {"lease_s": lease_s}))


@settings(max_examples=many(200))
@given(cases())
def test_every_job_of_a_calm_run_finishes_under_every_policy(case: Case) -> None:
    calm = Case(case.machines, case.jobs, costs=case.costs)
    for name in POLICIES:
        record = record_of(calm.run(build(name)))
        check_record(record)
        assert {job.status for job in record.jobs} == {"finished"}


class Greedy(Policy):
    """A fair policy, to be spoilt below."""

    def schedule(self, now: float, queue: Queue, cluster: Cluster) -> Iterator[Action]:
        for job in queue:
            if self.wants(job, now):
                allocation = BestFit().place(job, now, cluster)
                if allocation is not None:
                    yield Start(job, allocation)

    def wants(self, job: Job, now: float) -> bool:
        return True


def test_a_plain_policy_passes() -> None:
    check_policy(Greedy, examples=50)


class OverCapacity(Greedy):
    def schedule(self, now: float, queue: Queue, cluster: Cluster) -> Iterator[Action]:
        for job in queue:
            yield Start(job, make_allocation(0, [(0, int(job.gpus))]))


class HalfGang(Greedy):
    def schedule(self, now: float, queue: Queue, cluster: Cluster) -> Iterator[Action]:
        for action in super().schedule(now, queue, cluster):
            assert isinstance(action, Start)
            if action.job.gpus > 2:
                yield Start(action.job, make_allocation(0, [*action.allocation.parts()[:1], (0, 1)]))
            else:
                yield action


class SharedState(Greedy):
    seen: list[str] = []  # noqa: RUF012 - this is the bug

    def wants(self, job: Job, now: float) -> bool:
        self.seen.append(job.job_id)
        return len(self.seen) % 3 != 0


class Unpicklable(Greedy):
    def __init__(self) -> None:
        self._rule = lambda job: True


class Oversleeps(Greedy):
    """Lets every job wait for 5 s, and does not say when these are over."""

    def wants(self, job: Job, now: float) -> bool:
        return now >= job.submit_s + 5.0


class Counts(Greedy):
    """Takes every second call off."""

    def __init__(self) -> None:
        self.calls = 0

    def schedule(self, now: float, queue: Queue, cluster: Cluster) -> Iterator[Action]:
        self.calls += 1
        return super().schedule(now, queue, cluster) if self.calls % 2 else iter(())


class Punctual(Oversleeps):
    """The same with a wake-up."""

    def schedule(self, now: float, queue: Queue, cluster: Cluster) -> Iterator[Action]:
        waiting = [job.submit_s + 5.0 for job in queue if job.submit_s + 5.0 > now]
        self.wakeup_s = min(waiting, default=float("inf"))
        return super().schedule(now, queue, cluster)


def test_a_policy_that_asks_for_its_wakeups_passes() -> None:
    check_policy(Punctual, examples=many(100))


@pytest.fixture
def any_example() -> Iterator[None]:
    """The first example that fails will do: to look for the smallest takes far longer."""
    usual = settings.get_profile("dally")
    settings.register_profile("any example", usual, phases=(Phase.generate,))
    settings.load_profile("any example")
    yield
    settings.load_profile("dally")


@pytest.mark.usefixtures("any_example")
@pytest.mark.parametrize("policy", [OverCapacity, HalfGang])
def test_catches_impossible_actions(policy: type[Policy]) -> None:
    with pytest.raises((PolicyError, ExceptionGroup)):
        check_policy(policy, examples=50)


@pytest.mark.usefixtures("any_example")
@pytest.mark.parametrize(
    ("policy", "names"),
    [
        (SharedState, ["repeat"]),
        (Unpicklable, ["pickle"]),
        # a job that comes later wakes it, or none does
        (Oversleeps, ["idle", "future", "starvation"]),
        (Counts, ["idle", "starvation"]),  # the call that it takes off may be the last
    ],
)
def test_catches_bad_habits(policy: type[Policy], names: list[str]) -> None:
    with pytest.raises(InvariantError) as caught:
        check_policy(policy, examples=50)
    assert caught.value.name in names


class OnTheHour(Greedy):
    """Looks at the clock and starts jobs at full hours only."""

    def wants(self, job: Job, now: float) -> bool:
        self.wakeup_s = (now // 3600.0 + 1.0) * 3600.0
        return now % 3600.0 == 0.0


@pytest.mark.usefixtures("any_example")
def test_catches_what_depends_on_the_clock() -> None:
    with pytest.raises(InvariantError) as caught:
        check_policy(OnTheHour, examples=50)
    assert caught.value.name == "shift"


class WaitsATenth(Greedy):
    """Wakes when 0.1 s are over and asks whether they are, which a float may deny; it tries again 1 s later."""

    def wants(self, job: Job, now: float) -> bool:
        due_s = job.submit_s + 0.1
        self.wakeup_s = due_s if due_s > now else now + 1.0
        return now - job.submit_s >= 0.1


def test_catches_what_a_float_rounds_off() -> None:
    case = Case([(("r",), 8)], [(2.0, 1, 5.0)])
    assert 2.1 - 2.0 >= 0.1 > 1_000_005.1 - 1_000_005.0
    with pytest.raises(InvariantError, match=r"start of job 0 at 2\.1 s and start of job 0") as caught:
        check_shift(case, WaitsATenth)
    assert caught.value.name == "shift"


class Returns(Greedy):
    """Ranks a job last as soon as it runs, so that the next takes its GPUs, and so on."""

    def schedule(self, now: float, queue: Queue, cluster: Cluster) -> Iterator[Action]:
        yield from super().schedule(now, queue, cluster)
        while len(queue) > 0 and cluster.running:
            yield Preempt(next(iter(cluster.running.values())))
            yield from super().schedule(now, queue, cluster)


@pytest.mark.usefixtures("any_example")
def test_catches_a_pass_without_end() -> None:
    with pytest.raises(PolicyError, match=r"Returns goes on without end in one pass at .* s: .* \(j\d+.*\);"):
        check_policy(Returns, examples=50)


def test_catches_a_look_into_the_future() -> None:
    class Peeks(Greedy):
        """Knows how many jobs the trace holds, as a careless experiment might tell it."""

        def __init__(self, jobs: int) -> None:
            self._jobs = jobs

        def wants(self, job: Job, now: float) -> bool:
            return self._jobs < 3 or job.gpus > 1

    case = Case([(("r",), 8)], [(0.0, 1, 5.0), (1.0, 1, 5.0), (2.0, 1, 5.0)])
    jobs_known = iter([3, 2, 1, 2, 1])
    events = record_of(case.run(Peeks(next(jobs_known)))).events
    with pytest.raises(InvariantError) as caught:
        check_causal(case, lambda: Peeks(next(jobs_known)), events)
    assert caught.value.name == "future"
    check_causal(case, lambda: Peeks(3), events)
