"""Jobs of a simulation that say how long they take: who, when, what, and that nothing else changes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dally.cluster.capacity import Cluster
from dally.cluster.spec import read_topology
from dally.engine.failures import Failures
from dally.engine.reports import Reports
from dally.engine.simulate import Simulation
from dally.errors import InputError
from dally.model import Costs, Job
from dally.perf.base import SpeedModel
from dally.policies.registry import policy_of
from dally.runs.progress_option import read_reports


def run(
    durations_s: Sequence[float], reports: Reports | None, policy: str = "dally", cluster: str = "1x1x1"
) -> Simulation:
    """One-GPU jobs, all at 0, to their end."""
    jobs = [Job(place, f"j{place}", 0.0, 1, duration_s) for place, duration_s in enumerate(durations_s)]
    simulation = Simulation(
        jobs, Cluster(read_topology(cluster)), policy_of(policy), SpeedModel(), Costs(0.0, 0.0), Failures(),
        reports=reports,
    )  # fmt: skip
    simulation.run()
    return simulation


def test_each_job_states_once_after_so_much_work() -> None:
    simulation = run([1000.0, 250.0, 300.0, 301.0], Reports(1.0, 300.0, noise=0.0), "fifo", "1x1x4")
    assert [job.reported_s for job in simulation.jobs] == [1000.0, -1.0, -1.0, 301.0]


def test_share_noise_and_wrong_statements() -> None:
    durations = [10000.0] * 4000
    jobs = [Job(place, "", 0.0, 1, duration_s) for place, duration_s in enumerate(durations)]
    reports = Reports(0.8, 300.0, 0.1, wrong=0.25, factor=5.0, seed=2)
    share = sum(reports._speaks(job) for job in jobs) / len(jobs)
    assert share == pytest.approx(0.8, abs=0.03)
    ratios = [reports.stated_s(job) / job.duration_s for job in jobs]
    assert sum(ratio > 3.0 for ratio in ratios) / len(jobs) == pytest.approx(0.125, abs=0.02)
    assert sum(ratio < 0.35 for ratio in ratios) / len(jobs) == pytest.approx(0.125, abs=0.02)
    right = [ratio for ratio in ratios if 0.35 < ratio < 3.0]
    mean = sum(right) / len(right)
    assert mean == pytest.approx(1.0, abs=0.01)
    assert (sum((ratio - mean) ** 2 for ratio in right) / len(right)) ** 0.5 == pytest.approx(0.1, abs=0.01)


def test_short_job_comes_first_once_both_have_spoken() -> None:
    """On one GPU: j0 states 10 h after 300 s. j1 then runs, states 1 h, and ends before j0 goes on.

    j2 keeps the GPU in use for longer than j0: a job that would end last anyway is not put off by what it states.
    """
    simulation = run([36000.0, 3600.0, 36000.0], Reports(1.0, 300.0, noise=0.0))
    first, second, _ = simulation.jobs
    assert second.finish_s < first.finish_s
    assert second.finish_s < 5400.0


def test_without_reports_the_log_has_none_and_nothing_changes() -> None:
    silent, none = run([7200.0, 3600.0, 600.0], Reports(0.0)), run([7200.0, 3600.0, 600.0], None)
    assert [job.finish_s for job in silent.jobs] == [job.finish_s for job in none.jobs]
    assert silent.cycles == none.cycles
    assert all(job.reported_s < 0.0 for job in none.jobs)


def test_option() -> None:
    reports = read_reports("share=0.8, after=60,noise=0.2,wrong=0.05,factor=3", seed=4)
    assert reports is not None
    assert (reports.share, reports.after_s, reports.noise, reports.wrong) == (0.8, 60.0, 0.2, 0.05)
    assert (reports.factor, reports.seed) == (3.0, 4)
    assert read_reports("", 1) is None


@pytest.mark.parametrize(
    "text",
    ["share", "share=2", "share=x", "after=inf", "noise=-1", "shore=1", "share=1,share=1", "factor=0.5", ","],
)
def test_option_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="--job-progress"):
        read_reports(text, 1)
