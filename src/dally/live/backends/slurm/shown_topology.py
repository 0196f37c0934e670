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

SOURCE = Path("scontrol show topology")
NO_GPUS = "no node of these partitions has GPUs (Gres=gpu:N)"


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
