"""Options that state numbers by name say what is wrong in the same words."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dally.errors import InputError
from dally.runs.elastic_option import read_elastic
from dally.runs.health_option import read_health
from dally.runs.progress_option import read_reports


def reports(text: str) -> object:
    return read_reports(text, 1)


@pytest.mark.parametrize(
    ("read", "name"), [(read_elastic, "share"), (read_health, "stragglers"), (reports, "share")]
)
def test_what_is_wrong_is_named(read: Callable[[str], object], name: str) -> None:
    assert read("") is None
    assert read(f"{name}=0.5") is not None
    for text, message in {
        "speed=1": "unknown value 'speed'",
        f"{name}=x": f"{name}=x: must be a number from 0 to",
        f"{name}=-1": f"{name}=-1: must be a number from 0 to",
        f"{name}=": f"{name}=: must be a number from 0 to",
        f"{name}=0.5,{name}=0.4": f"{name}: given twice",
        f"{name}=0.5,": "unknown value ''",
    }.items():
        with pytest.raises(InputError, match=message):
            read(text)


def test_bounds_and_what_a_file_leaves_open() -> None:
    with pytest.raises(InputError, match=r"after=-1: must be a number from 0$"):
        read_reports("after=-1", 1)
    with pytest.raises(InputError, match=r"lemons=1.5: must be a whole number of machines"):
        read_health("lemons=1.5")
    with pytest.raises(InputError, match=r"factor: the file says what is slow"):
        read_health("slow.csv,factor=2")
    option = read_health("slow.csv,act=1")
    assert option is not None
    assert (option.path, option.value("act"), option.value("factor")) == ("slow.csv", 1.0, 1.3)
