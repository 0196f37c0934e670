"""How a training job says how far it is: in a small file, or in a line where no file would reach the daemon."""

from __future__ import annotations

import json
import os
import stat
from contextlib import suppress
from typing import Final, NamedTuple

VARIABLE: Final = "DALLY_PROGRESS"  # names the file
JOB_VARIABLE: Final = "SLURM_JOB_ID"  # the job, where several may have been told the same file
PRINTED: Final = "-"  # in its place: a line on standard output, for logs that the daemon reads
LINE: Final = "dally: training step "  # begins it
MOST_BYTES: Final = 4096
MOST_STEPS: Final = 10**15


class Report(NamedTuple):
    """So many steps of so many are done; in seconds since 1970, when it said so."""

    step: int
    total: int | None
    at_s: float
    job: str = ""  # whose steps these are, where that is known


def write_report(path: str, report: Report) -> None:
    """Replace the file by one that says this: readers see the old one or the new one. OSError if that fails."""
    fresh = f"{path}.{os.getpid()}"
    try:
        with open(fresh, "w", encoding="utf-8") as file:
            json.dump(report._asdict(), file)
        os.replace(fresh, path)
    except OSError:
        with suppress(OSError):
            os.unlink(fresh)
        raise


def line_of(step: int, total: int | None) -> str:
    """The line that says the same."""
    return f"{LINE}{step}" + ("" if total is None else f"/{total}")


def read_report(path: str, owner: int | None = None, job: str = "") -> Report | None:
    """What the file says; None if it is not there, is not its owner's regular file, or says nothing sensible.

    With `job`, what another job says of itself counts for nothing.
    """
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        status = os.fstat(number)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_BYTES or owner not in (None, status.st_uid):
            return None
        text = os.read(number, MOST_BYTES)
    except OSError:
        return None
    finally:
        os.close(number)
    report = _parsed(text)
    return None if report is not None and job and report.job not in ("", job) else report


def _parsed(text: bytes) -> Report | None:
    try:
        values = json.loads(text)
        step, total, at_s, job = values["step"], values["total"], values["at_s"], str(values.get("job", ""))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    whole = type(step) is int and 0 <= step <= MOST_STEPS
    bounded = total is None or (type(total) is int and 0 < total <= MOST_STEPS)
    timed = type(at_s) in (int, float) and 0.0 <= at_s < 1e12
    return Report(step, total, float(at_s), job) if whole and bounded and timed else None


def read_statement(text: str) -> tuple[int | None, int | None]:
    """Steps done and how many there are, of 120/400 or 120; None: it says nothing sensible."""
    step, slash, total = text.partition("/")
    if not step.isdigit() or not step.isascii() or int(step) > MOST_STEPS:
        return None, None
    if not slash:
        return int(step), None
    known = total.isdigit() and total.isascii() and 0 < int(total) <= MOST_STEPS
    return (int(step), int(total)) if known else (None, None)
