"""Two small networks in numpy: one scores rows, one estimates what is still to be gained; and their gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

Array = Any  # of numpy, 64-bit floats
ACTOR: Final = (("w1", "b1"), ("w2", "b2"), ("w3", "b3"))
CRITIC: Final = (("v1", "c1"), ("v2", "c2"))
MASKED: Final = -1e9  # the score of what may not be chosen


def fresh_parameters(width: int, hidden: int, seed: int) -> dict[str, Array]:
    """Small random weights; the last layers near zero, so that the first choices are nearly even."""
    drawn = np.random.default_rng([seed, 1])
    shapes = {"w1": (width, hidden), "w2": (hidden, hidden), "w3": (hidden, 1), "v1": (2 * width, hidden)}
    shapes |= {"v2": (hidden, 1)}
    result = {}
    for name, shape in shapes.items():
        scale = 0.01 if name in ("w3", "v2") else np.sqrt(2.0 / shape[0])
        result[name] = drawn.normal(0.0, scale, shape)
        result[name.replace("w", "b").replace("v", "c")] = np.zeros(shape[1])
    return result


class Scale(NamedTuple):
    """Mean and spread of each column over rows that could be chosen: networks see rows in these units."""

    mean: Array
    spread: Array

    def of(self, rows: Array) -> Array:
        """The rows in these units."""
        return (rows - self.mean) / self.spread


def scale_of(rows: Array, mask: Array) -> Scale:
    """The scale of these decisions; a column that never changes keeps its own."""
    chosen = rows[mask]
    spread = chosen.std(axis=0)
    return Scale(chosen.mean(axis=0), np.where(spread > 1e-6, spread, 1.0))


class Forward(NamedTuple):
    """What a pass through a network leaves for the way back: the input of each layer, and the output."""

    inputs: list[Array]
    output: Array


def forward(parameters: dict[str, Array], layers: tuple[tuple[str, str], ...], rows: Array) -> Forward:
    """Layers with max(0, x) between them."""
    inputs = []
    for number, (weights, biases) in enumerate(layers):
        inputs.append(rows)
        rows = rows @ parameters[weights] + parameters[biases]
        if number + 1 < len(layers):
            rows = np.maximum(rows, 0.0)
    return Forward(inputs, rows)


def backward(
    parameters: dict[str, Array], layers: tuple[tuple[str, str], ...], done: Forward, slope: Array
) -> dict[str, Array]:
    """Gradients of the layers' parameters, from the slope of the loss in the output."""
    result = {}
    for number in range(len(layers) - 1, -1, -1):
        weights, biases = layers[number]
        here = done.inputs[number].reshape(-1, done.inputs[number].shape[-1])
        flat = slope.reshape(-1, slope.shape[-1])
        result[weights] = here.T @ flat
        result[biases] = flat.sum(axis=0)
        if number > 0:
            slope = (slope @ parameters[weights].T) * (done.inputs[number] > 0.0)
    return result


def summary_of(rows: Array, mask: Array) -> Array:
    """What the critic sees of a decision: the mean of the rows that may be chosen, and the last row."""
    chosen = mask[..., None]
    mean = (rows * chosen).sum(axis=-2) / np.maximum(chosen.sum(axis=-2), 1)
    return np.concatenate([mean, rows[..., -1, :]], axis=-1)


def log_odds(scores: Array, mask: Array) -> Array:
    """Logarithms of the probabilities of the choices."""
    masked = np.where(mask, scores, MASKED)
    shifted = masked - masked.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def actor_layers(parameters: dict[str, Array], scale: Scale) -> list[tuple[Any, Any]]:
    """The scoring network as a policy file has it, for rows as they are: weights by output, and biases."""
    first = parameters["w1"] / scale.spread[:, None]
    layers = [(first, parameters["b1"] - scale.mean @ first)]
    layers += [(parameters[weights], parameters[biases]) for weights, biases in ACTOR[1:]]
    return [(weights.T.tolist(), biases.tolist()) for weights, biases in layers]


@dataclass
class Adam:
    """Steps along the gradient, each parameter's on its own scale (Kingma and Ba, 2015)."""

    mean: dict[str, Array]
    square: dict[str, Array]
    steps: int = 0

    @staticmethod
    def fresh(parameters: dict[str, Array]) -> Adam:
        """Before its first step."""
        return Adam(
            {name: np.zeros_like(value) for name, value in parameters.items()},
            {name: np.zeros_like(value) for name, value in parameters.items()},
        )

    def step(self, parameters: dict[str, Array], slopes: dict[str, Array], rate: float, most: float = 0.5) -> None:
        """Change the parameters in place; slopes longer than `most` are shortened to it."""
        length = np.sqrt(sum(float((slope**2).sum()) for slope in slopes.values()))
        shrink = min(1.0, most / (length + 1e-12))
        self.steps += 1
        for name in sorted(slopes):
            slope = slopes[name] * shrink
            self.mean[name] = 0.9 * self.mean[name] + 0.1 * slope
            self.square[name] = 0.999 * self.square[name] + 0.001 * slope**2
            mean = self.mean[name] / (1.0 - 0.9**self.steps)
            square = self.square[name] / (1.0 - 0.999**self.steps)
            parameters[name] = parameters[name] - rate * mean / (np.sqrt(square) + 1e-8)
