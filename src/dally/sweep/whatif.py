"""What if: the recorded jobs under the policy in use, and under another policy, cluster or network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dally.cluster.delta import change, without_links
from dally.cluster.formats.to_toml import to_toml
from dally.cluster.links import has_links
from dally.cluster.network_spec import connect_topology
from dally.cluster.presets import find_preset
from dally.cluster.spec import read_topology
from dally.cluster.topology import Topology
from dally.errors import InputError
from dally.metrics.before_after import (
    HOUR_S,
    OWNERS,
    Group,
    by_owner,
    by_size,
    judged,
    losing_jobs,
    losing_users,
    paired,
    total,
)
from dally.metrics.row import Row
from dally.metrics.summary import mean
from dally.policies.registry import build
from dally.quotas.quota_changes import check_types
from dally.quotas.tree import QueueTree
from dally.runs.assemble import assemble
from dally.runs.folder import FolderRecord, prepare_folder
from dally.runs.scenario import Scenario
from dally.sweep.compared_runs import Prepared, comparison_runs, trace_loads
from dally.sweep.policy_list import Chosen
from dally.sweep.run import Run
from dally.traces import History
from dally.traces.rows import TraceRow
from dally.traces.writing import text_of
from dally.whole_file import write_whole

if TYPE_CHECKING:
    import polars as pl

ASSUMED_NETWORK = "normal"
NO_NETWORK = "none"


class NewSide(NamedTuple):
    """What would be different beside the policy; what is empty stays as it is."""

    topology: str = ""  # another cluster, as `--topology` takes it
    delta: str = ""  # that one, or the present one, with so much more or less
    network: str = ""
    network_settings: dict[str, str] = {}  # noqa: RUF012
    queues: str = ""  # other queues, as `--queues` takes them
    quotas: tuple[str, ...] = ()  # those, or the present ones, with these changes: research.guarantee=+64

    def changes(self) -> bool:
        """Whether the cluster or its links would."""
        return bool(self.topology or self.delta or self.changes_network())

    def changes_queues(self) -> bool:
        """Whether queues would be others."""
        return bool(self.queues or self.quotas)

    def changes_network(self) -> bool:
        """Whether links would be others."""
        return bool(self.network or self.network_settings)

    def words(self) -> list[str]:
        """What would be different, for tables."""
        found = [f"topology {Path(self.topology).name}"] if self.topology else []
        found += [self.delta] if self.delta else []
        found += [f"network {self.network}"] if self.network else []
        found += [f"{key}={value}" for key, value in self.network_settings.items()]
        found += [f"queues {Path(self.queues).name}"] if self.queues else []
        return [*found, *self.quotas]


NOTHING_NEW = NewSide()


@dataclass(frozen=True)
class Question:
    """The history as it is replayed, and what would be different."""

    current: Scenario
    policy: Chosen
    seeds: Sequence[int]
    new: NewSide = NOTHING_NEW
    same_policy: bool = False  # the new side has the policy in use, whichever that is

    def labels(self) -> tuple[str, str]:
        """What tables call the two sides."""
        changes = self.new.words()
        return Chosen(self.current.policy, self.current.settings).label(), ", ".join(
            [self.policy.label(), *changes]
        )


@dataclass(frozen=True)
class Answer:
    """What came of it."""

    total: Group
    makespan_s: dict[str, float]  # by side
    makespan_ranges: dict[str, tuple[float, float]]  # over seeds: of current, new, saved
    users: list[Group]  # all of them
    top_users: list[Group]  # those with most GPU-hours, and the others as one
    accounts: list[Group]  # [] where the trace names none
    partitions: list[Group]
    queues: list[Group]  # [] where neither side has any
    sizes: list[Group]
    losing_users: list[Group]
    losing_jobs: list[dict[str, Any]]
    recorded_gpu_h: float | None  # of the same jobs; None: the trace does not say
    unfinished: int  # jobs that one side or both did not finish: they are not compared

    def to_values(self) -> dict[str, Any]:
        """All of it for scripts."""
        groups = {
            "users": self.users, "accounts": self.accounts, "partitions": self.partitions, "sizes": self.sizes,
            "losing_users": self.losing_users,
        }  # fmt: skip
        return {
            "total": _values(self.total),
            "makespan_s": self.makespan_s,
            "makespan_ranges": self.makespan_ranges,
            "unfinished": self.unfinished,
            "recorded_gpu_h": self.recorded_gpu_h,
            **{name: [_values(group) for group in found] for name, found in groups.items()},
            **({"queues": [_values(group) for group in self.queues]} if self.queues else {}),
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
    new = question.new
    connected = bool(question.current.network) or has_links(topology)
    topology = read_topology(new.topology) if new.topology else topology
    if new.changes_network() and not connected:
        option = f"--new-network {new.network}" if new.network else "--set-new-network"
        raise InputError(f"{option}: cannot be compared with --network none")
    if new.network:
        find_preset(new.network)
        topology = without_links(topology)
    return change(topology, new.delta) if new.delta else topology


def new_network(question: Question) -> tuple[str, dict[str, str]]:
    """Preset and settings of the new side; another preset leaves the settings of the present one behind."""
    current, new = question.current, question.new
    if new.network:
        return new.network, dict(new.network_settings)
    return current.network, {**current.network_settings, **new.network_settings}


def check_question(question: Question, topology: Topology, history: History) -> None:
    """InputError for what cannot be asked, before anything is run."""
    build(question.policy.name, question.policy.settings)
    if question.new.changes_queues():
        new_tree(question)
    later = new_topology(question, topology)
    check_types(question.new.quotas, later.gpu_types)
    network, settings = new_network(question)
    connect_topology(later, network, settings, question.current.congestion)
    most_gpus = later.total_gpus()
    for row in history.rows:
        if row.spec.gpus > most_gpus and question.new.changes() and not question.current.skip_impossible:
            option = f"--cluster-delta {question.new.delta!r}" if question.new.delta else "--new-topology"
            problem = f"job {row.job_id!r} asks for {row.spec.gpus} GPUs and the cluster would have {most_gpus}"
            raise InputError(f"{option}: {problem}; --skip-impossible leaves such jobs out")


def no_difference(policy: str) -> InputError:
    """An InputError for a question with two equal sides."""
    options = "--policy, --set, --new-topology, --cluster-delta, --new-network, --new-queues or --quota"
    return InputError(f"nothing would be different from --current {policy}: give {options}")


def both_sides(question: Question, topology: Topology, folder: Path) -> list[Run]:
    """The runs of the current side, then those of the new one; files that they need go into the folder."""
    current = question.current
    now, then = question.labels()
    loads = trace_loads([current.trace], current.cluster, question.seeds)
    runs = comparison_runs(loads, [current.network], [Chosen(current.policy, current.settings)], current)
    base, network, shown = current, current.network, current.network
    if question.new.changes():
        prepared = changed(question, new_topology(question, topology), folder)
        loads = dict.fromkeys(loads, prepared)
        network, settings = new_network(question)
        base = replace(current, trace_format="csv", zone="UTC", durations="closest", network_settings=settings)
        if question.new.network:
            shown = f"{current.network or 'as stated'} to {network}"
    if question.new.changes_queues():
        base = replace(base, queues=_new_queues(question, folder))
    others = comparison_runs(loads, [network], [question.policy], base)
    if [run.key for run in runs] == [run.key for run in others]:
        raise no_difference(current.policy)
    return [
        replace(run, labels=run.labels | {"network": shown, "policy": label})
        for side, label in ((runs, now), (others, then))
        for run in side
    ]


def new_tree(question: Question) -> QueueTree:
    """The queues of the new side."""
    from dally.quotas.known_formats import read_quotas
    from dally.quotas.quota_changes import with_changes

    source = question.new.queues or question.current.queues
    if not source:
        problem = "say whose with --queues FILE, today's queues, or with --new-queues FILE"
        raise InputError(f"--quota {question.new.quotas[0]}: {problem}")
    return with_changes(read_quotas(Path(source)), question.new.quotas)


def _new_queues(question: Question, folder: Path) -> str:
    """The file of the new side's queues."""
    if not question.new.quotas:
        return question.new.queues
    prepare_folder(folder)
    path = folder / "new-queues.toml"
    from dally.quotas.queues_text import to_toml as queues_toml

    write_whole(path, queues_toml(new_tree(question)).encode())
    return str(path)


def changed(question: Question, topology: Topology, folder: Path) -> dict[int, Prepared]:
    """The other cluster and the work of the same jobs, seed by seed, as files in the folder."""
    texts = {seed: same_work(question, seed) for seed in question.seeds}
    cluster = folder / "cluster.toml"
    prepare_folder(folder / "traces")
    write_whole(cluster, to_toml(topology).encode())
    prepared: dict[int, Prepared] = {}
    for seed, text in texts.items():
        trace = folder / "traces" / f"same-work-{seed}.csv"
        write_whole(trace, text.encode())
        prepared[seed] = Prepared(trace, str(cluster))
    return prepared


def same_work(question: Question, seed: int) -> str:
    """A trace of the same jobs by their compute time, so that what the network adds is worked out anew.

    Recorded times hold on the network that is there; on a faster one the same work takes less.
    """
    scenario = replace(question.current, seed=seed)
    simulation, _ = assemble(scenario)
    topology = simulation.state.cluster.topology
    connected = bool(scenario.network) or has_links(topology)
    speed = simulation.state.speed
    rows = [
        TraceRow(
            0, job.job_id, job.submit_s, replace(job.spec, model=job.model),
            job.duration_s / speed.closest_s(job, 1.0),
        )
        for job in simulation.jobs
    ]  # fmt: skip
    length = "compute_s" if connected else "duration_s"
    return "".join(text_of(History(rows, length, "csv", {}, {}, None), "csv"))


def answer(question: Question, history: History, runs: Sequence[Run], rows: Sequence[Row], top: int) -> Answer:
    """The two sides compared, from the folders and rows that their runs left."""
    tables = [FolderRecord(run.folder).jobs for run in runs if run.folder]
    half = len(question.seeds)
    owners = {kind: {row.job_id: getattr(row.spec, kind) for row in history.rows} for kind in OWNERS}
    queues = _queues(tables)
    owners |= {"queue": queues} if queues else {}
    jobs = judged(
        [
            paired(current, new, owners, seed)
            for current, new, seed in zip(tables[:half], tables[half:], question.seeds, strict=True)
        ]
    )
    if jobs.is_empty():
        raise InputError("no job finished on both sides: there is nothing to compare")
    compared = {*jobs["job_id"]}
    gpu_h = sum(row.spec.gpus * row.stated for row in history.rows if row.job_id in compared) / HOUR_S
    known = set.intersection(*({*table["job_id"]} for table in tables))
    makespans = [row["makespan_s"] for row in rows]
    return Answer(
        total(jobs),
        {"current": mean(makespans[:half]), "new": mean(makespans[half:])},
        _makespan_ranges(makespans[:half], makespans[half:]),
        by_owner(jobs, "user"),
        by_owner(jobs, "user", top),
        by_owner(jobs, "account") if any(owners["account"].values()) else [],
        by_owner(jobs, "partition") if any(owners["partition"].values()) else [],
        by_owner(jobs, "queue") if queues else [],
        by_size(jobs),
        losing_users(jobs),
        losing_jobs(jobs),
        gpu_h if history.length == "duration_s" else None,
        len(known - compared),
    )


def _queues(tables: Sequence[pl.DataFrame]) -> dict[str, str]:
    """Which job is whose: by the new side's queues, else by today's."""
    found: dict[str, str] = {}
    for table in tables:
        if "queue" in table.columns:
            found |= dict(table.select("job_id", "queue").iter_rows())
    return found


def _makespan_ranges(current: list[float], new: list[float]) -> dict[str, tuple[float, float]]:
    saved = [before - after for before, after in zip(current, new, strict=True)]
    return {name: (min(of), max(of)) for name, of in (("current", current), ("new", new), ("saved", saved))}
