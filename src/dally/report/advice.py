"""What earlier jobs say of one that is about to be submitted: how long it will run, and how its limit fits."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from dally.errors import InputError
from dally.progress.expected_duration import QUANTILES, ExpectedDuration
from dally.report.time_text import span
from dally.traces.rows import TraceRow

LATEST: Final = 12  # runs that the advice is about
FEWEST: Final = 3
MOST_KINDS: Final = 20_000  # of jobs (user, name, size) that are remembered, those that ended last
WELL: Final = frozenset(("", "pass", "completed", "finished", "succeeded"))  # states of jobs that did not fail
LEAST_SPREAD: Final = 1.05  # slowest place ÷ fastest
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
    model: str = ""


class PastRun(NamedTuple):
    """A job that has ended."""

    job_id: str
    duration_s: float
    limit_s: float | None
    status: str  # in the words of its trace or backend
    model: str = ""
    why: str = ""  # it ended so, as far as is known

    @property
    def ended_well(self) -> bool:
        """Whether nothing is known to have gone wrong."""
        return self.status.lower() in WELL


class Advice(NamedTuple):
    """Jobs like it, quantiles of its duration in seconds, and what became of its latest like."""

    alike: int
    expected_s: list[float]  # at QUANTILES; empty: nothing is known
    latest: list[PastRun]

    def lines(self, request: ScriptRequest) -> list[str]:
        """As sentences."""
        if not self.expected_s:
            return ["No earlier job of this user or size has ended: there is nothing to go by."]
        low_s, middle_s, high_s = self.expected_s[0], self.expected_s[len(QUANTILES) // 2], self.expected_s[-1]
        expected = (
            f"It is expected to run {span(middle_s)}; eight of ten such jobs run between {span(low_s)} and "
            f"{span(high_s)} ({self.alike} earlier jobs of this user, name and size)."
        )
        return [expected, *self._limit_lines(request), *self._model_lines(request), *self._failure_lines()]

    def _limit_lines(self, request: ScriptRequest) -> Iterator[str]:
        used = [run.duration_s / run.limit_s for run in self.latest if run.limit_s]
        if len(used) >= FEWEST:
            share = 100.0 * sum(used) / len(used)
            yield f"Your latest {len(used)} runs like this used {share:.0f} % of their time limit."
        if len(self.latest) >= FEWEST and request.limit_s:
            longest_s = max(run.duration_s for run in self.latest)
            if ROOM * longest_s < 0.5 * request.limit_s:
                yield f"A limit of {span(ROOM * longest_s)} would do; a shorter one lets it start in more gaps."
            elif longest_s > 0.95 * request.limit_s:
                yield "Runs like this have come to the end of such a limit."

    def _model_lines(self, request: ScriptRequest) -> Iterator[str]:
        models = {run.model for run in self.latest}
        if not request.model and len(models) == 1 and models != {""}:
            yield f"Your latest runs like this named the model {models.pop()}, and this one names none."

    def _failure_lines(self) -> Iterator[str]:
        failed = [run for run in self.latest if not run.ended_well]
        if failed:
            last = failed[-1]
            why = f": {last.why}" if last.why else ""
            yield (
                f"{len(failed)} of your latest {len(self.latest)} runs like this did not end well; the last "
                f"({last.job_id}, {last.status.lower()}{why}) ran {span(last.duration_s)}."
            )

    def plain(self) -> dict[str, Any]:
        """The same as values."""
        limits = [run.duration_s / run.limit_s for run in self.latest if run.limit_s]
        return {
            "alike": self.alike,
            "expected_s": dict(zip(map(str, QUANTILES), self.expected_s, strict=False)),
            "limit_used": sum(limits) / len(limits) if limits else None,
            "failed": [run.job_id for run in self.latest if not run.ended_well],
        }


class Adviser:
    """Learns from jobs as they end."""

    def __init__(self) -> None:
        self._expected = ExpectedDuration()
        self._alike: dict[tuple[str, str, int], tuple[int, list[PastRun]]] = {}  # how many ever, and the latest

    def learn(self, user: str, name: str, gpus: int, run: PastRun) -> None:
        """A job of that user, name and size ended."""
        forecast = self._expected.forecast(user, name, gpus)
        self._expected.learn(user, name, gpus, run.duration_s, forecast)
        count, latest = self._alike.pop((user, name, gpus), (0, []))
        self._alike[user, name, gpus] = count + 1, [*latest, run][-LATEST:]  # the latest is last
        if len(self._alike) > MOST_KINDS:
            del self._alike[next(iter(self._alike))]

    def advise(self, request: ScriptRequest) -> Advice:
        """What they say of one that is about to be submitted."""
        count, latest = self._alike.get((request.user, request.name, request.gpus), (0, []))
        forecast = self._expected.forecast(request.user, request.name, request.gpus)
        return Advice(count, [] if forecast is None else forecast.seconds(), latest)


def shape_line(request: ScriptRequest, slowdowns: Mapping[str, float]) -> str:
    """What farther places cost such a job; empty: next to nothing. `slowdowns`: by tier, the closest first."""
    tiers = [f"{value:.2f} in one {tier}" for tier, value in list(slowdowns.items())[:-1]]
    tiers += [f"{value:.2f} across the {tier}" for tier, value in list(slowdowns.items())[-1:]]
    if len(tiers) < 2 or max(slowdowns.values()) < min(slowdowns.values()) * LEAST_SPREAD:
        return ""
    what = request.model or "a job that names no model"
    return f"Slowdown of {what} on {request.gpus} GPUs: {', '.join(tiers)}."


def advise_on(request: ScriptRequest, rows: Sequence[TraceRow]) -> Advice:
    """From jobs of a trace, in order of their ends."""
    adviser = Adviser()
    for row in sorted(rows, key=lambda row: row.submit_s + max(0.0, row.wait_s) + row.stated):
        spec = row.spec
        run = PastRun(row.job_id, row.stated, spec.limit_s, row.status, spec.model)
        adviser.learn(spec.user, spec.name, spec.gpus, run)
    return adviser.advise(request)


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
