"""A what-if from now: the present simulated forward on both sides, with the same durations and newcomers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Final

from sqlalchemy import or_, select

from dally.errors import InputError
from dally.live.config import Setup
from dally.live.forecast.estimator import Effort, Estimator, apart, cpu_s
from dally.live.forecast.future import Present, load_present
from dally.live.forecast.lifetimes import PastJob
from dally.live.forecast.outlook import READ_BACK_S, past_in_row
from dally.live.forecast.whatif.future_comparison import FuturePairs, Pair, PresentJob
from dally.live.forecast.whatif.future_side import FutureSide, run_side
from dally.live.store import Store
from dally.live.store.schema import JOBS
from dally.model import HELD, WAITING, Job
from dally.policies.declaration import DURATIONS
from dally.policies.registry import find
from dally.report.time_text import brief
from dally.sweep.whatif.change import WhatIfAnswer, WhatIfSide

PILOT: Final = 12  # part of the time that the first look at a side may take: what is left is for several futures
ORACLE: Final = "oracle"  # the predictor that knows
SHORTEST_S: Final = 600.0  # a future that is worth telling of

USUAL_EFFORT: Final = Effort(most=20, cpu_s=60.0)

Report = Callable[[int, int], None]  # done, of how many


@dataclass(frozen=True)
class FutureQuestion:
    """What a change is asked of: this present, as far ahead as that."""

    content: bytes
    effort: Effort = USUAL_EFFORT

    def answer(
        self, before: WhatIfSide[Setup], after: WhatIfSide[Setup], past: list[PastJob], report: Report, copies: bool
    ) -> WhatIfAnswer:
        """What comes of it. `copies`: each side in a copy of this process, which must have one thread."""
        return _Futures(self, before, after, past, copies).compared(report)


def past_of_store(store: Store, now: float, usual_model: str) -> list[PastJob]:
    """Jobs of the last days: what they were like, and how long they took."""
    late = or_(JOBS.c.finish_s > now - READ_BACK_S, JOBS.c.finish_s.is_(None))
    return [past_in_row(row, usual_model) for row in store.rows(select(JOBS).where(late).order_by(JOBS.c.number))]


def shorter_note(reached_s: float, horizon_s: float) -> list[str]:
    """That futures end before their horizon; nothing if both read the same."""
    reached, horizon = brief(reached_s), brief(horizon_s)
    return (
        [] if reached == horizon else [f"Futures cover {reached} instead of {horizon}: the time limit was reached."]
    )


class _Futures:
    def __init__(
        self, request: FutureQuestion, before: WhatIfSide[Setup], after: WhatIfSide[Setup], past: list[PastJob],
        copies: bool,
    ) -> None:  # fmt: skip
        self._content, self._effort = request.content, request.effort
        self._before, self._after = before, after
        self._copies = copies
        self._began_s = cpu_s()
        self._present = load_present(request.content)
        self._estimator = Estimator(copies)
        self._estimator.learn(past, self._present.now)
        self._until_s = self._present.now + self._effort.horizon_s
        self._durations = self._estimator.durations(self._present, self._effort.most, Random(self._effort.seed))
        self._newcomers = 0

    def compared(self, report: Report) -> WhatIfAnswer:
        effort, notes = self._effort, []
        result = FuturePairs(_present_jobs(self._present), self._before.label, self._after.label)
        report(0, effort.most)
        first = self._pair(0, effort.cpu_s / PILOT)
        reached_s = min(first.before.reached_s, first.after.reached_s)
        if reached_s < effort.horizon_s:
            if reached_s < SHORTEST_S:
                raise InputError(f"within {effort.cpu_s:g} s of CPU futures come only {brief(reached_s)} ahead")
            self._until_s = self._present.now + reached_s
            notes += shorter_note(reached_s, effort.horizon_s)
        else:
            result.pairs.append(first)
        while len(result.pairs) < effort.most and self._allows(len(result.pairs)):
            pair = self._pair(len(result.pairs), self._left_s())
            if min(pair.before.reached_s, pair.after.reached_s) < self._until_s - self._present.now:
                break
            result.pairs.append(pair)
            report(len(result.pairs), effort.most)
        if not result.pairs:
            raise InputError(f"{effort.cpu_s:g} s of CPU are not enough for one future")
        if len(result.pairs) < effort.most:
            notes.append(f"{len(result.pairs)} of {effort.most} futures: the time limit was reached.")
        notes += [record for record in dict.fromkeys(map(_oracle, (self._before, self._after))) if record]
        if not self._newcomers:
            notes.append("No new jobs arrive in the futures: too few arrivals have been recorded.")
        return result.answer(notes)

    def _left_s(self) -> float:
        return self._effort.cpu_s - (cpu_s() - self._began_s)

    def _allows(self, futures: int) -> bool:
        """Whether there is time for one more after so many."""
        spent_s = cpu_s() - self._began_s
        return spent_s * (futures + 1) / max(1, futures) <= self._effort.cpu_s

    def _pair(self, future: int, allowed_s: float) -> Pair:
        return Pair(self._side(future, self._before, allowed_s), self._side(future, self._after, allowed_s))

    def _side(self, future: int, side: WhatIfSide[Setup], allowed_s: float) -> FutureSide:
        durations_s = {number: drawn[future] for number, drawn in self._durations.items()}
        present = self._present if self._copies else load_present(self._content)
        coming = self._coming(durations_s, future)
        run = partial(run_side, present, durations_s, coming, side, self._until_s, allowed_s)
        return apart(run) if self._copies else run()

    def _coming(self, durations_s: dict[int, float], future: int) -> list[Job]:
        """Those who come in that future, whichever side: none that does not fit on both."""
        rng = Random(f"{self._effort.seed}/{future}")
        coming = self._estimator.coming(self._present, durations_s, rng)
        most = min(side.topology.total_gpus() for side in (self._before, self._after))
        result: list[Job] = []
        known_s = self._present.now
        while known_s < self._until_s:
            jobs, known_s = coming(known_s, self._present.next_number + len(result))
            fitting = [job for job in jobs if job.gpus <= most and job.submit_s < self._until_s]
            for place, job in enumerate(fitting):
                job.index = self._present.next_number + len(result) + place
            result += fitting
        self._newcomers += len(result)
        return result


def _oracle(side: WhatIfSide[Setup]) -> str:
    """A word about policies that are told what nobody knows."""
    if find(side.config.policy).needs != DURATIONS or side.config.settings.get("predictor", ORACLE) != ORACLE:
        return ""
    return f"{side.config.policy} needs durations: here it knows them; on the cluster it uses what users state."


def _present_jobs(present: Present) -> list[PresentJob]:
    return [
        PresentJob(
            int(job.index), job.job_id, job.name, job.user, int(job.gpus), job.status == WAITING,
            max(0.0, present.now - job.submit_s),
        )
        for job in present.jobs
        if job.status != HELD
    ]  # fmt: skip
