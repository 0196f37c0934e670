"""The present simulated forward on two stages, with the same durations and the same newcomers on both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Final

from sqlalchemy import or_, select

from dally.errors import InputError
from dally.live.forecast.estimator import Estimator
from dally.live.forecast.forked import apart, cpu_s
from dally.live.forecast.outlook import READ_BACK_S, past_in_row
from dally.live.forecast.past_jobs import PastJob
from dally.live.forecast.present import Present, load_present
from dally.live.forecast.whatif.answer import WhatIfAnswer
from dally.live.forecast.whatif.change import Stage
from dally.live.forecast.whatif.comparison import Compared, Pair, Person
from dally.live.forecast.whatif.future_side import FutureSide, run_side
from dally.live.store import Store
from dally.live.store.schema import JOBS
from dally.model import HELD, WAITING, Job
from dally.policies.declaration import DURATIONS
from dally.policies.registry import find
from dally.report.time_text import brief

PILOT: Final = 12  # part of the time that the first look at a side may take: what is left is for several futures
ORACLE: Final = "oracle"  # the predictor that knows
SHORTEST_S: Final = 600.0  # a future that is worth telling of

Report = Callable[[int, int], None]  # done, of how many


@dataclass(frozen=True)
class Looking:
    """How many futures, how far ahead, for how many CPU seconds; without a limit every answer can be repeated."""

    futures: int = 20
    ahead_s: float = 3 * 86400.0
    cpu_s: float = 60.0
    seed: int = 1


@dataclass
class LookAhead:
    """The question: this present on these two stages."""

    content: bytes
    before: Stage
    after: Stage
    effort: Looking = field(default_factory=Looking)

    def answer(self, past: list[PastJob], report: Report, copies: bool) -> WhatIfAnswer:
        """What comes of it. `copies`: each side in a copy of this process, which must have one thread."""
        return _Futures(self, past, copies).compared(report)


def past_of_store(store: Store, now: float, usual_model: str) -> list[PastJob]:
    """Jobs of the last days: what they were like, and how long they took."""
    late = or_(JOBS.c.finish_s > now - READ_BACK_S, JOBS.c.finish_s.is_(None))
    return [past_in_row(row, usual_model) for row in store.rows(select(JOBS).where(late).order_by(JOBS.c.number))]


class _Futures:
    def __init__(self, asked: LookAhead, past: list[PastJob], copies: bool) -> None:
        self._asked = asked
        self._copies = copies
        self._began_s = cpu_s()
        self._present = load_present(asked.content)
        self._estimator = Estimator(copies)
        self._estimator.learn(past, self._present.now)
        self._until_s = self._present.now + asked.effort.ahead_s
        self._durations = self._estimator.durations(self._present, asked.effort.futures, Random(asked.effort.seed))
        self._newcomers = 0

    def compared(self, report: Report) -> WhatIfAnswer:
        effort, notes = self._asked.effort, []
        found = Compared(_people(self._present), self._asked.before.label, self._asked.after.label)
        report(0, effort.futures)
        first = self._pair(0, effort.cpu_s / PILOT)
        reached_s = min(first.before.reached_s, first.after.reached_s)
        if reached_s < effort.ahead_s:
            if reached_s < SHORTEST_S:
                raise InputError(f"within {effort.cpu_s:g} s of CPU futures come only {brief(reached_s)} ahead")
            self._until_s = self._present.now + reached_s
            notes.append(
                f"Futures go {brief(reached_s)} ahead, not {brief(effort.ahead_s)}: there was no more time."
            )
        else:
            found.pairs.append(first)
        while len(found.pairs) < effort.futures and self._allows(len(found.pairs)):
            pair = self._pair(len(found.pairs), self._left_s())
            if min(pair.before.reached_s, pair.after.reached_s) < self._until_s - self._present.now:
                break
            found.pairs.append(pair)
            report(len(found.pairs), effort.futures)
        if not found.pairs:
            raise InputError(f"{effort.cpu_s:g} s of CPU are not enough for one future")
        if len(found.pairs) < effort.futures:
            notes.append(f"{len(found.pairs)} of {effort.futures} futures: there was no more time.")
        notes += [told for told in dict.fromkeys(map(_oracle, (self._asked.before, self._asked.after))) if told]
        if not self._newcomers:
            notes.append("Nobody new comes: too little is known of when jobs come.")
        return found.answer(notes)

    def _left_s(self) -> float:
        return self._asked.effort.cpu_s - (cpu_s() - self._began_s)

    def _allows(self, futures: int) -> bool:
        """Whether there is time for one more after so many."""
        spent_s = cpu_s() - self._began_s
        return spent_s * (futures + 1) / max(1, futures) <= self._asked.effort.cpu_s

    def _pair(self, future: int, allowed_s: float) -> Pair:
        return Pair(
            self._side(future, self._asked.before, allowed_s), self._side(future, self._asked.after, allowed_s)
        )

    def _side(self, future: int, stage: Stage, allowed_s: float) -> FutureSide:
        durations_s = {number: drawn[future] for number, drawn in self._durations.items()}
        present = self._present if self._copies else load_present(self._asked.content)
        coming = self._coming(durations_s, future)
        run = partial(run_side, present, durations_s, coming, stage, self._until_s, allowed_s)
        return apart(run) if self._copies else run()

    def _coming(self, durations_s: dict[int, float], future: int) -> list[Job]:
        """Those who come in that future, whichever side: none that does not fit on both."""
        rng = Random(f"{self._asked.effort.seed}/{future}")
        coming = self._estimator.coming(self._present, durations_s, rng)
        most = min(stage.topology.total_gpus() for stage in (self._asked.before, self._asked.after))
        found: list[Job] = []
        known_s = self._present.now
        while known_s < self._until_s:
            jobs, known_s = coming(known_s, self._present.next_number + len(found))
            fitting = [job for job in jobs if job.gpus <= most and job.submit_s < self._until_s]
            for place, job in enumerate(fitting):
                job.index = self._present.next_number + len(found) + place
            found += fitting
        self._newcomers += len(found)
        return found


def _oracle(stage: Stage) -> str:
    """A word about policies that are told what nobody knows."""
    if find(stage.setup.policy).needs != DURATIONS or stage.setup.settings.get("predictor", ORACLE) != ORACLE:
        return ""
    return (
        f"{stage.setup.policy} must know how long jobs take, and is told: on the cluster it goes by what users say."
    )


def _people(present: Present) -> list[Person]:
    return [
        Person(
            int(job.index), job.job_id, job.name, job.user, int(job.gpus), job.status == WAITING,
            max(0.0, present.now - job.submit_s),
        )
        for job in present.jobs
        if job.status != HELD
    ]  # fmt: skip
