"""Synthetic workloads: named recipes made of published statistics, and the sampler that follows them."""

from dally.traces.generate.recipe import RECIPE_NAMES, Recipe, find_recipe
from dally.traces.generate.workload import GeneratedWorkload, WorkloadRequest, generate, write_workload

__all__ = [
    "RECIPE_NAMES",
    "GeneratedWorkload",
    "Recipe",
    "WorkloadRequest",
    "find_recipe",
    "generate",
    "write_workload",
]
