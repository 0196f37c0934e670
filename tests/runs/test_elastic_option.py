"""Jobs made elastic by option or by the trace, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from dally.errors import InputError
from dally.runs.elastic_option import ElasticJobs, read_elastic, sizes_of
from dally.runs.execute import execute
from dally.runs.scenario import Scenario

HEADER = "job_id,submit_s,gpus,duration_s"


def trace(folder: Path, header: str, *rows: str) -> str:
    path = folder / "jobs.csv"
    path.write_text("\n".join([header, *rows]) + "\n")
    return str(path)


def test_values_as_stated() -> None:
    assert read_elastic("") is None
    assert read_elastic("share=0.5, min=0.25,max=4") == ElasticJobs(0.5, 0.25, 4.0, 0.25, None)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("share=2", "share=2: must be a number from 0 to 1"),
        ("min=1.5", "min=1.5: must be a number from"),
        ("max", "max: must be a number"),
        ("shar=1", "did you mean 'share'"),
        ("share=1,share=0", "share: given twice"),
    ],
)
def test_values_refused(text: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        read_elastic(text)


def test_sizes_are_whole_replicas_within_the_cluster() -> None:
    stated = ElasticJobs()
    assert sizes_of(8, 1, stated, 64) == (4, 6, 8, 10, 12, 14, 16)
    assert sizes_of(8, 1, stated, 12) == (4, 6, 8, 10, 12)
    assert sizes_of(8, 4, stated, 64) == (4, 8, 12, 16)
    assert sizes_of(1, 1, stated, 64) == (1, 2)


def test_half_of_the_jobs_by_seed(tmp_path: Path) -> None:
    """Rigid policies run elastic jobs as they are, and everybody learns how many there are."""
    rows = [f"j{number},0,4,{100 + number}" for number in range(40)]
    runs = {}
    for seed in (1, 2):
        scenario = Scenario(trace(tmp_path, HEADER, *rows), "1x4x8", "fifo", seed=seed, elastic="share=0.5")
        runs[seed] = execute(scenario)
    drawn = {seed: {job.job_id for job in run.outcomes if job.sizes} for seed, run in runs.items()}
    assert 10 < len(drawn[1]) < 30
    assert drawn[1] != drawn[2]
    assert runs[1].summary["notes"] == {"may run on other numbers of GPUs": len(drawn[1])}
    assert runs[1].summary["resizes"] == 0


def test_a_trace_states_sizes(tmp_path: Path) -> None:
    path = trace(tmp_path, HEADER + ",sizes,resize_s", "a,0,4,100,2:8:2,5", "b,0,4,100,,")
    first, second = execute(Scenario(path, "1x4x8", "fifo")).outcomes
    assert first.sizes == (2, 4, 6, 8)
    assert first.size_account is not None
    assert first.size_account.resize_s == 5.0
    assert second.sizes == ()


def test_wrong_sizes_name_file_line_and_value(tmp_path: Path) -> None:
    path = trace(tmp_path, HEADER + ",sizes", "a,0,4,100,2:8", "b,0,4,100,8:16")
    with pytest.raises(InputError, match=r"jobs.csv:3: sizes: '8:16': must have the 4 GPUs among them"):
        execute(Scenario(path, "1x4x8", "fifo"))


def test_sizes_that_no_replica_fits_are_refused(tmp_path: Path) -> None:
    path = trace(tmp_path, HEADER + ",model,sizes", "a,0,8,100,llama2-7b,4:12:1")
    with pytest.raises(InputError, match="job 'a': sizes: '4:12:1'"):
        execute(Scenario(path, "1x4x8", "fifo", network="slow"))
