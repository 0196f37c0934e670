"""Delays that operators set: how long gangs of a size decline farther places, whatever the policy thinks fit."""

from __future__ import annotations

from mypy_extensions import mypyc_attr

from dally.policies.part import Part


@mypyc_attr(allow_interpreted_subclasses=True)
class DelayOverrides(Part):
    """Seconds by gang size; sizes that are not named have the policy's own delays."""

    def __init__(self) -> None:
        self.sizes: dict[int, float] = {}  # seconds, by GPUs
        self.changed: bool = False  # since a policy that looks at it last set it back

    def set_s(self, gpus: int, delay_s: float) -> None:
        """Gangs of that size decline farther places for so long; below 0: as long as the policy thinks fit."""
        self.changed = True
        self.sizes.pop(gpus, None)
        if delay_s >= 0.0:
            self.sizes[gpus] = delay_s
