"""A constant added to all times changes nothing but the times, under every policy."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dally.policies.base import Policy
from dally.policies.registry import POLICIES, build
from dally.runs.assemble import assemble
from dally.runs.scenario import Scenario
from dally.testing.run_rows import EventRow, record_of
from dally.testing.strategies import Case, cases
from dally.traces.generate import Ask, find_recipe, generate
from tests.examples import many

# Times are multiples of 1/64 s, gangs and the cluster powers of two: sums and halves of such numbers are exact in a
# float, so a shifted run must decide the same. With other numbers rounding may break a tie.
GRAIN = 64.0
SHIFTS_S = (1.0, 37.0, 1234.5, 86_400.0, 1_000_003.0)  # on no grid of rounds, hours or days that they could share


def _on_grid(time_s: float) -> float:
    return round(time_s * GRAIN) / GRAIN


def _power_of_two(gpus: int) -> int:
    return 1 << (gpus.bit_length() - 1)


def exact(case: Case) -> Case:
    """The case with numbers whose sums are exact in floats, on equal places."""
    total = sum(gpus for _, gpus in case.machines)
    missing = (1 << (total - 1).bit_length()) - total
    return replace(
        case,
        machines=[*case.machines, *[(case.machines[0][0], 1)] * missing],
        jobs=[(_on_grid(at_s), _power_of_two(gpus), _on_grid(long_s)) for at_s, gpus, long_s in case.jobs],
        outages=[(machine, _on_grid(fail_s), _on_grid(back_s)) for machine, fail_s, back_s in case.outages],
        until_s=_on_grid(case.until_s) if case.until_s < float("inf") else case.until_s,
        network="",
    )


def shifted(case: Case, by_s: float) -> Case:
    """The case with a constant added to all times."""
    return replace(
        case,
        jobs=[(at_s + by_s, gpus, long_s) for at_s, gpus, long_s in case.jobs],
        outages=[(machine, fail_s + by_s, back_s + by_s) for machine, fail_s, back_s in case.outages],
        until_s=case.until_s + by_s,
    )


def events_of(case: Case, policy: Policy, back_s: float = 0.0) -> list[EventRow]:
    """The run's events, `back_s` earlier. A wake-up may be a quotient: its last bit is rounded off later on."""
    found = record_of(case.run(policy)).events
    return [replace(event, time_s=round(event.time_s - back_s, 6)) for event in found]


def same_when_shifted(policy: str, parameters: dict[str, str], examples: int) -> None:
    @settings(
        max_examples=many(examples), deadline=None, derandomize=True, database=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(cases().map(exact), st.sampled_from(SHIFTS_S))
    def is_the_same(case: Case, by_s: float) -> None:
        found = events_of(shifted(case, by_s), build(policy, parameters), back_s=by_s)
        assert found == events_of(case, build(policy, parameters))

    is_the_same()


@pytest.mark.parametrize("policy", POLICIES)
def test_a_shifted_case_is_the_same_run_shifted(policy: str) -> None:
    same_when_shifted(policy, {}, 40)


@pytest.mark.parametrize(
    ("policy", "parameters"),
    [
        ("tiresias-gittins", {"learn_from": "1", "limits": "16,256,4096"}),
        ("gavel", {"round_s": "64"}),
        ("gandiva", {"slice_s": "7"}),
        ("themis", {"lease_s": "7"}),
        ("dally-paper", {"lease_s": "64"}),
    ],
)
def test_so_it_is_with_short_rounds_and_early_learning(policy: str, parameters: dict[str, str]) -> None:
    same_when_shifted(policy, parameters, 150)


def log_of(policy: str, folder: Path, from_s: int) -> tuple[list[float], list[tuple[object, ...]], list[float]]:
    """Times of events, what they are, and times of slot samples; the jobs are submitted from `from_s` on."""
    trace = folder / f"{from_s}.csv"
    rows = generate(find_recipe("venus-like"), Ask(seed=1, jobs=300, load=1.2, gpus=64)).jobs
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
def test_so_are_failures_at_a_rate_shared_links_and_slot_samples(policy: str, tmp_path: Path) -> None:
    """Speeds and draws are no sums of powers of two: times agree up to what a float rounds off later on."""
    times_s, events, samples_s = log_of(policy, tmp_path, 0)
    later_s, same, later_samples_s = log_of(policy, tmp_path, 1 << 20)
    assert same == events
    assert later_s == pytest.approx(times_s, abs=1e-4)
    assert later_samples_s == pytest.approx(samples_s, abs=1e-4)
