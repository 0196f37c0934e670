"""Which network recorded running times speak for.

Jobs of one user, name, size and model do the same thing again and again. Where they ran at different places, the
network shows in their running times: taken out as the right network has it, the work of such jobs lies closest
together. Waits cannot tell networks apart: with recorded places taken out, every network replays them alike.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from dally.perf.recorded_work import recorded_work
from dally.runs.assemble import assemble
from dally.runs.recorded_durations import places_of
from dally.runs.scenario import Scenario
from dally.traces import History
from dally.traces.rows import TraceRow

RULED_OUT = 3.0  # the record is e³ ≈ 20 times likelier under the best network
SHOWS = 0.01  # a group tells something if places cost its jobs differently by more than that
USUAL_DEVIATION = 0.05  # one more job in each group lies that far off: two that happen to agree prove little
FEWEST = 10  # jobs
SECOND = 1.0  # shorter runs count as that

Works = list[float]  # log of seconds, job by job


@dataclass(frozen=True)
class NetworkEvidence:
    """How much less likely the record is under each network than under the best: differences of log-likelihood."""

    jobs: int  # in groups that tell something
    groups: int
    against: dict[str, float]  # by network; 0 for the best; {}: the record tells nothing

    def possible(self) -> list[str]:
        """Networks that are not ruled out, the best first."""
        remaining = [name for name in self.against if self.against[name] <= RULED_OUT]
        return sorted(remaining, key=lambda name: self.against[name])


def network_evidence(base: Scenario, history: History, networks: Sequence[str]) -> NetworkEvidence:
    """What running times say about these networks; '' stands for none."""
    rows = [row for row in history.rows if row.nodes and row.spec.model and row.spec.name and row.stated >= SECOND]
    if len(rows) < FEWEST:
        return NetworkEvidence(0, 0, {})
    works: dict[str, dict[str, float]] = {}
    for network in networks:
        simulation, _ = assemble(replace(base, network=network, durations="closest"))
        placed = places_of(simulation.jobs, history.rows, simulation.state.cluster.topology)
        result = recorded_work(simulation.state.speed, placed.ran)
        works[network] = {
            record.job.job_id: math.log(max(work_s, SECOND))
            for record, work_s in zip(placed.ran, result, strict=True)
        }
    return likelihoods(groups_of(rows, works), works)


def groups_of(rows: Sequence[TraceRow], works: dict[str, dict[str, float]]) -> list[list[str]]:
    """Ids of jobs that do the same thing and whose places cost them differently under one of the networks."""
    alike: dict[tuple[str, str, int, str], list[TraceRow]] = {}
    placed = next(iter(works.values()))
    for row in rows:
        if row.job_id in placed:
            alike.setdefault((row.spec.user, row.spec.name, row.spec.gpus, row.spec.model), []).append(row)
    result: list[list[str]] = []
    for group in alike.values():
        costs = [[math.log(row.stated) - works[name][row.job_id] for row in group] for name in works]
        if len(group) > 1 and max(max(one) - min(one) for one in costs) > SHOWS:
            result.append([row.job_id for row in group])
    return result


def likelihoods(groups: Sequence[Sequence[str]], works: dict[str, dict[str, float]]) -> NetworkEvidence:
    """The networks by how close together the works of each group lie: Laplace's law, a scale for each group."""
    jobs = sum(map(len, groups))
    if jobs < FEWEST:
        return NetworkEvidence(jobs, len(groups), {})
    scores = {
        name: sum(_spread([result[job_id] for job_id in group]) for group in groups)
        for name, result in works.items()
    }
    best = min(scores.values())
    return NetworkEvidence(jobs, len(groups), {name: score - best for name, score in scores.items()})


def _spread(works: Works) -> float:
    middle = median(works)
    deviation = (sum(abs(work - middle) for work in works) + USUAL_DEVIATION) / len(works)
    return (len(works) - 1) * math.log(deviation)
