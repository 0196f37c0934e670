"""How --cluster, --network, --set-network and --congestion are read."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from dally.cluster.links import Links, Network, connect, has_links, override
from dally.cluster.presets import NO_NETWORK, find_preset
from dally.cluster.topology import Topology, grid
from dally.errors import InputError
from dally.input_file import shown

MOST_GPUS = 10_000_000
_WARNED: set[str] = set()  # warnings that this process has given
_GRID = re.compile(r"\d{1,18}(x\d{1,18})+")


def is_grid(spec: str) -> bool:
    """Whether it reads as RxMxG."""
    return _GRID.fullmatch(spec) is not None


def read_topology(spec: str) -> Topology:
    """The topology of `4x16x8` (4 racks of 16 machines of 8 GPUs) or of a file in any known format.

    Nodes that a file lists and the topology has not are named in a warning.
    """
    if not is_grid(spec):
        return _read_file(spec)
    from dally.cluster.formats.from_machines import MOST_TIERS

    counts = [int(text) for text in spec.split("x")]
    if len(counts) > MOST_TIERS:
        raise InputError(f"cluster {shown(spec)}: {len(counts):,} tiers, at most {MOST_TIERS}")
    total = 1
    for count in counts:
        total *= count
    if total < 1 or total > MOST_GPUS:
        raise InputError(f"cluster {spec!r}: {total} GPUs, must be between 1 and {MOST_GPUS}")
    return grid(*counts)


def _read_file(spec: str) -> Topology:
    from dally.cluster.formats.from_machines import describe
    from dally.cluster.formats.known import import_file

    if not os.path.exists(spec) and not spec.endswith(".toml"):
        raise InputError(f"cluster {shown(spec)}: neither RxMxG (racks × machines × GPUs, e.g. 4x16x8) nor a file")
    result = import_file(Path(spec))
    if result.left_out:
        _warn(spec, describe(result.left_out))
    return result.topology


def _warn(spec: str, left_out: str) -> None:
    """Say it once, however often and by whatever name the file is read."""
    import logging

    record = f"{Path(spec).resolve()}: {left_out}"
    if record not in _WARNED:
        _WARNED.add(record)
        logging.getLogger("dally").warning("dally: %s: %s", spec, left_out)


def cluster_files(spec: str) -> list[str]:
    """The files that a cluster is read from."""
    from dally.cluster.formats.known import files_of

    return [] if is_grid(spec) else [str(path) for path in files_of(Path(spec))]


def connect_topology(
    topology: Topology, preset: str, settings: Mapping[str, str], congestion: str
) -> Network | None:
    """The topology with the preset, overrides and background load applied; None if nobody states a link."""
    if preset == NO_NETWORK and (settings or congestion not in ("", "0")):
        raise InputError(f"--network {NO_NETWORK}: --set-network and --congestion need a network")
    if preset == NO_NETWORK:
        return None
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
    result: list[tuple[float, float]] = []
    for part in text.split(",") if text else []:
        moment, _, share = part.partition("=")
        try:
            result.append((float(moment), float(share)))
        except ValueError:
            result.append((-1.0, 0.0))
        if not (0.0 <= result[-1][0] < float("inf") and 0.0 < result[-1][1] <= 1.0):
            raise InputError(
                f"--network-at {part}: must be SECONDS=SHARE, the share above 0 and at most 1, as 43200=0.5"
            )
    return sorted(result, key=lambda change: change[0])


def read_settings(option: str, texts: list[str]) -> dict[str, str]:
    """`{key: value}` of KEY=VALUE texts."""
    values: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise InputError(f"{option} {text}: must be KEY=VALUE")
        values[key.strip()] = value.strip()
    return values
