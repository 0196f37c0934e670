"""Futures of both sides, pair by pair: what changes, how surely, and for which jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import mean
from typing import Final

from dally.live.forecast.future import quantile
from dally.live.forecast.whatif.future_side import FutureSide
from dally.metrics.before_after import is_worse
from dally.sweep.whatif.change import SECONDS, Figure, JobChange, WhatIfAnswer

SURE: Final = 10  # futures from which on the outermost tenth of them is left out
TOP: Final = 8  # winners and losers that are named


@dataclass(frozen=True)
class PresentJob:
    """A job that waits or runs now."""

    number: int
    job_id: str
    name: str
    user: str
    gpus: int
    waits: bool  # now
    age_s: float  # since it was submitted


@dataclass(frozen=True)
class Pair:
    """One future on both sides."""

    before: FutureSide
    after: FutureSide


@dataclass
class FuturePairs:
    """All futures that were run, and what follows from them."""

    jobs: list[PresentJob]
    before: str
    after: str
    pairs: list[Pair] = field(default_factory=list)

    def answer(self, notes: Sequence[str] = ()) -> WhatIfAnswer:
        """What came of it."""
        changes = [self._change_of(job) for job in self.jobs]
        ages_s = [job.age_s for job in self.jobs]
        better = [
            one for one, s in zip(changes, ages_s, strict=True) if is_worse(one.after_s + s, one.before_s + s)
        ]
        worse = [one for one, s in zip(changes, ages_s, strict=True) if is_worse(one.before_s + s, one.after_s + s)]
        figures = self._figures()
        spread = spread_text(len(self.pairs))
        return WhatIfAnswer(
            headline(figures, self.before, self.after, spread),
            self.before,
            self.after,
            figures,
            sorted(better, key=lambda one: one.change_s)[:TOP],
            sorted(worse, key=lambda one: -one.change_s)[:TOP],
            len(self.jobs),
            len(better),
            len(worse),
            len(self.pairs),
            spread,
            [*notes, *self._not_seen()],
        )

    def _change_of(self, job: PresentJob) -> JobChange:
        ends = [
            mean(side.fates[job.number].end_s for side in sides)
            for sides in ([pair.before for pair in self.pairs], [pair.after for pair in self.pairs])
        ]
        state = "waiting" if job.waits else "running"
        return JobChange(job.job_id, job.name, job.user, job.gpus, state, *ends)

    def _figures(self) -> list[Figure]:
        waiting = [job.number for job in self.jobs if job.waits]
        ages_s = [job.age_s for job in self.jobs]
        result: list[Figure] = []
        if waiting:
            result += [
                self._figure("wait_mean_s", "waiting, mean", lambda side: mean(_waits(side, waiting)),
                             "of jobs that wait now, until they are done; preemptions included"),
                self._figure("wait_p90_s", "waiting, 90 %",
                             lambda side: quantile(sorted(_waits(side, waiting)), 0.9),
                             "nine of ten of the jobs that wait now wait at most this long"),
                self._figure("first_start_s", "first start after, mean", lambda side: mean(_starts(side, waiting)),
                             "of jobs that wait now"),
                self._figure("served_s", "all of them started after", lambda side: max(_starts(side, waiting))),
            ]  # fmt: skip
        result.append(self._figure("empty_s", "queue empty after", lambda side: side.empty_s, "newcomers included"))
        if self.jobs:
            everyone = [job.number for job in self.jobs]
            result += [
                self._figure("waiting_s", "waiting, mean of all", lambda side: mean(_waits(side, everyone)),
                             "of all jobs that wait or run now, until they are done"),
                self._figure("jct_mean_s", "mean JCT",
                             lambda side: mean(_ends(side)) + mean(ages_s), "of all jobs that wait or run now"),
            ]  # fmt: skip
        if all(pair.before.coming_jct_s for pair in self.pairs):
            result.append(
                self._figure("coming_jct_s", "mean JCT of newcomers", lambda side: mean(side.coming_jct_s))
            )
        return [*result, *self._use()]

    def _use(self) -> list[Figure]:
        return [
            self._figure("gpus_used", "GPUs used, mean", lambda side: side.used_gpu_s / side.reached_s,
                         unit="GPUs"),
            self._figure("gpus_useful", "GPUs useful, mean", lambda side: side.useful_gpu_s / side.reached_s,
                         "used, over the slowdown, without restarts", "GPUs"),
            self._figure("preemptions", "preemptions", lambda side: float(side.preemptions), unit="preemptions"),
        ]  # fmt: skip

    def _figure(
        self, name: str, label: str, of: Callable[[FutureSide], float], about: str = "", unit: str = SECONDS
    ) -> Figure:
        before = [of(pair.before) for pair in self.pairs]
        after = [of(pair.after) for pair in self.pairs]
        changes = sorted(later - earlier for earlier, later in zip(before, after, strict=True))
        low, high = spread_of(changes)
        return Figure(name, label, unit, mean(before), mean(after), mean(changes), low, high, about)

    def _not_seen(self) -> list[str]:
        """What is counted only as far as was looked."""
        result = []
        for what in ("started", "ended"):
            open_ones = [
                sum(not getattr(fate, what) for fate in side.fates.values())
                for pair in self.pairs
                for side in (pair.before, pair.after)
            ]
            if any(open_ones):
                result.append(
                    f"Jobs that had not {what} where the futures stop are counted up to there: "
                    f"{mean(open_ones):,.1f} of {len(self.jobs):,} in the mean."
                )
        return result


def spread_of(changes: list[float]) -> tuple[float, float]:
    """How far they go, in order: nine of ten of them where there are enough."""
    if len(changes) < SURE:
        return changes[0], changes[-1]
    return quantile(changes, 0.05), quantile(changes, 0.95)


def spread_text(futures: int) -> str:
    """What that spread is."""
    if futures >= SURE:
        return "in 9 of 10 futures"
    return f"in {futures} futures" if futures > 1 else "in one future"


def headline(figures: Sequence[Figure], before: str, after: str, spread: str) -> str:
    """The answer in a sentence: how long those wait who wait now, how long jobs take, and those who come."""
    by_name = {figure.name: figure for figure in figures}
    instead = f"{after} instead of {before}" if after != before else f"{after}, as it is"
    if "jct_mean_s" not in by_name:
        return f"{instead}: there are no jobs to compare."
    jct = by_name["jct_mean_s"]
    if "wait_mean_s" in by_name:
        result = f"jobs that wait now wait {_by(by_name['wait_mean_s'])} on average{_surely(figures[0], spread)}"
        result += f"; the mean job takes {_by(jct)}"
    else:
        result = f"no job waits now; the mean job takes {_by(jct)}{_surely(jct, spread)}"
    if "coming_jct_s" in by_name:
        result += f", newcomers take {_by(by_name['coming_jct_s'])}"
    return f"{instead}: {result}."


def _by(figure: Figure) -> str:
    """By how much it changes."""
    text = figure.shown(abs(figure.change))
    return "as long" if text == "0 s" else f"{text} {'less' if figure.change < 0.0 else 'longer'}"


def _surely(figure: Figure, spread: str) -> str:
    """How far the change goes, in brackets; nothing where there is none."""
    low, high = figure.shown(figure.low, True), figure.shown(figure.high, True)
    if low == high:
        return "" if low == "0 s" else f" ({spread.replace('9 of 10', 'all')})"
    if not figure.low < 0.0 < figure.high:
        low, high = (figure.shown(value) for value in sorted((abs(figure.low), abs(figure.high))))
    return f" ({low} to {high} {spread})"


def _starts(side: FutureSide, numbers: Sequence[int]) -> list[float]:
    return [side.fates[number].start_s for number in numbers]


def _waits(side: FutureSide, numbers: Sequence[int]) -> list[float]:
    return [side.fates[number].waits_s for number in numbers]


def _ends(side: FutureSide) -> list[float]:
    return [fate.end_s for fate in side.fates.values()]
