"""Where a trace says that a job ran, found again among the machines of a topology."""

from __future__ import annotations

from dally.cluster.formats.hostlist import expand_list
from dally.cluster.topology import Topology
from dally.model import Allocation, make_allocation


class Places:
    """Allocations by the names that traces give machines, and names that the topology does not have."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._numbers = {name: number for number, name in enumerate(topology.names[0])}
        self._matching: dict[tuple[str, int, str], Allocation | None] = {}
        self.missing: dict[str, None] = {}  # names, in the order in which they were met
        self.used: set[int] = set()  # machines of the topology that jobs ran on

    def find(self, nodes: str, gpus: int, counts: str = "") -> Allocation | None:
        """The allocation of so many GPUs on `n[01-03],n07`; None if the topology has no such machines.

        `counts` are GPUs by machine, as 4+4+2; where they are not known every machine gives as many.
        """
        key = (nodes, gpus, counts)
        if key not in self._matching:
            self._matching[key] = self._allocation(nodes, gpus, counts)
        return self._matching[key]

    def _allocation(self, nodes: str, gpus: int, counts: str) -> Allocation | None:
        try:
            names = expand_list(nodes)
        except ValueError:
            names = [nodes]
        missing = [name for name in names if name not in self._numbers]
        if missing:
            self.missing.update(dict.fromkeys(missing))
            return None
        machines = [self._numbers[name] for name in dict.fromkeys(names)]
        sizes = [int(self._topology.gpus[0][machine]) for machine in machines]
        parts = _stated(counts, gpus, sizes) or evenly(gpus, sizes)
        if not parts:
            return None
        self.used.update(machines)
        placed = sorted((machine, part) for machine, part in zip(machines, parts, strict=True) if part)
        allocation = make_allocation(0, placed)
        allocation.tier = self._topology.tier_of(allocation)
        return allocation


def _stated(counts: str, gpus: int, sizes: list[int]) -> list[int]:
    """GPUs by machine as the trace has them; [] if that does not fit these machines."""
    tokens = counts.split("+")
    parts = [int(token) for token in tokens if token.isascii() and token.isdigit() and len(token) < 10]
    fits = len(parts) == len(tokens) == len(sizes) and sum(parts) == gpus
    return parts if fits and all(part <= size for part, size in zip(parts, sizes, strict=True)) else []


def evenly(gpus: int, sizes: list[int]) -> list[int]:
    """So many GPUs from machines of these sizes, from each as many as can be; [] if they have fewer."""
    if gpus > sum(sizes):
        return []
    parts = [0] * len(sizes)
    left = gpus
    while left:
        open_ones = [place for place, size in enumerate(sizes) if parts[place] < size]
        share = left // len(open_ones)
        for place in open_ones if share else open_ones[:left]:
            taken = min(sizes[place] - parts[place], share or 1)
            parts[place] += taken
            left -= taken
    return parts
