"""Spaces of observations and actions: gymnasium's own where it is installed, else the little that is used."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, Final

import numpy as np

HAS_GYMNASIUM: Final = find_spec("gymnasium") is not None


class PlainBox:
    """Arrays of numbers between two bounds."""

    def __init__(self, low: float, high: float, shape: tuple[int, ...]) -> None:
        self.low, self.high, self.shape = low, high, shape
        self.dtype = np.float32

    def contains(self, value: Any) -> bool:
        """Whether the array is one of these."""
        fits = isinstance(value, np.ndarray) and value.shape == self.shape and value.dtype == self.dtype
        return bool(fits and (value >= self.low).all() and (value <= self.high).all())


class PlainDiscrete:
    """The numbers from 0 up to below `n`."""

    def __init__(self, n: int) -> None:
        self.n = n
        self._random = np.random.default_rng()

    def seed(self, seed: int) -> None:
        """Begin the sequence of samples again."""
        self._random = np.random.default_rng(seed)

    def sample(self, mask: Any = None) -> int:
        """Any of them; with a mask of 0 and 1, any that it allows."""
        if mask is None:
            return int(self._random.integers(self.n))
        return int(self._random.choice(np.flatnonzero(mask)))

    def contains(self, value: Any) -> bool:
        """Whether it is one of these."""
        return isinstance(value, (int, np.integer)) and 0 <= int(value) < self.n


class PlainEnv:
    """What environments inherit from without gymnasium."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - as gymnasium has it
    render_mode: str | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Begin the sequence of draws again, if a seed is given."""
        if seed is not None:
            self.np_random = np.random.default_rng(seed)

    @property
    def unwrapped(self) -> Any:
        """Itself."""
        return self

    def close(self) -> None:
        """Nothing is held."""


def base_class() -> type[Any]:
    """gymnasium.Env, if there is one."""
    if not HAS_GYMNASIUM:
        return PlainEnv
    import gymnasium

    base: type[Any] = gymnasium.Env
    return base


def box(low: float, high: float, shape: tuple[int, ...]) -> Any:
    """The space of such arrays of 32-bit floats."""
    if not HAS_GYMNASIUM:
        return PlainBox(low, high, shape)
    from gymnasium.spaces import Box

    return Box(low, high, shape, np.float32)


def discrete(count: int) -> Any:
    """The space of that many actions."""
    if not HAS_GYMNASIUM:
        return PlainDiscrete(count)
    from gymnasium.spaces import Discrete

    return Discrete(count)


def table(entries: dict[str, Any]) -> Any:
    """The space of dicts of these."""
    if not HAS_GYMNASIUM:
        return entries
    from gymnasium.spaces import Dict

    return Dict(entries)
