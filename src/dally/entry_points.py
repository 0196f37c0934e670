"""What other distributions add to Dally: their entry points, found when a name is asked for that is not ours."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from dally.errors import InputError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Thing = TypeVar("Thing")


class Installed(NamedTuple):
    """An entry point and the distribution that brings it."""

    entry: EntryPoint
    distribution: str  # name and version

    def load(self) -> Any:
        """What it names; InputError that names the distribution if that fails."""
        try:
            return self.entry.load()
        except Exception as error:
            raise self.refused(f"cannot be loaded: {type(error).__name__}: {error}") from None

    def refused(self, why: str) -> InputError:
        """An InputError about it."""
        return InputError(f"entry point {self.entry.name!r} ({self.entry.value}) of {self.distribution}: {why}")


@cache
def installed(group: str) -> dict[str, list[Installed]]:
    """The group's entry points by name, sorted; several under one name are for the caller to refuse."""
    from importlib.metadata import entry_points  # slow to import, and seldom needed

    result: dict[str, list[Installed]] = {}
    for entry in sorted(entry_points(group=group), key=lambda entry: (entry.name, entry.value)):
        distribution = f"{entry.dist.name} {entry.dist.version}" if entry.dist else "an unknown distribution"
        here = result.setdefault(entry.name, [])
        if all(other.entry.value != entry.value for other in here):  # the same one may lie in two folders
            here.append(Installed(entry, distribution))
    return result


def the_one(group: str, name: str) -> Installed | None:
    """The entry point of that name, None if there is none; InputError if several distributions claim it."""
    result = installed(group).get(name, [])
    if len(result) > 1:
        claims = ", ".join(one.distribution for one in result[1:])
        raise result[0].refused(f"{claims} claims the same name; uninstall all but one")
    return result[0] if result else None


@cache
def code_digest(group: str, name: str) -> str:
    """The digest of all Python files of the package that the entry point names; empty if there is no such one."""
    from importlib.util import find_spec

    result = the_one(group, name)
    package = find_spec(result.entry.module.partition(".")[0]) if result else None
    if package is None:
        return ""
    folders = package.submodule_search_locations or []
    files = [path for folder in folders for path in Path(folder).rglob("*.py")]
    digest = hashlib.sha256()
    for path in sorted(files) or [Path(package.origin or "")]:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def load_all(
    group: str, ours: Collection[str], load: Callable[[str], Thing | None]
) -> tuple[dict[str, Thing], list[str]]:
    """All that can be loaded by name, and what is wrong with the others. Names of ours are refused."""
    things: dict[str, Thing] = {}
    problems: list[str] = []
    for name, result in installed(group).items():
        try:
            if name in ours:
                raise result[0].refused(f"the name {name!r} is Dally's own; it is left out")
            thing = load(name)
        except InputError as error:
            problems.append(str(error))
            continue
        if thing is not None:
            things[name] = thing
    return things, problems
