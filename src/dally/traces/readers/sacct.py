"""Slurm's accounting: `sacct --parsable2`, a header and fields between bars; without one (-n), in our own order.

Job steps are left aside. A job that was requeued has several rows under one id (with `--duplicates`);
its running times are added up, so that its GPU-hours are those it really took.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from dally.errors import InputError, at
from dally.job_spec import JobSpec
from dally.traces.rows import NO_GPUS, NOT_KNOWN, REPEATED, Ran, Reading, TraceRow
from dally.traces.table import LONGEST_LINE, lines_of
from dally.traces.times import written

NEEDED: Final = ("JobID", "Submit", "Start", "End")
TIMES: Final = ("Submit", "Start", "End")
WRITTEN: Final = (
    "JobID", "User", "JobName", "Submit", "Start", "End", "State", "AllocTRES", "NNodes", "NodeList", "Elapsed",
)  # fmt: skip
FACTS: Final = {"Account": "account", "Partition": "partition", "QOS": "qos"}  # written where any job has them
FREE: Final = ("JobName", "Comment", "SubmitLine", "WorkDir")  # texts of users' own, in which bars may stand
JOB: Final = re.compile(r"\d+([_+.].*)?", re.ASCII)
WHEN: Final = re.compile(r"\d{4}-\d\d-\d\dT\S+|\d+|Unknown|None|", re.ASCII)
STEP: Final = re.compile(r"\.")  # 12.batch, 12.extern, 12_3.0
GPU: Final = re.compile(r"gres/gpu(?::([^=,]+))?=([^,]*)")
ELAPSED: Final = re.compile(r"(?:(\d{1,6})-)?(?:(\d{1,6}):)?(\d{1,6}):(\d{1,6})(?:\.\d+)?", re.ASCII)
UNLIMITED: Final = ("UNLIMITED", "Partition_Limit", "INVALID")
NOWHERE: Final = ("", "None assigned")
PENDING: Final = "PENDING"
RUNNING: Final = "RUNNING"
TYPE: Final = re.compile(r"[\w.+-]+")
REQUEUED: Final = "were requeued: their running times are added up"


def looks_like(lines: Sequence[str]) -> bool:
    """Whether the first line is a header of sacct, or a job of a file without one."""
    fields = lines[0].split("|") if lines else []
    return {"JobID", "Submit"} <= {name.strip() for name in fields} or _headless(fields)


def rows(reading: Reading) -> Iterator[TraceRow]:
    """The jobs of the file; each element of an array is one."""
    result: dict[str, list[TraceRow]] = {}
    for row in _records(reading):
        result.setdefault(row.job_id, []).append(row)
    for runs in result.values():
        yield runs[0] if len(runs) == 1 else _joined(reading, runs)


def _joined(reading: Reading, runs: list[TraceRow]) -> TraceRow:
    """One job out of its runs: submitted and started with the first, ended with the last."""
    by_start = {row.submit_s + row.wait_s: row for row in runs}
    if len(by_start) < len(runs):
        reading.note(REPEATED)
    ordered = [by_start[start] for start in sorted(by_start)]
    if len(ordered) > 1:
        reading.note(REQUEUED)
    first, last = ordered[0], ordered[-1]
    return last._replace(
        line=first.line,
        submit_s=first.submit_s,
        wait_s=first.wait_s,
        stated=sum(row.stated for row in ordered),
        runs=len(ordered),
    )


def _records(reading: Reading) -> Iterator[TraceRow]:
    """A row for every run of every job."""
    column: dict[str, int] = {}
    columns = 0
    for line, text in enumerate(lines_of(reading.path, LONGEST_LINE), 1):
        fields = text.rstrip("\r\n").split("|")
        if fields == [""]:
            continue
        if not column and _headless(fields):
            column, columns = _places(WRITTEN), len(WRITTEN)
        elif not column:
            column, columns = _header(reading, line, fields), len(fields)
            continue
        if len(fields) > columns:
            fields = _rejoined(fields, column, len(fields) - columns)
        if len(fields) != columns:
            raise at(reading.path, line, None, f"{len(fields)} fields where the header has {columns}")
        row = _record(reading, line, {name: fields[place].strip() for name, place in column.items()})
        if row is not None:
            yield row
    if not column:
        raise InputError(f"{reading.path}: is empty; expected the output of sacct --parsable2 with a header")


def _header(reading: Reading, line: int, fields: list[str]) -> dict[str, int]:
    """Where each column stands."""
    if JOB.fullmatch(fields[0].strip()):
        hint = f"sacct without -n prints it, or give the columns --format {','.join(WRITTEN)}"
        raise at(reading.path, line, "JobID", f"the file has no header; {hint}")
    column = reading.header(fields, NEEDED)
    if not column.keys() & {"AllocTRES", "ReqTRES"}:
        raise at(reading.path, line, "AllocTRES", "no such column: it says how many GPUs a job has")
    return column


def _places(names: Sequence[str]) -> dict[str, int]:
    return {name: place for place, name in enumerate(names)}


def _headless(fields: list[str]) -> bool:
    """Whether these are the fields of a job, in the order of WRITTEN."""
    if len(fields) < len(WRITTEN) or not JOB.fullmatch(fields[0].strip()):
        return False
    column = _places(WRITTEN)
    return _dated(_rejoined(fields, column, len(fields) - len(WRITTEN)), column)


def _rejoined(fields: list[str], column: dict[str, int], more: int) -> list[str]:
    """The fields with a bar inside a free text put back into it: where times are times then."""
    for name in FREE:
        if name in column:
            place = column[name]
            whole = [*fields[:place], "|".join(fields[place : place + more + 1]), *fields[place + more + 1 :]]
            if _dated(whole, column):
                return whole
    return fields


def _dated(fields: list[str], column: dict[str, int]) -> bool:
    return all(WHEN.fullmatch(fields[column[name]].strip()) for name in TIMES)


def _record(reading: Reading, line: int, field: dict[str, str]) -> TraceRow | None:
    """The row of one line; None for a step, and for what cannot be used, which is counted."""
    job_id = field["JobID"]
    if not job_id:
        raise at(reading.path, line, "JobID", "empty: every job needs one")
    if STEP.search(job_id):
        return None
    gpus, gpu_type = _gpus(reading, line, field)
    if not gpus:
        reading.skip(line, "AllocTRES", field.get("AllocTRES", ""), NO_GPUS)
        return None
    state = field.get("State", "").partition(" ")[0]  # CANCELLED by 1000
    elapsed_s = _elapsed(reading, line, field.get("Elapsed", ""))
    ran = reading.ran(line, TIMES, (field["Submit"], field["Start"], field["End"]))
    unended = _so_far(reading, line, state, field, elapsed_s or 0.0) if ran is None else None
    ran = ran or unended
    if ran is None:
        return None
    row = TraceRow(
        line,
        job_id,
        ran.submit_s,
        JobSpec(
            gpus,
            gpu_type,
            user=field.get("User", ""),
            name=field.get("JobName", ""),
            limit_s=_limit(reading, line, field.get("Timelimit", "")),
            account=field.get("Account", ""),
            partition=field.get("Partition", ""),
            qos=field.get("QOS", ""),
        ),
        ran.duration_s if elapsed_s is None else elapsed_s,
        status=state,
        wait_s=ran.wait_s,
        machines=reading.count(line, "NNodes", field.get("NNodes", "")),
        nodes="" if field.get("NodeList", "") in NOWHERE else field["NodeList"],
    )
    if unended is not None:
        reading.unended.append(row)
        return None
    return row


def _so_far(reading: Reading, line: int, state: str, field: dict[str, str], elapsed_s: float) -> Ran | None:
    """When a job was submitted that waits or runs as the file is written, and how long it has run."""
    submit_s = reading.date(line, "Submit", field["Submit"])
    if submit_s is None or state not in (PENDING, RUNNING):
        return None
    start_s = reading.date(line, "Start", field["Start"]) if state == RUNNING else None
    return Ran(submit_s, NOT_KNOWN if start_s is None else max(0.0, start_s - submit_s), elapsed_s)


def _gpus(reading: Reading, line: int, field: dict[str, str]) -> tuple[int, str]:
    """(GPUs, type) allocated, or requested if nothing was; the untyped count is the total where it stands."""
    for name in ("AllocTRES", "ReqTRES"):
        counts = {kind: reading.gpus(line, name, count) for kind, count in GPU.findall(field.get(name, ""))}
        types = [kind for kind in counts if kind]
        total = counts.get("", 0) or sum(counts[kind] for kind in types)
        if total:
            return total, "+".join(types)
    return 0, ""


def _limit(reading: Reading, line: int, text: str) -> float | None:
    """The time limit in seconds; not known where there is none, or only the partition's."""
    return None if text in UNLIMITED else _elapsed(reading, line, text, "Timelimit")


def _elapsed(reading: Reading, line: int, text: str, name: str = "Elapsed") -> float | None:
    """Seconds of [days-]hours:minutes:seconds; Slurm takes time in suspension off."""
    if not text:
        return None
    result = ELAPSED.fullmatch(text)
    if result is None:
        raise at(reading.path, line, name, f"{text!r}: must be [days-]hours:minutes:seconds")
    days, hours, minutes, seconds = (float(part or 0) for part in result.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def pieces(rows: Sequence[TraceRow], epoch_s: float) -> Iterator[str]:
    """The text of the file, dates in UTC; a wait that is not known is written as none."""
    more = {name: field for name, field in FACTS.items() if any(getattr(row.spec, field) for row in rows)}
    limited = any(row.spec.limit_s is not None for row in rows)
    yield "|".join((*WRITTEN, *more, *(["Timelimit"] if limited else []))) + "\n"
    for row in rows:
        start_s = round(epoch_s + row.submit_s) + round(max(row.wait_s, 0.0))
        duration_s = round(row.stated)
        _check(row)
        spec = row.spec
        typed = f",gres/gpu:{spec.gpu_type}={spec.gpus}" if TYPE.fullmatch(spec.gpu_type) else ""
        fields = (
            row.job_id, spec.user, spec.name, written(epoch_s + row.submit_s, "T"), written(start_s, "T"),
            written(start_s + duration_s, "T"), row.status, f"gres/gpu={spec.gpus}{typed}", str(row.machines or ""),
            row.nodes, _clock(duration_s), *(getattr(spec, field) for field in more.values()),
            *(["UNLIMITED" if spec.limit_s is None else _clock(round(spec.limit_s))] if limited else []),
        )  # fmt: skip
        yield "|".join(fields) + "\n"


def _clock(seconds: int) -> str:
    """[days-]hours:minutes:seconds."""
    days, rest = divmod(seconds, 86400)
    return f"{f'{days}-' if days else ''}{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"


def _check(row: TraceRow) -> None:
    """Refuse what would be read back as something else."""
    facts = [getattr(row.spec, field) for field in FACTS.values()]
    for field in (row.job_id, row.spec.user, row.status, row.nodes, *facts):
        if "|" in field:
            raise InputError(f"job {row.job_id!r}: {field!r}: only a name can hold | in sacct's files")
    for field in (row.job_id, row.spec.user, row.spec.name, row.status, row.nodes, *facts):
        if re.search(r"[\r\n]", field):
            raise InputError(f"job {row.job_id!r}: {field!r}: sacct's fields cannot hold line ends")
    if STEP.search(row.job_id):
        raise InputError(f"job {row.job_id!r}: sacct takes an id with a dot for a job's step")
