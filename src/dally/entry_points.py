"""What other distributions add to Dally: their entry points, found when a name is asked for that is not ours."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache
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

    found: dict[str, list[Installed]] = {}
    for entry in sorted(entry_points(group=group), key=lambda entry: (entry.name, entry.value)):
        distribution = f"{entry.dist.name} {entry.dist.version}" if entry.dist else "an unknown distribution"
        here = found.setdefault(entry.name, [])
        if all(other.entry.value != entry.value for other in here):  # the same one may lie in two folders
            here.append(Installed(entry, distribution))
    return found


def the_one(group: str, name: str) -> Installed | None:
    """The entry point of that name, None if there is none; InputError if several distributions claim it."""
    found = installed(group).get(name, [])
    if len(found) > 1:
        claims = ", ".join(one.distribution for one in found[1:])
        raise found[0].refused(f"{claims} claims the same name; uninstall all but one")
    return found[0] if found else None


def load_all(
    group: str, ours: Collection[str], load: Callable[[str], Thing | None]
) -> tuple[dict[str, Thing], list[str]]:
    """All that can be loaded by name, and what is wrong with the others. Names of ours are refused."""
    things: dict[str, Thing] = {}
    problems: list[str] = []
    for name, found in installed(group).items():
        try:
            if name in ours:
                raise found[0].refused(f"the name {name!r} is Dally's own; it is left out")
            thing = load(name)
        except InputError as error:
            problems.append(str(error))
            continue
        if thing is not None:
            things[name] = thing
    return things, problems
