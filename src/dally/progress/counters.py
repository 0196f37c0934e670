"""Counters of a line: a word for steps or epochs with a number, and the pairs of numbers that stand without one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from dally.progress.line_text import NUMBER, whole


class Counter(NamedTuple):
    """How far something is, and of how much; begin and end are its place in the line."""

    name: str  # in small letters; empty for a pair without a word
    value: str
    total: str | None
    begin: int
    end: int


_BEFORE: Final = (
    r"(?:(?:global|train(?:ing|er)?|current|curr?|optimizer|optim|opt|gradient|grad|learner|policy|env|agent|"
    r"num|n)[ _/.]?|(?:train|trainer|training|time|progress)/)?"
)
_STEP_NAMES: Final = (
    r"(?:time)?steps?|iter(?:ation)?s?|itr|its?|n?updates?|(?:mini-?)?batch(?:es)?|Up\.|"
    r"episodes?|rounds?|ticks?|rollouts?|generations?|cycles?"
)
_EPOCH_NAMES: Final = r"epochs?|ep(?![a-z])\.?"
_ORDINAL: Final = r"(?:[ _]?(?:num(?:ber)?|no\.?|idx|index|id|i|count|status)\b|\(train\))?"
# Between a word and its number: step 3, step: 3, step=[3, step #3, step -> 3, step - 3, epoch_3.
_LINK: Final = (
    r"['\"]?(?:\s*[:=#|>]+\s*(?:[:>]\s*)?|\s+-+>?\s+|\s*[-=]+>\s*|\s+is\s+|\s+|_|(?=[\[(<#]))[\[(<#]{0,2}\s*"
)
_TOTAL: Final = (
    rf"\s*[\])]?\s*(?:/|\bof\b|\bout of\b)\s*[\[(]?\s*(?P<total>{NUMBER}[kKM]?)(?![\d.]*(?:[kKMGT]i?)?B\b)"
)
# No number of a clock, a file or a size, and none with a unit: `batch 32 images`, `step: 123ms`.
_END: Final = r"(?!\.?\w|%|:\d\d|/\d|\s?(?:m?s|secs?|seconds?|min|hours?|[kKMG]i?B|images|samples|items|fps|px)\b)"
NAMED: Final = re.compile(
    rf"(?<![\w.\-\\])(?<![A-Za-z]/)(?P<name>{_BEFORE}(?:{_STEP_NAMES}|{_EPOCH_NAMES}){_ORDINAL})(?:{_LINK}|(?<=epoch)|(?<=iter)|(?<=\bep)|(?<=\bit))"
    rf"(?P<value>{NUMBER}[kKM]?)(?:{_TOTAL})?{_END}",
    re.IGNORECASE,
)
# 12/100 steps, 3 of 10 epochs, 3rd epoch.
NUMBER_FIRST: Final = re.compile(
    rf"(?<![\w.,/:\-])(?P<value>{NUMBER})(?:st|nd|rd|th)?(?:\s*(?:/|\bof\b)\s*(?P<total>{NUMBER}))?[ \-]?"
    rf"(?P<name>{_STEP_NAMES}|{_EPOCH_NAMES})(?:\(e?s\))?(?![\w/])",
    re.IGNORECASE,
)
# What a number beside the word is, if not how far training is: total steps, save steps, best epoch.
_NOT_SO_FAR: Final = re.compile(
    r"(?<![a-z])(?:total|max\w*|warm-?up\w*|per|every|each|sav(?:e|ing)|log(?:ging)?|eval|last|best|next|previous|prev|"
    r"first|patience|accum\w*|decay\w*|leader|unix|micro|inner|sub|from|until|skipped|nan)[ _\-]?$",
    re.IGNORECASE,
)
# The same ahead of a number: for 10 epochs, after every 500 steps.
_LENGTH: Final = re.compile(
    r"(?<![a-z])(?:for|in|over|within|every|each|per|of|last|next|first|warm\w*|max\w*|about|least|most|[=:/,x×~<>+])\s*$",
    re.IGNORECASE,
)
_PAIR: Final = rf"(?P<value>{NUMBER})\s*/\s*(?P<total>{NUMBER})"
_PAIR_END: Final = r"(?![\d/]|[.:]\d|\s*(?:[kKMGT]i?)?B\b)"
# Right behind an epoch, with nothing but signs and a percentage between: `Epoch: [0][ 10/1307]`.
_BEHIND: Final = re.compile(rf"[^A-Za-z\d]{{0,60}}(?:\d{{1,3}}(?:\.\d+)?%[^A-Za-z\d]{{0,40}})?{_PAIR}{_PAIR_END}")
_BEHIND_ALONE: Final = re.compile(rf"\]?\[\s*(?P<value>{NUMBER})\s*\]")
# At the beginning of a line, perhaps behind a bar.
_FIRST_PAIR: Final = re.compile(
    rf"\s*(?:(?:\d{{1,3}}%)?\s*[\[|][=>#.\-█▉▊▋▌▍▎▏ ]{{0,100}}[\]|]|[Tt]rain(?:ing)?\b:?)?"
    rf"[\s\[(]*{_PAIR}{_PAIR_END}"
)
_TWO: Final = re.compile(
    rf"\s*(?:[Tt]rain(?:ing)?\b:?)?[\s\[(]*{_PAIR}[\])\s,|]+[\[(]\s*"
    rf"(?P<value_2>{NUMBER})\s*/\s*(?P<total_2>{NUMBER}){_PAIR_END}"
)
_LIST: Final = re.compile(r"\s*\[\s*(?P<epoch>\d+),\s+(?P<value>\d+)\]\s")  # [2,  4000] loss: of PyTorch's tutorial
_PAIR_AND_ONE: Final = re.compile(r"\s*\[\s*(?P<epoch>\d+)/(?P<epochs>\d+)\]\s*\[\s*(?P<value>\d+)\]")
_ONE_AND_PAIR: Final = re.compile(rf"\s*\[\s*(?P<epoch>\d+)\]\s*\[\s*{_PAIR}\]")
_BRACKETED: Final = re.compile(rf"\[\s*{_PAIR}\s*\]")
_LAST: Final = re.compile(rf"(?<![\w.(%])\s{_PAIR}\s*$")


def named(text: str) -> Iterator[Counter]:
    """The counters of the line that have a word, in order; those that say something else are left out."""
    for match in NAMED.finditer(text):
        if not _NOT_SO_FAR.search(text, max(0, match.start() - 24), match.start()):
            yield _counter(match, match["name"].lower())


def number_first(text: str) -> Iterator[Counter]:
    """The counters whose word comes behind: 12/100 steps."""
    for match in NUMBER_FIRST.finditer(text):
        length = _LENGTH.search(text, max(0, match.start() - 24), match.start())
        if length is None or (match["total"] and not length[0].startswith("for")):
            yield _counter(match, match["name"].lower())


def behind(text: str, end: int) -> Counter | None:
    """The pair, or the number in brackets, right behind an epoch that ends there."""
    match = _BEHIND.match(text, end)
    if match is not None and _is_pair(match["value"], match["total"]):
        return _counter(match, "")
    match = _BEHIND_ALONE.match(text, end)
    return None if match is None else Counter("", match["value"], None, match.start(), match.end())


def begins(text: str, start: int) -> tuple[Counter | None, Counter | None]:
    """Epoch and step of a line that begins with one or two pairs at that place, or with [epoch, step]."""
    match = _TWO.match(text, start)
    if match is not None and _is_pair(match["value"], match["total"]):
        inner = Counter("", match["value_2"], match["total_2"], match.start(), match.end())
        return _counter(match, "epoch"), inner
    match = _LIST.match(text, start) or _PAIR_AND_ONE.match(text, start) or _ONE_AND_PAIR.match(text, start)
    if match is not None:
        numbers = match.groupdict()
        step = Counter("", match["value"], numbers.get("total"), match.start(), match.end())
        return Counter("epoch", match["epoch"], numbers.get("epochs"), match.start(), match.end()), step
    match = _FIRST_PAIR.match(text, start)
    return None, _pair(match)


def anywhere(text: str, start: int) -> Counter | None:
    """A pair in square brackets, or at the end of the line, from that place on."""
    return _pair(_BRACKETED.search(text, start)) or _pair(_LAST.search(text, start))


def _pair(match: re.Match[str] | None) -> Counter | None:
    if match is None or not _is_pair(match["value"], match["total"]):
        return None
    return _counter(match, "")


def _is_pair(value: str, total: str) -> bool:
    """Whether two numbers with a slash can be a counter and its end."""
    last = whole(total)
    return "." not in value and last is not None and last > 1 and (whole(value) or 0) <= last


def _counter(match: re.Match[str], name: str) -> Counter:
    return Counter(name, match["value"], match["total"], match.start(), match.end())
