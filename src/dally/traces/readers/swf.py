"""SWF v2.2, the Standard Workload Format of the Parallel Workloads Archive: 18 numbers a line, -1 unknown.

SWF counts processors; a trace of a GPU cluster in SWF counts GPUs there, and that is how they are taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from dally.errors import at
from dally.job_spec import spec_maker
from dally.traces.readers.csv_trace import plain
from dally.traces.rows import MOST_GPUS, NO_GPUS, NO_LENGTH, NO_SUBMIT, NOT_KNOWN, PART, Reading, TraceRow
from dally.traces.table import LONGEST_LINE, MOST, lines_of

FIELDS: Final = 18
STATUSES: Final = {"0": "failed", "1": "completed", "5": "cancelled", "-1": ""}
# A job that was checkpointed has a line for the whole, then one for each part.
PARTS: Final = ("2", "3", "4")
NUMBERED: Final = ("user", "name", "queue", "partition")  # what it knows by number
NUMBERS: Final = {"failed": 0, "fail": 0, "node_fail": 0, "timeout": 0, "completed": 1, "pass": 1, "terminated": 1,
                  "cancelled": 5, "killed": 5}  # fmt: skip


def looks_like(lines: Sequence[str]) -> bool:
    """Whether it begins with a comment of SWF, or with a line of 18 numbers."""
    first = next((line for line in lines if line.strip()), "")
    fields = first.split()
    return first.startswith(";") or (len(fields) == FIELDS and all(map(_is_number, fields)))


def _is_number(text: str) -> bool:
    return re.fullmatch(r"-?\d+(\.\d*)?", text, re.ASCII) is not None


def rows(reading: Reading) -> Iterator[TraceRow]:
    """The jobs of the file. Allocated processors are GPUs; requested ones where those are not known."""
    users: dict[str, str] = {"-1": ""}
    limits: dict[str, float | None] = {}  # by text: few differ
    spec_of = spec_maker("gpus", "user", "name", "limit_s", "partition", "queue")
    for line, text in enumerate(lines_of(reading.path, LONGEST_LINE), 1):
        fields = text.split()
        if not fields:
            continue
        if text.startswith(";"):
            if "UnixStartTime:" in text:
                reading.epoch_s = _start(text)
            continue
        if len(fields) != FIELDS:
            raise at(reading.path, line, None, f"{len(fields)} fields where SWF has {FIELDS}")
        status = fields[10]
        try:
            submit_s, wait_s, duration_s = float(fields[1]), float(fields[2]), float(fields[3])
            limit = fields[8]
            if limit not in limits:
                limits[limit] = _limit_s(limit)
            gpus = int(fields[4])
            if gpus < 1:
                gpus = int(fields[7])
        except ValueError:
            raise _bad_number(reading, line, fields) from None
        # Also false for not-a-number.
        known = -1.0 <= submit_s <= MOST and -1.0 <= wait_s <= MOST and -1.0 <= duration_s <= MOST
        if not (known and gpus <= MOST_GPUS):
            raise _bad_number(reading, line, fields)
        if status in PARTS:
            reading.skip(line, "status", status, PART)
        elif gpus < 1:
            reading.skip(line, "allocated processors", fields[4], NO_GPUS)
        elif submit_s < 0.0:
            reading.skip(line, "submit time", fields[1], NO_SUBMIT)
        elif duration_s < 0.0:
            reading.skip(line, "run time", fields[3], NO_LENGTH)
        else:
            user, name, queue, partition = fields[11], fields[13], fields[14], fields[15]
            yield TraceRow(
                line,
                fields[0],
                submit_s,
                spec_of(
                    gpus,
                    users.setdefault(user, user),
                    users.setdefault(name, name),
                    limits[limit],
                    users.setdefault(partition, partition),
                    users.setdefault(queue, queue),
                ),
                duration_s,
                STATUSES.get(status, status),
                wait_s if wait_s >= 0.0 else NOT_KNOWN,
            )


def _limit_s(text: str) -> float | None:
    """The time limit; None if there is none. ValueError if it is no number, or none that SWF allows."""
    limit_s = float(text)
    if not -1.0 <= limit_s <= MOST:
        raise ValueError(text)
    return limit_s if limit_s > 0.0 else None


def _start(text: str) -> float | None:
    result = re.search(r"UnixStartTime:\s*(\d{1,12})\s*$", text, re.ASCII)
    return float(result[1]) if result and int(result[1]) > 0 else None


def _bad_number(reading: Reading, line: int, fields: list[str]) -> Exception:
    """The error for the first field that is no number SWF allows."""
    names = {1: "submit time", 2: "wait time", 3: "run time", 4: "allocated processors", 7: "requested processors",
             8: "requested time"}  # fmt: skip
    for place, name in names.items():
        text = fields[place]
        whole = place in (4, 7)
        if (
            not _is_number(text)
            or (whole and "." in text)
            or not -1 <= float(text) <= (MOST_GPUS if whole else MOST)
        ):
            kind = "a whole number" if whole else "a number"
            return at(reading.path, line, name, f"{text!r}: must be {kind}, or -1 if not known")
    return at(reading.path, line, None, f"{' '.join(fields)!r}: is not a line of SWF")


def pieces(rows: Sequence[TraceRow], epoch_s: float | None) -> Iterator[str]:
    """The text of the file: whole seconds; ids, users and names that are no numbers are numbered."""
    yield "; Version: 2.2\n; Note: processors are GPUs\n"
    yield f"; MaxJobs: {len(rows)}\n; MaxRecords: {len(rows)}\n"
    if epoch_s is not None:
        yield f"; UnixStartTime: {round(epoch_s)}\n"
    ids = _numbers([row.job_id for row in rows])
    users, names, queues, partitions = (_numbers([getattr(row.spec, key) for row in rows]) for key in NUMBERED)
    for row in rows:
        spec = row.spec
        wait_s = "-1" if row.wait_s == NOT_KNOWN else plain(round(row.wait_s))
        limit_s = "-1" if spec.limit_s is None else plain(round(spec.limit_s))
        yield (
            f"{ids[row.job_id]} {round(row.submit_s)} {wait_s} {round(row.stated)} {spec.gpus} -1 -1 {spec.gpus}"
            f" {limit_s} -1 {NUMBERS.get(row.status.lower(), -1)} {users[spec.user]} -1 {names[spec.name]}"
            f" {queues[spec.queue]} {partitions[spec.partition]} -1 -1\n"
        )


def _numbers(parts: Sequence[str]) -> dict[str, int]:
    """Each word's number: its own if all are numbers, else counted from 1 in order of appearance."""
    known = dict.fromkeys(parts)
    known.pop("", None)
    if all(token.isascii() and token.isdigit() and str(int(token[:18])) == token for token in known):
        numbers = {token: int(token) for token in known}
    else:
        numbers = {token: number for number, token in enumerate(known, 1)}
    return {**numbers, "": -1}
