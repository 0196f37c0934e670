"""What each predictor says, worked out by hand, and that none but the oracle knows the future."""

from __future__ import annotations

import pickle
import sys
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dally.errors import InputError
from dally.job_spec import JobSpec
from dally.metrics.simulated import Simulated
from dally.metrics.summary import summarize
from dally.model import NEVER, Costs, Job
from dally.policies.prediction.base import Predictor
from dally.policies.prediction.forest import FIRST_FIT, Forest
from dally.policies.prediction.history import HistoryPredictor
from dally.policies.prediction.named import PREDICTORS, make_predictor
from dally.policies.registry import build
from dally.testing.invariants import record_of
from dally.testing.strategies import Case, cases
from tests.examples import many

# Jobs finished in this order: user, name, GPUs, duration.
FINISHED = [("ann", "a", 1, 10.0), ("ann", "b", 1, 30.0), ("bob", "a", 1, 200.0), ("bob", "a", 4, 1000.0)]

# name, predictor, who asks (user, name, GPUs), expected
TABLE: list[tuple[str, str, tuple[str, str, int], float]] = [
    ("user and size: (10 + 30) / 2", "history", ("ann", "", 1), 20.0),
    ("another user's", "history", ("bob", "", 1), 200.0),
    ("unknown user, known size: of 10, 30, 200", "history", ("eve", "", 1), 30.0),
    ("known user, but not of that size: that size", "history", ("ann", "", 4), 1000.0),
    ("unknown size: (30 + 200) / 2 of all", "history", ("ann", "", 8), 115.0),
    ("says nothing", "none", ("ann", "a", 1), NEVER),
    ("knows", "oracle", ("eve", "", 2), 77.0),
    ("no forest yet: as history", "forest", ("ann", "", 1), 20.0),
]


def job(index: int, who: tuple[str, str, int], duration_s: float, submit_s: float = 0.0) -> Job:
    user, name, gpus = who
    return Job(index, f"j{index}", submit_s, gpus, duration_s, spec=JobSpec(gpus, name=name, user=user))


def taught(predictor: Predictor, finished: list[tuple[str, str, int, float]] = FINISHED) -> Predictor:
    for index, (user, name, gpus, duration_s) in enumerate(finished):
        one = job(index, (user, name, gpus), duration_s)
        predictor.predict_s(one, 0.0)
        predictor.learn(one, 1.0)
    return predictor


@pytest.mark.parametrize(("name", "predictor", "who", "expected_s"), TABLE, ids=[row[0] for row in TABLE])
def test_what_it_says(name: str, predictor: str, who: tuple[str, str, int], expected_s: float) -> None:
    assert taught(make_predictor(predictor)).predict_s(job(9, who, 77.0), 2.0) == expected_s


def test_nothing_finished_nothing_said() -> None:
    for name in ("none", "history", "forest"):
        assert make_predictor(name).predict_s(job(0, ("ann", "a", 1), 5.0), 0.0) == NEVER


def test_a_job_that_recurs_gets_its_own_median() -> None:
    # Ann's jobs named a took 5, 6 and 9 s; those named b took hours. Two of a kind would not be enough.
    past = [
        ("ann", "b", 1, 7000.0),
        ("ann", "b", 1, 8000.0),
        *(("ann", "a", 1, length) for length in (9.0, 5.0, 6.0)),
    ]
    forest = taught(Forest(), past)
    assert forest.predict_s(job(50, ("ann", "a", 1), 0.0), 2.0) == 6.0
    assert forest.predict_s(job(51, ("ann", "b", 1), 0.0), 2.0) == 9.0  # of 5, 6, 9, 7000, 8000: too few of b
    assert forest.predict_s(job(52, ("ann", "a", 2), 0.0), 2.0) == 9.0  # another size: all


def by_hour(count: int) -> list[Job]:
    """One user's jobs, one each hour: 100 s by night, 10,000 s by day. The median says nothing of that."""
    hours = [index % 24 for index in range(count)]
    return [
        job(index, ("ann", "", 1), 100.0 if hour < 12 else 10_000.0, 3600.0 * index)
        for index, hour in enumerate(hours)
    ]


def replay(predictor: Predictor, jobs: list[Job]) -> list[float]:
    """Each finishes before the next comes."""
    said: list[float] = []
    for one in jobs:
        said.append(predictor.predict_s(one, one.submit_s))
        predictor.learn(one, one.submit_s + one.duration_s)
    return said


def test_the_forest_finds_what_the_median_cannot() -> None:
    jobs = by_hour(600)
    right = [one.duration_s for one in jobs[-48:]]
    assert [
        abs(said - real) / real < 0.05 for said, real in zip(replay(Forest(), jobs)[-48:], right, strict=True)
    ].count(False) <= 2
    history = replay(HistoryPredictor(), jobs)[-48:]
    assert [abs(said - real) / real < 0.05 for said, real in zip(history, right, strict=True)].count(True) <= 24


def test_the_forest_repeats_and_pickles() -> None:
    jobs = by_hour(3 * FIRST_FIT)
    whole = replay(Forest(), jobs)
    assert replay(Forest(), jobs) == whole
    first = Forest()
    begun = replay(first, jobs[:150])
    assert begun + replay(pickle.loads(pickle.dumps(first)), jobs[150:]) == whole


@pytest.mark.parametrize("name", ["history", "forest"])
def test_durations_are_read_only_once_a_job_finished(name: str) -> None:
    """Three jobs at a time; the durations of those that run are hidden, which changes nothing."""

    def said(hidden: bool) -> list[float]:
        predictor = make_predictor(name)
        jobs = by_hour(500)
        lengths = [one.duration_s for one in jobs]
        found: list[float] = []
        for place, one in enumerate(jobs):
            one.duration_s = float("nan") if hidden else one.duration_s
            found.append(predictor.predict_s(one, one.submit_s))
            if place >= 3:
                jobs[place - 3].duration_s = lengths[place - 3]
                predictor.learn(jobs[place - 3], one.submit_s)
        return found

    assert said(hidden=True) == said(hidden=False)


def test_where_scikit_learn_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dally.extras.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"sklearn is missing; pip install 'dally\[policies\]'"):
        build("a-srpt")
    assert build("a-srpt", {"predictor": "history"})


def test_an_unknown_predictor() -> None:
    with pytest.raises(InputError, match="unknown predictor 'histroy'; did you mean 'history'"):
        build("srtf", {"predictor": "histroy"})


def test_forest_is_imported_late() -> None:
    import subprocess

    code = "import sys, dally.policies.registry as r; r.build('a-srpt'); print('sklearn' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize("predictor", [name for name in PREDICTORS if name != "oracle"])
@pytest.mark.parametrize("policy", ["sjf", "srtf", "srsf", "easy-backfill", "a-srpt"])
@settings(max_examples=many(40))
@given(case=cases(), later_s=st.lists(st.floats(0.0, 1e5), min_size=16, max_size=16), until_s=st.floats(0.0, 3e4))
def test_durations_of_unfinished_jobs_change_nothing(
    case: Case, later_s: list[float], until_s: float, policy: str, predictor: str
) -> None:
    """Lengthen every job that has not finished by some moment: nothing before that moment changes."""
    seen = replace(case, until_s=until_s).run(build(policy, {"predictor": predictor}))
    longer = [
        (submit_s, gpus, duration_s if job.finish_s >= 0.0 else duration_s + extra_s)
        for (submit_s, gpus, duration_s), job, extra_s in zip(case.jobs, seen.jobs, later_s, strict=False)
    ]
    other = replace(case, until_s=until_s, jobs=longer).run(build(policy, {"predictor": predictor}))
    assert record_of(other).events == record_of(seen).events


def test_the_error_in_the_summary() -> None:
    # One GPU, history. Job 0 (10 s) has no prediction. Job 1 comes at 20, is predicted 10 s and takes 20 s: off by
    # 10 / 20, a factor of 2. Job 2 comes at 60: predicted (10 + 20) / 2 = 15 s, takes 15 s.
    case = Case([(("r",), 1)], [(0.0, 1, 10.0), (20.0, 1, 20.0), (60.0, 1, 15.0)], costs=Costs(0.0, 0.0, 0.0))
    simulation = case.run(build("sjf", {"predictor": "history"}))
    assert [one.predicted_s for one in simulation.jobs] == [NEVER, 10.0, 15.0]
    summary = summarize(Simulated(simulation))
    assert (summary["predicted"], summary["prediction_error_p50"]) == (2, 0.25)
    assert summary["prediction_log_error"] == pytest.approx(0.6931471805599453 / 2)


@pytest.mark.parametrize(("policy", "count"), [("fifo", 0), ("srtf", 2)])
def test_no_predictions_and_perfect_ones(policy: str, count: int) -> None:
    summary = summarize(Simulated(Case([(("r",), 1)], [(0.0, 1, 10.0), (1.0, 1, 0.0)]).run(build(policy))))
    errors = [summary[name] for name in ("predicted", "prediction_error_p50", "prediction_log_error")]
    assert errors == [count, 0.0, 0.0]


@pytest.mark.parametrize("name", ["history", "forest"])
def test_an_earlier_time_teaches_what_had_ended_by_then(name: str) -> None:
    # Ann's jobs of 10 and 30 s ended before the last job came at 100; the one of 500 s had not, nor had the last.
    past = [job(place, ("ann", "", 1), length_s, at_s) for place, (at_s, length_s) in enumerate(
        [(0.0, 10.0), (5.0, 30.0), (20.0, 500.0), (60.0, 0.0), (100.0, 7.0)])]  # fmt: skip
    predictor = make_predictor(name)
    predictor.teach(past)
    assert predictor.predict_s(job(0, ("ann", "", 1), 77.0, 100.0), 100.0) == 10.0  # the median of 0, 10 and 30
    predictor.teach([])
    assert predictor.predict_s(job(1, ("ann", "", 1), 77.0, 100.0), 100.0) == 10.0


def test_a_forest_of_an_earlier_time_is_there_when_the_first_job_comes() -> None:
    # Jobs whose name tells their length, but only the user and size count for `history`.
    past = [
        job(place, ("ann", f"{place % 2}/{place}", 1), 10.0 if place % 2 else 1000.0, 2000.0 * place)
        for place in range(FIRST_FIT + 50)
    ]
    cold, warm = Forest(), Forest()
    warm.teach(past)
    newcomer = job(0, ("ann", "new", 1), 77.0, 1e6)
    assert cold.predict_s(newcomer, 1e6) == NEVER
    assert warm.predict_s(newcomer, 1e6) > 0.0
