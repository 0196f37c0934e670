"""Label selectors as kubectl takes them: `pool=gpu,zone in (a,b),!spot`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from dally.errors import InputError

_NAME: Final = r"[A-Za-z0-9][-A-Za-z0-9_./]*"
_PARTS: Final = re.compile(r",(?![^()]*\))")
_EQUALS: Final = re.compile(rf"\s*({_NAME})\s*(==|=|!=)\s*([-A-Za-z0-9_.]*)\s*")
_SET: Final = re.compile(rf"\s*({_NAME})\s+(in|notin)\s*\(([^()]*)\)\s*")
_EXISTS: Final = re.compile(rf"\s*(!?)\s*({_NAME})\s*")


class LabelRule(NamedTuple):
    """A label, and the values that it must have, or must not; no values: whether it is there."""

    name: str
    present: bool
    values: tuple[str, ...] | None

    def fits(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels is selected; one without the label has none of the values."""
        value = labels.get(self.name)
        if self.values is None:
            return (value is not None) == self.present
        return (value in self.values) == self.present


def label_rules(field: str, text: str) -> tuple[LabelRule, ...]:
    """The rules, all of which must fit; InputError if it is no selector."""
    return tuple(_rule(field, text, part) for part in _PARTS.split(text) if text.strip())


def _rule(field: str, text: str, part: str) -> LabelRule:
    if match := _EQUALS.fullmatch(part):
        return LabelRule(match[1], match[2] != "!=", (match[3],))
    if match := _SET.fullmatch(part):
        return LabelRule(match[1], match[2] == "in", tuple(value.strip() for value in match[3].split(",")))
    if match := _EXISTS.fullmatch(part):
        return LabelRule(match[2], not match[1], None)
    raise InputError(
        f"kubernetes: {field}: {text!r}: must be a label selector such as pool=gpu,zone in (a,b),!spot"
    )
