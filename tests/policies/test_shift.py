"""A constant added to all times changes nothing but the times: more of what `check_policy` looks at."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from dally.policies.registry import POLICIES, build
from dally.runs.assemble import assemble
from dally.runs.scenario import Scenario
from dally.testing.shifted import check_shift
from dally.testing.strategies import Case, cases, crowds
from dally.traces.generate import WorkloadRequest, find_recipe, generate
from tests.examples import many


@pytest.mark.parametrize(
    ("policy", "parameters"),
    [
        ("tiresias", {"learn_from": "2"}),
        ("tiresias-gittins", {"learn_from": "2"}),
        ("tiresias-gittins", {"learn_from": "1", "limits": "16,256,4096"}),
        ("gavel", {"round_s": "64"}),
        ("gandiva", {"slice_s": "32"}),
        ("themis", {"lease_s": "64"}),
        ("dally-paper", {"lease_s": "512"}),
    ],
)
def test_short_rounds_and_early_learning_shift_too(policy: str, parameters: dict[str, str]) -> None:
    @settings(
        max_examples=many(60), deadline=None, derandomize=True, database=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(cases() | crowds())
    def is_the_same(case: Case) -> None:
        check_shift(case, lambda: build(policy, parameters))

    is_the_same()


def log_of(policy: str, folder: Path, from_s: int) -> tuple[list[float], list[tuple[object, ...]], list[float]]:
    """Times of events, what they are, and times of slot samples; the jobs are submitted from `from_s` on."""
    trace = folder / f"{from_s}.csv"
    rows = generate(find_recipe("venus-like"), WorkloadRequest(seed=1, jobs=300, load=1.2, gpus=64)).jobs
    lines = [f"{row.job_id},{row.submit_s + from_s},{row.gpus},{row.duration_s},{row.user}" for row in rows]
    trace.write_text("\n".join(["job_id,submit_s,gpus,duration_s,user", *lines]))
    scenario = Scenario(str(trace), "2x4x8", policy, network="slow", failure_rate=0.2, checkpoint_every_s=900.0)
    simulation, _ = assemble(scenario)
    simulation.run()
    log = simulation.state.log
    events = [
        (log.kinds[row], log.jobs[row], log.machines[row], *chain(*log.parts(row))) for row in range(len(log))
    ]
    return [time_s - from_s for time_s in log.times], events, [time_s - from_s for time_s in log.slot_times]


@pytest.mark.once
@pytest.mark.parametrize("policy", POLICIES)
def test_failures_at_a_rate_shared_links_and_slot_samples_shift_too(policy: str, tmp_path: Path) -> None:
    """Speeds and draws are no sums of powers of two: times agree up to what a float rounds off later on."""
    times_s, events, samples_s = log_of(policy, tmp_path, 0)
    later_s, same, later_samples_s = log_of(policy, tmp_path, 1 << 20)
    assert same == events
    assert later_s == pytest.approx(times_s, abs=1e-4)
    assert later_samples_s == pytest.approx(samples_s, abs=1e-4)
