"""Proximal policy optimisation with action masks (Schulman et al., 2017; Huang and Ontañón, 2022), in numpy."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from dally.learning.actor_critic import ACTOR, CRITIC, Adam, Array, Scale, backward, forward, log_odds, summary_of

CLIP: Final = 0.2
VALUE_WEIGHT: Final = 0.5
EPOCHS: Final = 4
BATCH: Final = 256


class Rollout(NamedTuple):
    """One episode as it was played."""

    rows: Array
    mask: Array
    actions: Array
    log_odds: Array  # of the actions
    rewards: Array
    values: Array  # as the critic estimated them
    gain: float


class Update(NamedTuple):
    """What an update did."""

    entropy: float
    value_loss: float
    clipped: float  # share of the steps whose odds moved beyond the clip


def play(env: Any, parameters: dict[str, Array], scale: Scale, seed: tuple[int, ...]) -> Rollout:
    """An episode with choices drawn by their odds; its rows are in units of the scale."""
    drawn = np.random.default_rng(seed)
    window = int(drawn.integers(env.windows.count))
    rows, info = env.reset(options={"window": window})
    mask = env.action_masks()
    steps: list[tuple[Any, ...]] = []
    over = False
    while not over:
        rows = scale.of(rows)
        odds = log_odds(forward(parameters, ACTOR, rows).output[:, 0], mask)
        sums = np.cumsum(np.exp(odds))
        action = int(np.searchsorted(sums, drawn.random() * sums[-1], side="right"))
        action = action if action < len(mask) and mask[action] else int(np.flatnonzero(mask)[-1])
        before = rows, mask, action, odds[action]
        rows, reward, over, _, info = env.step(action)
        mask = env.action_masks()
        steps.append((*before, reward))
    seen = np.array([step[0] for step in steps], np.float64)
    masks = np.array([step[1] for step in steps])
    values = forward(parameters, CRITIC, summary_of(seen, masks)).output[:, 0]
    return Rollout(
        seen, masks, np.array([step[2] for step in steps]), np.array([step[3] for step in steps]),
        np.array([step[4] for step in steps]), values, float(info["gain"]),
    )  # fmt: skip


def advantages_of(rollout: Rollout, decay: float) -> Array:
    """How much better each step was than the critic expected, later steps counting less and less.

    Nothing is discounted: an episode ends with its jobs.
    """
    result = np.zeros_like(rollout.rewards)
    later = 0.0
    next_value = 0.0
    for place in range(len(result) - 1, -1, -1):
        surprise = rollout.rewards[place] + next_value - rollout.values[place]
        later = surprise + decay * later
        result[place] = later
        next_value = rollout.values[place]
    return result


class StepSizes(NamedTuple):
    """How an update steps."""

    rate: float
    entropy: float  # its weight in the loss
    decay: float


def update(
    parameters: dict[str, Array], adam: Adam, rollouts: list[Rollout], pace: StepSizes, seed: list[int]
) -> Update:
    """Several epochs of steps on these episodes; changes the parameters in place."""
    drawn = np.random.default_rng(seed)
    advantages = np.concatenate([advantages_of(rollout, pace.decay) for rollout in rollouts])
    returns = advantages + np.concatenate([rollout.values for rollout in rollouts])
    advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    rows, mask, actions, before = (np.concatenate([rollout[field] for rollout in rollouts]) for field in range(4))
    notes = []
    for _ in range(EPOCHS):
        order = drawn.permutation(len(actions))
        for first in range(0, len(order), BATCH):
            batch = order[first : first + BATCH]
            slopes, note = _slopes(
                parameters, rows[batch], mask[batch], actions[batch], before[batch], advantages[batch],
                returns[batch], pace.entropy,
            )  # fmt: skip
            adam.step(parameters, slopes, pace.rate)
            notes.append(note)
    return Update(*(float(one) for one in np.mean(notes, axis=0)))


def _slopes(
    parameters: dict[str, Array],
    rows: Array,
    mask: Array,
    actions: Array,
    before: Array,
    advantages: Array,
    returns: Array,
    entropy_weight: float,
) -> tuple[dict[str, Array], tuple[float, float, float]]:
    """Gradients of the loss of a batch, and what to note of it."""
    count = len(actions)
    places = np.arange(count)
    scored = forward(parameters, ACTOR, rows)
    odds = log_odds(scored.output[..., 0], mask)
    chances = np.exp(odds)
    ratio = np.exp(odds[places, actions] - before)
    clipped = ((ratio > 1.0 + CLIP) & (advantages > 0.0)) | ((ratio < 1.0 - CLIP) & (advantages < 0.0))
    # The slope of the loss in the log odds of the action, then in the scores by softmax.
    pull = np.where(clipped, 0.0, -ratio * advantages) / count
    slope = -chances * pull[:, None]
    slope[places, actions] += pull
    surprise = np.where(mask, chances * odds, 0.0)
    entropy = -surprise.sum(axis=1)
    slope += entropy_weight / count * (surprise + chances * entropy[:, None])
    slope = np.where(mask, slope, 0.0)
    slopes = backward(parameters, ACTOR, scored, slope[..., None])
    judged = forward(parameters, CRITIC, summary_of(rows, mask))
    miss = judged.output[:, 0] - returns
    slopes |= backward(parameters, CRITIC, judged, (2.0 * VALUE_WEIGHT / count * miss)[:, None])
    return slopes, (float(entropy.mean()), float((miss**2).mean()), float(clipped.mean()))
