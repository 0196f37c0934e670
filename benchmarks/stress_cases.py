"""Disturbances of a cluster at work: an overload, a burst, a rack lost and back, a network that halves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Final, NamedTuple

from dally.benchmark.cells import DAY_S, HOUR_S
from dally.cluster.spec import read_topology
from dally.runs.scenario import Scenario
from dally.traces.changes import gpu_s
from dally.traces.reading import History
from dally.traces.rows import TraceRow
from dally.traces.writing import text_of

NONE: Final = "none"
LOAD: Final = 1.3
BURST: Final = 200  # gangs
OUTAGE_S: Final = 6 * HOUR_S


class Ground(NamedTuple):
    """What is disturbed: a workload on a cluster, on which day, and where files go."""

    history: History
    scenario: Scenario
    day: int
    folder: Path

    def noon_s(self) -> float:
        """The middle of the day."""
        return (self.day + 0.5) * DAY_S


class Disturbance(NamedTuple):
    """What happens, and for how long."""

    about: str
    span_s: Callable[[Ground], tuple[float, float]]
    scenario: Callable[[Ground], Scenario]


def drawn(rows: list[TraceRow], seed: int) -> list[TraceRow]:
    """The jobs in an order that depends on their names and the seed alone."""
    return sorted(rows, key=lambda row: blake2b(f"{seed}/{row.job_id}".encode(), digest_size=8).digest())


def overloaded(ground: Ground) -> list[TraceRow]:
    """Copies of drawn jobs, cut at a day, spread over the day until it brings 1.3 times what the GPUs can do."""
    rows, first_s = ground.history.rows, ground.day * DAY_S
    today = [row for row in rows if first_s <= row.submit_s < first_s + DAY_S]
    missing_gpu_s = LOAD * read_topology(ground.scenario.cluster).total_gpus() * DAY_S - gpu_s(today)
    added: list[TraceRow] = []
    for row in drawn(rows, ground.scenario.seed):
        if missing_gpu_s <= 0.0:
            break
        added.append(row._replace(job_id=f"{row.job_id}-again", stated=min(row.stated, DAY_S)))
        missing_gpu_s -= gpu_s(added[-1:])
    step_s = DAY_S / max(1, len(added))
    return [row._replace(submit_s=round(first_s + place * step_s, 3)) for place, row in enumerate(added)]


def burst(ground: Ground) -> list[TraceRow]:
    """200 drawn gangs of more than a machine, cut at 4 hours, all at noon."""
    gangs = [row for row in ground.history.rows if row.spec.gpus > 8]
    copies = -(-BURST // max(1, len(gangs)))
    chosen = [(number, row) for number in range(copies) for row in drawn(gangs, ground.scenario.seed)][:BURST]
    return [
        row._replace(
            job_id=f"{row.job_id}-burst{number}", submit_s=ground.noon_s(), stated=min(row.stated, 4 * HOUR_S)
        )
        for number, row in chosen
    ]


def _more_jobs(name: str, more: Callable[[Ground], list[TraceRow]]) -> Callable[[Ground], Scenario]:
    def scenario(ground: Ground) -> Scenario:
        rows = sorted([*ground.history.rows, *more(ground)], key=lambda row: row.submit_s)
        path = ground.folder / f"{name}-{ground.day}.csv"
        path.write_text("".join(text_of(ground.history._replace(rows=rows), "csv")), encoding="utf-8")
        return replace(ground.scenario, trace=str(path))

    return scenario


def _rack_lost(ground: Ground) -> Scenario:
    topology = read_topology(ground.scenario.cluster)
    first, count = int(topology.first_children[1][0]), int(topology.child_counts[1][0])
    noon_s = ground.noon_s()
    lines = [f"{name},{noon_s},{noon_s + OUTAGE_S}" for name in topology.names[0][first : first + count]]
    path = ground.folder / f"rack-lost-{ground.day}.csv"
    path.write_text("\n".join(["machine,fail_s,repair_s", *lines]) + "\n", encoding="utf-8")
    return replace(ground.scenario, failures=str(path))


def _halved(ground: Ground) -> Scenario:
    noon_s = ground.noon_s()
    return replace(ground.scenario, network_at=f"{noon_s}=0.5,{noon_s + DAY_S}=1")


CASES: Final = {
    "overload": Disturbance(
        "for a day the work that arrives is 1.3 times what the GPUs can do",
        lambda ground: (ground.day * DAY_S, (ground.day + 1) * DAY_S),
        _more_jobs("overload", overloaded),
    ),
    "burst": Disturbance(
        "200 gangs of more than 8 GPUs, of up to 4 hours, come at noon",
        lambda ground: (ground.noon_s(), ground.noon_s()),
        _more_jobs("burst", burst),
    ),
    "rack": Disturbance(
        "a rack is lost at noon and back after 6 hours",
        lambda ground: (ground.noon_s(), ground.noon_s() + OUTAGE_S),
        _rack_lost,
    ),
    "network": Disturbance(
        "all links have half their bandwidth from noon to the next noon",
        lambda ground: (ground.noon_s(), ground.noon_s() + DAY_S),
        _halved,
    ),
}
