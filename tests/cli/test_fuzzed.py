"""A little of what `python -m benchmarks.fuzz` does: scenarios, plans, profiles, run folders, special files."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from benchmarks import fuzz_inputs
from benchmarks.fuzz import INPUTS


def test_every_kind_is_fuzzed() -> None:
    assert tuple(fuzz_inputs.KINDS) == INPUTS


def test_damage_of_any_kind(tmp_path: Path) -> None:
    with fuzz_inputs.workshop(tmp_path):
        for kind in INPUTS:
            for number in range(15):
                fuzz_inputs.one_case(random.Random(f"{kind}/{number}"), kind, tmp_path)
        assert not fuzz_inputs.left_behind(tmp_path)


def test_the_fuzz_notices_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise KeyError("seed")

    with fuzz_inputs.workshop(tmp_path):
        monkeypatch.setattr("dally.cli.runs.scenario_options.read_scenario", broken)
        with pytest.raises(KeyError):
            fuzz_inputs.one_case(random.Random(1), "scenario", tmp_path)
