"""What if: the recorded jobs under the policy in use, and under another policy, cluster or network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from dally.cluster.delta import change, without_links
from dally.cluster.formats.to_toml import to_toml
from dally.cluster.links import has_links
from dally.cluster.presets import find_preset
from dally.cluster.topology import Topology
from dally.errors import InputError
from dally.metrics.before_after import (
    HOUR_S,
    Group,
    Trust,
    by_size,
    by_user,
    judged,
    losing_jobs,
    losing_users,
    paired,
    total,
    trust,
)
from dally.metrics.row import Row
from dally.metrics.summary import mean
from dally.policies.registry import build
from dally.runs.assemble import assemble
from dally.runs.folder import FolderRecord, prepare_folder
from dally.runs.scenario import Scenario
from dally.sweep.compared_runs import Prepared, comparison_runs, trace_loads
from dally.sweep.policy_list import Chosen
from dally.sweep.run import Run
from dally.traces import History
from dally.traces.rows import NOT_KNOWN, TraceRow
from dally.traces.writing import text_of
from dally.whole_file import write_whole

ASSUMED_NETWORK = "normal"
NO_NETWORK = "none"


@dataclass(frozen=True)
class Question:
    """The history as it is replayed, and what would be different: what is empty stays as it is."""

    current: Scenario
    policy: Chosen
    seeds: Sequence[int]
    delta: str = ""
    network: str = ""

    def changes_cluster(self) -> bool:
        """Whether more than the policy would be different."""
        return bool(self.delta or self.network)

    def labels(self) -> tuple[str, str]:
        """What tables call the two sides."""
        changes = [self.delta] if self.delta else []
        changes += [f"network {self.network}"] if self.network else []
        return Chosen(self.current.policy, self.current.settings).label(), ", ".join(
            [self.policy.label(), *changes]
        )


@dataclass(frozen=True)
class Answer:
    """What came of it."""

    total: Group
    makespan_s: dict[str, float]  # by side
    users: list[Group]  # all of them
    top_users: list[Group]  # those with most GPU-hours, and the others as one
    sizes: list[Group]
    losing_users: list[Group]
    losing_jobs: list[dict[str, Any]]
    trust: Trust | None
    recorded_gpu_h: float | None  # of the same jobs; None: the trace does not say
    unfinished: int  # jobs that one side or both did not finish: they are not compared

    def to_values(self) -> dict[str, Any]:
        """All of it for scripts."""
        groups = {"users": self.users, "sizes": self.sizes, "losing_users": self.losing_users}
        return {
            "total": _values(self.total),
            "makespan_s": self.makespan_s,
            "unfinished": self.unfinished,
            "trust": asdict(self.trust) if self.trust else None,
            "recorded_gpu_h": self.recorded_gpu_h,
            **{name: [_values(group) for group in found] for name, found in groups.items()},
            "losing_jobs": self.losing_jobs,
        }


def _values(group: Group) -> dict[str, Any]:
    return {**asdict(group), "saved_gpu_h": group.saved_gpu_h()}


def known_network(topology: Topology, name: str | None) -> tuple[str, bool]:
    """The preset to replay on, and whether it had to be assumed; empty: links as the topology states them."""
    if name == NO_NETWORK:
        if has_links(topology):
            raise InputError("--network none: the topology states links of its own")
        return "", False
    if name:
        find_preset(name)
        return name, False
    return ("", False) if has_links(topology) else (ASSUMED_NETWORK, True)


def new_topology(question: Question, topology: Topology) -> Topology:
    """The cluster of the new side; a network that is given replaces links that the file states."""
    if question.network:
        find_preset(question.network)
        if not question.current.network and not has_links(topology):
            raise InputError(f"--new-network {question.network}: cannot be compared with --network none")
        topology = without_links(topology)
    return change(topology, question.delta) if question.delta else topology


def both_sides(question: Question, topology: Topology, folder: Path) -> list[Run]:
    """The runs of the current side, then those of the new one; files that they need go into the folder."""
    current = question.current
    build(question.policy.name, question.policy.settings)
    now, then = question.labels()
    loads = trace_loads([current.trace], current.cluster, question.seeds)
    runs = comparison_runs(loads, [current.network], [Chosen(current.policy, current.settings)], current)
    base, network, shown = current, current.network, current.network
    if question.changes_cluster():
        prepared = changed(question, new_topology(question, topology), folder)
        loads = dict.fromkeys(loads, prepared)
        base = replace(current, trace_format="csv", zone="UTC", durations="closest")
        if question.network:
            network = question.network
            shown = f"{current.network or 'as stated'} to {network}"
    others = comparison_runs(loads, [network], [question.policy], base)
    if [run.key for run in runs] == [run.key for run in others]:
        options = "--policy, --set, --cluster-delta or --new-network"
        raise InputError(f"nothing would be different from --current {current.policy}: give {options}")
    return [
        replace(run, labels=run.labels | {"network": shown, "policy": label})
        for side, label in ((runs, now), (others, then))
        for run in side
    ]


def changed(question: Question, topology: Topology, folder: Path) -> dict[int, Prepared]:
    """The other cluster and the work of the same jobs, seed by seed, as files in the folder."""
    texts = {seed: same_work(question, seed, topology.total_gpus()) for seed in question.seeds}
    cluster = folder / "cluster.toml"
    prepare_folder(folder / "traces")
    write_whole(cluster, to_toml(topology).encode())
    prepared: dict[int, Prepared] = {}
    for seed, text in texts.items():
        trace = folder / "traces" / f"same-work-{seed}.csv"
        write_whole(trace, text.encode())
        prepared[seed] = Prepared(trace, str(cluster))
    return prepared


def same_work(question: Question, seed: int, most_gpus: int) -> str:
    """A trace of the same jobs by their compute time, so that what the network adds is worked out anew.

    Recorded times hold on the network that is there; on a faster one the same work takes less.
    """
    scenario = replace(question.current, seed=seed)
    simulation, _ = assemble(scenario)
    topology = simulation.state.cluster.topology
    for job in simulation.jobs:
        if int(job.gpus) > most_gpus and not scenario.skip_impossible:
            problem = f"job {job.job_id!r} asks for {int(job.gpus)} GPUs and the cluster would have {most_gpus}"
            hint = "--skip-impossible leaves such jobs out"
            raise InputError(f"--cluster-delta {question.delta!r}: {problem}; {hint}")
    connected = bool(scenario.network) or has_links(topology)
    speed = simulation.state.speed
    rows = [
        TraceRow(
            0, job.job_id, job.submit_s, int(job.gpus), job.duration_s / speed.closest_s(job, 1.0), job.model,
            job.user, job.priority, job.name, limit_s=job.limit_s, account=job.account, partition=job.partition,
            qos=job.qos,
        )
        for job in simulation.jobs
    ]  # fmt: skip
    length = "compute_s" if connected else "duration_s"
    return "".join(text_of(History(rows, length, "csv", {}, {}, None), "csv"))


def answer(question: Question, history: History, runs: Sequence[Run], rows: Sequence[Row], top: int) -> Answer:
    """The two sides compared, from the folders and rows that their runs left."""
    tables = [FolderRecord(run.folder).jobs for run in runs if run.folder]
    half = len(question.seeds)
    users = {row.job_id: row.user for row in history.rows}
    recorded_s = {row.job_id: row.wait_s for row in history.rows if row.wait_s != NOT_KNOWN}
    jobs = judged(
        [
            paired(current, new, users, seed)
            for current, new, seed in zip(tables[:half], tables[half:], question.seeds, strict=True)
        ]
    )
    if jobs.is_empty():
        raise InputError("no job finished on both sides: there is nothing to compare")
    compared = {*jobs["job_id"]}
    gpu_h = sum(row.gpus * row.stated for row in history.rows if row.job_id in compared) / HOUR_S
    known = set.intersection(*({*table["job_id"]} for table in tables))
    makespans = [row["makespan_s"] for row in rows]
    return Answer(
        total(jobs),
        {"current": mean(makespans[:half]), "new": mean(makespans[half:])},
        by_user(jobs),
        by_user(jobs, top),
        by_size(jobs),
        losing_users(jobs),
        losing_jobs(jobs),
        trust(tables[:half], recorded_s),
        gpu_h if history.length == "duration_s" else None,
        len(known - compared),
    )
