"""What earlier jobs say of one that is about to be submitted: how long it will run, and how its limit fits."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from dally.errors import InputError
from dally.progress.expected_duration import QUANTILES, ExpectedDuration
from dally.report.time_text import span
from dally.traces.rows import TraceRow

LATEST: Final = 12  # runs that the advice is about
FEWEST: Final = 3
WELL: Final = frozenset(("", "pass", "completed", "finished", "succeeded"))  # states of jobs that did not fail
ROOM: Final = 1.5  # times the longest of the latest runs: a limit that most runs would keep
_DIRECTIVE: Final = re.compile(r"^#SBATCH[ \t]+(.*?)(?:[ \t]+#.*)?$", re.MULTILINE)
_OPTIONS: Final = {
    "J": "job-name", "G": "gpus", "N": "nodes", "t": "time", "n": "ntasks",
}  # fmt: skip


class ScriptRequest(NamedTuple):
    """What a script asks for, as far as advice goes by it."""

    user: str = ""
    name: str = ""
    gpus: int = 1
    limit_s: float | None = None


class Advice(NamedTuple):
    """Jobs like it, quantiles of its duration in seconds, and what became of its latest like."""

    alike: int
    expected_s: list[float]  # at QUANTILES; empty: nothing is known
    latest: list[TraceRow]

    def lines(self, request: ScriptRequest) -> list[str]:
        """As sentences."""
        if not self.expected_s:
            return ["No earlier job of this user or size has ended: there is nothing to go by."]
        low_s, middle_s, high_s = self.expected_s[0], self.expected_s[len(QUANTILES) // 2], self.expected_s[-1]
        result = [
            f"It is expected to run {span(middle_s)}; eight of ten such jobs run between {span(low_s)} and "
            f"{span(high_s)} ({self.alike} earlier jobs of this user, name and size)."
        ]
        used = [row.stated / row.spec.limit_s for row in self.latest if row.spec.limit_s]
        if len(used) >= FEWEST:
            share = 100.0 * sum(used) / len(used)
            result.append(f"Your latest {len(used)} runs like this used {share:.0f} % of their time limit.")
        if len(self.latest) >= FEWEST and request.limit_s:
            enough_s = ROOM * max(row.stated for row in self.latest)
            if enough_s < 0.5 * request.limit_s:
                result.append(f"A limit of {span(enough_s)} would do; a shorter one lets it start in more gaps.")
            elif max(row.stated for row in self.latest) > 0.95 * request.limit_s:
                result.append("Runs like this have come to the end of such a limit.")
        failed = [row for row in self.latest if row.status.lower() not in WELL]
        if failed:
            result.append(
                f"{len(failed)} of your latest {len(self.latest)} runs like this did not end well; the last "
                f"({failed[-1].job_id}, {failed[-1].status.lower()}) ran {span(failed[-1].stated)}."
            )
        return result

    def plain(self) -> dict[str, Any]:
        """The same as values."""
        limits = [row.stated / row.spec.limit_s for row in self.latest if row.spec.limit_s]
        return {
            "alike": self.alike,
            "expected_s": dict(zip(map(str, QUANTILES), self.expected_s, strict=False)),
            "limit_used": sum(limits) / len(limits) if limits else None,
            "failed": [row.job_id for row in self.latest if row.status.lower() not in WELL],
        }


def advise_on(request: ScriptRequest, rows: Sequence[TraceRow]) -> Advice:
    """From jobs that have ended, in order of their ends."""
    expected = ExpectedDuration()
    for row in sorted(rows, key=lambda row: row.submit_s + max(0.0, row.wait_s) + row.stated):
        spec = row.spec
        before = expected.forecast(spec.user, spec.name, spec.gpus)
        expected.learn(spec.user, spec.name, spec.gpus, row.stated, before)
    alike = [
        row for row in rows
        if (row.spec.user, row.spec.name, row.spec.gpus) == (request.user, request.name, request.gpus)
    ]  # fmt: skip
    forecast = expected.forecast(request.user, request.name, request.gpus)
    return Advice(len(alike), [] if forecast is None else forecast.seconds(), alike[-LATEST:])


def request_of(script: str, user: str) -> ScriptRequest:
    """What the #SBATCH lines of a script ask for; InputError for a value that makes no sense."""
    stated: dict[str, str] = {}
    for line in _DIRECTIVE.findall(script):
        for match in re.finditer(r"--([a-z-]+)(?:[= ]\s*)(\S+)|(?<!\S)-([A-Za-z])\s*(\S+)", line):
            name = match.group(1) or _OPTIONS.get(match.group(3) or "", "")
            stated[name] = match.group(2) or match.group(4)
    limit = stated.get("time")
    return ScriptRequest(
        user, stated.get("job-name", ""), _gpus(stated), None if limit is None else slurm_limit_s(limit)
    )


def _gpus(stated: dict[str, str]) -> int:
    nodes = _count("nodes", stated.get("nodes", "1").partition("-")[0])
    if "gpus" in stated:
        return _count("gpus", stated["gpus"].rpartition(":")[2])
    if "gpus-per-task" in stated:
        tasks = _count("ntasks", stated.get("ntasks", str(nodes)))
        return tasks * _count("gpus-per-task", stated["gpus-per-task"].rpartition(":")[2])
    per_node = stated.get("gpus-per-node")
    if per_node is None and stated.get("gres", "").startswith("gpu"):
        per_node = stated["gres"].partition(",")[0].rpartition(":")[2]
        per_node = "1" if per_node == "gpu" else per_node
    return nodes * _count("gpus-per-node", (per_node or "1").rpartition(":")[2])


def _count(name: str, text: str) -> int:
    if not re.fullmatch(r"[1-9]\d{0,6}", text):
        raise InputError(f"#SBATCH --{name}: {text!r}: must be a number, at least 1")
    return int(text)


def slurm_limit_s(text: str) -> float | None:
    """Seconds of a time limit as sbatch takes it: minutes, MM:SS, H:MM:SS, D-H, D-H:MM or D-H:MM:SS."""
    if text.lower() in ("0", "infinite", "unlimited"):
        return None
    match = re.fullmatch(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", text)
    if match is None:
        raise InputError(f"#SBATCH --time: {text!r}: must be minutes, H:MM:SS or D-HH:MM:SS")
    days, *parts = match.groups()
    numbers = [int(part) for part in parts if part is not None]
    if days is not None:  # hours first
        units = (3600.0, 60.0, 1.0)
    else:
        units = {1: (60.0,), 2: (60.0, 1.0), 3: (3600.0, 60.0, 1.0)}[len(numbers)]  # type: ignore[assignment]
    return 86400.0 * int(days or 0) + sum(number * unit for number, unit in zip(numbers, units, strict=False))
