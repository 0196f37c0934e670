"""Reading `--policies a,b,c:key=value,file.py:Class:key=value`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import cache
from typing import NamedTuple

from dally.cluster.spec import read_settings
from dally.errors import InputError
from dally.extras import MissingExtraError
from dally.metrics.comparison import FORM_OF
from dally.policies.placement.closest_tier import ANY, CLOSEST, TIER
from dally.policies.registry import POLICIES, build, is_policy
from dally.policies.user_file import split_file


class Chosen(NamedTuple):
    """A policy with settings, and what tables call it."""

    name: str
    settings: dict[str, str]
    form_of: str = ""  # the policy whose better form tables show, if this is one of its two

    def label(self) -> str:
        """As the command line names it: las or las:lease_s=1800."""
        options = ",".join(f"{key}={value}" for key, value in self.settings.items())
        return f"{self.name}:{options}" if options else self.name

    def labels(self) -> dict[str, str]:
        """What the row of a run says of its policy."""
        form = {FORM_OF: self.form_of} if self.form_of else {}
        return {"policy": self.label(), **form}


def read_policies(texts: Iterable[str]) -> list[Chosen]:
    """The policies of all texts in order, checked against the registry.

    `all` stands for each of ours that needs no package which is not here, and `-LABEL` leaves one of those before
    it out: a form as tables name it.
    """
    result = _listed(texts, lambda part: _all() if part == "all" else [_read(part)])
    if not result:
        raise InputError("--policies: names none; see `dally policies`")
    return result


def _listed(texts: Iterable[str], read: Callable[[str], Iterable[Chosen]]) -> list[Chosen]:
    """What `read` makes of each part of the texts, none twice, without those that are left out."""
    result: dict[str, Chosen] = {}
    for part in (part for text in texts for part in _split(text)):
        if part.startswith("-"):
            if result.pop(part[1:], None) is None:
                raise InputError(f"--policies {part}: there is no {part[1:]!r} before it to leave out")
        else:
            for chosen in read(part):
                result.setdefault(chosen.label(), chosen)
    return list(result.values())


def _all() -> list[Chosen]:
    """Each of ours; those that need a package which is not installed are named instead."""
    result: list[Chosen] = []
    for name in (name for name, row in POLICIES.items() if row.in_all):
        try:
            result.append(_read(name))
        except MissingExtraError as error:
            _warn_missing(name, str(error))
    return result


@cache
def _warn_missing(name: str, why: str) -> None:
    """Once per policy and cause."""
    logging.getLogger("dally").warning("dally: all: without %s: %s", name, why)


def both_forms(texts: Iterable[str]) -> list[Chosen]:
    """As `read_policies`, but those that `all` stands for come going anywhere and held at their closest tier, too.

    Many policies lose on slow networks only because gangs go anywhere: tables show the better form.
    """

    def read(part: str) -> Iterable[Chosen]:
        chosen = read_policies([part])
        return [form for one in chosen for form in _forms(one)] if part == "all" else chosen

    return _listed(texts, read) or read_policies(texts)


def _forms(chosen: Chosen) -> list[Chosen]:
    params = POLICIES[chosen.name].params
    if TIER in params:
        anywhere = {}
    elif TIER._replace(default=CLOSEST) in params:
        anywhere = {TIER.name: ANY}
    else:
        return [chosen]
    return [Chosen(chosen.name, options, chosen.name) for options in (anywhere, {TIER.name: CLOSEST})]


def _split(text: str) -> list[str]:
    """Cut at the commas between policies. One inside settings (dally:floors=6,12,tuner=off) does not cut:
    what follows it is no policy."""
    parts: list[str] = []
    for piece in text.split(","):
        name = _name_of(piece.strip())
        if parts and parts[-1] != _name_of(parts[-1]) and not (name == "all" or is_policy(name.removeprefix("-"))):
            parts[-1] += f",{piece}"
        else:
            parts.append(piece.strip())
    return [part for part in parts if part]


def _name_of(text: str) -> str:
    """The text up to its settings: up to the first colon, or the second in `file.py:Class:key=value`."""
    path, rest = split_file(text)
    return f"{path}:{rest.partition(':')[0]}".removesuffix(":") if path else text.partition(":")[0]


def _read(text: str) -> Chosen:
    name = _name_of(text)
    options = text.removeprefix(name).removeprefix(":")
    settings: list[str] = []
    for piece in options.split(",") if options else []:
        if settings and "=" not in piece:
            settings[-1] += f",{piece}"
        else:
            settings.append(piece)
    chosen = Chosen(name, dict(sorted(read_settings(f"--policies {name}:", settings).items())))
    build(chosen.name, chosen.settings)
    return chosen
