"""Philly (Microsoft, 2017): cluster_job_log, a JSON list of jobs with their attempts.

Source: msr-fiddle/philly-traces on GitHub. The file is large, so it is read job by job.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final

from dally.errors import at
from dally.traces.rows import BACKWARDS, MOST_GPUS, NO_END, NO_GPUS, NO_START, NO_SUBMIT, Reading, TraceRow
from dally.traces.table import LONGEST_LINE, lines_of
from dally.traces.times import written

CHUNK: Final = 1 << 18  # characters
SPACE: Final = " \t\r\n"
CUT_OFF: Final = "the JSON ends in the middle: is the file cut off?"
SEVERAL: Final = "had several attempts: their running times are added up"
GPUS_PER_MACHINE: Final = 8  # where a trace to be written does not say how gangs were placed


def looks_like(lines: Sequence[str]) -> bool:
    """Whether it begins as a JSON list does."""
    return next((line.lstrip() for line in lines if line.strip()), "").startswith("[")


def rows(reading: Reading) -> Iterator[TraceRow]:
    """The jobs of the list. A job's GPUs are those of its largest attempt."""
    for line, job in objects_of(reading.path):
        row = _row(reading, line, job)
        if row is not None:
            yield row


def objects_of(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """(line, object) of every entry of a JSON list of objects, holding only a piece of the file at a time."""
    text = _Buffer(path)
    if text.next_char() != "[":
        raise at(path, text.line, None, "must begin with [: a JSON list of jobs")
    text.skip(1)
    if text.next_char() == "]":
        text.skip(1)
    else:
        while True:
            text.next_char()
            line = text.line
            entry = text.take_value()
            if not isinstance(entry, dict):
                raise at(path, line, None, f"{entry!r}: must be an object with jobid, submitted_time, attempts")
            yield line, entry
            mark = text.next_char()
            if mark not in (",", "]"):
                raise at(path, text.line, None, f"{mark!r}: expected a comma or ]" if mark else CUT_OFF)
            text.skip(1)
            if mark == "]":
                break
    rest = text.next_char()
    if rest:
        raise at(path, text.line, None, f"{rest!r}: nothing may follow the list")


class _Buffer:
    """The part of a file that is being parsed; grows until it holds a whole value."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._pieces = _chunks(path)
        self._text = ""
        self._at = 0
        self._decode = json.JSONDecoder().raw_decode
        self.line = 1

    def next_char(self) -> str:
        """The next character that is not space, or "" at the end."""
        while True:
            begin = self._at
            while self._at < len(self._text) and self._text[self._at] in SPACE:
                self._at += 1
            self.line += self._text.count("\n", begin, self._at)
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._grow():
                return ""

    def skip(self, count: int) -> None:
        self._at += count

    def take_value(self) -> Any:
        """The value that begins here."""
        if not self.next_char():
            raise at(self._path, self.line, None, CUT_OFF)
        while True:
            try:
                value, end = self._decode(self._text, self._at)
            except json.JSONDecodeError as error:
                # The value may go on in the next piece; read ever more, so that a huge one is parsed
                # a few times only.
                if self._grow(len(self._text)):
                    continue
                line = self.line + self._text.count("\n", self._at, error.pos)
                raise at(self._path, line, None, f"broken JSON: {error.msg[:1].lower()}{error.msg[1:]}") from None
            except (ValueError, RecursionError) as error:
                raise at(self._path, self.line, None, f"broken JSON: {error}") from None
            if end == len(self._text) and self._grow(CHUNK):
                continue  # a number may go on
            self.line += self._text.count("\n", self._at, end)
            self._at = end
            return value

    def _grow(self, most: int = CHUNK) -> bool:
        """Drop what is parsed and read at least `most` more characters; False at the end of the file."""
        more: list[str] = []
        size = 0
        while size < max(most, CHUNK) and (piece := next(self._pieces, "")):
            more.append(piece)
            size += len(piece)
        self._text = "".join(chain((self._text[self._at :],), more))
        self._at = 0
        return size > 0


def _chunks(path: Path) -> Iterator[str]:
    """The text in pieces of some size: lines may be short or the whole file."""
    held: list[str] = []
    size = 0
    for line in lines_of(path):
        held.append(line)
        size += len(line)
        if size >= CHUNK:
            yield "".join(held)
            held, size = [], 0
    yield "".join(held)


def _row(reading: Reading, line: int, job: dict[str, Any]) -> TraceRow | None:
    """The job as a row; None if it cannot be used, which is counted."""
    job_id = _text(reading, line, job, "jobid")
    if not job_id:
        raise at(reading.path, line, "jobid", "empty: every job needs a name")
    submit_s = _date(reading, line, job, "submitted_time")
    runs, gpus = _attempts(reading, line, job)
    if submit_s is None:
        reading.skip(line, "submitted_time", job.get("submitted_time"), NO_SUBMIT)
    elif not runs:
        reading.skip(line, "attempts", job_id, NO_START)
    elif not gpus:
        reading.skip(line, "attempts", job_id, NO_GPUS)
    elif any(end is not None and end < start for start, end in runs):
        reading.skip(line, "end_time", job_id, BACKWARDS)
    elif all(end is None for _, end in runs):
        reading.skip(line, "end_time", job_id, NO_END)
    else:
        if len(runs) > 1:
            reading.note(SEVERAL)
        return TraceRow(
            line,
            job_id,
            submit_s,
            sum(gpus),
            sum(end - start for start, end in runs if end is not None),
            user=_text(reading, line, job, "user") or _text(reading, line, job, "vc"),
            status=_text(reading, line, job, "status"),
            wait_s=reading.wait(submit_s, min(start for start, _ in runs)),
            machines=len(gpus),
            placement="+".join(map(str, gpus)) if len(gpus) > 1 else "",
        )
    return None


def _attempts(
    reading: Reading, line: int, job: dict[str, Any]
) -> tuple[list[tuple[float, float | None]], list[int]]:
    """(start, end) of every attempt that started, and the GPUs per machine of the largest."""
    runs: list[tuple[float, float | None]] = []
    largest: list[int] = []
    for attempt in _list(reading, line, job, "attempts"):
        start_s = _date(reading, line, attempt, "start_time")
        if start_s is not None:
            runs.append((start_s, _date(reading, line, attempt, "end_time")))
        gpus = [
            len(_list(reading, line, machine, "gpus", str)) for machine in _list(reading, line, attempt, "detail")
        ]
        gpus = [count for count in gpus if count]
        if sum(gpus) > sum(largest):
            largest = gpus
    if sum(largest) > MOST_GPUS:
        raise at(reading.path, line, "gpus", f"{sum(largest)} GPUs: too many to be true")
    return runs, largest


def _list(reading: Reading, line: int, entry: dict[str, Any], field: str, of: type = dict) -> list[Any]:
    """The list in a field; null and missing are an empty one."""
    value = entry.get(field)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, of) for item in value):
        kind = "objects" if of is dict else "names"
        raise at(reading.path, line, field, f"{value!r}: must be a list of {kind}")
    return value


def _text(reading: Reading, line: int, entry: dict[str, Any], field: str) -> str:
    value = entry.get(field)
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > LONGEST_LINE or not _is_unicode(value):
        raise at(reading.path, line, field, f"{value!r}: must be text of at most {LONGEST_LINE:,} characters")
    return value.strip()


def _is_unicode(text: str) -> bool:
    """Whether it could be written: JSON can spell half a character, and NUL."""
    return "\0" not in text and (text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text))


def _date(reading: Reading, line: int, entry: dict[str, Any], field: str) -> float | None:
    text = _text(reading, line, entry, field)
    return reading.date(line, field, text) if text else None


def pieces(rows: Sequence[TraceRow], epoch_s: float) -> Iterator[str]:
    """The text of the list, one job a line, dates in UTC; a wait that is not known is written as none."""
    for place, row in enumerate(rows):
        start_s = round(epoch_s + row.submit_s) + round(max(row.wait_s, 0.0))
        attempt = {
            "start_time": written(start_s),
            "end_time": written(start_s + round(row.stated)),
            "detail": [
                {"ip": f"m{machine}", "gpus": [f"gpu{gpu}" for gpu in range(count)]}
                for machine, count in enumerate(_spread(row))
            ],
        }
        entry = {
            "status": row.status, "vc": "", "jobid": row.job_id, "attempts": [attempt],
            "submitted_time": written(epoch_s + row.submit_s), "user": row.user,
        }  # fmt: skip
        yield f"{',' if place else '['}\n{json.dumps(entry, ensure_ascii=False)}"
    yield "\n]\n" if rows else "[]\n"


def _spread(row: TraceRow) -> list[int]:
    """GPUs per machine: as placed, or evenly over the machines known, or eight to a machine."""
    if row.placement:
        try:
            placed = [int(count) for count in row.placement.split("+")]
        except ValueError:
            placed = []
        if sum(placed) == row.gpus and min(placed) > 0:
            return placed
    machines = min(row.machines, row.gpus) or -(-row.gpus // GPUS_PER_MACHINE)
    each, rest = divmod(row.gpus, machines)
    return [each + (machine < rest) for machine in range(machines)]
