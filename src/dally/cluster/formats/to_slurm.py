"""A topology written as Slurm's topology.conf, with the GPUs of its nodes in comments that we read back."""

from __future__ import annotations

import re
from itertools import groupby

from dally.cluster.formats.hostlist import fold
from dally.cluster.formats.node_gpus import GPU_COMMENT
from dally.cluster.formats.valid_names import SLURM, valid_names
from dally.cluster.topology import Topology

MOST_CHARACTERS = 64  # of a switch's name, in Slurm


def to_slurm(topology: Topology) -> str:
    """The text of the file, from the top down. Names are made valid and unique."""
    nodes = valid_names(topology.names[0], SLURM)
    taken: set[str] = set()
    names = [nodes]
    for tier in range(1, len(topology.tiers)):
        names.append(valid_names(topology.names[tier], SLURM, taken, MOST_CHARACTERS))
    lines: list[str] = []
    for tier in range(len(topology.tiers) - 1, 0, -1):
        key = "Nodes" if tier == 1 else "Switches"
        for domain, name in enumerate(names[tier]):
            first = int(topology.first_children[tier][domain])
            below = names[tier - 1][first : first + int(topology.child_counts[tier][domain])]
            lines.append(f"SwitchName={name} {key}={','.join(fold(below))}")
    for (gpus, gpu_type), run in groupby(
        range(len(nodes)), key=lambda machine: (int(topology.gpus[0][machine]), topology.gpu_types[machine])
    ):
        typed = re.sub(r"[^\w.+-]", "-", gpu_type, flags=re.ASCII) + ":" if gpu_type else ""
        names_here = ",".join(fold(nodes[machine] for machine in run))
        lines.append(f"{GPU_COMMENT}NodeName={names_here} Gres=gpu:{typed}{gpus}")
    return "\n".join(lines) + "\n"
