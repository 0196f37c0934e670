"""Lines of counters and metrics, as most training loops print them, whatever the words and signs between them."""

from __future__ import annotations

import re
from typing import Final

from dally.progress.bars import EVALUATES
from dally.progress.counters import Counter, anywhere, begins, behind, named, number_first
from dally.progress.evidence import is_other, measures, measures_loss, measures_result, trains
from dally.progress.line_progress import LineProgress
from dally.progress.line_text import real, whole
from dally.progress.seconds import seconds_per_step

# A clock, a level, a file or a process, which loggers put in front of what was logged.
_LOGGER: Final = re.compile(
    r"\s*(?:(?:INFO|DEBUG|WARNING):[\w.]*:?|[\[(]?\d{2,4}[-/.]\d\d(?:[-/.]\d{2,4}(?!\d)|(?=[T ]\d\d:\d))[T_,]?|"
    r"[\[(]?\d{1,2}:\d\d(?::\d\d)?[\d.,:+]*Z?[\])]?|\[[A-Za-z][^\]\d]*\]|\[[A-Za-z][\w.\- ]*\.\w+:\d+\]|"
    r"(?:\d{1,2} [A-Z][a-z]{2}|[A-Z][a-z]{2} {1,2}\d{1,2})(?= \d\d:\d)|"
    r"(?:INFO|DEBUG|WARNING|TRAIN|[IWP]\d{4,6})\b|[\w./]+:\d+(?=\s+[-|\]])|[\w.]+\.\w+(?= - )|"
    r"[|>:*=#~+\-]+(?=[\s\w\[]))"
)
_MOST_LOGGED: Final = 12  # of them in one line
_BOTH: Final = re.compile(
    r"\btrain.*\b(?:val|valid|test|dev)|\b(?:val|valid|test|dev)\w*\b.*\btrain", re.IGNORECASE
)
# An epoch without an end or a metric counts where the line says no more than that it begins, ends, or took a while.
_EPOCH_ALONE: Final = re.compile(
    r"\W*(?:E|(?:[Ss]tart|[Bb]egin|[Ff]inish|[Ee]nd|[Cc]omplet|[Tt]rain|[Rr]unn|[Dd]one)\w*\s+(?:of\s+|with\s+|on\s+|for\s+)?(?:train\w*\s+)?[Ee]|"
    r"[^\w\s]{2,}\s*e)pochs?\W{1,4}\d+\W*(?:$|\d+\s*%|\w+ed\b|done|took|in\b|start|begin|end|train|time\b|\b[A-Za-z]\w*\W{1,3}\d+\.\d)"
)
_STEP_ALONE: Final = re.compile(
    r"\W*global[ _]step\W*\d[\d,]*\W*$|\W*={3,}\s*step\s+\d+\s*/\s*\d+\s*={3,}\s*$", re.IGNORECASE
)
_LOGGED_EPOCH: Final = re.compile(r"\s*epoch(?:\s*[:=]\s*\d+\W*$|\s+\d+\s+(?:train|eval|valid))")
_EPOCH: Final = re.compile(r"epoch|(?<![a-z])ep(?![a-z])")
_SETS: Final = re.compile(r"[=:]")
_BATCH: Final = re.compile(r"batch")
_OUTER: Final = re.compile(r"episode|round|tick|rollout|generation|cycle")
_NUMBER_FIRST: Final = re.compile(
    r"[\s\[(#]*(\d+)\s*[\]):|,\-\[]+\s*(?:\w{1,20}[ _/])?\w{0,20}(?:loss|lr)\b", re.IGNORECASE
)


def named_values(text: str) -> LineProgress | None:
    """What the counters of a line say of training; None if that is nothing."""
    if is_other(text):
        return None
    start = _start(text)
    number_names = list(number_first(text))
    every = [
        *(one for one in named(text) if not _is_setting(text, one)),
        *(one for one in number_names if one.total),
    ]
    if not every and measures_loss(text):
        every = [one for one in number_names if not _BATCH.search(one.name)][:1]
    epoch = _epoch([one for one in every if _is_epoch(one)])
    step = _step([one for one in every if not _is_epoch(one)], epoch, start)
    if epoch is not None and (step is None or not step.total):
        step = behind(text, epoch.end) or step or anywhere(text, epoch.end)
    if step is None and epoch is None:
        epoch, step = _unnamed(text, start)
    if not _of_training(text, start, epoch, step):
        return None
    if step is not None and EVALUATES.search(text, 0, step.begin):
        step = None
    if step is None and epoch is None:
        return None
    return LineProgress(
        whole(step.value) if step else None,
        (whole(step.total) if step else None) or None,
        real(epoch.value) if epoch else None,
        (whole(epoch.total) if epoch else None) or None,
        seconds_per_step(text) if step else None,
    )


def _start(text: str) -> int:
    """Where what was logged begins."""
    start = 0
    for _ in range(_MOST_LOGGED):
        match = _LOGGER.match(text, start)
        if match is None or match.end() == start:
            break
        start = match.end()
    return start


def _is_setting(text: str, counter: Counter) -> bool:
    """Whether it is how many there shall be: epochs=100 beside a learning rate."""
    if counter.total or "." in counter.value or not counter.name.endswith(("epochs", "steps")):
        return False
    return _SETS.search(text, counter.begin, counter.end) is not None and not measures_result(text)


def _is_epoch(counter: Counter) -> bool:
    return _EPOCH.search(counter.name) is not None


def _epoch(epochs: list[Counter]) -> Counter | None:
    """The first with an end, else the first."""
    return next((one for one in epochs if one.total), epochs[0] if epochs else None)


def _step(steps: list[Counter], epoch: Counter | None, start: int) -> Counter | None:
    """The first step with an end, else a global step, else the first called a step, else the first.

    What consists of steps, as an episode, counts where it has an end and the steps have none, or comes first.
    """
    whole_ones = [one for one in steps if _is_whole(one.value)]
    known = [
        one for one in whole_ones if one.total or epoch or one.begin <= start + 2 or not _BATCH.search(one.name)
    ]
    outer = [one for one in known if _OUTER.search(one.name)]
    inner = [one for one in known if one not in outer]
    for group in (inner, outer):
        for one in group:
            if one.total:
                return one
    if outer and (not inner or outer[0].begin < inner[0].begin):
        return outer[0]
    for name in ("global", "step"):
        for one in inner:
            if name in one.name:
                return one
    return inner[0] if inner else None


def _is_whole(value: str) -> bool:
    return "." not in value or value.endswith((".0", ".000")) or "e+" in value


def _unnamed(text: str, start: int) -> tuple[Counter | None, Counter | None]:
    """Epoch and step of a line that has a loss beside numbers without words."""
    if not measures_loss(text):
        return None, None
    epoch, step = begins(text, start)
    if epoch is None and step is None:
        step = anywhere(text, start)
    if step is None:
        match = _NUMBER_FIRST.match(text, start)
        step = Counter("", match[1], None, match.start(), match.end()) if match else None
    if epoch is None and step is not None and step.total and _BOTH.search(text):
        return step, None  # one line for training and validation comes once in an epoch
    return epoch, step


def _of_training(text: str, start: int, epoch: Counter | None, step: Counter | None) -> bool:
    """Whether something beside the counters says that they are of training."""
    if measures(text) or (epoch is not None and (epoch.total or step is not None)):
        return True
    if epoch is not None and (
        _EPOCH_ALONE.match(text, start) or (_LOGGED_EPOCH.match(text, start) and text[:start].strip())
    ):
        return True
    if step is None:
        return False
    return (
        step.name.startswith("train")
        or _STEP_ALONE.match(text) is not None
        or (step.total is not None and trains(text, step.begin))
    )
