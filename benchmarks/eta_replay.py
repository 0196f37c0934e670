"""Questions about waiting jobs, asked while a trace is replayed, and how long each then had to wait."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from benchmarks.eta_baselines import MeanWaits, planned_starts_s
from dally.benchmark.cells import DAY_S, Cell, prepare
from dally.engine.simulate import Simulation
from dally.live.forecast.estimator import Effort, Estimator
from dally.live.forecast.estimator import cpu_s as spent_s
from dally.live.forecast.future import dump_present
from dally.live.forecast.lifetimes import PastJob, past_of
from dally.model import FINISH, PREEMPT, START, SUBMIT, WAITING, Job
from dally.runs.assemble import assemble

DAYS = (5.0, 14.0)  # of the trace, that are asked about: two to learn how well answers hold, and a week


@dataclass
class Asked:
    """One question: what the futures said, what else could be said, and what came. Seconds from then."""

    job: int
    asked_s: float
    fresh: bool  # asked as it came
    starts_s: list[float]  # in the futures, in order; infinity: not seen
    slurm_s: float
    mean_s: float
    cpu_s: float
    wait_s: float = -1.0  # until it started; before 0: it has not


class Replay:
    """A trace under a policy, its clock ours; nothing is told to the estimator before it happens."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.estimator = Estimator(copies=True)
        self.means = MeanWaits()
        self._answered: list[Asked] = []
        self._open: dict[int, list[Asked]] = {}
        self._read = 0

    def step(self) -> list[Job]:
        """One cycle; who began to wait in it."""
        self.simulation.step()
        state, now = self.simulation.state, self.simulation.now
        past: list[PastJob] = []
        began: list[Job] = []
        for row in range(self._read, len(state.log)):
            kind, number = int(state.log.kinds[row]), int(state.log.jobs[row])
            job = self.simulation.jobs[number]
            if kind in (SUBMIT, PREEMPT):
                began.append(job)
            if kind == SUBMIT:
                past.append(past_of(job))
            elif kind == FINISH:
                past.append(past_of(job, job.duration_s))
            elif kind == START:
                for one in self._open.pop(number, ()):
                    one.wait_s = now - one.asked_s
                    self._answered.append(one)
                self.means.started(job, now - job.lost_s)
        self._read = len(state.log)
        self.estimator.learn(past, now)
        return [job for job in began if job.status == WAITING]

    def ask(self, jobs: list[Job], fresh: Job, effort: Effort) -> None:
        """When each of these will start."""
        state, now = self.simulation.state, self.simulation.now
        waiting, running = state.queue.jobs(), list(state.cluster.running.values())
        began_s = spent_s()
        content = dump_present(state, [*waiting, *running], now, len(self.simulation.jobs), secret=True)
        found = self.estimator.fates(content, [int(job.index) for job in jobs], effort)
        cpu_s = spent_s() - began_s
        planned_s = planned_starts_s(jobs, waiting, running, int(state.cluster.topology.total_gpus()), now)
        for job in jobs:
            number = int(job.index)
            starts_s = [start_s - now for start_s in found[number].starts_s()]
            mean_s = self.means.guess_s(job, now - job.lost_s)
            one = Asked(number, now, job is fresh, starts_s, planned_s[number] - now, mean_s, cpu_s)
            self._open.setdefault(number, []).append(one)

    def pending(self) -> bool:
        """Whether somebody who was asked about still waits."""
        return bool(self._open)

    def answered(self) -> list[Asked]:
        """Questions whose jobs started since this was last asked."""
        found, self._answered = self._answered, []
        return found


def replay(
    policy: str, shared: Path, folder: Path, every: int, effort: Effort, job_progress: str = ""
) -> Iterator[Asked]:
    """Questions and what came: each time so many jobs began to wait, about the last of them and about another."""
    prepared = prepare("venus80", 1, shared, folder)
    scenario = Cell("venus80", "normal", 1).scenario(prepared, policy, {})
    simulation, _ = assemble(replace(scenario, job_progress=job_progress))
    run = Replay(simulation)
    rng = Random(1)
    first_s, last_s = (simulation.jobs[0].submit_s + days * DAY_S for days in DAYS)
    seen = 0
    while simulation.now < last_s or run.pending():
        for job in run.step():
            seen += first_s <= simulation.now < last_s
            if first_s <= simulation.now < last_s and seen % every == 0:
                others = [other for other in simulation.state.queue.jobs() if other is not job]
                run.ask([job, *rng.sample(others, min(len(others), 1))], job, effort)
        yield from run.answered()
