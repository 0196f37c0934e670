"""A small network that scores rows, from plain numbers: what inference needs, and nothing else."""

from __future__ import annotations

from math import exp

from librt.vecs import vec
from mypy_extensions import i64

from dally.pickles import picklable


class Layer:
    """Outputs × inputs weights, row by row, and a bias for each output."""

    __slots__ = ("biases", "inputs", "outputs", "weights")

    def __init__(self, weights: list[list[float]], biases: list[float]) -> None:
        self.outputs: i64 = len(biases)
        self.inputs: i64 = len(weights[0]) if weights else 0
        flat: list[float] = []
        for row in weights:
            flat += row
        self.weights: vec[float] = vec[float](flat)
        self.biases: vec[float] = vec[float](biases)


picklable(Layer, [], [])


class Scorer:
    """Layers with max(0, x) between them; the last has one output. Sums run in one order, for the same bytes."""

    __slots__ = ("_layers",)

    def __init__(self, layers: list[Layer]) -> None:
        self._layers: list[Layer] = layers

    def score(self, rows: vec[float], at: i64) -> float:
        """The score of the row that begins at that place."""
        values = rows
        first = at
        last: i64 = len(self._layers) - 1
        for number in range(len(self._layers)):
            layer = self._layers[number]
            outputs = vec[float]([0.0] * int(layer.outputs))
            weights = layer.weights
            for output in range(layer.outputs):
                total = layer.biases[output]
                start: i64 = output * layer.inputs
                for place in range(layer.inputs):
                    total += weights[start + place] * values[first + place]
                outputs[output] = total if total > 0.0 or number == last else 0.0
            values = outputs
            first = 0
        return values[0]

    def best(self, rows: vec[float], width: i64, mask: vec[i64]) -> i64:
        """The row of highest score among those that may be chosen; the first of equal ones."""
        best: i64 = -1
        highest = 0.0
        for place in range(len(mask)):
            if mask[place] == 0:
                continue
            score = self.score(rows, place * width)
            if best < 0 or score > highest:
                best = place
                highest = score
        return best

    def drawn(self, rows: vec[float], width: i64, mask: vec[i64], share: float) -> i64:
        """The row that a number from 0 to 1 picks by the softmax of the scores; -1: none may be chosen."""
        best = self.best(rows, width, mask)
        if best < 0:
            return best
        highest = self.score(rows, best * width)
        odds: list[float] = []
        total = 0.0
        for place in range(len(mask)):
            odds.append(exp(self.score(rows, place * width) - highest) if mask[place] != 0 else 0.0)
            total += odds[len(odds) - 1]
        left = share * total
        for place in range(len(mask)):
            left -= odds[place]
            if mask[place] != 0 and left < 0.0:
                return place
        return best


picklable(Scorer, [])
