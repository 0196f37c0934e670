"""What there is to do: sizes and durations, spread evenly over the recipe's shares and curves.

Shares are quotas and durations lie evenly on their curve. So seeds differ in who comes when, and hardly in how
much work there is, although the few longest jobs hold most of it.
"""

from __future__ import annotations

from collections import defaultdict

from dally.errors import InputError
from dally.traces.generate.recipe import Recipe
from dally.traces.generate.stream import Stream, near_shares

GOLDEN = 0.6180339887498949  # its multiples, less their whole part, lie evenly in [0, 1) wherever one stops


def draw_work(recipe: Recipe, jobs: int, most_gpus: int, seed: int) -> dict[int, list[int]]:
    """Durations in seconds by size, shortest first; sizes above `most_gpus` are left out."""
    shares = {gpus: share for gpus, share in recipe.shares.items() if gpus <= most_gpus}
    if not shares:
        raise InputError(f"{recipe.name}: its gangs have at least {min(recipe.shares)} GPUs, the cluster {most_gpus}")
    offset = Stream(seed, recipe.name, "sizes").point()
    counts = near_shares(jobs, list(shares.values()), offset)
    points = {most: Stream(seed, recipe.name, "durations", most).point() for most in recipe.curves}
    found: dict[int, list[int]] = defaultdict(list)
    for gpus, count in zip(shares, counts, strict=True):
        curve = recipe.curves[recipe.curve_of(gpus)]
        point = points[recipe.curve_of(gpus)]
        for _ in range(count):
            found[gpus].append(curve.at(point))
            point = (point + GOLDEN) % 1.0
        points[recipe.curve_of(gpus)] = point
        found[gpus].sort()
    return dict(found)


def gpu_seconds(work: dict[int, list[int]]) -> int:
    """GPUs × seconds of all jobs."""
    return sum(gpus * sum(durations_s) for gpus, durations_s in work.items())
