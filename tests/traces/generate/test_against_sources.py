"""Recipes against the traces that they were made from."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest

from benchmarks.recipe_statistics import recipes_toml
from benchmarks.recipes import RECIPES, SEEDS, differences, made_measures, source_measures, within


def test_the_numbers_come_from_the_traces(shared: Path) -> None:
    shipped = (files("dally.traces.generate") / "recipes.toml").read_text(encoding="utf-8")
    assert recipes_toml(shared / "traces") == shipped, "run `python -m benchmarks.recipe_statistics` again"


@pytest.mark.parametrize("recipe", RECIPES)
def test_workloads_are_like_their_source(recipe: str, shared: Path) -> None:
    source = source_measures(shared / "traces", recipe)
    for seed in SEEDS:
        missed = differences(made_measures(recipe, seed), source)
        assert within(missed), f"seed {seed}: {missed}"


def test_a_workload_unlike_the_source_is_noticed(shared: Path) -> None:
    source = source_measures(shared / "traces", "venus-like")
    assert not within(differences(made_measures("itp-like", 1), source))
    assert not within(differences(source._replace(p90_s=source.p90_s * 1.16), source))
    assert not within(differences(source._replace(over_8=source.over_8 - 0.06), source))
    assert within(differences(source, source))
