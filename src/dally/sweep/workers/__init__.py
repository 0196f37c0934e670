"""Where many runs are carried out: one interface, an engine per file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol, TypeVar

from dally.errors import InputError

Item = TypeVar("Item")
Result = TypeVar("Result")


class Failure(NamedTuple):
    """Why one item has no result."""

    reason: str
    bad_input: str = ""  # what is wrong with it, where that is why


class Workers(Protocol):
    """Calls a function on many items, several at a time."""

    def map(
        self, function: Callable[[Item], Result], items: Sequence[Item]
    ) -> Iterator[tuple[Item, Result | Failure]]:
        """Each item with its result, or why it has none, as they finish. What one item does harms no other.

        The function and the items must be picklable. An item whose worker dies is tried again.
        """
        ...


def attempt(function: Callable[[Item], Result], item: Item) -> Result | Failure:
    """The function's result; what it raises becomes a Failure, because not every exception can be pickled."""
    try:
        return function(item)
    except InputError as error:
        return Failure(f"InputError: {error}", str(error))
    except Exception as error:
        return Failure(f"{type(error).__name__}: {error}")
