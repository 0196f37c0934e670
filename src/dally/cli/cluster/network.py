"""`dally networks`, and what commands about the network share: reading presets, sizes and placements."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import typer

from dally.cli.commands import examples
from dally.cli.output import print_table
from dally.cluster.links import Links, Network
from dally.cluster.presets import PRESETS, SOURCES
from dally.cluster.spec import connect_topology, quiet, read_settings, read_topology
from dally.cluster.topology import Topology
from dally.errors import InputError

_UNITS = {
    "": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30,
}  # fmt: skip
_SIZE = re.compile(r"(\d+(?:\.\d+)?(?:[eE]\d+)?)\s*([A-Za-z]*)")


@examples("dally networks", "dally networks --json")
def networks(
    as_json: bool = typer.Option(False, "--json", help="Print all their values as JSON instead of a table."),
) -> None:
    """List the networks that --network takes, with their figures and where these come from."""
    if as_json:
        typer.echo(json.dumps([_values(links) for links in PRESETS.values()], indent=2))
        return
    print_table(
        ["network", "inside a machine", "NICs", "GB/s in all", "uplinks", "taken", "source"],
        [_row(links) for links in PRESETS.values()],
    )
    typer.echo(
        "GB/s (10^9 bytes) each direction, nominal. --set-network KEY=VALUE changes a value, --json lists them."
    )


def _values(links: Links) -> dict[str, Any]:
    return {**links._asdict(), "source": SOURCES[links.name]}


def _row(links: Links) -> list[str]:
    return [
        links.name,
        f"torus, {links.torus_gbps:g} GB/s a link"
        if links.torus
        else f"{links.fabric}, {links.fabric_gbps:g} GB/s a GPU",
        f"{links.nic_count} × {8 * links.nic_gbps:g} Gb/s",
        f"{links.nic_count * links.nic_gbps:g}",
        _uplinks(links),
        f"{links.background:.0%}" if links.background else "",
        SOURCES[links.name],
    ]


def _uplinks(links: Links) -> str:
    """Their oversubscription from the closest tier up, and what they consist of."""
    facts = [f"1:{links.oversubscription:g}"]
    if links.upper_oversubscription:
        facts[0] += f", 1:{links.upper_oversubscription:g} above"
    facts += [f"{links.rails} rails"] if links.rails > 1 else []
    facts += (
        [f"{links.domain_fabric_gbps:g} GB/s a GPU between machines of a rack"] if links.domain_fabric_gbps else []
    )
    facts += [f"torus of {links.torus.removesuffix(' joined').split()[-1]}"] if links.torus else []
    facts += [f"{links.uplinks} cables, flows hashed"] if links.uplinks > 1 and links.routing != "spray" else []
    return ", ".join(facts)


def read_network(cluster: str, network: str, settings: Sequence[str], congestion: str) -> Network:
    """The network of the cluster: a preset's, its file's, or both."""
    values = read_settings("--set-network", list(settings))
    return _stated(connect_topology(read_topology(cluster), network, values, congestion))


def read_quiet_network(cluster: str, network: str, settings: Sequence[str]) -> Network:
    """The same without background load."""
    return _stated(quiet(read_topology(cluster), network, read_settings("--set-network", list(settings))))


def _stated(network: Network | None) -> Network:
    if network is None:
        raise InputError("--network is missing: the cluster states no links; e.g. --network normal")
    return network


def read_size(text: str, field: str = "--bytes") -> float:
    """Bytes of `100MB`, `64MiB` or a plain number."""
    match = _SIZE.fullmatch(text.strip())
    if match is None or match.group(2).upper() not in _UNITS:
        raise InputError(f"{field} {text}: must be a number of bytes, or one with KB, MB, GB, KiB, MiB or GiB")
    return float(match.group(1)) * _UNITS[match.group(2).upper()]


def read_placement(text: str, network: Network, tier: str = "", field: str = "--placement") -> dict[int, int]:
    """`{machine: GPUs}` of `8+8` (that many on each of as many machines) or `0:8+4:8` (machine numbers).

    Without numbers the machines are the closest ones that have the GPUs, or with `tier` the first
    that only that tier joins.
    """
    parts = [part.strip() for part in text.split("+")]
    try:
        if all(":" in part for part in parts):
            pairs = [(int(part.split(":")[0]), int(part.split(":")[1])) for part in parts]
            placement = dict(pairs)
            if len(placement) == len(pairs):
                return placement
        elif not any(":" in part for part in parts):
            return _place([int(part) for part in parts], network.topology, tier)
    except ValueError:
        pass
    raise InputError(f"{field} {text}: must be GPUs per machine such as 8+8, or machine:GPUs such as 0:8+4:8")


def _place(gpus: list[int], topology: Topology, tier: str) -> dict[int, int]:
    """The lowest machines under one domain, as close together as can be or no closer than `tier`."""
    if min(gpus) < 1:
        raise ValueError
    if tier and tier not in topology.tiers:
        raise InputError(f"--tier {tier}: must be one of {', '.join(topology.tiers)}")
    levels = range(len(topology.tiers)) if not tier else [topology.tiers.index(tier)]
    for level in levels:
        for domain in range(len(topology.names[level])):
            result = _place_in(gpus, topology, level, domain, apart=bool(tier) and level > 0)
            if result is not None:
                return result
    where = f" joined by a {tier} only" if tier else ""
    raise InputError(f"--placement {'+'.join(map(str, gpus))}: the cluster has no such machines{where}")


def _place_in(gpus: list[int], topology: Topology, tier: int, domain: int, apart: bool) -> dict[int, int] | None:
    """One machine per entry inside the domain; `apart`: spread in turn over the domains one tier below."""
    below = max(tier - 1, 0)
    if tier == 0:
        lanes = [[domain]]
    else:
        first = int(topology.first_children[tier][domain])
        children = range(first, first + int(topology.child_counts[tier][domain]))
        lanes = [_machines(topology, below, child) for child in children]
        if not apart:
            lanes = [[machine for lane in lanes for machine in lane]]
    placement: dict[int, int] = {}
    for phase, count in enumerate(gpus):
        lane = lanes[phase % len(lanes)]
        machine = next((one for one in lane if one not in placement and topology.gpus[0][one] >= count), None)
        if machine is None:
            return None
        placement[machine] = count
    return placement if not apart or len(gpus) < 2 or len(lanes) > 1 else None


def _machines(topology: Topology, tier: int, domain: int) -> list[int]:
    domains = [domain]
    for level in range(tier, 0, -1):
        domains = [
            int(topology.first_children[level][one]) + place
            for one in domains
            for place in range(int(topology.child_counts[level][one]))
        ]
    return domains
