"""Futures of small clusters whose answers are known."""

from __future__ import annotations

import time

import pytest

from dally.cluster.topology import grid
from dally.engine.state import State
from dally.job_spec import JobSpec
from dally.live.config import Setup
from dally.live.forecast.conformal import Margins
from dally.live.forecast.estimator import Effort, Estimator
from dally.live.forecast.future import Fates, Started, dump_present, load_present, run_future
from dally.live.forecast.job_forecast import Answer, Forecast, Question, answer, forecast_of, pays_from_s
from dally.live.forecast.lifetimes import PastJob
from dally.live.forecast.worker import WorkerForecaster
from dally.model import INFINITY, NEVER, WAITING
from tests.live.forecast.jobs_at_once import submit_all

SURE = Effort(fewest=1, most=10, cpu_s=INFINITY)


class World:
    """Two machines of eight GPUs, and jobs that all come at once."""

    def __init__(self, policy: str, *asked: tuple[int, float], network: str = "") -> None:
        self.state: State = Setup(policy, network=network).world(grid(1, 2, 8)).state()
        self.jobs = submit_all(self.state, asked, "resnet50", users=1000)

    def content(self, secret: bool = False) -> bytes:
        return dump_present(self.state, self.jobs, 0.0, len(self.jobs), secret)

    def ask(self, number: int, preview: PastJob | None = None, estimator: Estimator | None = None) -> Forecast:
        question = Question(() if preview else (number,), preview, detail=True, effort=SURE)
        found = answer(estimator or Estimator(), self.content(), question)
        return forecast_of(found, number, Margins(), self.state.cluster.topology.tiers)


def test_an_empty_cluster_answers_now() -> None:
    found = World("dally").ask(0, PastJob(0, 0.0, JobSpec(4)))
    assert found.is_now
    assert (found.low_s, found.high_s, found.seen, found.gpus_now) == (0.0, 0.0, 1.0, 0)
    assert [(tier.tier, tier.chance) for tier in found.tiers] == [("machine", 1.0)]


def test_a_line_of_known_durations_has_a_known_answer() -> None:
    world = World("fifo", (16, 100.0), (16, 50.0), (8, 30.0), (16, 10.0))
    assert [world.ask(number).middle_s for number in (1, 2, 3)] == [100.0, 150.0, 180.0]
    found = world.ask(3)
    assert (found.middle_s, found.futures) == (180.0, 10)
    assert found.high_s is not None
    assert found.low_s < 180.0 < found.high_s  # all futures say 180 s; how well they hold is not known yet
    assert not found.calibrated


def test_jobs_ahead_of_a_preview_count() -> None:
    found = World("fifo", (16, 100.0), (8, 50.0)).ask(2, PastJob(0, 0.0, JobSpec(16, duration_s=10.0)))
    assert found.middle_s == 150.0


def test_fewer_gpus_would_start_now() -> None:
    world = World("fifo-backfill", (8, 100.0), (4, 100.0))
    assert world.ask(2, PastJob(0, 0.0, JobSpec(16))).gpus_now == 4
    waiting = World("fifo-backfill", (8, 100.0), (4, 100.0), (16, 10.0))
    assert waiting.ask(2).gpus_now == 4


def test_secret_durations_do_not_travel_and_are_not_lost() -> None:
    world = World("fifo", (16, 123.0), (16, 50.0))
    present = load_present(world.content(secret=True))
    assert [job.duration_s for job in present.jobs] == [NEVER, NEVER]
    assert present.stated_s == {}
    assert [job.duration_s for job in world.jobs] == [123.0, 50.0]


@pytest.mark.parametrize("policy", ["dally", "fifo-backfill", "dally-paper", "slurm-backfill"])
def test_futures_change_nothing_and_repeat_themselves(policy: str) -> None:
    world = World(policy, (16, NEVER), (12, NEVER), (4, NEVER), (2, NEVER), network="slow")
    estimator = Estimator()
    estimator.learn([PastJob(number, 0.0, JobSpec(4, user="u1"), 60.0 * number) for number in range(1, 30)], 0.0)
    before = world.content()
    first = world.ask(1, estimator=estimator)
    assert world.content() == before
    assert first == world.ask(1, estimator=estimator)
    assert first.middle_s is not None
    assert first.low_s <= first.middle_s
    assert sum(tier.chance for tier in first.tiers) == pytest.approx(1.0)


def test_what_is_not_seen_is_left_open() -> None:
    world = World("fifo", (16, 100.0), (16, 50.0))
    short = Effort(fewest=1, most=3, horizon_s=20.0, cpu_s=INFINITY)
    found = answer(Estimator(), world.content(), Question((1,), effort=short))
    told = forecast_of(found, 1, Margins(), world.state.cluster.topology.tiers)
    assert (told.low_s, told.middle_s, told.high_s, told.seen) == (
        0.0,
        None,
        None,
        0.0,
    )


def test_waiting_pays_from_so_much_work_on() -> None:
    """Now at half the speed, or in a minute at full speed: the same for a minute of work."""
    fates = Fates([Started(60.0, 0, 1.0)])
    assert pays_from_s(fates, Answer(0.0, {0: fates}, {1: 2.0})) == 60.0
    assert pays_from_s(fates, Answer(0.0, {0: fates}, {0: 1.0})) is None
    assert pays_from_s(fates, Answer(0.0, {0: fates})) is None


def test_copies_of_the_process_say_the_same() -> None:
    world = World("fifo-backfill", (16, NEVER), (12, NEVER), (4, NEVER), network="slow")
    waiting = next(int(job.index) for job in world.jobs if job.status == WAITING)
    past = [
        PastJob(-number, -600.0 * number, JobSpec(4, model="vgg16", user="u1"), 900.0 + number)
        for number in range(500, 0, -1)
    ]
    found = []
    for copies in (False, True):
        estimator = Estimator(copies)
        estimator.learn(past, 0.0)
        found.append(answer(estimator, world.content(), Question((waiting,), effort=SURE)))
    assert found[0] == found[1]
    assert len({one.start_s for one in found[0].fates[waiting].started}) > 1  # nor are all futures the same


def test_a_future_that_is_cut_short_goes_on_at_the_same_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty jobs wait in line, a minute each. No more than two looks are paid for."""
    ticks = iter([0.0, 0.0, 0.0, 9.0])
    monkeypatch.setattr("dally.live.forecast.future.time.process_time", lambda: next(ticks))
    world = World("fifo", *[(16, 60.0)] * 40)
    short = run_future(
        load_present(world.content()), dict.fromkeys(range(40), 60.0), lambda _begin_s, _number: ([], INFINITY),
        range(1, 40), 1e6, 1.0,
    )  # fmt: skip
    assert 1 <= len(short.started) < 39
    assert len(short.started) + len(short.guessed) == 39
    assert short.guessed[39] == pytest.approx(39 * 60.0, rel=0.1)


def test_a_worker_that_was_killed_is_missed_by_nobody() -> None:
    world, forecaster = World("fifo", (16, 100.0), (8, 50.0)), WorkerForecaster()
    question = Question((1,), effort=SURE)
    try:
        before = forecaster.ask(world.content(), question)
        pool = forecaster._pool
        assert pool is not None
        (worker,) = pool._processes.values()
        worker.kill()
        worker.join()
        late = [PastJob(-1, -600.0, JobSpec(8, model="resnet50", user="a"), 60.0)]
        for _ in range(50):  # until the pool has noticed
            forecaster.learn(late, 0.0)
            if forecaster._pool is None:
                break
            time.sleep(0.1)
        assert forecaster.ask(world.content(), question).fates.keys() == before.fates.keys()
    finally:
        forecaster.close()
