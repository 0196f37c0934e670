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


def read_shares(text: str) -> list[tuple[float, float]]:
    """`43200=0.5,129600=1`: from which moments on links have what share of their bandwidth, in order."""
    found: list[tuple[float, float]] = []
    for part in text.split(",") if text else []:
        moment, _, share = part.partition("=")
        try:
            found.append((float(moment), float(share)))
        except ValueError:
            found.append((-1.0, 0.0))
        if not (0.0 <= found[-1][0] < float("inf") and 0.0 < found[-1][1] <= 1.0):
            raise InputError(
                f"--network-at {part}: must be SECONDS=SHARE, the share above 0 and at most 1, as 43200=0.5"
            )
    return sorted(found, key=lambda change: change[0])


def read_settings(option: str, texts: list[str]) -> dict[str, str]:
    """`{key: value}` of KEY=VALUE texts."""
    values: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise InputError(f"{option} {text}: must be KEY=VALUE")
        values[key.strip()] = value.strip()
    return values
