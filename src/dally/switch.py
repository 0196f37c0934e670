"""One way to write yes and no, wherever a value is text."""

from __future__ import annotations

from typing import Final

ACCEPTED: Final = "on or off"  # in errors: the other spellings need no telling
_SWITCH: Final = {
    "on": True, "true": True, "yes": True, "1": True,
    "off": False, "false": False, "no": False, "0": False,
}  # fmt: skip


def is_on(value: object) -> bool:
    """Whether a switch, given as text or as what TOML calls true and false, is on; ValueError if it is none."""
    try:
        return _SWITCH[str(value).strip().lower()]
    except KeyError:
        raise ValueError(f"{value!r}: must be {ACCEPTED}") from None
