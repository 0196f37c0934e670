"""Synthetic workloads: named recipes made of published statistics, and the sampler that follows them."""

from dally.traces.generate.recipe import RECIPE_NAMES, Recipe, find_recipe
from dally.traces.generate.workload import Ask, GeneratedWorkload, generate, write_workload

__all__ = ["RECIPE_NAMES", "Ask", "GeneratedWorkload", "Recipe", "find_recipe", "generate", "write_workload"]
