"""Hostile input: each is refused in one line that names file, field or value, with exit code 2, and soon."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest

from dally.cli.main import exit_code
from dally.metrics.record import OF_QUEUES
from dally.runs.folder import FILES, SUMS, WRITTEN

Refused = Callable[..., str]
TRACE = "job_id,submit_s,gpus,duration_s\n" + "".join(f"j{n},{n * 10},{1 + n % 4},{100 + n}\n" for n in range(8))
BASE = 'trace = "jobs.csv"\ncluster = "1x2x4"\npolicy = "fifo"\n'
PLAN = '[base]\ntrace = "jobs.csv"\ncluster = "1x2x4"\npolicy = "las"\n'
SIMULATE = ("simulate", "--trace", "jobs.csv", "--cluster", "1x2x4")
VARIED = ("seed", "jitter", "restart_s", "repair_s", "until_s")
DEEP = f"a = {'[' * 5000}{']' * 5000}\n"
MOST_S = 20  # an input that makes a command hang fails its test instead


@pytest.fixture
def refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Iterator[Refused]:
    """Runs a command beside a trace and a finished run; what it says when it refuses, in one line."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jobs.csv").write_text(TRACE)

    def run(*words: str) -> str:
        before = set(tmp_path.rglob("*"))
        capfd.readouterr()
        assert exit_code(words) == 2
        told = capfd.readouterr()
        assert told.err.count("\n") == 1
        assert told.err.startswith("dally: ")
        assert len(told.err) < 1100
        assert set(tmp_path.rglob("*")) == before, "something was written"
        return told.err

    def late(*_: object) -> None:
        raise TimeoutError(f"took more than {MOST_S} s")

    old = signal.signal(signal.SIGALRM, late)
    signal.alarm(MOST_S)
    yield run
    signal.alarm(0)
    signal.signal(signal.SIGALRM, old)


@pytest.fixture
def run_folder(tmp_path: Path, refused: Refused, capfd: pytest.CaptureFixture[str]) -> Path:
    assert exit_code([*SIMULATE, "--network", "slow", "--out", "run", "--no-report"]) == 0
    return tmp_path / "run"


FOREIGN = {
    "foreign csv": b"a,b\n1,2\n",
    "foreign json": b"[1, 2]",
    "deep": b"[" * 5000,
    "nothing": b"",
    "NUL": bytes(9),
}


OPTIONAL = [FILES[name] for name in ("slots", *OF_QUEUES)]  # of older runs, of runs with queues


@pytest.mark.parametrize("name", [name for name in WRITTEN if name not in OPTIONAL])
def test_a_damaged_run_folder(name: str, run_folder: Path, refused: Refused) -> None:
    path = run_folder / name
    whole = path.read_bytes()
    sums = (run_folder / SUMS).read_bytes()
    flipped = bytes([*whole[:60], whole[60] ^ 1, *whole[61:]])
    for what, content in {"cut": whole[: len(whole) // 2], "flipped": flipped, **FOREIGN}.items():
        path.write_bytes(content)
        for words in (("report", "run"), ("explain", "j3", "--run", "run")):
            assert (f"run/{name}" in refused(*words)) or name == SUMS, what
        if name in (SUMS, "scenario.toml") or what == "flipped":
            continue
        (run_folder / SUMS).unlink()  # as in folders of older runs
        for words in (("report", "run"), ("explain", "j3", "--run", "run")):
            assert f"run/{name}" in refused(*words), what
        (run_folder / SUMS).write_bytes(sums)


def test_a_table_of_something_else(run_folder: Path, refused: Refused) -> None:
    (run_folder / SUMS).unlink()
    pl.DataFrame({"time_s": [1.0]}).write_parquet(run_folder / "events.parquet")
    assert "run/events.parquet: kind: this column is missing" in refused("report", "run")
    (run_folder / "jobs.csv").write_text("".join(TRACE.splitlines(keepends=True)[:3]))
    assert "run/jobs.csv: start_s: this column is missing" in refused("explain", "j1", "--run", "run")


def test_a_run_that_was_cut_short(run_folder: Path, refused: Refused) -> None:
    (run_folder / SUMS).unlink()
    path = run_folder / "jobs.csv"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-2]))
    assert "run/jobs.csv: job_id: 6 rows, where summary.json says 8" in refused("report", "run")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (DEEP, "s.toml: nested more than 100 deep"),
        (f"a{'.a' * 5000} = 1\n", "s.toml: a: nested more than 100 deep"),
        (f"seed = {'9' * 5000}\n", "s.toml: a number is too long"),
        (f"seed = 0x{'f' * 5000}\n", "s.toml: seed: 0xfff"),
        (BASE + "seed = 18446744073709551616\n", "s.toml: seed: 18446744073709551616: must be"),
        (BASE + "jitter = -9223372036854775809\n", "s.toml: jitter: -9223372036854775809: must be"),
        (BASE + "until_s = nan\n", "--until nan: must not be negative"),
        (BASE + "restart_s = inf\n", "--restart-s inf: must be finite"),
        (BASE.replace("jobs.csv", "a\\u0000b"), "'a\\x00b': is not the name of a file"),
        (BASE.replace("1x2x4", "\\u0000.toml"), "'\\x00.toml': is not the name of a file"),
        (BASE.replace("fifo", "\\u0000.py:Mine"), "'\\x00.py': is not the name of a file"),
        (BASE.replace("1x2x4", "x".join(["1"] * 70_000)), "70,000 tiers, at most 16"),
        (BASE.replace("1x2x4", f"{'9' * 5000}x1"), "neither RxMxG"),
        *(
            (f'{BASE}{name} = "\\u0000"\n', "'\\x00': is not the name of a file")
            for name in ("failures", "profiles", "past", "snapshot")
        ),
    ],
)  # fmt: skip
def test_scenarios(text: str, told: str, refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(text)
    assert told in refused("simulate", "--scenario", "s.toml", "--network", "slow", "--out", "run")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (DEEP, "p.toml: nested more than 100 deep"),
        (f"[grid]\nseed = [{'9' * 5000}]\n", "p.toml: a number is too long"),
        (PLAN + "seed = 18446744073709551616\n", "p.toml: base.seed: 18446744073709551616: must be"),
        (PLAN.replace("jobs.csv", "\\u0000"), "is not the name of a file"),
        (PLAN + '[random]\nsamples = 3\nlease_s = "1:1e999"\n', "lease_s: 1:1e999: both ends"),
        (PLAN + '[random]\nsamples = 3\nlease_s = "1:1e999:int"\n', "lease_s: 1:1e999:int: both ends"),
        (PLAN + '[random]\nsamples = 3\nlease_s = "-1e308:1e308"\n', "lease_s: -1e308:1e308: both ends"),
        (PLAN + '[random]\nsamples = 3\nlease_s = "nan:5"\n', "lease_s: 'nan:5': must be"),
        (PLAN + '[random]\nsamples = 3\njitter = "1:1e30:int"\n', "jitter: 1:1e30:int: whole numbers have"),
        (PLAN + "[grid]\nlease_s = [nan]\n", "--set lease_s=nan: must be at least"),
        (PLAN + "until_s = 07:32:00\n", "p.toml:5: until_s: datetime.time(7, 32): must be of type float"),
        (PLAN + "[grid]\nseed = [inf]\n", "p.toml:6: seed: inf: must be of type int"),
        (PLAN + '[random]\nsamples = 10_000_000_000\nlease_s = "1:2"\n', "10,000,000,000 runs: at most 1,000,000"),
        (
            f"{PLAN}[grid]\n" + "".join(f"{name} = {list(range(1, 101))}\n" for name in VARIED),
            "10,000,000,000 runs: at most 1,000,000",
        ),
    ],
)  # fmt: skip
def test_plans(text: str, told: str, refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text(text)
    assert told in refused("sweep", "p.toml", "--out", "swept")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (DEEP, "m.toml: nested more than 100 deep"),
        ('[[models]]\nname = "a"\n' + DEEP, "m.toml: nested more than 100 deep"),
        (f'[[models]]\nname = "a"\nbatch = {"9" * 5000}\n', "m.toml: a number is too long"),
        (f'[[models]]\nname = "a"\nbatch = {"9" * 40}\n', "m.toml: models[0].batch: 9999"),
        ('[[models]]\nname = "a"\nskew = { value = nan, source = "?" }\n', "m.toml:1: a: "),
    ],
)
def test_profiles(text: str, told: str, refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "m.toml").write_text(text)
    assert told in refused("models", "--profiles", "m.toml")
    assert told in refused(*SIMULATE, "--network", "slow", "--profiles", "m.toml")


def test_tiers_of_a_topology_file(refused: Refused, tmp_path: Path) -> None:
    tiers = "".join(f'[[tiers]]\nname = "t{n}"\n' for n in range(70_000))
    (tmp_path / "t.toml").write_text(tiers + "[[machines]]\ncount = 1\ngpus = 8\n")
    assert "t.toml: tiers: 70,000 of them, at most 16" in refused("topology", "show", "t.toml")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--seed", "18446744073709551616"), "--seed: 18446744073709551616: must be a whole"),
        (("--jitter", "-18446744073709551616"), "--jitter: -18446744073709551616: must be"),
        (("--policy", "lwf", "--set", "kappa=4294967296"), "--set kappa=4294967296: must be at most 2147483647"),
        (("--policy", "tiresias", "--set", "learn_from=9999999999"), "--set learn_from=9999999999: must be"),
        (("--policy", "lwf", "--set", f"kappa={'9' * 5000}"), "--set kappa=9999"),
        (("--out", "."), ".: is the folder you are in, or above it; name one for this alone, such as run1"),
        (("--out", "run/.."), "run/..: is the folder you are in, or above it"),
        (("--out", ".."), "..: is the folder you are in, or above it"),
        (("--out", "/"), "/: is the folder you are in, or above it"),
        (("--out", "jobs.csv"), "jobs.csv: cannot be written"),
        (("--snapshot", ".", "--snapshot-at", "10"), ".: cannot be written: Is a directory"),
        (("--snapshot", "/dev/zero", "--snapshot-at", "10"), "/dev/zero: is a device, not a regular file"),
    ],
)  # fmt: skip
def test_options(words: tuple[str, ...], told: str, refused: Refused) -> None:
    assert told in refused(*SIMULATE, *words)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("compare", *SIMULATE[1:], "--seeds", "1,18446744073709551616"), "--seeds: 18446744073709551616: must be"),
        (("compare", *SIMULATE[1:], "--replications", "9999999999"), "runs: at most 1,000,000"),
        (("trace", "generate", "philly-like", "--jobs", "9", "--out", "."), ".: cannot be written: Is a directory"),
        (("trace", "convert", "jobs.csv", "/dev/zero"), "/dev/zero: is a device, not a regular file"),
    ],
)
def test_other_commands(words: tuple[str, ...], told: str, refused: Refused) -> None:
    assert told in refused(*words)


@pytest.mark.parametrize("special", ["pipe", "/dev/zero", "/dev/full", "/dev/null"])
def test_what_is_no_regular_file(special: str, refused: Refused, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    told = f"{special}: is a {'pipe' if special == 'pipe' else 'device'}, not a regular file"
    (tmp_path / "link.py").symlink_to(special)
    for words in (
        ("simulate", "--trace", special, "--cluster", "1x2x4"),
        ("simulate", "--trace", "jobs.csv", "--cluster", special),
        ("simulate", "--scenario", special),
        ("simulate", "--from", special),
        ("sweep", special, "--out", "swept"),
        (*SIMULATE, "--network", "slow", "--profiles", special),
        (*SIMULATE, "--failures", special),
        (*SIMULATE, "--past", special),
        (*SIMULATE, "--policy", "dally", "--set", f"learned={special}"),
        ("trace", "stats", special),
        ("learn", "--trace", special, "--out", "learnt.json"),
        ("topology", "import", special, "--out", "t.toml"),
        ("collective", "--batch", special, "--cluster", "1x2x4", "--network", "slow"),
    ):
        assert told in refused(*words), words
    assert "link.py: is a" in refused(*SIMULATE, "--policy", "link.py:Mine")
    assert "is not a folder" in refused("report", special)
    assert "holds no jobs.csv" in refused("explain", "j1", "--run", special)


@pytest.mark.parametrize("special", ["pipe", "/dev/zero"])
def test_what_is_no_regular_file_in_a_run_folder(special: str, run_folder: Path, refused: Refused) -> None:
    os.mkfifo(run_folder / "pipe")
    for name in ("summary.json", "jobs.csv", "events.parquet", "decisions.parquet", "scenario.toml", SUMS):
        kept = (run_folder / name).rename(run_folder / "kept")
        (run_folder / name).symlink_to(special)
        assert f"run/{name}: is a" in refused("report", "run")
        assert f"run/{name}: is a" in refused("explain", "j1", "--run", "run")
        (run_folder / name).unlink()
        kept.rename(run_folder / name)


@pytest.mark.parametrize(
    ("policy", "setting"),
    [
        ("las", "lease_s=0.001"), ("dally-paper", "lease_s=0.001"), ("themis", "lease_s=0.001"),
        ("gandiva", "slice_s=0.001"), ("gavel", "round_s=0.001"),
    ],
)  # fmt: skip
def test_a_lease_that_the_clock_cannot_tell(policy: str, setting: str, refused: Refused, tmp_path: Path) -> None:
    rows = "".join(f"j{n},{10**13 + n},{1 + n % 4},{100 + n}\n" for n in range(8))
    (tmp_path / "far.csv").write_text("job_id,submit_s,gpus,duration_s\n" + rows)
    words = ("simulate", "--trace", "far.csv", "--cluster", "1x2x4", "--policy", policy, "--set", setting)
    assert f"--set {setting}: too short for the clock of far.csv" in refused(*words)
    assert exit_code(["simulate", "--trace", "far.csv", "--cluster", "1x2x4", "--policy", policy]) == 0


def test_repairs_that_the_clock_cannot_tell(refused: Refused) -> None:
    words = (*SIMULATE, "--failure-rate", "1e12", "--repair-s", "1e-300")
    assert "--repair-s=1e-300: too short for the clock of jobs.csv" in refused(*words)


def test_what_killed_runs_left_is_removed(run_folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    dead = os.fork()
    if dead == 0:
        os._exit(0)
    os.waitpid(dead, 0)
    stale, ours = run_folder / f".jobs.csv.{dead}.tmp", run_folder / ".jobs.csv.1.tmp"
    for path in (stale, ours, run_folder / ".notes.tmp"):
        path.touch()
    assert exit_code([*SIMULATE, "--out", "run"]) == 0
    assert {path.name for path in run_folder.glob(".*.tmp")} == {".jobs.csv.1.tmp", ".notes.tmp"}


def test_a_run_that_would_write_over_its_trace(tmp_path: Path, refused: Refused) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "jobs.csv").rename(tmp_path / "here" / "jobs.csv")
    told = refused("simulate", "--trace", "here/jobs.csv", "--cluster", "1x2x4", "--out", "here")
    assert "jobs.csv: the run reads this file and would write another in its place" in told


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("simulate", "--nope"), "No such option: --nope"),
        (("simulate", "--seed", "x"), "Invalid value for '--seed'"),
        (
            ("simulate", "one.csv", "two.csv"),
            "Got unexpected extra argument(s) (two.csv); see `dally simulate --help`",
        ),
        (("simulate", "--policy"), "Option '--policy' requires an argument; see `dally simulate --help`"),
        (("simulat",), "No such command 'simulat'"),
        (("topology", "import"), "Missing argument 'file'; see `dally topology import --help`"),
        (("trace", "no\nsuch"), "; see `dally trace --help`"),
    ],
)
def test_misused(words: tuple[str, ...], told: str, refused: Refused) -> None:
    assert told in refused(*words)


def test_without_a_command_there_is_help(capfd: pytest.CaptureFixture[str]) -> None:
    for words, line in (
        ((), "Usage: dally [OPTIONS] COMMAND"),
        (("trace",), "Usage: dally trace [OPTIONS] COMMAND"),
    ):
        assert exit_code(words) == 2
        assert capfd.readouterr().err.startswith(line)


def test_words_that_are_no_text(refused: Refused) -> None:
    """Bytes that are not UTF-8 reach a program as half a character each; a latin-1 terminal sends such."""
    assert refused(*SIMULATE, "--out", "r\udcff") == "dally: 'r\\udcff': is not text in UTF-8\n"
