"""A mixture of policies: softmax over candidates, learned by policy gradient or by SPSA.

After "Better than the Best" (Zaki et al., arXiv 2105.00210): of M given policies one is drawn at a time, by weights
that rise along the gradient of the return. The paper draws at every step of a chain; here a draw is for a window of
hours, in which a change costs what it costs. It leaves open how many steps there are and how long they are: both
are numbers below. What is learned is a file for `--policy learned`, which draws by its seed.
"""

from __future__ import annotations

from collections.abc import Callable
from time import process_time
from typing import Any, Final, NamedTuple

import numpy as np

from dally.errors import InputError
from dally.gym.tuning import TuneEnv
from dally.learning.actor_critic import Array, log_odds
from dally.policies.choices.model_file import model_text

STEPS: Final = 12  # of the weights
EPISODES: Final = 4  # played for a gradient step; SPSA plays two on each side
RATE: Final = 1.0  # of the first step; it falls to a tenth
SHIFT: Final = 0.5  # of the weights, to each side, by SPSA


class Mixture(NamedTuple):
    """Weights before the softmax, and what every step saw."""

    weights: Array
    gains: list[float]
    cpu_s: float

    def shares(self) -> Array:
        """How often each candidate is drawn."""
        return np.exp(log_odds(self.weights, np.ones(len(self.weights), bool)))

    def text(self, env: TuneEnv, seed: int) -> str:
        """The policy file: it scores a candidate by its weight, and draws by the seed."""
        count = len(self.weights)
        row = [*self.weights.tolist(), *[0.0] * (env.width - count)]
        about = {"mixture": self.shares().tolist()}
        return model_text("tune", {**env.options, "seed": seed}, [([row], [0.0])], about)


class Played(NamedTuple):
    """An episode: the gain, and the slope of its log probability in the weights."""

    gain: float
    slope: Array


def train_mixture(
    env: TuneEnv, method: str, seed: int, steps: int = STEPS, report: Callable[[float], None] | None = None
) -> Mixture:
    """Weights for the environment's candidates by `gradient` or `spsa`; the same for the same seed."""
    if method not in ("gradient", "spsa"):
        raise InputError(f"method {method!r}: must be gradient or spsa")
    began_s = process_time()
    weights = np.zeros(env.rows - 1)
    drawn = np.random.default_rng([seed, 11])
    gains = []
    for number in range(steps):
        rate = RATE * (1.0 - 0.9 * number / steps)
        windows = [int(one) for one in drawn.integers(env.windows.count, size=EPISODES)]
        step = _by_gradient if method == "gradient" else _by_spsa
        slope, gain = step(env, weights, windows, drawn)
        length = float(np.sqrt((slope**2).sum()))
        weights = weights + rate * slope / (length + 1e-12)  # a step of that length: gains have no natural unit
        gains.append(gain)
        if report is not None:
            report(gain)
    return Mixture(weights, gains, process_time() - began_s)


def play_mixture(env: TuneEnv, weights: Array, window: int, drawn: Any) -> Played:
    """An episode whose candidates are drawn by the softmax of the weights."""
    odds = log_odds(weights, np.ones(len(weights), bool))
    shares = np.exp(odds)
    sums = np.cumsum(shares)
    slope = np.zeros_like(weights)
    env.reset(options={"window": window})
    over = False
    info: dict[str, Any] = {}
    while not over:
        action = min(int(np.searchsorted(sums, drawn.random() * sums[-1], side="right")), len(weights) - 1)
        slope -= shares
        slope[action] += 1.0
        _, _, over, _, info = env.step(action)
    return Played(float(info["gain"]), slope)


def _by_gradient(env: TuneEnv, weights: Array, windows: list[int], drawn: Any) -> tuple[Array, float]:
    """The gradient of the expected gain (Williams, 1992), each window against the mean of two draws of it."""
    total = np.zeros_like(weights)
    gains = []
    for window in windows[: EPISODES // 2]:
        pair = [play_mixture(env, weights, window, drawn) for _ in range(2)]
        middle = (pair[0].gain + pair[1].gain) / 2.0
        for one in pair:
            total += (one.gain - middle) * one.slope
        gains.append(middle)
    return total, float(np.mean(gains))


def _by_spsa(env: TuneEnv, weights: Array, windows: list[int], drawn: Any) -> tuple[Array, float]:
    """Differences along one random direction (Spall, 1992), on the same windows and draws on both sides."""
    side = drawn.choice([-1.0, 1.0], size=len(weights))
    seed = int(drawn.integers(1 << 31))
    means = []
    for sign in (1.0, -1.0):
        same = np.random.default_rng(seed)
        shifted = weights + sign * SHIFT * side
        means.append(
            float(np.mean([play_mixture(env, shifted, window, same).gain for window in windows[: EPISODES // 2]]))
        )
    return (means[0] - means[1]) / (2.0 * SHIFT) * side, (means[0] + means[1]) / 2.0
