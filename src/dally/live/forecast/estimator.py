"""Many futures of one present, with what is known of jobs past."""

from __future__ import annotations

import gc
import os
import pickle
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Final, TypeVar

from dally.live.forecast.future import Fates, Present, load_present, run_future
from dally.live.forecast.lifetimes import BLOCK_S, DAY_S, DAYS, ArrivalBlocks, Lifetimes, PastJob
from dally.model import NEVER, Job

Result = TypeVar("Result")


class ApartError(Exception):
    """The copy came to nothing."""


def apart(work: Callable[[], Result]) -> Result:
    """What the work returns, done in a copy of this process, which must have no other threads."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        _work_and_leave(work, write)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        content = pipe.read()
    os.waitpid(child, 0)
    if not content:
        raise ApartError("a copy of the process ended before its work was done")
    result: Result = pickle.loads(content)
    return result


def _work_and_leave(work: Callable[[], object], write: int) -> None:
    """The copy's whole life; it never returns."""
    status = 1
    try:
        gc.disable()  # looking for garbage would make copies of pages, and all of it goes in a moment
        content = pickle.dumps(work(), protocol=5)
        with os.fdopen(write, "wb") as pipe:
            pipe.write(content)
        status = 0
    except Exception:
        traceback.print_exc()
    finally:
        os._exit(status)


def cpu_s() -> float:
    """CPU seconds of this process and of its copies that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


HORIZON_S: Final = 3 * DAY_S


@dataclass(frozen=True)
class Effort:
    """How many futures, how far ahead, for how many CPU seconds; without a limit every answer can be repeated."""

    fewest: int = 5
    most: int = 100
    horizon_s: float = HORIZON_S
    cpu_s: float = 1.6
    seed: int = 1


class Estimator:
    """Learns from jobs as they come and end, and makes futures of them."""

    def __init__(self, copies: bool = False) -> None:
        """`copies`: each future in a copy of the process, which is faster; only where there is one thread."""
        self._copies = copies
        self._lifetimes = Lifetimes()
        self._arrivals = ArrivalBlocks()

    def learn(self, past: Iterable[PastJob], now: float) -> None:
        """Jobs that came, or ended."""
        for job in past:
            self._arrivals.came(job)
            self._lifetimes.came(job)
            if job.duration_s >= 0.0:
                self._lifetimes.learn(job)
        self._lifetimes.forget(self._arrivals.forget(now - DAYS * DAY_S - HORIZON_S))

    def fates(
        self, content: bytes, request: Sequence[int], effort: Effort, preview: PastJob | None = None
    ) -> dict[int, Fates]:
        """By number, the fates of jobs that wait; a preview's are under the number of the next job to come."""
        clock = _Budget(effort)
        present = load_present(content)
        rng = Random(effort.seed)
        until_s = present.now + effort.horizon_s
        durations = self.durations(present, effort.most, rng, preview)
        desired = list(request) if preview is None else [*request, present.next_number]
        result = {number: Fates() for number in desired}
        draw = 0
        while draw < effort.most and clock.allows(draw):
            durations_s = {number: drawn[draw] for number, drawn in durations.items()}
            coming = self.coming(present, durations_s, Random(f"{effort.seed}/{draw}"), preview)
            world = present if self._copies else load_present(content)
            run = partial(run_future, world, durations_s, coming, desired, until_s, clock.allowed_s(draw))
            outcome = apart(run) if self._copies else run()
            for number, fates in result.items():
                fates.add(number, outcome)
            draw += 1
            if all(fates.start_s(1.0) <= present.now for fates in result.values()):
                break  # what happens at once is the same in every future
        return result

    def durations(
        self, present: Present, count: int, rng: Random, preview: PastJob | None = None
    ) -> dict[int, list[float]]:
        """By number, how long each job lasts in each future."""
        self._lifetimes.look(present.ages())
        result = {
            int(job.index): self._lifetimes.draw(
                job, age_s, present.stated_s.get(int(job.index), NEVER), count, rng
            )
            for job, age_s in present.ages()
        }
        if preview is not None:
            job = preview.again(present.next_number, present.now, NEVER)
            result[present.next_number] = self._lifetimes.draw(job, 0.0, preview.stated_s, count, rng)
        return result

    def coming(
        self, present: Present, durations_s: dict[int, float], rng: Random, preview: PastJob | None = None
    ) -> Callable[[float, int], tuple[list[Job], float]]:
        """Who comes, block by block, the previewed job first.

        A job like one that has not ended yet lasts as long as that will.
        """
        now = present.now

        def coming(begin_s: float, number: int) -> tuple[list[Job], float]:
            jobs: list[Job] = []
            if preview is not None and begin_s == now:
                jobs.append(preview.again(number, now, durations_s[number]))
            for submit_s, past in self._arrivals.draw(begin_s, now, rng):
                duration_s = past.duration_s if past.duration_s >= 0.0 else durations_s.get(past.number, NEVER)
                if duration_s >= 0.0:  # not one that was taken back
                    jobs.append(past.again(number + len(jobs), submit_s, duration_s))
            return jobs, begin_s + BLOCK_S

        return coming


class _Budget:
    """Shares the CPU time out: the fewest futures must all have theirs, more are made of what is left."""

    def __init__(self, effort: Effort) -> None:
        self._effort = effort
        self._began_s = cpu_s()

    def allows(self, draw: int) -> bool:
        """Whether there is time for one more after so many."""
        if draw < self._effort.fewest:
            return True
        return (cpu_s() - self._began_s) * (draw + 1) / draw <= self._effort.cpu_s

    def allowed_s(self, draw: int) -> float:
        """CPU seconds for the future that begins now."""
        left_s = max(0.0, self._effort.cpu_s - (cpu_s() - self._began_s))
        return left_s / max(1, self._effort.fewest - draw)
