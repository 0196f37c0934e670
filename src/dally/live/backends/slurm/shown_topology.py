"""The cluster's tree from `scontrol show topology`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from dally.cluster.formats.from_machines import ImportOptions, assemble
from dally.cluster.formats.slurm_lines import HostLists, settings_of
from dally.cluster.formats.switch_tree import Switch, hang
from dally.cluster.partitions import Partition
from dally.cluster.topology import Machine, Topology
from dally.live.backends.base import BackendError, ObservedMachine
from dally.live.backends.slurm.background_reader import BackgroundReader
from dally.live.backends.slurm.tools import Tools

SOURCE = Path("scontrol show topology")
SWITCHES_EVERY_S = 60.0  # they are looked at: cables are not moved every second
NO_GPUS = "no node of these partitions has GPUs (Gres=gpu:N)"


class ShownSwitches:
    """The switches as Slurm shows them, now and then; the last known ones count while scontrol hangs."""

    def __init__(self) -> None:
        self._reader: BackgroundReader[str] = BackgroundReader(SWITCHES_EVERY_S)

    def latest(self, tools: Tools) -> str:
        """All of them, as text."""
        return self._reader.latest(lambda: self._read(tools))

    def _read(self, tools: Tools) -> str:
        try:
            return tools.run("scontrol", "-o", "show", "topology")
        except BackendError:  # no topology plugin; where there is one, it may not have answered this time
            return self._reader.known or ""

    def look_soon(self) -> None:
        """When they are next asked for."""
        self._reader.due_s = 0.0


def topology_of(
    text: str, machines: Sequence[ObservedMachine], partitions: Mapping[str, frozenset[str]] | None = None
) -> Topology:
    """These machines below their switches; in one flat network where Slurm knows no switches.

    `partitions`: the machines of each. Their limits are Slurm's to enforce, and are not among them.
    """
    if not machines:
        raise BackendError(NO_GPUS)
    named = {machine.name: machine for machine in machines}
    lists = HostLists(SOURCE)
    switches: list[Switch] = []
    for line, values, _ in settings_of(text):
        if "switchname" in values:
            below = lists.names(line, "Switches", values["switches"]) if values.get("switches") else []
            # The nodes of a switch above others are those of the others, once more.
            nodes = [] if below else lists.names(line, "Nodes", values.get("nodes", ""))
            switches.append(Switch(values["switchname"], line, below, nodes))
    hung = {name: path for path, name in hang(SOURCE, switches) if name in named}
    outside = {name: () for name in named if name not in hung}
    placed = [
        Machine(path, name, named[name].gpus, named[name].gpu_type) for name, path in (hung | outside).items()
    ]
    topology = assemble(SOURCE, placed, {}, ImportOptions()).topology
    numbers = topology.machine_numbers()
    named_sets = sorted((partitions or {}).items())
    if any(len(inside) < topology.machine_count() for _, inside in named_sets):  # else they constrain no job
        topology.partitions = [
            Partition(name, frozenset(numbers[machine] for machine in inside)) for name, inside in named_sets
        ]
    return topology
