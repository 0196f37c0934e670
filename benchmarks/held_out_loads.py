"""Workloads on which nothing was tuned: other racks, other loads, other windows of the traces."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from dally.benchmark.cells import DAY_S, WORKLOADS, prepare, read_tree, scaled, to_toml
from dally.cluster.spec import read_topology
from dally.sweep.run import Loads, Prepared
from dally.traces import read_history
from dally.traces.changes import scaled as at_load
from dally.traces.changes import window
from dally.traces.reading import History
from dally.traces.writing import text_of

RACK = 16  # machines
BATCHES = ("batch32", "paper-batch")  # all jobs at once: there is no load to scale
OWN_TREE = ("lingjun",)  # its racks are as they really are


class Window(NamedTuple):
    """Part of a trace on a cluster that no cell has; `hosts`: the Lingjun tree cut to so many."""

    name: str
    trace: str
    first_day: int
    last_day: int
    cluster: str = ""
    hosts: int = 0
    batch: int = 0  # so many of its jobs of 30 min to 48 h, all at once


# Philly has weeks that no cell uses. Of the other traces every job is in a cell: there, later parts from an empty
# history, on clusters of another size.
WINDOWS = {
    "venus80": Window("venus96, days 10-20", "helios_venus_window20d.csv.gz", 10, 21, "12x8x8"),
    "itp72": Window("itp64, days 30-59", "ms_itp2021_cluster04.csv.gz", 30, 60, "8x8x8"),
    "philly200": Window("philly200, days 61-75", "philly.csv.gz", 61, 75, "25x8x8"),
    "batch32": Window("philly-batch32, days 61-75", "philly.csv.gz", 61, 75, "4x8x8", batch=500),
    "lingjun": Window("lingjun96, days 8-16", "alibaba_lingjun2023.csv.gz", 8, 17, hosts=96),
}


class Source(NamedTuple):
    """Where workloads come from and go to; `days`: only the first so many of each, to try things out."""

    shared: Path
    folder: Path
    days: float = 0.0

    def plain(self, name: str, seed: int) -> Prepared:
        """The benchmark's own workload."""
        made = prepare(name, seed, self.shared, self.folder)
        return made._replace(trace=self.written(read_history(made.trace, format="csv"), made.trace.stem))

    def written(self, history: History, stem: str) -> Path:
        """The file that holds these jobs."""
        if self.days:
            history = window(history, 0.0, self.days * DAY_S)
        path = self.folder / f"{stem}{f'-{self.days:g}d' if self.days else ''}.csv"
        self.folder.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(text_of(history, "csv")), encoding="utf-8")
        return path


Maker = Callable[[Source, str, int], Prepared | None]  # of a workload's name and a seed; None: it has none


def as_it_is(source: Source, name: str, seed: int) -> Prepared:
    """The benchmark's own workload on its own cluster."""
    return source.plain(name, seed)


def racks_of_16(source: Source, name: str, seed: int) -> Prepared | None:
    """The same machines in racks of 16; what is left over is a smaller rack."""
    if name in OWN_TREE:
        return None
    made = source.plain(name, seed)
    topology = read_topology(made.cluster)
    gpus = int(topology.gpus[0][0])
    lines = [f'[[tiers]]\nname = "{tier}"\n' for tier in ("machine", "rack", "network")]
    for rack, first in enumerate(range(0, topology.machine_count(), RACK)):
        count = min(RACK, topology.machine_count() - first)
        lines.append(f'[[machines]]\npath = "rack{rack}"\ncount = {count}\ngpus = {gpus}\n')
    path = source.folder / f"{name}-racks{RACK}.toml"
    path.write_text("\n".join(lines), encoding="utf-8")
    return made._replace(cluster=str(path))


def loaded(load: float) -> Maker:
    """The same jobs, arriving so that they ask for that share of the GPUs."""

    def make(source: Source, name: str, seed: int) -> Prepared | None:
        if name in BATCHES:
            return None
        made = prepare(name, seed, source.shared, source.folder)
        gpus = read_topology(made.cluster).total_gpus()
        history = at_load(read_history(made.trace, format="csv"), load, gpus)
        return made._replace(trace=source.written(history, f"{made.trace.stem}-load{load:g}"))

    return make


def other_window(source: Source, name: str, seed: int) -> Prepared | None:
    """The window of the workload's trace that stands for what was not used."""
    chosen = WINDOWS.get(name)
    if chosen is None:
        return None
    history = read_history(source.shared / "traces" / chosen.trace, format="csv")
    history = window(history, chosen.first_day * DAY_S, chosen.last_day * DAY_S)
    rows = [row._replace(stated=min(row.stated or 30.0, 14 * DAY_S)) for row in history.rows]
    if chosen.batch:
        rows = [row for row in rows if row.stated >= 1800.0]
        step = len(rows) / chosen.batch  # evenly through the window, shifted by the seed
        rows = [rows[int((place + seed % 7 / 7) * step)] for place in range(chosen.batch)]
        rows = [row._replace(submit_s=0.0, stated=min(row.stated, 2 * DAY_S)) for row in rows]
    trace = source.written(history._replace(rows=rows), f"{name}-window-{seed}")
    if not chosen.hosts:
        return Prepared(trace, chosen.cluster)
    tree = scaled(read_tree(source.shared / "traces" / WORKLOADS[name].cluster), chosen.hosts)
    cluster = source.folder / f"{name}-{chosen.hosts}.toml"
    cluster.write_text(to_toml(tree), encoding="utf-8")
    return Prepared(trace, str(cluster))


def held_out_loads(maker: Maker, names: Iterable[str], seeds: Sequence[int], source: Source) -> Loads:
    """Every workload that the setting has, by the name tables use, and by seed."""
    loads: Loads = {}
    for name in names:
        made = {seed: maker(source, name, seed) for seed in seeds}
        there = {seed: one for seed, one in made.items() if one is not None}
        if there:
            loads[WINDOWS[name].name if maker is other_window else name] = there
    return loads
