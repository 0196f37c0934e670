"""What there is to do: sizes and durations, spread evenly over the recipe's shares and curves.

Shares are quotas and durations lie evenly on their curve. So seeds differ in who comes when, and hardly in how
much work there is, although the few longest jobs hold most of it.
"""

from __future__ import annotations

from dally.errors import InputError
from dally.traces.generate.recipe import Recipe
from dally.traces.generate.stream import Stream, near_shares

GOLDEN = 0.6180339887498949  # its multiples, less their whole part, lie evenly in [0, 1) wherever one stops


def draw_work(recipe: Recipe, jobs: int, most_gpus: int, seed: int, attempt: int = 0) -> dict[int, list[int]]:
    """Durations in seconds by size, shortest first; sizes above `most_gpus` are left out."""
    shares = possible_shares(recipe, most_gpus)
    offset = Stream(seed, recipe.name, "sizes").point()
    counts = near_shares(jobs, list(shares.values()), offset)
    points = {most: Stream(seed, recipe.name, "durations", most, attempt).point() for most in recipe.curves}
    result: dict[int, list[int]] = {}
    for gpus, count in zip(shares, counts, strict=True):
        most = recipe.curve_of(gpus)
        own_s = []
        for _ in range(count):
            own_s.append(recipe.curves[most].at(points[most]))
            points[most] = (points[most] + GOLDEN) % 1.0
        result[gpus] = sorted(own_s)
    return result


def possible_shares(recipe: Recipe, most_gpus: int) -> dict[int, float]:
    """Percent of jobs by size, of the sizes that a cluster of so many GPUs can hold."""
    shares = {gpus: share for gpus, share in recipe.shares.items() if gpus <= most_gpus}
    if not shares:
        least = min(recipe.shares)
        raise InputError(f"{recipe.name}: its gangs have at least {least} GPUs, the cluster has {most_gpus}")
    return shares


def gpu_seconds(work: dict[int, list[int]]) -> int:
    """GPUs × seconds of all jobs."""
    return sum(gpus * sum(durations_s) for gpus, durations_s in work.items())


def mean_gpu_seconds(recipe: Recipe, most_gpus: int) -> float:
    """GPUs × seconds of a job on average."""
    shares = possible_shares(recipe, most_gpus)
    means_s = {most: curve.mean_s() for most, curve in recipe.curves.items()}
    total = sum(share * gpus * means_s[recipe.curve_of(gpus)] for gpus, share in shares.items())
    return total / sum(shares.values())
