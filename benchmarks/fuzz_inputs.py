"""Damaged scenarios, plans, profiles and run folders, and special files in their place; see benchmarks.fuzz.

Every case is a command as a user gives it: it works, or it says in one line what is wrong, and it ends soon.
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import re
import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Final

from benchmarks.fuzz import LONGEST_MESSAGE, ROOT, mutated
from dally.cli.main import exit_code
from dally.errors import InputError
from dally.runs.folder import SUMS
from dally.sweep import run as sweep_run
from dally.sweep.plan import read_plan

MOST_S: Final = 30  # of one command
JOBS: Final = "job_id,submit_s,gpus,duration_s,model\n" + "".join(
    f"j{n},{n * 10},{1 + n % 4},{100 + n},{'bert' if n % 2 else 'resnet50'}\n" for n in range(12)
)
PLAN: Final = """[base]
trace = "jobs.csv"
cluster = "1x2x4"
policy = "las"
until_s = 1e6
[grid]
seed = [1, 2]
set.lease_s = [60, 600]
network = ["slow", "fast"]
[random]
samples = 2
seed = 3
restart_s = "0:60"
restart_per_gpu_s = "1:60:log"
jitter = "1:60:int"
"""
VALUES: Final = (
    b"nan", b"inf", b"-inf", b"1e308", b"1e400", b"-1", b"0", b"0.0", b"0x" + b"f" * 5000, b"9" * 5000, b"9" * 20,
    b"2147483648", b"9223372036854775808", b"[" * 5000 + b"]" * 5000, b"{}", b"[]", b"[[]]", b"true", b'""',
    b'"\\u0000"',
    b'"' + b"x" * 5000 + b'"', b'"/dev/zero"', b'"pipe"', b'"."', b"1979-05-27", b"07:32:00", b'"1:1e999:int"',
    b"{a.a.a=1}",
    b'"0:1"', b'"1:1e999"', b'"nan:1"', b'"1:2:log:int"', b'"' + b"x".join([b"1"] * 70_000) + b'"',
    b'"99999999x99999999"',
    b'"1x2x4"', b'"fifo"', b'"no.py:Mine"', b'"../../../etc/passwd"', b'"\xc3\xb1"', b"10_000_000_000",
    b'"0=0.5,1=nan"',
)  # fmt: skip
SPECIAL: Final = ("pipe", "folder", "loop", "nowhere", "/dev/zero", "/dev/full", "/dev/null")
SIMULATE: Final = ("simulate", "--trace", "jobs.csv", "--cluster", "1x2x4")
READERS: Final[tuple[tuple[str, ...], ...]] = (  # where a special file stands at the end
    ("simulate", "--cluster", "1x2x4", "--trace"), ("simulate", "--trace", "jobs.csv", "--cluster"),
    ("simulate", "--scenario"), ("simulate", "--from"), ("sweep", "--out", "swept"), ("report",),
    ("trace", "stats"),
    (*SIMULATE, "--network", "slow", "--profiles"), (*SIMULATE, "--failures"), (*SIMULATE, "--past"),
    ("topology", "show"), ("topology", "check"), ("models", "--profiles"), ("explain", "j1", "--run"),
    ("collective", "--cluster", "1x2x4", "--network", "slow", "--batch"),
    (*SIMULATE, "--snapshot-at", "9", "--snapshot"),
    ("trace", "convert", "jobs.csv"), (*SIMULATE, "--out"), ("learn", "--out", "learnt.json", "--trace"),
)  # fmt: skip


def _late(*_: int | FrameType | None) -> None:
    raise AssertionError(f"took more than {MOST_S} s")


def tried(*words: str) -> bool:
    """Whether the command works; AssertionError if it neither does nor says in one line why not."""
    told = io.StringIO()
    old = signal.signal(signal.SIGALRM, _late)
    signal.alarm(MOST_S)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(told):
            code = exit_code(words)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, old)
    message = told.getvalue()
    assert code in (0, 2), f"{words}: exit code {code}: {message[-300:]!r}"
    if code == 2:
        assert message.count("\n") == 1, f"{words}: not one line: {message[-300:]!r}"
        assert len(message) < LONGEST_MESSAGE + 100, f"{words}: not short: {message[:300]!r}"
    return code == 0


def toml_damaged(draw: random.Random, content: bytes) -> bytes:
    """The content with other values, or damaged as any text is."""
    if draw.random() < 0.3:
        return mutated(draw, content)
    for _ in range(draw.randint(1, 2)):
        places = list(re.finditer(rb"(?<== )[^\n]+|(?<=[\[ ])[\w.\"]+(?=[,\]])", content))
        if places:
            place = draw.choice(places)
            content = content[: place.start()] + draw.choice(VALUES) + content[place.end() :]
    return content


def scenarios(draw: random.Random, folder: Path) -> None:
    content = toml_damaged(draw, (folder / "run" / "scenario.toml").read_bytes().partition(b"\n[digests]")[0])
    (folder / "damaged.toml").write_bytes(content)
    tried("simulate", "--scenario", "damaged.toml", *draw.choice(((), ("--out", "out"))))


def plans(draw: random.Random, folder: Path) -> None:
    (folder / "damaged.toml").write_bytes(toml_damaged(draw, PLAN.encode()))
    tried("sweep", "damaged.toml", "--out", "swept", "--policy", "no-such-policy")
    with contextlib.suppress(InputError):
        read_plan(Path("damaged.toml")).runs()  # made, not carried out: scenarios are damaged elsewhere


def profiles(draw: random.Random, folder: Path) -> None:
    shipped = (ROOT / "src" / "dally" / "perf" / "catalogue.toml").read_bytes()
    starts = [found.start() for found in re.finditer(rb"^\[\[models\]\]", shipped, re.MULTILINE)]
    one = draw.randrange(len(starts) - 1)
    content = shipped[: starts[0]] + shipped[starts[one] : starts[one + 1]]
    (folder / "damaged.toml").write_bytes(toml_damaged(draw, content))
    tried("models", "--profiles", "damaged.toml")
    tried(*SIMULATE, "--network", "slow", "--profiles", "damaged.toml")


def run_folders(draw: random.Random, folder: Path) -> None:
    kind = draw.choice(("run", "run", "compared"))
    damaged = folder / "damaged"
    shutil.copytree(folder / kind, damaged)
    files = [path for path in sorted(damaged.rglob("*")) if path.is_file() and path.suffix not in (".html", ".md")]
    for path in draw.sample(files, draw.choice((1, 1, 1, 2, 4))):
        content = path.read_bytes()
        if draw.random() < 0.1:
            path.unlink()
            path.symlink_to(folder / draw.choice(SPECIAL))
        else:
            path.write_bytes(draw.choice(files).read_bytes() if draw.random() < 0.1 else mutated(draw, content))
    if draw.random() < 0.3:  # as older runs left it
        for path in damaged.rglob(SUMS):
            path.unlink()
    tried("report", "damaged", *draw.choice(((), ("--runs",) if kind == "compared" else ())))
    run = "damaged" if kind == "run" else f"damaged/runs/{next((folder / 'compared' / 'runs').iterdir()).name}"
    tried("explain", f"j{draw.randrange(13)}", "--run", run)
    tried("explain", "--waiting", "--run", run)


def special_files(draw: random.Random, folder: Path) -> None:
    special = draw.choice(SPECIAL)
    tried(*draw.choice(READERS), special)
    for made in ("nowhere", "swept", "out"):
        remove(folder / made)


Case = Callable[[random.Random, Path], None]
KINDS: Final[dict[str, Case]] = {
    "scenario": scenarios,
    "plan": plans,
    "profile": profiles,
    "run-folder": run_folders,
    "special-file": special_files,
}


@contextlib.contextmanager
def workshop(folder: Path) -> Iterator[None]:
    """The folder with a trace, a run, a comparison and special files in it, as the working directory."""
    before, most = Path.cwd(), sweep_run.MOST_RUNS
    os.chdir(folder)
    sweep_run.MOST_RUNS = 1000  # more are allowed, and take their time
    (folder / "jobs.csv").write_text(JOBS)
    (folder / "folder").mkdir()
    os.mkfifo("pipe")
    (folder / "loop").symlink_to("loop")
    try:
        assert tried(*SIMULATE, "--policy", "dally", "--network", "slow", "--out", "run")
        assert tried(
            "compare",
            *SIMULATE[1:],
            "--policies",
            "fifo,las",
            "--replications",
            "1",
            "--out",
            "compared",
            "--jobs",
            "1",
        )
        yield
    finally:
        os.chdir(before)
        sweep_run.MOST_RUNS = most


def remove(path: Path) -> None:
    """Remove a file or a folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def one_case(draw: random.Random, kind: str, folder: Path) -> None:
    """Damage something and use it; what it was is still there if that is a fault."""
    for name in ("damaged", "damaged.toml", "out", "swept", "nowhere"):
        remove(folder / name)
    KINDS[kind](draw, folder)


def left_behind(folder: Path) -> Sequence[str]:
    """Names of what no command has any business leaving."""
    return [path.name for path in folder.rglob(".*.tmp")]
