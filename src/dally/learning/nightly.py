"""The nightly trial: candidates against the policy in use, on the last days' own jobs."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple

from dally.errors import InputError
from dally.learning.drift import differs, ended
from dally.model import Job
from dally.sweep.policy_list import Chosen

DAY_S: Final = 86400.0
RESAMPLES: Final = 400
CERTAIN: Final = 0.95  # share of the resamples in which a challenger must win

LEAST_S: Final = 60.0  # what a job without any record is taken to last
LEAST_LENGTHS: Final = 30  # ended jobs of the days; with fewer, all that ended say how long jobs last


class ReplayedJob(NamedTuple):
    """A job as a replay has it: when it comes, and how long it lasts as far as is known."""

    job: Job
    submit_s: float
    duration_s: float
    judged: bool  # it came within the days; else it is there because it was not done when they began


class Streak(NamedTuple):
    """Nights in a row that a challenger has won."""

    challenger: str = ""
    nights: int = 0


NO_STREAK: Final = Streak()
Replay = Callable[[Chosen, Sequence[ReplayedJob]], list[float]]  # completion times of the jobs under a policy


@dataclass(frozen=True)
class TrialRules:
    """When a challenger takes the place of the policy in use."""

    days: int = 4  # that are replayed
    held_out: int = 2  # the latest of them, which judge the one that the others chose
    least_gain: float = 0.02  # of mean JCT, on both parts
    most_loss: float = 0.01  # on any held-out day
    least_jobs: int = 30  # on each part
    nights: int = 2  # in a row that a challenger must win before it is promoted

    def check(self) -> None:
        """InputError for numbers that make no sense."""
        if not 1 <= self.held_out < self.days:
            raise InputError(f"--held-out {self.held_out}: must be from 1 to below --days {self.days}")
        if self.nights < 1:
            raise InputError(f"--nights {self.nights}: must be 1 or more")
        for name in ("least_gain", "most_loss"):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise InputError(f"--{name.replace('_', '-')} {getattr(self, name):g}: must be a share from 0 to 1")


@dataclass(frozen=True)
class NightVerdict:
    """What a night came to: who was tried, who won, and why."""

    champion: str
    challenger: str  # the candidate that did best on the earlier days; empty: there were too few jobs
    promoted: bool
    why: str
    earlier: dict[str, float]  # mean JCT ÷ the champion's on the earlier days, by candidate
    held_out: float = 1.0  # the challenger's
    won: int = 0  # nights in a row that it has won, with this one
    against_first: float = 1.0  # mean JCT of the champion ÷ that of the policy before any trial, on all days
    upper: float = 1.0  # what it is below in 95 of 100 resamples of the jobs
    worst_day: float = 1.0
    jobs: int = 0

    def values(self) -> dict[str, Any]:
        """By name."""
        return asdict(self)


def judge_night(
    jobs: Iterable[Job],
    now_s: float,
    champion: Chosen,
    candidates: Sequence[Chosen],
    replay: Replay,
    rules: TrialRules,
    vetoed: Sequence[str] = (),
    home: str = "",
    before: Streak = NO_STREAK,
) -> NightVerdict:
    """Whether a candidate takes the champion's place. `jobs` are all that have come, as they are at `now_s`.

    `before` is who won the nights before this one. `home` is the policy in use before any trial. To go back
    to it takes less than to leave it: that it is better on the held-out days by more than the loss that is allowed,
    by chance or not.
    """
    rows = recorded(jobs, now_s - rules.days * DAY_S, now_s)
    recent = [row for row in rows if row.judged]
    day = [int((now_s - row.submit_s) / DAY_S) for row in recent]  # 0: the latest
    early = [place for place, ago in enumerate(day) if ago >= rules.held_out]
    late = [place for place, ago in enumerate(day) if ago < rules.held_out]
    if min(len(early), len(late)) < rules.least_jobs:
        why = f"{len(early)} and {len(late)} jobs in the two parts are fewer than {rules.least_jobs}"
        return NightVerdict(champion.label(), "", False, why, {}, jobs=len(recent))

    def judged(one: Chosen) -> list[float]:
        return [time_s for row, time_s in zip(rows, replay(one, rows), strict=True) if row.judged]

    usual = judged(champion)
    times = {
        one.label(): judged(one)
        for one in candidates
        if one.label() != champion.label() and one.label() not in vetoed
    }
    earlier = {label: _ratio(reached, usual, early) for label, reached in times.items()}
    if not earlier:
        return NightVerdict(champion.label(), "", False, "there is no other candidate", {}, jobs=len(recent))
    challenger = min(earlier, key=lambda label: (earlier[label], label))
    whole = range(len(recent))
    against_first = 1.0 / _ratio(times[home], usual, whole) if home in times else 1.0
    if home in times and _ratio(times[home], usual, late) < 1.0 - rules.most_loss:
        ratio = _ratio(times[home], usual, late)
        why = "the policy in use before any trial is better on the held-out days"
        return NightVerdict(
            champion.label(), home, True, why, earlier, ratio, against_first=against_first, jobs=len(recent)
        )
    reached = times[challenger]
    days = [[place for place in late if day[place] == ago] for ago in range(rules.held_out)]
    verdict = NightVerdict(
        champion.label(), challenger, False, "", earlier, _ratio(reached, usual, late),
        upper=_upper(reached, usual, late),
        worst_day=max(_ratio(reached, usual, places) for places in days if places),
        jobs=len(recent), against_first=against_first,
    )  # fmt: skip
    early_jobs, late_jobs = ([recent[place].job for place in places] for places in (early, late))
    why = _objection(verdict, rules) or _drift(early_jobs, late_jobs, now_s)
    return _counted(verdict, why, before, rules)


def _counted(verdict: NightVerdict, why: str, before: Streak, rules: TrialRules) -> NightVerdict:
    """The verdict, with what speaks against the challenger, or the nights that it has won in a row."""
    won = 0 if why else 1 + (before.nights if before.challenger == verdict.challenger else 0)
    if not why and won < rules.nights:
        why = f"{verdict.challenger} has won {won} of the {rules.nights} nights in a row that it takes"
    stated = {**verdict.values(), "won": won, "promoted": not why}
    return NightVerdict(**{**stated, "why": why or "it wins on the held-out days"})


def recorded(jobs: Iterable[Job], begin_s: float, now_s: float) -> list[ReplayedJob]:
    """The jobs of a time and those that it began with, as far as they are known at its end.

    A job that has not ended lasts as long as one that ended and outlasted it, drawn from those that came within the
    time, as lengths change with the work. To leave it out would make the load look lower than it is, and a policy
    better that lets jobs wait; a mean would hide that few jobs are long.
    """
    come = [job for job in jobs if job.submit_s < now_s]
    lengths = sorted(job.duration_s for job in come if ended(job, now_s) and job.submit_s >= begin_s)
    if len(lengths) < LEAST_LENGTHS:
        lengths = sorted(job.duration_s for job in come if ended(job, now_s))
    rows = []
    for job in come:
        if ended(job, now_s):
            duration_s = job.duration_s
            if job.finish_s <= begin_s:
                continue
        else:
            done_s = job.done_s(now_s)
            longer = bisect_right(lengths, done_s)
            count = len(lengths) - longer
            place = longer + random.Random(int(job.index)).randrange(count) if count else -1
            duration_s = lengths[place] if count else max(2.0 * done_s, LEAST_S)
        if job.submit_s >= begin_s:
            rows.append(ReplayedJob(job, job.submit_s, duration_s, True))
        else:
            ran_s = begin_s - job.start_s if 0.0 <= job.start_s < begin_s else 0.0
            rows.append(ReplayedJob(job, begin_s, max(duration_s - ran_s, 1.0), False))
    return sorted(rows, key=lambda row: row.submit_s)


def evidence_of(jobs: Iterable[Job], now_s: float, rules: TrialRules) -> list[float]:
    """How long jobs lasted that a verdict goes by: those that ended within its days."""
    begin_s = now_s - rules.days * DAY_S
    return [job.duration_s for job in jobs if ended(job, now_s) and job.finish_s > begin_s]


def _objection(verdict: NightVerdict, rules: TrialRules) -> str:
    """Why the challenger does not take the champion's place; empty: nothing speaks against it."""
    enough = 1.0 - rules.least_gain
    if verdict.earlier[verdict.challenger] > enough:
        return f"no candidate is {rules.least_gain:.0%} better on the earlier days"
    if verdict.held_out > enough:
        return f"{verdict.challenger} is not {rules.least_gain:.0%} better on the held-out days"
    if verdict.upper >= 1.0:
        return f"what {verdict.challenger} gains on the held-out days may be chance"
    if verdict.worst_day > 1.0 + rules.most_loss:
        return f"{verdict.challenger} is {verdict.worst_day - 1.0:.1%} worse on one of the held-out days"
    return ""


def _drift(early: Sequence[Job], late: Sequence[Job], now_s: float) -> str:
    """Why the earlier days say nothing of the held-out ones; empty: their jobs last about equally long."""
    lengths = [[job.duration_s for job in jobs if ended(job, now_s)] for jobs in (early, late)]
    return "jobs of the held-out days last otherwise than those before" if differs(lengths[0], lengths[1]) else ""


def _ratio(times: Sequence[float], usual: Sequence[float], places: Sequence[int]) -> float:
    return sum(times[place] for place in places) / sum(usual[place] for place in places)


def _upper(times: Sequence[float], usual: Sequence[float], places: Sequence[int]) -> float:
    """What the ratio stays below in most resamples of the jobs, each with both of its times."""
    drawn = random.Random(len(places))
    ratios = sorted(_ratio(times, usual, drawn.choices(places, k=len(places))) for _ in range(RESAMPLES))
    return ratios[int(CERTAIN * RESAMPLES)]
