"""How `--network`, `--set-network` and `--congestion` are read."""

from __future__ import annotations

from collections.abc import Mapping

from dally.cluster.links import Links, Network, connect, has_links, override
from dally.cluster.presets import find_preset
from dally.cluster.topology import Topology
from dally.errors import InputError


def connect_topology(
    topology: Topology, preset: str, settings: Mapping[str, str], congestion: str
) -> Network | None:
    """The topology with the preset, overrides and background load applied; None if nobody states a link."""
    if not preset and not settings and not has_links(topology):
        if congestion:
            raise InputError(f"--congestion {congestion}: the cluster states no links; give --network too")
        return None
    links = find_preset(preset) if preset else Links()
    return connect(topology, override(links, settings), read_congestion(congestion))


def quiet(topology: Topology, preset: str, settings: Mapping[str, str]) -> Network | None:
    """The same network without background load: the one on which a trace's durations hold."""
    return connect_topology(topology, preset, {**settings, "background": "0"}, "0")


def read_congestion(text: str) -> float | dict[str, float] | None:
    """`0.5`, or `machine=0.2,rack=0.5`: a share, or one per tier."""
    if not text:
        return None
    try:
        if "=" not in text:
            return float(text)
        parts = (part.split("=") for part in text.split(","))
        return {tier.strip(): float(share) for tier, share in parts}
    except ValueError:
        raise InputError(f"--congestion {text}: must be a share such as 0.5, or machine=0.2,rack=0.5") from None


def read_settings(option: str, texts: list[str]) -> dict[str, str]:
    """`{key: value}` of KEY=VALUE texts."""
    values: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise InputError(f"{option} {text}: must be KEY=VALUE")
        values[key.strip()] = value.strip()
    return values
