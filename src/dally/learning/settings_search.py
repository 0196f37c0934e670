"""A search over a policy's few constants: random steps around the best so far, judged on earlier windows only."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from dally.errors import InputError
from dally.policies.registry import find
from dally.sweep.policy_list import Chosen


class ConstantRange(NamedTuple):
    """Where a constant may lie, and whether steps are factors rather than sums."""

    name: str
    least: float
    most: float
    by_factor: bool = True


# Of the flagship: what its own ablations found to matter, each from a half or less to a double or more.
DALLY_RANGES: Final = (
    ConstantRange("gpu_power", 0.6, 1.2, False),
    ConstantRange("stick", 0.35, 1.0),
    ConstantRange("hold", 2.0, 40.0),
    ConstantRange("least_hold_s", 10.0, 600.0),
    ConstantRange("least_horizon_s", 60.0, 7200.0),
    ConstantRange("weight", 2.0, 40.0),
    ConstantRange("forget", 0.003, 0.3),
    ConstantRange("near_price", 1.0, 1.5),
    ConstantRange("leftover_far_price", 1.0, 1.5),
    ConstantRange("patient_price", 1.0, 2.0),
)
LEAST_GAIN: Final = 0.005  # on validation windows; below this the usual constants stay


class SearchResult(NamedTuple):
    """What a search chose, and what it saw of it: mean JCT ÷ that of the usual constants."""

    chosen: Chosen
    trained: float
    validated: float
    evaluations: int


def search(
    policy: str,
    ranges: Sequence[ConstantRange],
    train: Callable[[Chosen], float],
    validate: Callable[[Chosen], float],
    seed: int,
    generations: int = 4,
    children: int = 6,
) -> SearchResult:
    """The constants with the lowest ratio on training windows, if validation windows agree; else the usual ones."""
    drawn = random.Random(seed)
    usual = Chosen(policy, {})
    best, lowest = usual, 1.0
    step = 0.5
    evaluations = 0
    for _ in range(generations):
        better = False
        for child in [_changed(best, ranges, step, drawn) for _ in range(children)]:
            ratio = train(child)
            evaluations += 1
            if ratio < lowest:
                best, lowest, better = child, ratio, True
        step *= 1.0 if better else 0.5
    validated = validate(best) if best is not usual else 1.0
    if validated > 1.0 - LEAST_GAIN:
        return SearchResult(usual, lowest, validated, evaluations)
    return SearchResult(best, lowest, validated, evaluations)


def _changed(chosen: Chosen, ranges: Sequence[ConstantRange], step: float, drawn: random.Random) -> Chosen:
    """Two to four constants moved at random."""
    settings = dict(chosen.settings)
    usual = {param.name: param.default for param in find(chosen.name).params}
    for one in drawn.sample(list(ranges), drawn.randint(2, min(4, len(ranges)))):
        if one.name not in usual:
            raise InputError(f"policy {chosen.name!r} has no parameter {one.name!r}")
        value = float(settings.get(one.name, usual[one.name]))
        factor = 2.0 ** drawn.gauss(0.0, 2.0 * step)
        moved = value * factor if one.by_factor else value + drawn.gauss(0.0, step * (one.most - one.least) / 2.0)
        settings[one.name] = f"{min(max(moved, one.least), one.most):.4g}"
    return Chosen(chosen.name, dict(sorted(settings.items())))
