"""The benchmark's cells: named workloads on named networks, so that figures compare across tables.

Traces are public data that lie outside the project, in `shared/traces`; what is made of them goes into a
folder of the caller's.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from hashlib import blake2b
from math import ceil
from pathlib import Path
from typing import Final, NamedTuple

from dally.benchmark.fabric_cells import LINGJUN, LINGJUN_SIZES, PROFILES, Draw
from dally.cluster.formats.host_tables import LINGJUN_GPUS, TIERS, read_hosts
from dally.errors import InputError, unknown
from dally.runs.scenario import Scenario
from dally.sweep.run import Loads, Prepared
from dally.toml import toml_lines
from dally.traces import read_history
from dally.traces.rows import TraceRow

MIX: Final = "benchmark"
NETWORKS: Final = ("fast", "normal", "slow", "congested")
BATCH_JOBS: Final = 500
LINGJUN_HOSTS: Final = 120
HOUR_S: Final = 3600.0
DAY_S: Final = 24 * HOUR_S

Rows = list[TraceRow]
Change = Callable[[Rows, int], Rows]  # jobs as the trace has them, the cell's seed


class CellWorkload(NamedTuple):
    """A trace of `shared/traces`, what is changed in it, and the cluster: RxMxG or a table of hosts there."""

    trace: str
    cluster: str
    change: Change
    about: str
    network: str = ""  # its own; empty: those of NETWORKS
    gpu: str = "a100"
    profiles: str = ""
    draw: Draw | None = None  # of jobs, instead of a change


class Cell(NamedTuple):
    """One workload on one network under one seed."""

    workload: str
    network: str
    seed: int

    def scenario(
        self, prepared: Prepared, policy: str, settings: Mapping[str, str], flat_restart_s: float | None = None
    ) -> Scenario:
        """The run of a policy in this cell. A restart costs 1 s per GPU, or what is given for any gang."""
        chosen = find_workload(self.workload)
        return Scenario(
            trace=str(prepared.trace),
            cluster=prepared.cluster,
            policy=policy,
            settings=dict(settings),
            seed=self.seed,
            network=self.network,
            gpu=chosen.gpu,
            profiles=chosen.profiles,
            mix=MIX,
            restart_s=flat_restart_s or 0.0,
            restart_per_gpu_s=1.0 if flat_restart_s is None else 0.0,
        )


def _as_it_is(jobs: Rows, seed: int) -> Rows:
    return jobs


def _cut(jobs: Rows, most_s: float) -> Rows:
    return [job._replace(stated=min(job.stated, most_s)) for job in jobs]


def _two_weeks(jobs: Rows, seed: int) -> Rows:
    return _cut(jobs, 14 * DAY_S)


def _batch(jobs: Rows, seed: int) -> Rows:
    """Jobs of at least 30 min, drawn by seed, all at t = 0 in the order they came."""
    long = [job for job in jobs if job.stated >= HOUR_S / 2]
    if len(long) < BATCH_JOBS:
        raise InputError(f"the trace holds {len(long)} jobs of at least 30 min; the batch takes {BATCH_JOBS}")
    drawn = {*sorted((job.job_id for job in long), key=lambda name: _rank(f"{seed}/batch/{name}"))[:BATCH_JOBS]}
    return _cut([job._replace(submit_s=0.0) for job in long if job.job_id in drawn], 48 * HOUR_S)


def _no_zeros(jobs: Rows, seed: int) -> Rows:
    """The trace counts whole minutes: what it calls 0 lasted 30 s on average."""
    return [job._replace(stated=job.stated or 30.0) for job in jobs]


def _rank(key: str) -> bytes:
    """Where a draw puts the key; it depends on the key alone, on any machine."""
    return blake2b(key.encode(), digest_size=8).digest()


VENUS = "helios_venus_window20d.csv.gz"
WORKLOADS: Final[dict[str, CellWorkload]] = {
    "venus80": CellWorkload(VENUS, "10x8x8", _as_it_is, "Helios Venus, 20 days; queues form on 80 machines"),
    "itp72": CellWorkload("ms_itp2021_cluster04.csv.gz", "9x8x8", _as_it_is, "Microsoft ITP: long jobs, bursts"),
    "philly200": CellWorkload(
        "philly_win14d.csv.gz", "25x8x8", _two_weeks, "Microsoft Philly, 14 days: small jobs beside big ones"
    ),
    "batch32": CellWorkload(VENUS, "4x8x8", _batch, "500 long jobs of Venus at once, drawn by seed: makespan"),
    "lingjun": CellWorkload(
        "alibaba_lingjun2023.csv.gz", "lingjun_topology.csv", _no_zeros,
        "Alibaba Lingjun: very large gangs, its own tree of four tiers",
    ),
    "paper-batch": CellWorkload("paper_batch500.csv", "8x8x8", _as_it_is, "the paper's batch"),
    "paper-poisson": CellWorkload("paper_poisson_week.csv", "8x8x8", _as_it_is, "the paper's Poisson arrivals"),
}  # fmt: skip

# Large models, each on a fabric of its own; beside the others, so `--cells` names them.
FABRIC_WORKLOADS: Final[dict[str, CellWorkload]] = {
    "llm-pod": CellWorkload(
        LINGJUN, "4x2x32x8", _as_it_is, "models of 3 B to 405 B on 2,048 H100: rails, 4:1 above each pod",
        "h100-rails-4to1", "h100", PROFILES, Draw(1000, 2048, 0.95, LINGJUN_SIZES),
    ),
    "nvl72": CellWorkload(
        LINGJUN, "16x18x4", _as_it_is, "models of 3 B to 671 B on 16 racks of 72 GB200, gangs of 4 to 576",
        "gb200-nvl72", "gb200", PROFILES, Draw(1000, 1152, 0.95, ""),
    ),
}  # fmt: skip


def cells(names: Iterable[str], networks: Iterable[str], seeds: Iterable[int]) -> list[Cell]:
    """Every workload on every network under every seed, in that order; InputError for an unknown name."""
    desired, seeds = list(networks), list(seeds)
    for network in desired:
        _check("network", network, NETWORKS)
    result: list[Cell] = []
    for name in names:
        find_workload(name)
        own = find_workload(name).network
        result += [Cell(name, network, seed) for network in ([own] if own else desired) for seed in seeds]
    return result


def find_workload(name: str) -> CellWorkload:
    """The workload of that name, or an InputError that suggests the nearest."""
    every = WORKLOADS | FABRIC_WORKLOADS
    _check("workload", name, every)
    return every[name]


def check_traces(names: Iterable[str], shared: Path) -> None:
    """InputError if a workload is unknown or the data it is made from is not there."""
    for name in names:
        _shared(shared, find_workload(name).trace, name)


def prepare(workload: str, seed: int, shared: Path, folder: Path) -> Prepared:
    """Write the workload's trace, and its topology where it has one, into the folder; the same for a seed."""
    chosen = find_workload(workload)
    trace = read_history(_shared(shared, chosen.trace, workload), format="csv")
    try:
        if chosen.draw is not None:
            jobs = chosen.draw.rows(shared / "traces", seed)
        else:
            jobs = chosen.change(trace.rows, seed)
    except InputError as error:
        raise InputError(f"workload {workload!r}: {shared / 'traces' / chosen.trace}: {error}") from None
    path = folder / f"{workload}-{seed}.csv"
    cluster = chosen.cluster
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write(path, trace.length, jobs)
        if cluster.endswith(".csv"):
            tree = scaled(read_tree(_shared(shared, cluster, workload)), LINGJUN_HOSTS)
            cluster = str(folder / f"{workload}.toml")
            Path(cluster).write_text(to_toml(tree), encoding="utf-8")
    except OSError as error:
        raise InputError(f"{folder}: cannot be written: {error.strerror}") from None
    return Prepared(path, cluster)


def cell_loads(names: Iterable[str], seeds: Sequence[int], shared: Path, folder: Path) -> Loads:
    """Workloads of the benchmark by name and seed; their traces are written into the folder."""
    return {name: {seed: prepare(name, seed, shared, folder) for seed in seeds} for name in names}


def _write(path: Path, length: str, jobs: Rows) -> None:
    """A plain trace; what says how long jobs are keeps its meaning."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["job_id", "user", "submit_s", "gpus", length, "model", "name"])
        for job in jobs:
            writer.writerow(
                [job.job_id, job.spec.user, job.submit_s, job.spec.gpus, job.stated, job.spec.model, job.spec.name]
            )


def _shared(shared: Path, name: str, workload: str) -> Path:
    path = shared / "traces" / name
    if not path.exists():
        raise InputError(
            f"workload {workload!r} is made from {path}, which is not here; see shared/traces/README.md"
        )
    return path


def _check(kind: str, name: str, known: Collection[str]) -> None:
    if name not in known:
        raise unknown(kind, name, known)


Tree = dict[str, dict[str, int]]  # hosts by PSW and leaf


def read_tree(path: Path) -> Tree:
    """How many hosts hang under each leaf of each PSW; the one DSW on top goes without saying."""
    tree: Tree = {}
    for host in read_hosts(path):
        psw, leaf = host.switches[-2:]
        leaves = tree.setdefault(psw, {})
        leaves[leaf] = leaves.get(leaf, 0) + 1
    return tree


def scaled(tree: Tree, hosts: int) -> Tree:
    """The tree cut down to that many hosts: as many tiers and PSWs, fewer leaves, leaves of the same sizes.

    Leaves go rather than hosts of each leaf: 119 leaves of one host would have lost a tier.
    """
    sizes = {psw: sum(leaves.values()) for psw, leaves in sorted(tree.items())}
    if sum(sizes.values()) < hosts:
        raise InputError(f"a tree of {sum(sizes.values())} hosts cannot be scaled to {hosts}")
    shares = _shares(sizes, hosts)
    return {psw: _thinned(tree[psw], share) for psw, share in shares.items() if share}


def _shares(sizes: dict[str, int], total: int) -> dict[str, int]:
    """The total divided in proportion to the sizes, largest remainders first."""
    whole = sum(sizes.values())
    shares = {name: total * size // whole for name, size in sizes.items()}
    by_remainder = sorted(sizes, key=lambda name: -(total * sizes[name] % whole))
    for name in by_remainder[: total - sum(shares.values())]:
        shares[name] += 1
    return shares


def _thinned(leaves: dict[str, int], hosts: int) -> dict[str, int]:
    """Leaves evenly spaced among all ordered by size, then trimmed to that many hosts."""
    ordered = sorted(leaves, key=lambda leaf: (leaves[leaf], leaf))
    largest = leaves[ordered[-1]]
    desired = round(len(leaves) * hosts / sum(leaves.values()))
    count = max(1, desired, ceil(hosts / largest))
    chosen = [ordered[(2 * place + 1) * len(ordered) // (2 * count)] for place in range(count)]
    remaining = {leaf: leaves[leaf] for leaf in chosen}
    while sum(remaining.values()) > hosts:
        remaining[max(remaining, key=lambda leaf: remaining[leaf])] -= 1
    while sum(remaining.values()) < hosts:
        remaining[min(remaining, key=lambda leaf: remaining[leaf])] += 1
    return remaining


def to_toml(tree: Tree) -> str:
    """The tree as a topology file. A leaf's name recurs under several PSWs, so it carries its PSW's.

    Networks of the benchmark say how rack uplinks are oversubscribed; above them, PSWs reach the DSW 1:1.
    """
    lines: list[str] = []
    for tier in ("machine", *TIERS):
        lines += [
            "[[tiers]]",
            *toml_lines({"name": tier} | ({"oversubscription": 1.0} if tier == "psw" else {})),
            "",
        ]
    for psw, leaves in tree.items():
        for leaf, hosts in leaves.items():
            machines = {"path": f"{psw}/{psw}-{leaf}", "count": hosts, "gpus": LINGJUN_GPUS}
            lines += ["[[machines]]", *toml_lines(machines), ""]
    return "\n".join(lines)
