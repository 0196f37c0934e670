"""What became of jobs in many futures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import floor

from dally.live.forecast.future import Outcome, Started
from dally.model import INFINITY


@dataclass
class Fates:
    """One job in each future."""

    started: list[Started] = field(default_factory=list)
    guessed: list[float] = field(default_factory=list)  # its start in futures that were cut short
    unseen: int = 0  # futures in which it does not start within the time looked at,
    reached_s: float = INFINITY  # which is up to this moment

    def add(self, number: int, outcome: Outcome) -> None:
        """One more future."""
        if number in outcome.started:
            self.started.append(outcome.started[number])
        elif number in outcome.guessed:
            self.guessed.append(outcome.guessed[number])
        else:
            self.unseen += 1
            self.reached_s = min(self.reached_s, outcome.reached_s)

    def futures(self) -> int:
        """How many there are."""
        return len(self.started) + len(self.guessed) + self.unseen

    def starts_s(self) -> list[float]:
        """When it starts, in order; infinity where that was not seen."""
        return sorted([one.start_s for one in self.started] + self.guessed) + [INFINITY] * self.unseen

    def start_s(self, share: float) -> float:
        """By when it has started in that share of the futures; infinity where that was not seen."""
        return quantile(self.starts_s(), share)

    def chances(self) -> dict[int, float]:
        """By tier, the share of its starts that are there, closest first."""
        tiers = sorted(one.tier for one in self.started)
        return {tier: tiers.count(tier) / len(tiers) for tier in dict.fromkeys(tiers)}

    def start_at_s(self, tier: int) -> float | None:
        """The median moment of its starts at one tier."""
        found = sorted(one.start_s for one in self.started if one.tier == tier)
        return quantile(found, 0.5) if found else None

    def slowdown(self, tier: int | None = None) -> float | None:
        """The mean slowdown of its starts, at one tier or at all."""
        found = [one.slowdown for one in self.started if tier in (None, one.tier) and one.slowdown < INFINITY]
        return sum(found) / len(found) if found else None


def quantile(ordered: Sequence[float], share: float) -> float:
    """The value below which that share of them lies, between two of them in proportion; infinity of nothing."""
    if not ordered:
        return INFINITY
    place = max(0.0, min(share * len(ordered) - 0.5, len(ordered) - 1.0))
    low = floor(place)
    high = min(low + 1, len(ordered) - 1)
    if ordered[high] == INFINITY:
        return ordered[low] if place == low else INFINITY
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])
