"""Reading `--policies a,b,c:key=value`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from dally.cluster.network_spec import read_settings
from dally.errors import InputError
from dally.policies.registry import POLICIES, build


class Chosen(NamedTuple):
    """A policy with settings, and what tables call it."""

    name: str
    settings: dict[str, str]

    def label(self) -> str:
        """As the command line names it: las or las:lease_s=1800."""
        given = ",".join(f"{key}={value}" for key, value in self.settings.items())
        return f"{self.name}:{given}" if given else self.name


def read_policies(texts: Iterable[str]) -> list[Chosen]:
    """The policies of all texts in order, checked against the registry; `all` stands for every one of it."""
    found: dict[str, Chosen] = {}
    for text in texts:
        for part in _split(text):
            for name in POLICIES if part == "all" else [part]:
                chosen = _read(name)
                found.setdefault(chosen.label(), chosen)
    if not found:
        raise InputError("--policies: names none; see `dally policies`")
    return list(found.values())


def _split(text: str) -> list[str]:
    """Cut at the commas between policies. One inside settings (dally:floors=6,12,tuner=off) does not cut:
    what follows it is no policy."""
    parts: list[str] = []
    for piece in text.split(","):
        if parts and ":" in parts[-1] and piece.partition(":")[0].strip() not in (*POLICIES, "all"):
            parts[-1] += f",{piece}"
        else:
            parts.append(piece.strip())
    return [part for part in parts if part]


def _read(text: str) -> Chosen:
    name, _, given = text.partition(":")
    settings: list[str] = []
    for piece in given.split(",") if given else []:
        if settings and "=" not in piece:
            settings[-1] += f",{piece}"
        else:
            settings.append(piece)
    chosen = Chosen(name, dict(sorted(read_settings(f"--policies {name}:", settings).items())))
    build(chosen.name, chosen.settings)
    return chosen
