"""The Lingjun cluster's real tree, scaled down to fewer hosts."""

from __future__ import annotations

from math import ceil
from pathlib import Path

from dally.cluster.formats.host_tables import LINGJUN_GPUS, TIERS, read_hosts
from dally.errors import InputError
from dally.toml import toml_lines

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
