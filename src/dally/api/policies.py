"""Policies as callers give them: by name, by file, as a class of their own, or as an object of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, TypeAlias

from dally.errors import InputError
from dally.policies.base import Policy
from dally.policies.declaration import NamedPolicy
from dally.policies.here import known_here, named_here
from dally.sweep.policy_list import Chosen, read_policies

PolicyLike: TypeAlias = str | type[Policy] | Policy
WithSettings: TypeAlias = tuple[PolicyLike, dict[str, str]]


class Choice(NamedTuple):
    """Policies by name, and whether all of them are known to other processes too."""

    policies: list[Chosen]
    everywhere: bool


@contextmanager
def known(policies: Iterable[WithSettings]) -> Iterator[Choice]:
    """The policies in their order; inside, those of this process are known by the names of their classes."""
    result: list[Chosen] = []
    here: dict[str, NamedPolicy] = {}
    for policy, settings in policies:
        name = policy if isinstance(policy, str) else _free_name(policy, {one.name for one in result})
        if not isinstance(policy, str):
            here[name] = named_here(name, policy)
        result.append(Chosen(name, settings))
    with known_here(here):
        yield Choice(result, not here)


def spelled_out(policies: Iterable[PolicyLike]) -> list[WithSettings]:
    """Policies with the settings that a text such as `las:lease_s=1800` holds, none twice; `all` is all of ours."""
    result: list[WithSettings] = []
    for policy in [policies] if isinstance(policies, str) else policies:
        here: list[WithSettings] = [(policy, {})]
        if isinstance(policy, str):
            here = [(one.name, one.settings) for one in read_policies([policy])]
        result += [one for one in here if one not in result]
    if not result:
        raise InputError("policies: names none; `dally policies` lists them")
    return result


def _free_name(policy: type[Policy] | Policy, taken: set[str]) -> str:
    """The name of the class, numbered if another policy has it."""
    kind = policy if isinstance(policy, type) else type(policy)
    if not issubclass(kind, Policy):
        raise InputError(
            f"policy: {kind.__name__}: must be a name, file.py:Class, or a subclass or an object of Policy"
        )
    name, number = kind.__name__, 1
    while name in taken:
        number += 1
        name = f"{kind.__name__}-{number}"
    return name
