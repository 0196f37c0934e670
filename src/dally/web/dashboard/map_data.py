"""The map as JSON: the cluster's tree once, who sits where, and what changed between two moments."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from typing import Any, Final

from dally.cluster.topology import Topology
from dally.live.status import NOT_OFFERED, ClusterStatus, JobStatus
from dally.web.auth.tokens import Caller
from dally.web.dashboard.scene import Scene

SECRET: Final = secrets.token_hex(16)  # of this process
STATES: Final = {"up": 0, "draining": 1, "down": 2}

Row = dict[str, Any]


@dataclass(frozen=True)
class MapState:
    """Jobs with GPUs, machines by number as [state, [job, GPUs, …], why], uplinks by tier, and counts."""

    cycle: int
    at_s: float
    wall_s: float
    jobs: dict[str, Row]
    machines: list[list[Any]]
    links: list[list[float | None]]
    counts: dict[str, int]

    def to_json(self, boot: str) -> Row:
        """All of it."""
        return {"boot": boot, **vars(self)}


def tree(scene: Scene) -> Row:
    """What hangs under what; it stays as long as `boot` does."""
    topology = scene.topology
    levels = range(len(topology.tiers))
    return {
        "boot": scene.boot,
        "title": scene.title,
        "tiers": list(topology.tiers),
        "names": [list(topology.names[tier]) for tier in levels],
        "first": [[int(one) for one in topology.first_children[tier]] if tier else [] for tier in levels],
        "count": [[int(one) for one in topology.child_counts[tier]] if tier else [] for tier in levels],
        "gpus": [int(gpus) for gpus in topology.gpus[0]],
    }


def map_state(scene: Scene, caller: Caller, at_s: float | None = None) -> MapState:
    """The map of a moment, as the caller may see it."""
    status, topology = scene.status(at_s), scene.topology
    numbers = {name: number for number, name in enumerate(topology.names[0])}
    machines: list[list[Any]] = [[STATES["down"], []] for _ in numbers]
    for node in status.nodes:
        if node.name in numbers:
            machines[numbers[node.name]] = [STATES[node.state], [], *([node.reason] if node.reason else [])]
    jobs: dict[str, Row] = {}
    for line in status.jobs:
        if not line.placement:
            continue
        shown = caller.sees(line.spec.user)
        name = line.job_id if shown else stranger(line.job_id)
        jobs[name] = _job(line, status, shown)
        for machine, gpus in line.placement.items():
            if machine in numbers:
                machines[numbers[machine]][1] += [name, gpus]
    return MapState(
        status.cycle, status.at_s, status.wall_s, jobs, machines, _links(topology, scene.loads(at_s)),
        _counts(status, caller),
    )  # fmt: skip


def stranger(job_id: str) -> str:
    """A name for a job that is not the reader's business: the same from cycle to cycle, and it tells nothing."""
    return f"another-{hashlib.sha256(f'{SECRET} {job_id}'.encode()).hexdigest()[:8]}"


def change(before: MapState, after: MapState) -> Row:
    """What of `after` is not as it was."""
    jobs: dict[str, Row | None] = {name: job for name, job in after.jobs.items() if before.jobs.get(name) != job}
    jobs.update({name: None for name in before.jobs if name not in after.jobs})
    machines = {
        str(number): now
        for number, (then, now) in enumerate(zip(before.machines, after.machines, strict=True))
        if then != now
    }
    links = [
        [tier, place, load]
        for tier, (then, now) in enumerate(zip(before.links, after.links, strict=True))
        for place, load in enumerate(now)
        if then[place] != load
    ]
    return {"jobs": jobs, "machines": machines, "links": links}


def _job(line: JobStatus, status: ClusterStatus, shown: bool) -> Row:
    return {
        "name": line.spec.name if shown else "",
        "user": line.spec.user if shown else "",
        "model": line.spec.model if shown else "",
        "gpus": line.spec.gpus,
        "state": line.state,
        "tier": status.tiers.index(line.tier) if line.tier else -1,
        "slowdown": None if line.slowdown is None else round(line.slowdown, 3),
        "since_s": round(line.since_s, 3),
    }


def _links(topology: Topology, loads: dict[str, float]) -> list[list[float | None]]:
    """Loads of the links from each domain up, by tier; of machines there would be too many."""
    result: list[list[float | None]] = [[]]
    for tier in range(1, len(topology.tiers) - 1):
        kind = topology.tiers[tier]
        rows = (loads.get(f"{kind} {name}") for name in topology.names[tier])
        result.append([None if load is None else round(load, 3) for load in rows])
    result.append([])
    return result


def _counts(status: ClusterStatus, caller: Caller) -> dict[str, int]:
    result = {"gpus": status.gpus, "free": status.free_gpus, "busy": 0, "running": 0, "waiting": 0, "held": 0}
    for line in status.jobs:
        result["busy"] += line.spec.gpus if line.placement else 0
        if caller.sees(line.spec.user):
            kind = "running" if line.placement else "held" if line.state in NOT_OFFERED else line.state
            if kind in result:
                result[kind] += 1
    return result
