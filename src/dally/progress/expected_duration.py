"""How long a job will run, before it starts: quantiles from jobs of its like, mixed by which foretold ends best.

Each expert has the latest durations of a class (the user's, those of the size, …), newer ones counting more. Their
quantiles are averaged in logarithms, with weights that follow their losses (exponentiated gradient, one set of
weights for each quantile), so that the mixture is soon about as good as the best of them on any cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log
from typing import Final, NamedTuple

QUANTILES: Final = (0.1, 0.25, 0.5, 0.75, 0.9)
LATEST: Final = 100  # durations of a class
MOST_CLASSES: Final = 100_000  # that are remembered, those in which a job ended last
LEAST_S: Final = 1.0
RATE: Final = 0.1
MOST_OFF: Final = 2.0  # by which an expert's quantile counts as wrong at most, in logarithms


class Expert(NamedTuple):
    """Which jobs it goes by, how much less each earlier one counts, and how many it remembers."""

    by: tuple[str, ...]  # of user, name, gpus
    decay: float
    latest: int = LATEST
    weight: float = 1.0  # before it has been right or wrong


EXPERTS: Final = (
    Expert(("user", "name", "gpus"), 0.5, weight=8.0),
    Expert(("user", "name", "gpus"), 0.9, weight=8.0),
    Expert(("user", "gpus"), 0.5),
    Expert(("user", "gpus"), 0.9),
    Expert(("user",), 1.0, 2),
    Expert(("user",), 0.5),
    Expert(("user",), 0.8),
    Expert(("user",), 0.95),
    Expert(("gpus",), 0.98),
    Expert((), 0.98),
)


class DurationForecast(NamedTuple):
    """Quantiles of ln seconds, and those of each expert that had any; to be learnt from once the job has ended."""

    quantiles: tuple[float, ...]
    experts: tuple[tuple[int, tuple[float, ...]], ...]  # place, quantiles

    def seconds(self) -> list[float]:
        """The quantiles in seconds."""
        return [exp(value) for value in self.quantiles]


class ExpectedDuration:
    """Learns from jobs as they end, and foretells those that have not started."""

    def __init__(self) -> None:
        self._ended: dict[tuple[str, ...], list[float]] = {}  # ln seconds, the latest last, by class
        self._weights = [[expert.weight for expert in EXPERTS] for _ in QUANTILES]

    def forecast(self, user: str, name: str, gpus: int) -> DurationForecast | None:
        """None: nothing is known of any like it."""
        known: list[tuple[int, tuple[float, ...]]] = []
        for place, expert in enumerate(EXPERTS):
            if "name" in expert.by and not name:
                continue
            ended = self._ended.get(_key(expert.by, user, name, gpus), [])[-expert.latest :]
            if len(ended) >= 2:
                known.append((place, weighted_quantiles(ended, expert.decay)))
        if not known:
            return None
        mixed: list[float] = []
        for number, weights in enumerate(self._weights):
            whole = sum(weights[place] for place, _ in known)
            mixed.append(sum(weights[place] * values[number] for place, values in known) / whole)
        return DurationForecast(tuple(sorted(mixed)), tuple(known))

    def learn(self, user: str, name: str, gpus: int, seconds: float, forecast: DurationForecast | None) -> None:
        """The job ended; `forecast`: what was said when it was submitted."""
        value = log(max(LEAST_S, seconds))
        if forecast is not None:
            self._weigh(forecast, value)
        for by in {expert.by for expert in EXPERTS}:
            key = _key(by, user, name, gpus)
            ended = self._ended.pop(key, [])
            ended.append(value)
            del ended[:-LATEST]
            self._ended[key] = ended  # the latest is last
        while len(self._ended) > MOST_CLASSES:
            del self._ended[next(iter(self._ended))]

    def _weigh(self, forecast: DurationForecast, value: float) -> None:
        for number, share in enumerate(QUANTILES):
            weights = self._weights[number]
            mixed = forecast.quantiles[number]
            slope = (1.0 if value < mixed else 0.0) - share
            before = sum(weights[place] for place, _ in forecast.experts)
            for place, values in forecast.experts:
                off = max(-MOST_OFF, min(MOST_OFF, values[number] - mixed))
                weights[place] = max(1e-6, weights[place] * exp(-RATE * slope * off))
            after = sum(weights[place] for place, _ in forecast.experts)
            for place, _ in forecast.experts:  # those that had nothing to say keep their weight
                weights[place] *= before / after


def weighted_quantiles(values: Sequence[float], decay: float) -> tuple[float, ...]:
    """Of values of which each earlier one counts less, with straight lines between them."""
    weights = [decay ** (len(values) - 1 - place) for place in range(len(values))]
    rows = sorted(zip(values, weights, strict=True))
    whole, passed = sum(weights), 0.0
    places: list[float] = []
    for _, weight in rows:
        places.append((passed + 0.5 * weight) / whole)
        passed += weight
    return tuple(_at(share, places, rows) for share in QUANTILES)


def _at(share: float, places: Sequence[float], rows: Sequence[tuple[float, float]]) -> float:
    if share <= places[0]:
        return rows[0][0]
    for number in range(1, len(places)):
        if share <= places[number]:
            part = (share - places[number - 1]) / (places[number] - places[number - 1])
            return rows[number - 1][0] + part * (rows[number][0] - rows[number - 1][0])
    return rows[-1][0]


def pinball(quantiles: Sequence[float], value: float) -> float:
    """The mean loss of quantiles over QUANTILES: 0 if all are right."""
    losses = [
        (share - 1.0) * (value - quantile) if value < quantile else share * (value - quantile)
        for share, quantile in zip(QUANTILES, quantiles, strict=True)
    ]
    return sum(losses) / len(losses)


def _key(by: tuple[str, ...], user: str, name: str, gpus: int) -> tuple[str, ...]:
    values = {"user": user, "name": name, "gpus": str(gpus)}
    return (*by, *(values[part] for part in by))
