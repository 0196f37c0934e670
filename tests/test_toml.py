"""TOML: in which line a field stands, fields in the type of their defaults, and values written and read back."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dally.errors import InputError
from dally.toml import TomlFile, TomlTable, toml_lines, toml_text

TEXT = """\
# ours
policy = "las"
"odd key" = 1

[settings]
lease_s = 60
inner.deep = "=x"

[[models]]
name = "a"
batch = [
  1,
]
[[models.compute]]
gpu = "a100"
[[models.compute]]
gpu = "h100"
[[models]]
name = "b"
[[models.compute]]
gpu = "v100"
"""


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        (("policy",), 2), (("odd key",), 3), (("settings",), 5), (("settings", "lease_s"), 6),
        (("settings", "inner", "deep"), 7), (("settings", "none"), 5), (("none",), None),
        (("models",), 9), (("models", 0, "batch"), 11), (("models", 0, "missing"), 9), (("models", 1, "name"), 19),
        (("models", 0, "compute", 1, "gpu"), 17), (("models", 1, "compute", 0, "gpu"), 21),
        (("models", 1, "compute", 0, "missing"), 20),
    ],
)  # fmt: skip
def test_the_line_of_a_field(keys: tuple[str | int, ...], line: int | None) -> None:
    assert TomlFile(Path("f.toml"), TEXT).line(*keys) == line


DEFAULTS = {"name": "", "share": 0.5, "count": 1, "on": False, "names": (), "folder": Path(), "table": {}}


def test_fields_in_the_type_of_their_defaults() -> None:
    text = 'name = "x"\nshare = 2\ncount = 3\non = true\nnames = ["a"]\nfolder = "f"\n'
    text += "[table]\na = 1\nb = true\nc = 2.5\n"
    assert TomlFile(Path("f.toml"), text).fields(DEFAULTS) == {
        "name": "x", "share": 2.0, "count": 3, "on": True, "names": ("a",), "folder": Path("f"),
        "table": {"a": "1", "b": "on", "c": "2.5"},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("\nshare = true\n", "f.toml:2: share: True: must be a number"),
        ("count = 1.0\n", "f.toml:1: count: 1.0: must be a whole number"),
        ("count = true\n", "f.toml:1: count: True: must be a whole number"),
        ("names = [1]\n", "f.toml:1: names: [1]: must be a list of texts"),
        ("folder = 1\n", "f.toml:1: folder: 1: must be a text"),
        ("table = 1\n", "f.toml:1: table: 1: must be a table"),
        ("[tabel]\n", "f.toml:1: unknown field 'tabel'; did you mean 'table'?"),
    ],
)
def test_fields_of_another_type(text: str, problem: str) -> None:
    with pytest.raises(InputError) as told:
        TomlFile(Path("f.toml"), text).fields(DEFAULTS)
    assert str(told.value) == problem


@pytest.mark.parametrize(
    ("check", "problem"),
    [
        (lambda table: table.text("batch"), "f.toml:11: models[0].batch: [1]: must be text"),
        (lambda table: table.count("name", most=9), "models[0].name: 'a': must be a whole number from 1 to 9"),
        (lambda table: table.number("none"), "f.toml:9: models[0].none: missing: must be a number greater than 0"),
        (lambda table: table.choice("name", ("x", "y")), "f.toml:10: models[0].name: 'a': must be one of x, y"),
        (lambda table: table.only(("name",)), "f.toml:11: models[0].batch: [1]: unknown; known: name"),
    ],
)  # fmt: skip
def test_fields_of_a_table(check: Any, problem: str) -> None:
    file = TomlFile(Path("f.toml"), TEXT)
    table = TomlTable(file, ("models", 0), file.tables["models"][0], "models[0].")
    with pytest.raises(InputError) as told:
        check(table)
    assert str(told.value).endswith(problem)


TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    TEXTS | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(TEXTS, VALUES, max_size=4))
def test_what_is_written_is_read_back(values: dict[str, Any]) -> None:
    assert tomllib.loads("\n".join(toml_lines(values))) == values


def test_text_is_one_line() -> None:
    assert toml_text("a\nb\x7f") == '"a\\nb\\u007f"'
