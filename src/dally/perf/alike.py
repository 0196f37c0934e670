"""Texts that are alike, by the terms they share: TF-IDF and cosines, where rare terms count for most.

Salton and Buckley, Term-weighting approaches in automatic text retrieval, 1988. The texts are names and command
lines of jobs.
"""

from __future__ import annotations

import re
from math import log, sqrt
from typing import Final

from mypy_extensions import i64

from dally.pickles import picklable

MOST_TEXTS: Final = 1000  # the latest
MOST_TERMS: Final = 60  # of a text
LONGEST: Final = 30  # of a term: what is longer is a hash or a secret
MOST_HOLDERS: Final = 500  # texts that are only alike in terms that more of them have are not looked for
_TERM: Final = re.compile(r"[a-z]+\d*|\d+[a-z]+", re.IGNORECASE)
_HUMP: Final = re.compile(r"[A-Z]?[a-z]{2,}")


def terms_of(text: str) -> list[str]:
    """Its terms in small letters, and the parts of some: resnet50 and resnet, trainBert, train and bert."""
    result: list[str] = []
    for term in _TERM.findall(text):
        if len(term) > LONGEST:
            continue
        parts = [term.lower()]
        letters = term.strip("0123456789")
        if letters != term and len(letters) > 1:
            parts.append(letters.lower())
        humps = _HUMP.findall(letters)
        if len(humps) > 1:
            parts += [hump.lower() for hump in humps]
        result += parts
        if len(result) >= MOST_TERMS:
            break
    return result


class AlikeText:
    """A text that is like another, and how much: 1 if it has the same terms."""

    __slots__ = ("similarity", "text")

    def __init__(self, text: str, similarity: float) -> None:
        self.text: str = text
        self.similarity: float = similarity


picklable(AlikeText, "", 0.0)


class TextIndex:
    """Texts by their terms. The rarer a term is among them, the more it counts."""

    __slots__ = ("_counts", "_holders")

    def __init__(self) -> None:
        self._counts: dict[str, dict[str, float]] = {}  # by text, the latest last: 1 + ln how often it has the term
        self._holders: dict[str, dict[str, bool]] = {}  # by term: texts that have it

    def __len__(self) -> int:
        return len(self._counts)

    def add(self, text: str) -> str:
        """The text is known from now on. Where there are too many, the oldest goes; it is returned."""
        if text in self._counts:
            return ""
        counts = _counted(text)
        self._counts[text] = counts
        for term in counts:
            self._holders.setdefault(term, {})[text] = True
        if len(self._counts) <= MOST_TEXTS:
            return ""
        oldest = next(iter(self._counts))
        self._drop(oldest)
        return oldest

    def _drop(self, text: str) -> None:
        for term in self._counts.pop(text):
            holders = self._holders[term]
            del holders[text]
            if not holders:
                del self._holders[term]

    def nearest(self, text: str, most: i64) -> list[AlikeText]:
        """The texts that share most with this one, the most alike first."""
        counts = _counted(text)
        length = self._length(counts)
        candidates: dict[str, bool] = {}
        for term in counts:
            holders = self._holders.get(term)
            if holders is not None and len(holders) <= MOST_HOLDERS:
                candidates.update(holders)
        rows: list[tuple[float, str]] = []
        for other in candidates:
            others = self._counts[other]
            rows.append((-self._product(counts, others) / (length * self._length(others)), other))
        rows.sort()
        return [AlikeText(other, -value) for value, other in rows[: int(most)]]

    def _product(self, counts: dict[str, float], others: dict[str, float]) -> float:
        result = 0.0
        for term, count in counts.items():
            if term in others:
                rarity = self._rarity(term)
                result += count * others[term] * rarity * rarity
        return result

    def _length(self, counts: dict[str, float]) -> float:
        squares = 0.0
        for term, count in counts.items():
            weight = count * self._rarity(term)
            squares += weight * weight
        return sqrt(squares)

    def _rarity(self, term: str) -> float:
        """ln (1 + texts ÷ those that have the term)."""
        holders = self._holders.get(term)
        return log(1.0 + (len(self._counts) + 1.0) / ((len(holders) if holders is not None else 0) + 1.0))


picklable(TextIndex)


def _counted(text: str) -> dict[str, float]:
    counts: dict[str, float] = {}
    for term in terms_of(text):
        counts[term] = counts.get(term, 0.0) + 1.0
    for term in counts:
        counts[term] = 1.0 + log(counts[term])
    return counts
