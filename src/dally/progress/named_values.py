"""Lines of names and numbers, as most training loops print them: a step or an epoch, and beside it a metric."""

from __future__ import annotations

import re
from typing import Final

from dally.progress.bars import EVALUATES
from dally.progress.line_progress import LineProgress
from dally.progress.line_text import NUMBER, real, whole
from dally.progress.seconds import seconds_per_step

_STEP: Final = re.compile(
    r"(?<![\w/.\-])(?:(?:global|train(?:ing)?|current|optimizer|opt|num|learner)[ _/]?)?"
    r"(?:steps?|step_i|iter(?:ation)?s?|updates?|batch|Up\.|it|mini-?batch)['\"]?"
    rf"(?:\s*[:=#\[|]+\s*|\s+)\[?\s*(?P<step>{NUMBER})(?:\s*(?:/|\bof\b|\bout of\b)\s*(?P<total>{NUMBER}))?"
    r"(?![\w%.]|:\d)",
    re.IGNORECASE,
)
_EPOCH: Final = re.compile(
    r"(?<![\w\-])(?:(?:train|training|training/|train/)[ _]?)?(?:epochs?|Ep\.?)['\"]?(?:\s*[:=#\[(|]+\s*|\s+)\[?\s*"
    rf"(?P<epoch>{NUMBER})(?:\s*(?:/|\bof\b)\s*(?P<epochs>\d+))?(?![\w%]|:\d)",
    re.IGNORECASE,
)
# What is measured beside a step of training; a word that other programs use counts only with a number.
_METRIC: Final = re.compile(
    rf"(?:(?<![a-z])\w*loss\w*|cross[- ]entropy|\blearning[ _-]rate|(?<![a-z])lr\b|"
    r"\bgrad(?:ient)?[ _-]?norm|\bgnorm|"
    rf"\bperplexity|\bppl\b|\bmfu\b|\btflops?\b|\bloss_scale|\baccuracy\b|\bpsnr\b|\btokens?[ _/-]per[ _-]?sec\w*|"
    rf"\btps\b|\btok/s(?:ec)?\b|\breward\w*|\bfvu|\bcost\b|\bscore/mean\b)(?:@\d)?"
    rf"(?:(?! at\b| step| epoch| iter)[^|,;=:]){{0,24}}?[|:= \[(]+\s*-?(?:{NUMBER}|nan|inf)|"
    rf"{NUMBER}\s*(?:tok/s|tokens/s(?:ec)?|samples/s(?:ec)?|img/s|images/s(?:ec)?)\b|\bloss\[",
    re.IGNORECASE,
)
_SHELL: Final = re.compile(r"\s*(?:export|set|\+|\$) ")
_VERL: Final = re.compile(r"^\W*step:(\d+) - ")


def named_values(text: str) -> LineProgress | None:
    """What the names and numbers of a line say of training; None if that is nothing."""
    if (_METRIC.search(text) is None and _VERL.match(text) is None) or _SHELL.match(text):
        return None
    epoch = _EPOCH.search(text)
    step = _best_step(text)
    if step is None and epoch is None:
        return None
    first = min(match.end() for match in (step, epoch) if match is not None)
    if EVALUATES.search(text[:first]):
        step = None
        if epoch is None:
            return None
    return LineProgress(
        whole(step["step"]) if step else None,
        whole(step["total"]) if step else None,
        real(epoch["epoch"]) if epoch else None,
        whole(epoch["epochs"]) if epoch else None,
        seconds_per_step(text) if step else None,
    )


def _best_step(text: str) -> re.Match[str] | None:
    """The first with a total, else a global step, else the first called a step, else the first."""
    every = [
        match
        for match in _STEP.finditer(text)
        if "." not in match["step"] or match["step"].endswith((".0", ".000")) or "e+" in match["step"]
    ]
    for match in every:
        if match["total"]:
            return match
    for name in ("global", "step"):
        for match in every:
            if name in match[0].lower():
                return match
    return every[0] if every else None
