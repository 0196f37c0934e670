"""One score of a policy with its parts, on windows of a trace: for people, searches and trials alike."""

from __future__ import annotations

import resource
from dataclasses import asdict, dataclass
from time import process_time
from typing import Any, NamedTuple

from dally.errors import InputError
from dally.gym.windows import TraceWindows
from dally.model import FINISHED, Job
from dally.policies.registry import build
from dally.runs.scenario import Scenario
from dally.sweep.policy_list import Chosen
from dally.sweep.workers import Failure
from dally.sweep.workers.local import LocalWorkers


@dataclass(frozen=True)
class PolicyScore:
    """Means over windows. `gain` is the score: 1 − mean JCT ÷ the baseline's on the same jobs."""

    policy: str
    gain: float
    jct_mean_s: float
    jct_p99_s: float
    over_bound: float  # mean JCT ÷ lower bound
    preemptions: float
    windows: int
    cpu_s: float

    def values(self) -> dict[str, Any]:
        """By name."""
        return asdict(self)


class WindowOutcome(NamedTuple):
    """What one window came to."""

    mean_s: float
    p99_s: float
    preemptions: int


def outcome_of(windows: TraceWindows, number: int, chosen: Chosen) -> WindowOutcome:
    """The window under that policy; InputError if jobs of it never ran."""
    simulation = windows.simulation(number, build(chosen.name, chosen.settings))
    simulation.run()
    jobs: list[Job] = simulation.jobs
    left = sum(job.status != FINISHED for job in jobs)
    if left:
        raise InputError(f"{chosen.label()}: window {number}: {left} jobs never finished")
    times = sorted(job.finish_s - job.submit_s for job in jobs)
    return WindowOutcome(
        sum(times) / len(times), times[int(0.99 * (len(times) - 1))], sum(int(job.preemptions) for job in jobs)
    )


def evaluate(windows: TraceWindows, chosen: Chosen, baseline: Chosen) -> PolicyScore:
    """The policy's score on all windows of the split."""
    began_s = process_time()
    outcomes = [outcome_of(windows, number, chosen) for number in range(windows.count)]
    cpu_s = process_time() - began_s
    references = [
        windows.reference(number, baseline.label(), build(baseline.name, baseline.settings))
        for number in range(windows.count)
    ]
    count = windows.count
    return PolicyScore(
        chosen.label(),
        sum(1.0 - one.mean_s / reference.baseline_s for one, reference in zip(outcomes, references, strict=True))
        / count,
        sum(one.mean_s for one in outcomes) / count,
        sum(one.p99_s for one in outcomes) / count,
        sum(one.mean_s / reference.bound_s for one, reference in zip(outcomes, references, strict=True)) / count,
        sum(one.preemptions for one in outcomes) / count,
        count,
        round(cpu_s, 3),
    )


@dataclass(frozen=True)
class Examination:
    """What a policy is evaluated on, and what it may spend."""

    scenario: Scenario
    window_jobs: int
    split: str
    baseline: Chosen
    most_cpu_s: int
    most_memory_mb: int

    def __call__(self, chosen: Chosen) -> PolicyScore:
        """The score, in a process that ends when it takes more CPU time or memory."""
        resource.setrlimit(resource.RLIMIT_CPU, (self.most_cpu_s, self.most_cpu_s + 1))
        most = self.most_memory_mb * 1024 * 1024
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        return evaluate(TraceWindows(self.scenario, self.window_jobs, self.split), chosen, self.baseline)


def examined(policies: list[Chosen], examination: Examination, workers: int = 1) -> list[PolicyScore | Failure]:
    """Each policy's score, or why it has none, each in a process of its own: what it does harms no other."""
    scores: dict[str, PolicyScore | Failure] = {}
    for chosen in policies:  # limits hold for a process, so each has a fresh one
        for one, score in LocalWorkers(workers).map(examination, [chosen]):
            scores[one.label()] = score
    return [scores[chosen.label()] for chosen in policies]
