"""Damaged input: every reader either reads it or says in one line what is wrong, and never hangs.

usage: python -m benchmarks.fuzz [--seconds 60] [--seed 1] [--format NAME]...

Takes the examples of docs/formats.md and what Dally itself writes, damages them, and reads them; what can
still be read is written in every format and read again. Scenarios, plans, profiles and run folders, and special
files in their place, go through the commands that take them (benchmarks.fuzz_inputs). Runs each for that many
seconds of CPU and exits with 1 at the first fault, leaving the files behind.
"""

from __future__ import annotations

import argparse
import gzip
import random
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import Final, NamedTuple

from dally.errors import InputError
from dally.traces import History, read_history, read_trace
from dally.traces.formats import FORMATS
from dally.traces.rows import NOT_KNOWN
from dally.traces.statistics import statistics
from dally.traces.times import Clock
from dally.traces.writing import WRITERS, losses, text_of
from dally.whole_file import write_pieces

ROOT: Final = Path(__file__).resolve().parents[1]
INPUTS: Final = ("scenario", "plan", "profile", "run-folder", "special-file")
MOST_CPU_S: Final = 5.0  # of one case
LONGEST_MESSAGE: Final = 1000
WORDS: Final = (
    b"", b"0",
    b"-1", b"1", b"1.5", b"0.25", b"nan", b"inf", b"-inf", b"1e400", b"1e308", b"9" * 400, b"null", b"None",
    b"Unknown", b"NaT", b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"\r\n", b"\r", b"\n\n", b",", b"|", b'"', b"'", b";",
    b"[", b"]", b"{", b"}", b"\\ud800", b"\\u0000", b"1_000", b"\xef\xbc\x91", b"2023-02-30 00:00:00",
    b"0001-01-01 00:00:00", b"9999-12-31T23:59:59", b"2023-10-29T02:30:00", b"2023-05-01T00:00:00+14:00",
    b"1970-01-01", b"99999999999999999999", b"gres/gpu=0", b"gres/gpu:=3", b"gres/gpu:a100=", b"gres/gpu=1K",
    b"1-00:00:00", b"-00:01", b"00:00", b"CANCELLED by 1000", b"x" * 200_000, b" ", b"\t", b"[" * 3000, b"true",
)  # fmt: skip


class Seed(NamedTuple):
    """A valid trace: its files by name, the trace itself first."""

    format: str
    files: dict[str, bytes]


def seeds() -> list[Seed]:
    """One or more for every format: the examples of the documentation, and those written anew."""
    text = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")
    blocks = dict(re.findall(r"^```\w+ file=(\S+)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE))
    names = {
        "csv": ["plain.csv"], "paper": ["paper.csv"], "tiresias": ["tiresias.csv"], "swf": ["cluster.swf"],
        "sacct": ["accounting.txt"], "philly": ["cluster_job_log.json"], "helios": ["cluster_log.csv"],
        "acme": ["trace_seren.csv"], "pai": ["pai_task_table.csv"], "lingjun": ["job.csv", "worker.csv"],
        "kubernetes": ["cluster_jobs.json"], "openb": ["openb_pods.csv"],
    }  # fmt: skip
    found = [Seed(key, {name: blocks[name].encode() for name in files}) for key, files in names.items()]
    job_table = b"job-a,i1,u1,Terminated,494300.0,494422.0\njob-b,i2,u2,Terminated,494350.0,498000.0\n"
    found.append(Seed("pai", {**found[8].files, "pai_job_table.csv": job_table}))
    return found


def mutated(draw: random.Random, content: bytes) -> bytes:
    """The content after one to four kinds of damage."""
    for _ in range(draw.randint(1, 4)):
        content = _damaged(draw, content)
    return content


def _damaged(draw: random.Random, content: bytes) -> bytes:
    place = draw.randint(0, len(content))
    end = min(len(content), place + draw.choice((1, 1, 2, 5, 20, 200)))
    kind = draw.randrange(9)
    if kind == 0:
        return content[:place]  # cut off
    if kind == 1:
        return content[:place] + content[end:]
    if kind == 2:
        return content[:place] + draw.randbytes(draw.randint(1, 8)) + content[end:]
    if kind == 3:
        return content[:place] + draw.choice(WORDS) + content[end:]
    if kind == 4:
        return _field_replaced(draw, content)
    if kind == 5:
        lines = content.splitlines(keepends=True)
        return b"".join(lines + draw.choices(lines, k=2)) if lines else content  # ids twice
    if kind == 6:
        lines = content.splitlines(keepends=True)
        draw.shuffle(lines)
        return b"".join(lines)
    if kind == 7:
        return content.replace(b"\n", draw.choice((b"\r\n", b"\r", b"", b"\n\n")))
    return content + content[place:end] * draw.choice((1, 2, 1000))


def _field_replaced(draw: random.Random, content: bytes) -> bytes:
    """One field of a csv, of sacct, of SWF or of JSON becomes something else."""
    fields = list(re.finditer(rb"[^,|\n\r\"\s]+", content))
    if not fields:
        return content
    chosen = draw.choice(fields)
    return content[: chosen.start()] + draw.choice(WORDS) + content[chosen.end() :]


def packed(draw: random.Random, content: bytes) -> bytes:
    """Gzipped, and perhaps damaged then."""
    content = gzip.compress(content, 1)
    return _damaged(draw, content) if draw.random() < 0.7 else content


def check(path: Path, name: str, strict: bool, zone: str) -> History | None:
    """Read the file as that format: what it holds, None if it is refused; AssertionError for a fault."""
    began = time.process_time()
    history: History | None
    try:
        history = read_history(path, name, strict, zone)
    except InputError as error:
        message = str(error)
        assert "\n" not in message, f"not one line: {message[:300]!r}"
        assert len(message) < LONGEST_MESSAGE, f"not short: {message[:300]!r}"
        assert message.startswith(str(path.parent)), f"names no file: {message!r}"
        history = None
    if history is not None:
        _check_rows(history)
    assert time.process_time() - began < MOST_CPU_S, "took too long"
    return history


def _check_rows(history: History) -> None:
    ids = set()
    last_s = 0.0
    for row in history.rows:
        assert row.job_id, row
        assert min(row.spec.gpus, row.line) >= 1, row
        assert last_s <= row.submit_s < inf, row
        assert 0.0 <= row.stated < inf, row
        assert row.wait_s == NOT_KNOWN or 0.0 <= row.wait_s < inf, row
        ids.add(row.job_id)
        last_s = row.submit_s
    assert len(ids) == len(history.rows), "ids repeat"


def check_use(history: History, folder: Path) -> None:
    """What was read can be counted, simulated, written and read again."""
    figures = statistics(history, Clock(), 64)
    assert figures["rows"] == len(history.rows)
    for name in WRITERS:
        path = folder / f"again.{name}"
        try:
            losses(history, name)
            write_pieces(path, text_of(history, name))
        except InputError:
            continue
        again = read_history(path, "auto")
        assert len(again.rows) == len(history.rows), name
        assert [row.spec.gpus for row in again.rows] == [row.spec.gpus for row in history.rows], name


def one_case(draw: random.Random, seed: Seed, folder: Path) -> None:
    """Damage one of the seed's files, or all of it, and read it."""
    for old in folder.iterdir():
        old.unlink()
    broken = draw.choice(list(seed.files))
    for name, content in seed.files.items():
        if name == broken:
            content = draw.randbytes(draw.randint(0, 300)) if draw.random() < 0.05 else mutated(draw, content)
        if draw.random() < 0.2:
            content = packed(draw, content)
        (folder / name).write_bytes(content)
    path = folder / next(iter(seed.files))
    name = "auto" if draw.random() < 0.2 else seed.format
    zone = draw.choice(("UTC", "UTC", "Europe/Berlin", "Asia/Shanghai"))
    history = check(path, name, draw.random() < 0.2, zone)
    if history is not None:
        check_use(history, folder)
        assert len(read_trace(path, 1 << 60, format=name, zone=zone).jobs) == len(history.rows)


def huge_cases(name: str, seed: Seed) -> Iterator[bytes]:
    """Lines of ten megabytes: of one character, of separators, of digits, and after a good start."""
    good = next(iter(seed.files.values()))
    for piece in (b"x", b",", b"|", b"9", b"[", b'"', b" ", b"{", b"1 ", b'{"a":', b"\n"):
        line = piece * (10_000_000 // len(piece))
        yield line
        yield good + line
        yield good[: len(good) // 2] + line
        yield good + line + b"\n" + good


def fuzz_traces(name: str, draw: random.Random, seconds: float, folder: Path) -> Iterator[None]:
    """Damage traces of that format in the folder, for so long."""
    mine = [seed for seed in seeds() if seed.format == name]
    for content in huge_cases(name, mine[0]):
        path = folder / next(iter(mine[0].files))
        for beside, text in mine[0].files.items():
            (folder / beside).write_bytes(text)
        path.write_bytes(content)
        check(path, name, False, "UTC")
        yield
    began = time.process_time()
    while time.process_time() - began < seconds:
        one_case(draw, draw.choice(mine), folder)
        yield


def fuzz_inputs(kind: str, draw: random.Random, seconds: float, folder: Path) -> Iterator[None]:
    """Damage scenarios and the like in the folder, for so long."""
    from benchmarks import fuzz_inputs

    with fuzz_inputs.workshop(folder):
        began = time.process_time()
        while time.process_time() - began < seconds:
            fuzz_inputs.one_case(draw, kind, folder)
            assert not fuzz_inputs.left_behind(folder), fuzz_inputs.left_behind(folder)
            yield


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    options.add_argument("--seconds", type=float, default=60.0, help="CPU seconds for each reader")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--format", action="append", choices=[*FORMATS, *INPUTS], help="only these")
    chosen = options.parse_args()
    for name in chosen.format or [*FORMATS, *INPUTS]:
        draw = random.Random(f"{chosen.seed}/{name}")
        fuzz = fuzz_inputs if name in INPUTS else fuzz_traces
        with tempfile.TemporaryDirectory() as folder:
            cases = 0
            try:
                for _ in fuzz(name, draw, chosen.seconds, Path(folder)):
                    cases += 1
            except BaseException as error:
                kept = tempfile.mkdtemp(prefix=f"fuzz-{name}-")
                shutil.copytree(folder, kept, symlinks=True, dirs_exist_ok=True, copy_function=_copied)
                print(f"{name}: case {cases + 1}: {type(error).__name__}: {str(error)[:500]}; files in {kept}")
                raise
        print(f"{name:12} {cases:8,} cases: nothing found", flush=True)


def _copied(source: str, target: str) -> None:
    """Copy a file; a pipe would wait for ever."""
    if Path(source).is_file():
        shutil.copyfile(source, target)


if __name__ == "__main__":
    main()
