"""The engine as a whole: timers, migration, failures, early ends, speeds that change, bad policies."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dally.cluster.capacity import Cluster
from dally.engine.failures import Failures, ListedFailures, RandomFailures
from dally.engine.simulate import Simulation
from dally.errors import PolicyError
from dally.model import Action, Costs, Job, Migrate, Preempt, Start, make_allocation
from dally.perf.base import Speed, SpeedModel
from dally.policies.base import Policy
from dally.policies.placement.best_fit import BestFit
from dally.policies.queue import Queue
from dally.policies.registry import build
from dally.testing.invariants import record_of
from dally.testing.strategies import Case

FREE = Costs(0.0, 0.0, 0.0)


def kinds(simulation: Simulation) -> list[tuple[float, str]]:
    return [(event.time_s, event.kind) for event in record_of(simulation).events]


class Patient(Policy):
    """Starts a job 5 s after it came, at the very instant its timer asks for."""

    def __init__(self) -> None:
        self.wakeup_s = float("inf")

    def schedule(self, now: float, queue: Queue, cluster: Cluster) -> Iterator[Action]:
        self.wakeup_s = float("inf")
        for job in queue:
            if now < job.lost_s + 5.0:
                self.wakeup_s = min(self.wakeup_s, job.lost_s + 5.0)
                continue
            allocation = BestFit().place(job, now, cluster)
            if allocation is not None:
                yield Start(job, allocation)


def test_timers_wake_the_policy_at_the_right_instant() -> None:
    simulation = Case([(("r",), 8)], [(0.0, 1, 3.0), (2.5, 1, 1.0)], costs=FREE).run(Patient())
    assert [(job.start_s, job.finish_s) for job in simulation.jobs] == [(5.0, 8.0), (7.5, 8.5)]
    assert [time_s for time_s, kind in kinds(simulation) if kind == "timer"] == [5.0, 7.5]


class MigrateOnce(Policy):
    """Starts on the last machine, and moves to the first when something happens."""

    def schedule(self, now: float, queue: Queue, cluster: Cluster) -> Iterator[Action]:
        for job in list(cluster.running.values()):
            if job.migrations == 0:
                yield Migrate(job, make_allocation(0, [(0, int(job.gpus))]))
        for job in queue:
            yield Start(job, make_allocation(0, [(1, int(job.gpus))]))


class Mislabels(Policy):
    """Calls a placement over two racks a machine."""

    def schedule(self, now: float, queue: Queue, cluster: Cluster) -> Iterator[Action]:
        for job in queue:
            yield Start(job, make_allocation(0, [(0, 1), (1, 1)]))


def test_the_engine_knows_the_tier_itself() -> None:
    simulation = Case([(("a",), 2), (("b",), 2)], [(0.0, 2, 5.0)]).run(Mislabels())
    assert simulation.jobs[0].tier == 2
    assert list(simulation.state.log.tiers) == [-1, 2, -1]


def test_migration_costs_a_restart_and_keeps_the_work() -> None:
    # Job 0 has done 4 of 10 s when job 1 comes; it moves, restarts for 2 s, and does the other 6.
    case = Case([(("r",), 2), (("r",), 2)], [(0.0, 2, 10.0), (4.0, 2, 1.0)], costs=Costs(0.0, 1.0, 0.0))
    simulation = case.run(MigrateOnce())
    first = simulation.jobs[0]
    assert (first.finish_s, first.migrations, first.overhead_s, first.preemptions) == (12.0, 1, 2.0, 0)
    assert [event.parts for event in record_of(simulation).events if event.kind == "migrate"] == [[(0, 2)]]


class Rogue(Policy):
    """Does one forbidden thing."""

    def __init__(self, action: str) -> None:
        self._action = action

    def schedule(self, now: float, queue: Queue, cluster: Cluster) -> Iterator[Action]:
        for job in queue:
            gpus = int(job.gpus)
            if self._action == "preempt waiting":
                yield Preempt(job)
            if self._action == "half a gang":
                yield Start(job, make_allocation(0, [(0, gpus - 1)]))
            if self._action == "too much":
                yield Start(job, make_allocation(0, [(0, 2), (0, gpus - 2)]))
            if self._action == "twice":
                yield Start(job, make_allocation(0, [(0, gpus)]))
                yield Start(job, make_allocation(0, [(1, gpus)]))


@pytest.mark.parametrize("action", ["preempt waiting", "half a gang", "too much", "twice"])
def test_a_policy_that_breaks_the_rules_is_stopped(action: str) -> None:
    case = Case([(("r",), 4), (("r",), 8)], [(0.0, 8 if action == "too much" else 4, 5.0)])
    with pytest.raises(PolicyError):
        case.run(Rogue(action))


def test_a_failed_machine_evicts_its_gangs_and_returns_after_repair() -> None:
    # 2 machines of 4. Job 0 spans both, job 1 waits. Machine 1 is down from 10 to 30; checkpoints every 4 s
    # of work, restart 8 s. Job 0 keeps 8 of its 10 s and must wait for the repair; job 1 fits on machine 0.
    case = Case(
        [(("r",), 4), (("r",), 4)],
        [(0.0, 8, 20.0), (1.0, 4, 25.0)],
        outages=[(1, 10.0, 30.0)],
        costs=Costs(0.0, 1.0, 4.0),
    )
    simulation = case.run(build("fifo-backfill"))
    first, second = simulation.jobs
    assert (second.start_s, second.finish_s) == (10.0, 35.0)
    # Restarts at 35: 8 s of restart, 12 s of work.
    assert (first.finish_s, first.overhead_s, first.preemptions) == (55.0, 2.0 + 8.0, 0)
    assert (10.0, "fail") in kinds(simulation)
    assert (10.0, "evict") in kinds(simulation)
    assert (30.0, "repair") in kinds(simulation)


def test_by_default_a_failure_undoes_nothing_but_costs_the_restart() -> None:
    case = Case([(("r",), 4)], [(0.0, 4, 20.0)], outages=[(0, 10.0, 11.0)])
    assert case.run(build("fifo")).jobs[0].finish_s == 11.0 + 4.0 + 10.0


def test_overlapping_outages_are_one() -> None:
    failures = ListedFailures([(0, 10.0, 20.0), (0, 15.0, 30.0), (0, 50.0, 60.0)])
    assert failures.next_fail_s(0, 0.0) == 10.0
    assert failures.next_repair_s(0, 10.0) == 30.0
    assert failures.next_fail_s(0, 30.0) == 50.0
    assert failures.next_fail_s(1, 0.0) == float("inf")


def test_a_machine_may_be_down_before_the_first_job_comes() -> None:
    case = Case([(("r",), 4)], [(100.0, 4, 20.0)], outages=[(0, 10.0, 130.0)])
    assert case.run(build("fifo")).jobs[0].start_s == 130.0


def test_random_failures_depend_on_seed_and_machine_only() -> None:
    def draws(seed: int, machine: int) -> list[float]:
        failures = RandomFailures(1.0, 60.0, seed)
        failures.next_fail_s(machine + 1, 0.0)
        return [failures.next_fail_s(machine, 0.0) for _ in range(400)]

    assert draws(1, 3) == draws(1, 3)
    assert draws(1, 3) != draws(2, 3)
    assert draws(1, 3) != draws(1, 4)
    # Mean of 400 exponentials of mean one day: within 4 standard errors.
    assert abs(sum(draws(5, 0)) / 400 / 86400.0 - 1.0) < 4 / 400**0.5


def test_runs_with_random_failures_end() -> None:
    jobs = [Job(index, f"j{index}", 10.0 * index, 1 + index % 8, 5000.0) for index in range(60)]
    simulation = Simulation(
        jobs,
        Cluster.grid(1, 4, 8),
        build("fifo-backfill"),
        SpeedModel(),
        Costs(0, 1, 600),
        RandomFailures(24, 600, 3),
    )
    simulation.run()
    assert all(job.finish_s > 0 for job in jobs)
    assert "fail" in {kind for _, kind in kinds(simulation)}


class Idle(Policy):
    """Never starts anything."""

    def schedule(self, now: float, queue: Queue, cluster: Cluster) -> list[Action]:
        return []


@pytest.mark.parametrize("failures", [Failures(), RandomFailures(24.0, 60.0, 1)])
def test_a_policy_that_starts_nothing_is_found_out(failures: Failures) -> None:
    jobs = [Job(0, "a", 0.0, 1, 10.0)]
    simulation = Simulation(jobs, Cluster.grid(1, 1, 8), Idle(), SpeedModel(), FREE, failures)
    simulation.run()
    assert simulation.stuck
    assert record_of(simulation).jobs[0].status == "waiting"


def test_until_stops_the_clock_in_the_middle() -> None:
    case = Case([(("r",), 4)], [(0.0, 4, 20.0), (5.0, 4, 20.0), (30.0, 4, 1.0)], costs=FREE, until_s=12.0)
    simulation = case.run(build("fifo"))
    assert [job.status for job in record_of(simulation).jobs] == ["running", "waiting", "pending"]
    assert (simulation.now, simulation.jobs[0].work_s, simulation.stuck) == (12.0, 12.0, False)


class Halved(SpeedModel):
    """Two jobs at once go at half speed, and talk for half of the time."""

    def __init__(self) -> None:
        self.running: list[Job] = []

    def _speeds(self) -> list[Speed]:
        alone = len(self.running) == 1
        return [Speed(job, 1.0 if alone else 0.5, 0.0 if alone else 0.5) for job in self.running]

    def placed(self, job: Job) -> list[Speed]:
        self.running.append(job)
        return self._speeds()

    def removed(self, job: Job) -> list[Speed]:
        self.running.remove(job)
        return self._speeds()


def test_rates_change_when_the_speed_model_says_so() -> None:
    # Job 0 works alone until 10, then shares until it has done its 15 s at 20; job 1 has 5 of 10 s left then.
    jobs = [Job(0, "a", 0.0, 1, 15.0), Job(1, "b", 10.0, 1, 10.0)]
    simulation = Simulation(jobs, Cluster.grid(1, 1, 8), build("fifo"), Halved(), FREE, Failures())
    simulation.run()
    assert [job.finish_s for job in jobs] == [20.0, 25.0]
    assert [(job.compute_s, job.comm_s) for job in jobs] == [(15.0, 5.0), (10.0, 5.0)]
