"""A watch in a simulation: who is named, moved and kept out, how many at most, and who comes back."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dally.cluster.capacity import Cluster
from dally.cluster.spec import read_topology
from dally.engine.degradations import ListedDegradations
from dally.engine.failures import Failures, ListedFailures
from dally.engine.health_watch import HealthWatch, WatchSettings
from dally.engine.simulate import Simulation
from dally.engine.snapshot import fork
from dally.model import INFINITY, Costs, Job
from dally.perf.base import Speed, SpeedModel
from dally.perf.hidden_faults import HiddenFaults
from dally.perf.slow_machines import SlowMachines
from dally.policies.registry import policy_of
from tests.examples import many

Episode = tuple[int, float, float, float]


def run(
    episodes: list[Episode],
    jobs: list[tuple[float, int, float]],
    machines: int = 10,
    settings: WatchSettings | None = None,
    failures: Failures | None = None,
    until_s: float = INFINITY,
) -> tuple[Simulation, HealthWatch]:
    """Jobs (submit_s, GPUs, duration_s) on machines of 8 GPUs in one rack."""
    faults = HiddenFaults(SlowMachines(), SlowMachines())
    watch = HealthWatch(faults, settings or WatchSettings())
    made = [Job(place, f"j{place}", *job[:2], job[2]) for place, job in enumerate(jobs)]
    simulation = Simulation(
        made, Cluster(read_topology(f"1x{machines}x8")), policy_of("fifo"), faults, Costs(30.0, 1.0),
        failures or Failures(), degradations=ListedDegradations(machines, episodes), watch=watch,
    )  # fmt: skip
    simulation.run(until_s)
    return simulation, watch


LONG = [(0.0, 8, 90000.0)] * 8


def test_slow_machine_is_named_its_job_moved_and_it_comes_back_when_a_probe_passes() -> None:
    simulation, watch = run([(0, 1.5, 20000.0, 30000.0)], LONG)
    (named,) = watch.accusations
    assert named.suspect.name == "machine 0"
    assert 20000.0 < named.at_s <= 20600.0
    assert (watch.moves, watch.quarantined) == (1, {})
    assert watch.probes > 1
    on_it = simulation.jobs[0]
    assert (on_it.migrations, on_it.preemptions) == (1, 0)
    assert on_it.finish_s < 90000.0 + 600.0 * 0.5 + 200.0
    alone, other = run([(0, 1.5, 20000.0, 30000.0)], LONG, settings=WatchSettings(act=False))
    assert alone.jobs[0].finish_s > on_it.finish_s + 2000.0
    assert (other.moves, len(other.accusations)) == (0, 1)


def test_gang_is_stopped_and_probed_where_nobody_can_tell_which_of_its_machines_it_is() -> None:
    jobs = [(0.0, 24, 90000.0), *[(0.0, 8, 90000.0)] * 5]
    simulation, watch = run([(1, 2.0, 20000.0, INFINITY)], jobs, settings=WatchSettings(most=0.4))
    assert (simulation.jobs[0].migrations, simulation.jobs[0].preemptions) == (2, 0)  # a pause, and a swap
    assert simulation.jobs[0].finish_s < 92000.0
    assert list(watch.quarantined) == [1]
    assert watch.most_out == 1


def test_never_more_than_the_set_share_is_kept_out() -> None:
    slow = [(machine, 2.0, 20000.0 + 500.0 * machine, INFINITY) for machine in range(5)]
    _, watch = run(slow, [(0.0, 8, 50000.0)] * 8, 20, WatchSettings(most=0.1))
    assert watch.most_out == 2
    _, none = run(slow, [(0.0, 8, 50000.0)] * 8, 9, WatchSettings(most=0.1))
    assert none.most_out == 0


def test_all_machines_slow_at_once_and_sound_ones_are_left_alone() -> None:
    for slow in ([], [(machine, 1.5, 20000.0, 40000.0) for machine in range(10)]):
        simulation, watch = run(slow, LONG)
        assert (watch.accusations, watch.moves, watch.most_out) == ([], 0, 0)
        assert not any(job.preemptions for job in simulation.jobs)


class Signals(HealthWatch):
    """Every 50th signal of a job is wrong, each time in another way."""

    WRONG = (0.0, float("nan"), float("inf"), -1.0, 1e9, 3.0, 1e-9)

    def _measured_s(self, job: Job) -> float:
        turn = self._rounds + 7 * int(job.index)
        return self.WRONG[turn // 50 % len(self.WRONG)] if turn % 50 == 0 else super()._measured_s(job)


def test_wrong_signals_accuse_nobody_and_hide_nothing() -> None:
    for slow in ([], [(3, 1.5, 40000.0, INFINITY)]):
        faults = HiddenFaults(SlowMachines(), SlowMachines())
        watch = Signals(faults, WatchSettings())
        simulation = Simulation(
            [Job(place, f"j{place}", *job[:2], job[2]) for place, job in enumerate(LONG)],
            Cluster(read_topology("1x10x8")), policy_of("fifo"), faults, Costs(30.0, 1.0), Failures(),
            degradations=ListedDegradations(10, slow), watch=watch,
        )  # fmt: skip
        simulation.run()
        assert {named.suspect.name for named in watch.accusations} == ({"machine 3"} if slow else set())
        assert watch.moves == len(slow)


class BadModel(SpeedModel):
    """Jobs of one model take half as long again as anyone expects, wherever they are."""

    def placed(self, job: Job) -> list[Speed]:
        return [Speed(job, 1.0 / 1.5, 0.0)] if job.model == "bad" else super().placed(job)


def test_nobody_is_drained_for_a_model_that_is_slow_by_itself() -> None:
    faults = HiddenFaults(SlowMachines(), BadModel())
    watch = HealthWatch(faults, WatchSettings())
    jobs = [Job(place, f"j{place}", 300.0 * place, 8, 30000.0 + 3000.0 * place) for place in range(24)]
    for job in jobs[::3]:
        job.model = "bad"
    simulation = Simulation(
        jobs, Cluster(read_topology("1x10x8")), policy_of("fifo"), faults, Costs(30.0, 1.0), Failures(), watch=watch
    )
    simulation.run()
    assert (watch.accusations, watch.moves, watch.most_out) == ([], 0, 0)


def test_flapping_machine_is_not_named_at_every_turn() -> None:
    """Slow for 10 minutes of 20: what was named stays out between probes, and all jobs end."""
    slow = [(0, 1.5, 20000.0 + 1200.0 * turn, 20600.0 + 1200.0 * turn) for turn in range(50)]
    simulation, watch = run(slow, LONG)
    assert len(watch.accusations) < 15
    assert all(job.preemptions <= 5 for job in simulation.jobs)
    assert all(job.finish_s < 93000.0 for job in simulation.jobs)


def test_machine_that_fails_while_it_is_kept_out_has_all_its_gpus_afterwards() -> None:
    failures = ListedFailures([(0, 24000.0, 26000.0)])
    simulation, watch = run([(0, 1.5, 20000.0, 30000.0)], LONG, failures=failures)
    assert watch.quarantined == {}
    assert [int(simulation.state.cluster.free_on(machine)) for machine in range(10)] == [8] * 10


def test_jobs_that_wait_for_machines_kept_out_start_once_these_are_back() -> None:
    jobs = [(0.0, 8, 30000.0), (25000.0, 32, 1000.0)]
    simulation, watch = run([(0, 2.0, 20000.0, 40000.0)], jobs, 4, WatchSettings(most=0.5))
    assert watch.probes > 0
    assert simulation.jobs[1].start_s >= 40000.0
    assert simulation.state.finished == 2


def test_run_goes_on_from_a_copy() -> None:
    faults = HiddenFaults(SlowMachines(), SlowMachines())
    watch = HealthWatch(faults, WatchSettings())
    made = [Job(place, f"j{place}", 0.0, 8, 90000.0) for place in range(8)]
    simulation = Simulation(
        made, Cluster(read_topology("1x10x8")), policy_of("fifo"), faults, Costs(30.0, 1.0), Failures(),
        degradations=ListedDegradations(10, [(0, 1.5, 20000.0, 30000.0)]), watch=watch,
    )  # fmt: skip
    simulation.go_on(21000.0)
    copy = fork(simulation)
    simulation.run()
    copy.run()
    assert [job.finish_s for job in copy.jobs] == [job.finish_s for job in simulation.jobs]
    assert copy.watch.result() == simulation.watch.result()


def test_lemons_are_kept_out_and_stay_so() -> None:
    """Machine 0 fails every 5,000 s for a quarter of an hour, and no other does."""
    failures = ListedFailures([(0, 5000.0 * turn, 5000.0 * turn + 900.0) for turn in range(1, 18)])
    simulation, watch = run([], [(0.0, 8, 20000.0)] * 40, failures=failures)
    assert watch.lemons == {0}
    assert list(watch.quarantined) == [0]
    assert watch.most_out <= 1
    assert simulation.state.finished == 40


def test_where_nobody_acts_nothing_changes() -> None:
    seen, _ = run([(0, 1.5, 20000.0, 30000.0)], LONG, settings=WatchSettings(act=False))
    plain = Simulation(
        [Job(place, f"j{place}", *job[:2], job[2]) for place, job in enumerate(LONG)],
        Cluster(read_topology("1x10x8")), policy_of("fifo"), HiddenFaults(SlowMachines(), SlowMachines()),
        Costs(30.0, 1.0), Failures(), degradations=ListedDegradations(10, [(0, 1.5, 20000.0, 30000.0)]),
    )  # fmt: skip
    plain.run()
    assert [job.finish_s for job in seen.jobs] == [job.finish_s for job in plain.jobs]


# Machine, factor, from, for how long, and how many times again.
TROUBLE = st.tuples(
    st.integers(0, 9), st.floats(1.1, 5.0), st.floats(0.0, 30000.0), st.floats(200.0, 20000.0), st.integers(1, 5)
)
GANGS = st.lists(
    st.tuples(st.floats(0.0, 20000.0), st.sampled_from([2, 4, 8, 16, 24, 40]), st.floats(5000.0, 40000.0)),
    min_size=1, max_size=12,
)  # fmt: skip


@settings(max_examples=many(40))
@given(trouble=st.lists(TROUBLE, max_size=6), gangs=GANGS, most=st.floats(0.0, 0.5))
def test_whatever_is_slow_the_share_holds_every_job_ends_and_all_gpus_are_back(
    trouble: list[tuple[int, float, float, float, int]], gangs: list[tuple[float, int, float]], most: float
) -> None:
    """Also machines that flap: none is lost, no job ends before its work can be done, and no GPU is given twice."""
    slow = [
        (machine, factor, from_s + 2.0 * lasts_s * again, from_s + lasts_s * (2.0 * again + 1.0))
        for machine, factor, from_s, lasts_s, times in trouble
        for again in range(times)
    ]
    simulation, watch = run(slow, sorted(gangs), settings=WatchSettings(most=most))
    assert watch.most_out <= int(most * 10)
    assert simulation.state.finished == len(gangs)
    for job in simulation.jobs:
        assert job.finish_s >= job.start_s + job.duration_s - 1e-6
        assert job.compute_s == pytest.approx(job.held_s - job.overhead_s, abs=1e-3)
    free = [int(simulation.state.cluster.free_on(machine)) for machine in range(10)]
    assert [machine for machine in range(10) if free[machine] != 8 and machine not in watch.quarantined] == []


@settings(max_examples=many(20))
@given(gangs=GANGS, seed=st.integers(0, 1000))
def test_where_everything_is_sound_nothing_is_done(gangs: list[tuple[float, int, float]], seed: int) -> None:
    faults = HiddenFaults(SlowMachines(), SlowMachines())
    watch = HealthWatch(faults, WatchSettings(), seed)
    jobs = [Job(place, f"j{place}", *gang) for place, gang in enumerate(sorted(gangs))]
    simulation = Simulation(
        jobs, Cluster(read_topology("1x10x8")), policy_of("fifo"), faults, Costs(30.0, 1.0), Failures(), watch=watch
    )
    simulation.run()
    assert (watch.accusations, watch.moves, watch.most_out) == ([], 0, 0)
    assert not any(job.preemptions or job.migrations for job in jobs)
