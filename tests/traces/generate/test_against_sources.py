"""Recipes against the traces that they were made from."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest
from benchmarks.recipe_statistics import recipes_toml
from benchmarks.recipes import RECIPES, SEEDS, differences, made_measures, row, source_measures, within

ROOT = Path(__file__).resolve().parents[3]


def test_the_numbers_come_from_the_traces(shared: Path) -> None:
    shipped = (files("dally.traces.generate") / "recipes.toml").read_text(encoding="utf-8")
    assert recipes_toml(shared / "traces") == shipped, "run `python -m benchmarks.recipe_statistics` again"


@pytest.mark.parametrize("recipe", RECIPES)
def test_workloads_are_like_their_source(recipe: str, shared: Path) -> None:
    source = source_measures(shared / "traces", recipe)
    page = (ROOT / "docs" / "workloads.md").read_text(encoding="utf-8").splitlines()
    assert row(f"{recipe} source", source, None) in page
    for seed in SEEDS:
        made = made_measures(recipe, seed)
        missed = differences(made, source)
        assert within(missed), f"seed {seed}: {missed}"
        assert row(f"  seed {seed}", made, missed) in page, "docs/workloads.md shows another table"


def test_a_workload_unlike_the_source_is_noticed(shared: Path) -> None:
    source = source_measures(shared / "traces", "venus-like")
    assert not within(differences(made_measures("itp-like", 1), source))
    assert not within(differences(source._replace(p90_s=source.p90_s * 1.16), source))
    assert not within(differences(source._replace(over_8=source.over_8 - 0.06), source))
    assert within(differences(source, source))
