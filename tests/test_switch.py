"""Yes and no are written the same way wherever a value is text."""

from __future__ import annotations

import pytest

from dally.cluster.links import Links, override
from dally.errors import InputError
from dally.parsed_text import is_on
from dally.policies.registry import build
from dally.sweep.plan import convert

ON = ["on", "true", "yes", "1", "True", "ON"]
OFF = ["off", "false", "no", "0", "False", "Off"]
SWITCH_OF_LINKS = next(name for name, value in Links()._asdict().items() if isinstance(value, bool))


@pytest.mark.parametrize(("text", "wanted"), [*((text, True) for text in ON), *((text, False) for text in OFF)])
def test_one_vocabulary(text: str, wanted: bool) -> None:
    assert is_on(text) is wanted
    assert convert("strict", text) is wanted  # a sweep's plan
    assert getattr(override(Links(), {SWITCH_OF_LINKS: text}), SWITCH_OF_LINKS) is wanted  # --set-network
    build("dally-paper", {"tuner": text})  # --set


@pytest.mark.parametrize("value", [True, False])
def test_what_toml_calls_true_and_false(value: bool) -> None:
    assert is_on(value) is value
    text = convert(f"network.{SWITCH_OF_LINKS}", value)  # of a plan: handed on as --set-network takes it
    assert getattr(override(Links(), {SWITCH_OF_LINKS: text}), SWITCH_OF_LINKS) is value


def test_anything_else_is_refused_in_the_same_words() -> None:
    for refuse in (
        lambda: convert("strict", "maybe"),
        lambda: override(Links(), {SWITCH_OF_LINKS: "maybe"}),
        lambda: build("dally-paper", {"tuner": "maybe"}),
    ):
        with pytest.raises(InputError, match="must be on or off"):
            refuse()
