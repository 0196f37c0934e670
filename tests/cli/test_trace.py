"""`dally trace` and traces of other formats in `dally simulate`, as a user runs them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.traces.documented import first_seed, put
from tests.traces.test_sacct import ACCOUNTING, HEADER

PLAIN = "job_id,user,submit_s,gpus,duration_s,wait_s\na,u,0,4,3600,0\nb,v,60,8,1800,60\nc,u,7200,1,60,0\n"


@pytest.fixture
def jobs(tmp_path: Path) -> str:
    (tmp_path / "jobs.csv").write_text(PLAIN)
    return "jobs.csv"


def test_accounting_is_imported_and_simulated(dally: Run, tmp_path: Path) -> None:
    (tmp_path / "accounting.txt").write_text("\n".join([HEADER, *ACCOUNTING]) + "\n")
    run = ("simulate", "--trace", "accounting.txt", "--cluster", "2x2x8", "--policy", "dally")
    done = dally(*run)
    assert done.returncode == 0, done.stderr
    assert "jobs finished                      6 of 6" in done.stdout
    assert (
        "rows left out                      2 rows that never started, 1 without an end, 1 without GPUs"
        in done.stdout
    )
    assert "1 jobs were requeued: their running times are added up" in done.stdout
    summary = json.loads(dally(*run, "--json", "--zone", "Europe/Berlin").stdout)
    assert summary["unused"] == {"that never started": 2, "without an end": 1, "without GPUs": 1}
    assert (summary["finished"], summary["jobs"]) == (6, 6)
    strict = dally(*run, "--strict")
    assert (strict.returncode, strict.stdout) == (2, "")
    assert strict.stderr == "dally: accounting.txt:6: Start: 'Unknown': a row that never started\n"


@pytest.mark.parametrize("name", ["philly", "helios", "acme", "pai", "lingjun", "swf", "tiresias", "paper"])
def test_every_format_simulates_and_repeats(name: str, dally: Run, tmp_path: Path) -> None:
    path = put(first_seed(name), tmp_path)
    done = dally("simulate", "--trace", path.name, "--cluster", "2x8x8", "--out", "one", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["finished"] > 0
    scenario = (tmp_path / "one" / "scenario.toml").read_text()
    assert all(f'{tmp_path}/{file}" = ' in scenario for file in first_seed(name).files)  # digests
    again = dally("simulate", "--scenario", "one/scenario.toml", "--out", "two")
    assert again.returncode == 0, again.stderr
    assert (tmp_path / "one" / "jobs.csv").read_bytes() == (tmp_path / "two" / "jobs.csv").read_bytes()


def test_stats(dally: Run, jobs: str, tmp_path: Path) -> None:
    found = json.loads(dally("trace", "stats", jobs, "--json", "--cluster", "1x1x8").stdout)
    assert (found["rows"], found["gpu_hours"], found["span_s"]) == (3, 4 + 4 + 1 / 60, 7200.0)
    assert found["load"] == pytest.approx((8 + 1 / 60) / 16)
    done = dally("trace", "stats", jobs, "--cluster", "1x1x8", "--plot", "p.svg")
    assert done.returncode == 0, done.stderr
    for words in ("GPU-hours", "8.0  (0.0% in jobs over 8 GPUs)", "load on 8 GPUs", "0.501", "█", "Submissions"):
        assert words in done.stdout
    svg = (tmp_path / "p.svg").read_text()
    assert svg.startswith("<svg")
    assert "jobs.csv: 3 jobs" in svg
    assert dally("trace", "stats", jobs, "--plot", "p.png").returncode == 0
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    bad = dally("trace", "stats", jobs, "--plot", "p.pdf")
    assert (bad.returncode, bad.stderr) == (2, "dally: --plot p.pdf: must end in .svg or .png\n")


def test_convert_and_head(dally: Run, jobs: str, tmp_path: Path) -> None:
    done = dally("trace", "convert", jobs, "jobs.swf.gz")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.splitlines() == [
        "swf knows numbers only: job ids and users were numbered from 1",
        "3 jobs written to jobs.swf.gz",
    ]
    back = dally("trace", "convert", "jobs.swf.gz", "back.csv")
    assert back.returncode == 0, back.stderr
    assert (tmp_path / "back.csv").read_text().splitlines()[1] == "1,1,0,4,3600,,0,,"
    for name in ("sacct", "helios", "philly", "tiresias"):
        assert dally("trace", "convert", jobs, name, "--to", name).returncode == 0
        assert json.loads(dally("trace", "stats", name, "--json").stdout)["format"] == name
    unknown = dally("trace", "convert", jobs, "x.csv", "--to", "acme")
    assert unknown.returncode == 2
    assert "unknown format to write 'acme'" in unknown.stderr
    shown = json.loads(dally("trace", "head", "sacct", "-n", "2", "--json").stdout)
    assert [(row["job_id"], row["gpus"], row["wait_s"]) for row in shown] == [("a", 4, 0.0), ("b", 8, 60.0)]
    assert dally("trace", "head", jobs, "-n", "1").stdout.splitlines()[3].split()[:3] == ["a", "0", "s"]
    assert dally("trace", "head", jobs, "-n", "1", "--out", "one.csv").returncode == 0
    assert len((tmp_path / "one.csv").read_text().splitlines()) == 2


def test_window_scale_and_filter(dally: Run, jobs: str, tmp_path: Path) -> None:
    cut = dally("trace", "window", jobs, "--from", "15m", "--to", "3h")
    assert cut.stdout.splitlines()[1:] == ["a,u,0,4,2700,,0,,", "b,v,0,8,1020,,0,,", "c,u,6300,1,60,,0,,"]
    assert cut.stderr == "2 jobs were running or waiting at the start\n"
    warm = dally("trace", "window", jobs, "--from", "2h", "--warmup", "1h", "--out", "w.csv.gz")
    assert warm.stderr.splitlines() == ["the window itself begins at 3600 s", "1 jobs written to w.csv.gz"]
    busy = dally("trace", "scale", jobs, "--load", "0.9", "--cluster", "1x1x8", "--out", "busy.csv")
    assert busy.stderr.splitlines()[0] == "load on 8 GPUs: 0.501 before, 0.900 now"
    found = json.loads(dally("trace", "stats", "busy.csv", "--json", "--cluster", "1x1x8").stdout)
    assert found["load"] == pytest.approx(0.9, rel=1e-4)
    kept = dally("trace", "filter", jobs, "--user", "u", "--max-duration", "1h", "--min-gpus", "2")
    assert kept.stdout.splitlines()[1:] == ["a,u,0,4,3600,,0,,"]
    assert kept.stderr == "1 of 3 jobs kept\n"


def test_dates_of_windows(dally: Run, tmp_path: Path) -> None:
    path = put(first_seed("helios"), tmp_path)
    cut = dally("trace", "window", path.name, "--from", "2020-04-01 00:15", "--to", "2020-04-01T02:00")
    assert [line.split(",")[0] for line in cut.stdout.splitlines()[1:]] == ["582027"]
    bad = dally("trace", "window", path.name, "--from", "2020-99-01")
    assert bad.returncode == 2
    assert bad.stderr.splitlines()[-1].startswith("dally: --from '2020-99-01': is not a date")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["stats", "none.csv"], "none.csv: cannot be read: No such file or directory"),
        (["stats", "jobs.csv", "--zone", "Mars"], "--zone 'Mars': no such time zone"),
        (["stats", "jobs.csv", "--format", "helios"], "jobs.csv:1: gpu_num: no such column"),
        (["window", "jobs.csv", "--from", "9d", "--to", "10d"], "no job runs or comes between"),
        (["window", "jobs.csv", "--from", "2020-01-01"], "the trace has no dates"),
        (["window", "jobs.csv", "--from", "2h", "--to", "1h"], "the window must end after it begins"),
        (["filter", "jobs.csv", "--min-gpus", "99"], "no job meets these conditions"),
        (["scale", "jobs.csv", "--load", "0", "--cluster", "1x1x8"], "--load 0: must be more than 0"),
        (["convert", "jobs.csv", "no/where.csv"], "no/where.csv: cannot be written"),
    ],
)
def test_mistakes(arguments: list[str], message: str, dally: Run, jobs: str, tmp_path: Path) -> None:
    done = dally("trace", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr
    assert message in done.stderr.splitlines()[-1]
    assert [path.name for path in tmp_path.iterdir()] == ["jobs.csv"]
