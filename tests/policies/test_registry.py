"""Names, settings, and what is said of wrong ones."""

from __future__ import annotations

import pytest

from dally.errors import InputError
from dally.policies.base import Param
from dally.policies.registry import POLICIES, build
from dally.policies.settings import settings_for


def test_every_name_builds() -> None:
    for name in POLICIES:
        assert build(name) is not build(name)


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("fif", {}, "unknown policy 'fif'; did you mean 'fifo'?"),
        ("dally-manual", {}, "unknown policy 'dally-manual'; did you mean 'dally-paper-manual'?"),
        ("dally-nowait", {}, "unknown policy 'dally-nowait'; did you mean 'dally-paper-nowait'?"),
        ("dally-consolidated", {}, "unknown policy 'dally-consolidated'; did you mean 'dally-paper-consolidated'?"),
        ("zzz", {}, "unknown policy 'zzz'; known: fifo, "),
        (
            "las",
            {"lease": "5"},
            "--set lease=5: policy 'las' has no parameter 'lease'; did you mean 'lease_s'?",
        ),
        ("fifo", {"x": "5"}, "--set x=5: policy 'fifo' has no parameter 'x'; it takes tier"),
        ("las", {"lease_s": "soon"}, "--set lease_s=soon: must be a number"),
        ("las", {"lease_s": "0"}, "--set lease_s=0: must be at least 0.001"),
        ("las", {"lease_s": "nan"}, "--set lease_s=nan: must be at least 0.001"),
    ],
)
def test_errors(name: str, given: dict[str, str], message: str) -> None:
    with pytest.raises(InputError) as caught:
        build(name, given)
    assert message in str(caught.value)


def test_kinds_of_parameters() -> None:
    params = (Param("switch", True, ""), Param("count", 3, ""), Param("word", "a", ""), Param("share", 0.5, ""))
    given = {"switch": "off", "count": "7", "word": "b"}
    assert settings_for("p", params, given) == {"switch": False, "count": 7, "word": "b", "share": 0.5}
    for bad in ({"switch": "maybe"}, {"count": "1.5"}, {"share": "-1"}):
        with pytest.raises(InputError):
            settings_for("p", params, bad)
