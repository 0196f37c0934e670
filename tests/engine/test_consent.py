"""Consent to preemption: whose choice counts, what pays for lost work, and that every policy keeps to it."""

from __future__ import annotations

import pickle
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from dally.cluster.capacity import Cluster
from dally.engine.consent import WORTH, Consent
from dally.engine.consent_rules import NO, PRICED, YES, ConsentRules, Rule, read_rules
from dally.engine.failures import Failures, ListedFailures
from dally.engine.simulate import Simulation
from dally.errors import InputError
from dally.job_spec import JobSpec
from dally.model import (
    EVICT,
    FINISH,
    FINISHED,
    MIGRATE,
    MIGRATE_FAILED,
    PREEMPT,
    PREEMPT_FAILED,
    RUNNING,
    START,
    SUBMIT,
    Costs,
    Job,
)
from dally.perf.base import SpeedModel
from dally.policies.registry import POLICIES, build
from dally.testing.strategies import Case, cases
from tests.policies.test_non_preemptible import often
from tests.policies.test_overrides import crowds

FREE = Costs(0.0, 0.0, 0.0)
STARTS = (START, MIGRATE)
ENDS = (PREEMPT, EVICT, FINISH)


def job(index: int, gpus: int, duration_s: float, submit_s: float = 0.0, **spec: Any) -> Job:
    return Job(index, f"j{index}", submit_s, gpus, duration_s, spec=JobSpec(gpus, **spec))


RULES = ConsentRules(PRICED, 900.0, True, {"debug": YES, "prod": NO}, {"physics": NO, "guests": YES})


@pytest.mark.parametrize(
    ("spec", "rule"),
    [
        ({}, Rule(PRICED, "")),
        ({"preempt": "no"}, Rule(NO, "the job")),
        ({"preempt": "yes", "account": "physics"}, Rule(YES, "the job")),
        ({"account": "physics", "partition": "debug"}, Rule(NO, "account physics")),
        ({"queue": "guests", "partition": "prod"}, Rule(YES, "account guests")),
        ({"partition": "debug"}, Rule(YES, "partition debug")),
        ({"partition": "debug,prod,other"}, Rule(NO, "partition prod")),
        ({"partition": "other"}, Rule(PRICED, "")),
    ],
)
def test_the_narrower_statement_counts(spec: dict[str, Any], rule: Rule) -> None:
    assert RULES.of(job(0, 1, 1.0, **spec)) == rule


def test_operators_may_leave_jobs_no_choice() -> None:
    assert RULES._replace(jobs=False).of(job(0, 1, 1.0, preempt="no")) == Rule(PRICED, "")


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ({"usual": "maybe"}, "--preempt usual=maybe: must be one of yes, priced, no"),
        ({"after": "soon"}, "--preempt after 'soon': expected seconds"),
        ({"jobs": "perhaps"}, "--preempt jobs=perhaps: must be"),
        ({"partition.x": "never"}, "--preempt partition.x=never: must be one of"),
        ({"usually": "no"}, "unknown field 'usually'"),
    ],
)
def test_what_makes_no_sense_is_named(table: dict[str, str], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        read_rules("--preempt", table)


def test_nothing_stated_is_no_consent_at_all() -> None:
    assert read_rules("--preempt", {}) is None


def simulation(policy: str, jobs: list[Job], table: dict[str, str], costs: Costs = FREE) -> Simulation:
    """On one machine of 8 GPUs."""
    made = Simulation(jobs, Cluster.grid(1, 1, 8), build(policy, {}), SpeedModel(), costs, Failures())
    made.state.consent = consent(table, costs)
    return made


def consent(table: dict[str, str], costs: Costs) -> Consent:
    rules = read_rules("--preempt", table)
    assert rules is not None
    return Consent(rules, costs.checkpoint_every_s)


PRICED_15 = {"usual": "priced", "after": "900"}


@pytest.mark.parametrize(
    ("table", "spec", "at_s"),
    [
        ({"usual": "yes"}, {}, 1000.0),  # srtf: as soon as the shorter one comes
        (PRICED_15, {}, 2000.0),  # never: it ends before
        (PRICED_15, {"checkpoint_every_s": 60.0}, 1000.0),
        (PRICED_15, {"preempt": "yes"}, 1000.0),
        (PRICED_15, {"preempt": "no"}, 2000.0),
        ({"usual": "priced", "after": "1001"}, {}, 1000.0),  # it has not run for long enough to count
        (PRICED_15 | {"partition.debug": "yes"}, {"partition": "debug"}, 1000.0),
        ({"usual": "yes", "account.physics": "no"}, {"account": "physics"}, 2000.0),
    ],
)
def test_a_short_job_takes_the_gpus_of_a_long_one_only_with_consent(
    table: dict[str, str], spec: dict[str, Any], at_s: float
) -> None:
    jobs = [job(0, 8, 2000.0, **spec), job(1, 8, 100.0, 1000.0)]
    made = simulation("srtf", jobs, table)
    made.run()
    assert (jobs[1].start_s, jobs[0].preemptions) == (at_s, int(at_s == 1000.0))
    assert not jobs[0].unsaved or jobs[0].finish_s >= 2000.0


def test_waiting_pays_for_lost_work() -> None:
    """6 GPUs idle beside 2 of a job that runs since 0 s; the gang of 8 comes at 1,000 s.

    It has waited for 8 (t - 1000) GPU-seconds, and 2 · 2 t would have to be paid: at 2,000 s.
    """
    jobs = [job(0, 2, 50_000.0), job(1, 8, 100.0, 1000.0)]
    made = simulation("srtf", jobs, PRICED_15)
    made.run(1999.0)
    assert (jobs[0].status, jobs[0].non_preemptible, jobs[0].non_migratable) == (RUNNING, True, True)
    assert made.state.view.at_risk_s(jobs[0], made.now) == pytest.approx(jobs[0].done_s(made.now))
    made = simulation("srtf", jobs := [job(0, 2, 50_000.0), job(1, 8, 100.0, 1000.0)], PRICED_15)
    made.run()
    assert jobs[1].start_s == 2000.0
    assert (jobs[0].preemptions, jobs[0].finish_s) == (1, 2100.0 + 50_000.0)  # from the beginning
    assert jobs[0].overhead_s == 2000.0


def test_what_was_waited_is_spent_once() -> None:
    """Two jobs of 2 GPUs each; the purse of the gang of 5 pays for the younger alone."""
    jobs = [job(0, 2, 50_000.0), job(1, 2, 50_000.0, 500.0), job(2, 5, 10_000.0, 1000.0), job(3, 5, 10.0, 1000.0)]
    made = simulation("srtf", jobs, PRICED_15)
    made.run(30_000.0)
    assert [int(one.preemptions) for one in jobs[:2]] == [0, 1]


def test_a_job_that_is_stopped_again_and_again_is_protected_in_the_end() -> None:
    """Each of its runs is shorter than 900 s; together they are not."""
    jobs = [job(0, 8, 1000.0), *(job(index, 8, 50.0, 400.0 * index) for index in range(1, 9))]
    made = simulation("srtf", jobs, PRICED_15)
    made.run()
    assert jobs[0].preemptions == 2
    assert all(one.status == FINISHED for one in jobs)


def test_a_failure_undoes_the_whole_run() -> None:
    jobs = [job(0, 8, 1000.0)]
    made = Simulation(
        jobs, Cluster.grid(1, 1, 8), build("fifo"), SpeedModel(), FREE, ListedFailures([(0, 600.0, 700.0)])
    )
    made.state.consent = consent(PRICED_15, FREE)
    made.run()
    assert (jobs[0].finish_s, jobs[0].overhead_s) == (1700.0, 600.0)


def test_the_backend_and_the_rules_both_count() -> None:
    jobs = [job(0, 8, 5000.0, preempt="no"), job(1, 8, 10.0, 100.0)]
    made = simulation("srtf", jobs, {"usual": "yes"})
    made.go_on(50.0)
    made.state.set_non_preemptible(jobs[0], False, made.now)
    assert jobs[0].non_preemptible
    made.state.set_non_preemptible(jobs[1], True, made.now)
    assert jobs[1].non_preemptible
    made.state.set_non_preemptible(jobs[1], False, made.now)
    assert not jobs[1].non_preemptible


FEW = partial(
    settings, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
)  # fmt: skip
TABLES = st.fixed_dictionaries(
    {"usual": st.sampled_from(["priced", "priced", "yes", "no"]), "after": st.sampled_from(["0", "30", "300"])}
)
CHOICE = st.sampled_from(["", "", "", "no", "yes"])


@pytest.mark.once
@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_keeps_to_it(name: str) -> None:
    """No job is stopped or moved that may not be, none in vain, and lost work was paid for."""

    @FEW(max_examples=4)
    @given(crowds() | cases(longest_s=900), TABLES, st.lists(CHOICE, min_size=16, max_size=16))
    def holds(case: Case, table: dict[str, str], choices: list[str]) -> None:
        made = case.simulation(build(name, often(name)))
        for each in made.jobs:
            each.spec = _with_choice(each.spec, choices[int(each.index) % 16])
        made.state.consent = consent(table, case.costs)
        watch = Watch(made)
        made.run(case.until_s, watch)
        kinds = list(made.state.log.kinds)
        assert PREEMPT_FAILED not in kinds
        assert MIGRATE_FAILED not in kinds
        assert case.until_s < float("inf") or all(each.status == FINISHED for each in made.jobs)

    holds()


@pytest.mark.once
@pytest.mark.parametrize("name", ["srtf", "las", "tiresias", "dally"])
def test_lost_work_is_paid_for(name: str) -> None:
    """Crowds of jobs of which none states a checkpoint; the first one runs long before the others come."""

    @FEW(max_examples=12)
    @given(crowds(), st.sampled_from(["0", "30"]))
    def holds(case: Case, after: str) -> None:
        first = (0.0, 1, 3000.0)
        late = [(at_s + 500.0, gpus, duration_s) for at_s, gpus, duration_s in case.jobs]
        made = replace(case, jobs=[first, *late], constraints={}, outages=[]).simulation(build(name, often(name)))
        made.state.consent = consent({"usual": "priced", "after": after}, FREE)
        for each in made.jobs:
            each.checkpoint_every_s = -1.0
        made.state.checkpoint_every_s = 0.0
        made.run(20_000.0, Watch(made))

    holds()


def _with_choice(spec: JobSpec, choice: str) -> JobSpec:
    return replace(spec, preempt=choice)


class Watch:
    """Looks at every preemption and move of a run after each cycle, on its own books."""

    def __init__(self, made: Simulation) -> None:
        self._made = made
        self._read = 0
        self._runs: dict[int, tuple[float, float]] = {}  # running jobs: since when, and how long before
        self._waits: dict[int, float] = {}
        self._spent_s = -1.0
        consent = made.state.consent
        assert consent is not None
        self._rules: ConsentRules = consent.rules

    def __call__(self, made: Simulation) -> None:
        log = made.state.log
        assert made.cycles < 200_000, "without end"
        lost_gpu_s, stopped_s, purse = 0.0, -1.0, 0.0
        for row in range(self._read, len(log)):
            kind, number, now = int(log.kinds[row]), int(log.jobs[row]), float(log.times[row])
            if kind not in (PREEMPT, MIGRATE):
                continue
            each = made.jobs[number]
            rule = self._rules.of(each)
            assert rule.choice != NO
            if rule.choice == PRICED and each.checkpoints_s(made.state.checkpoint_every_s) <= 0.0:
                assert kind == PREEMPT or now - self._since(row, number) < self._rules.after_s
                if kind == PREEMPT and self._ran(row, number) >= self._rules.after_s:
                    lost_gpu_s += float(each.gpus) * (now - self._since(row, number))
                    stopped_s = now
                    purse = max(purse, self._purse(row, now))
        if stopped_s >= 0.0:
            assert WORTH * lost_gpu_s <= purse + 1e-6 or made.state.cluster.feasibility is not None
            self._spent_s = stopped_s
        self._read = len(log)

    def _since(self, row: int, number: int) -> float:
        """When its present run began."""
        log = self._made.state.log
        starts = [float(log.times[at]) for at in range(row) if log.jobs[at] == number and log.kinds[at] in STARTS]
        return starts[-1]

    def _ran(self, row: int, number: int) -> float:
        """For how long it has held GPUs in all."""
        log = self._made.state.log
        total, since = 0.0, -1.0
        for at in range(row + 1):
            if log.jobs[at] == number:
                if log.kinds[at] in STARTS and since < 0.0:
                    since = float(log.times[at])
                elif log.kinds[at] in ENDS and since >= 0.0:
                    total += float(log.times[at]) - since
                    since = -1.0
        return total

    def _purse(self, row: int, now: float) -> float:
        """The most GPU time for which one job had waited since waiting was last spent."""
        log = self._made.state.log
        waits: dict[int, float] = {}
        for at in range(row):
            number, kind = int(log.jobs[at]), log.kinds[at]
            if kind in (SUBMIT, *ENDS):
                waits[number] = float(log.times[at])
            elif kind in STARTS and float(log.times[at]) < now:
                waits.pop(number, None)
        waited = [
            float(self._made.jobs[number].gpus) * (now - max(since, self._spent_s))
            for number, since in waits.items()
        ]
        return max(waited, default=0.0)


def test_consent_is_part_of_a_saved_state() -> None:
    jobs = [job(0, 2, 50_000.0), job(1, 8, 100.0, 1000.0)]
    made = simulation("srtf", jobs, PRICED_15)
    made.go_on(1500.0)
    copy: Simulation = pickle.loads(pickle.dumps(made))
    copy.run()
    made.run()
    assert [one.finish_s for one in copy.jobs] == [one.finish_s for one in jobs]
