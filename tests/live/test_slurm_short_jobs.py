"""The short form of benchmarks/slurm_short.py."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest
from benchmarks.slurm_forgotten import IS_OVER, RUNS, WAITS, ForgottenRuns, forgotten
from benchmarks.slurm_short import ShortJobs, run, submit

from tests.live.slurm_cluster import SlurmCluster


def test_no_finished_job_runs_again(slurm: SlurmCluster, tmp_path: Path) -> None:
    """Under a policy that moves running jobs all the time: each ends once, and never begins while it runs."""
    result = run(slurm, tmp_path, jobs=24, share=0.25, seconds=4, within_s=240.0)
    assert (result.again, result.twice) == ([], []), result.report()
    assert result.preemptions, result.report()


def test_jobs_that_a_killed_slurmctld_forgot_are_told_apart(
    slurm: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It starts with the state that it saved before the job ran, and shows the job as one that never did."""
    state, saved, marks = slurm.folder / "state", tmp_path / "state", tmp_path / "marks"
    marks.mkdir()
    (job,) = submit(slurm, marks, 1, 1)
    slurm.run("scontrol", "update", f"JobId={job.split('_')[0]}", f"Comment={tmp_path}")
    slurm.until(lambda: str(tmp_path).encode() in (state / "job_state").read_bytes())
    shutil.copytree(state, saved)
    run_once(slurm, marks, job, 1)

    def start_with_saved_state() -> None:
        shutil.rmtree(state)
        shutil.copytree(saved, state)
        type(slurm).start_controller(slurm)

    monkeypatch.setattr(slurm, "start_controller", start_with_saved_state)
    controller = ForgottenRuns(slurm)
    controller.kill_controller()
    assert controller.runs == {job: 1}
    run_once(slurm, marks, job, 2)
    lines = {job: (marks / job).read_text().split()}
    assert ShortJobs(lines).again == [job]
    result = ShortJobs(lines, forgotten=controller.runs)
    assert (result.again, result.twice, result.forgiven) == ([], [], [job])


def run_once(slurm: SlurmCluster, marks: Path, job: str, times: int) -> None:
    """The job is released, and has then ended so many times in all, also by Slurm's account."""
    slurm.run("scontrol", "release", job)
    slurm.until(lambda: (marks / job).exists() and (marks / job).read_text().split().count("end") == times)
    slurm.until(lambda: "COMPLETED" in slurm.run("squeue", "-h", "-t", "all", "-j", job, "-o", "%T"))


@pytest.mark.parametrize(
    ("lines", "again", "twice"),
    [
        ("begin end", 0, 0),
        ("begin stopped begin end", 0, 0),
        ("begin end begin end", 1, 0),
        ("begin end begin stopped begin end", 1, 0),
        ("begin stopped end begin", 1, 0),
        ("begin begin end", 0, 1),
        ("begin begin end begin end", 1, 1),
    ],
)
def test_no_more_runs_are_forgiven_than_slurmctld_forgot(lines: str, again: int, twice: int) -> None:
    def counts(runs: int) -> tuple[int, int]:
        result = ShortJobs({"1_0": lines.split()}, forgotten=Counter({"1_0": runs}))
        return len(result.again), len(result.twice)

    assert counts(0) == (again, twice)
    assert counts(again + twice) == (0, 0)
    assert counts(max(again + twice - 1, 0)) == (again, twice)


def test_a_restart_is_nothing_that_slurmctld_forgot() -> None:
    begun_forgotten, end_forgotten = ((RUNS, 1), (WAITS, 1)), ((IS_OVER, 0), (RUNS, 0))
    requeued, begun, unchanged = ((RUNS, 0), (WAITS, 1)), ((WAITS, 0), (RUNS, 0)), ((RUNS, 2), (RUNS, 2))
    pairs = dict(enumerate((begun_forgotten, end_forgotten, requeued, begun, unchanged)))
    before, after = ({str(job): pair[moment] for job, pair in pairs.items()} for moment in (0, 1))
    assert forgotten(before, after) == ["0", "1"]
    assert forgotten(before, {}) == []
