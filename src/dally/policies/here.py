"""Policies without a name of their own: classes and objects of this process, while runs of them are made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from copy import deepcopy
from secrets import token_hex

from dally.policies.base import Policy
from dally.policies.declaration import NamedPolicy, declared

_HERE: ContextVar[Mapping[str, NamedPolicy] | None] = ContextVar("policies of this process", default=None)


def named_here(name: str, policy: type[Policy] | Policy) -> NamedPolicy:
    """The row of a class or an object under that name; each run gets a copy of the object, so that all start alike.

    Its source is new every time: no later run is taken for one of it, whatever became of its code.
    """
    source = f"this process {token_hex(8)}"
    if isinstance(policy, Policy):
        about = (type(policy).__doc__ or "").strip().partition("\n")[0]
        return NamedPolicy(name, lambda settings: deepcopy(policy), about, "", "", "", "", source=source)
    return declared(name, policy)._replace(source=source)


@contextmanager
def known_here(policies: Mapping[str, NamedPolicy]) -> Iterator[None]:
    """Inside, this thread finds these policies by name."""
    token = _HERE.set(policies)
    try:
        yield
    finally:
        _HERE.reset(token)


def find_here(name: str) -> NamedPolicy | None:
    """The policy that goes by that name at the moment, or None."""
    return (_HERE.get() or {}).get(name)
