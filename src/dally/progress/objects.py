"""Dictionaries that trainers print: Python's and JSON's."""

from __future__ import annotations

import re
from typing import Final

from dally.progress.line_progress import LineProgress
from dally.progress.line_text import clock_s, real, whole
from dally.progress.seconds import inverse

_PAIR: Final = re.compile(
    r"['\"](?P<key>[\w/ .()\-]+)['\"]\s*:\s*(?:['\"](?P<text>[^'\"]*)['\"]|"
    r"\[\s*(?P<list>[^\[\]]*)\]|(?P<bare>[^,{}\[\]]+))"
)
_STEP: Final = (
    "global_step", "global_step/max_steps", "current_steps", "num_updates", "training/global_step",
    "train/global_step",
    "trainer/global_step", "step", "steps", "iteration", "iter", "cur_iter", "_step", "train/step", "current_step",
)  # fmt: skip
_TOTAL: Final = ("total_steps", "max_steps", "total_iters", "max_iters", "num_steps", "total_iterations")
_EPOCH: Final = ("epoch", "cur_epoch", "train/epoch", "training/epoch")
_EPOCHS: Final = ("num_epochs", "total_epochs", "max_epochs", "epochs", "num_train_epochs")
_SECONDS: Final = (
    "step_time", "iter_time", "time_per_step", "sec_per_step", "s_per_step", "step_time_s", "iteration_time",
    "seconds_per_step", "train_speed(s/it)", "batch_time", "time_this_iter_s",
    "train_step_timing in s", "time", "dt",
)  # fmt: skip
_RATES: Final = (
    "ups",
    "steps_per_second",
    "steps_per_sec",
    "it/s",
    "train_speed(iter/s)",
    "train/steps_per_second",
)
_METRIC: Final = re.compile(
    r"(?:^|[/_ ])(?:\w*loss\w*|lr|learning_rate|grad_?norm|gnorm|ppl|perplexity|acc\w*|reward\w*|mfu)(?:$|[/_ \d])"
)
_EVALUATED: Final = re.compile(r"^(?:eval|val|valid|validation|test)(?:_|/|$)")


def dictionary(text: str) -> LineProgress | None:
    """What a dictionary says of training; None if the line has none, an empty row if it is of something else."""
    start = text.find("{")
    if start < 0 or "}" not in text[start:]:
        return None
    values = {
        match["key"]: (match["text"] or match["list"] or match["bare"] or "").strip()
        for match in _PAIR.finditer(text, start)
    }
    if not values:
        return None
    stated = {key: value for key, value in values.items() if value not in ("null", "None", "")}
    epoch, epochs = _first(stated, _EPOCH), whole(_value(stated, _EPOCHS))
    if epoch is not None and "/" in epoch:
        epoch, _, last = epoch.partition("/")
        epochs = whole(last)
    step, total = _step_of(stated)
    evaluated = any(_EVALUATED.match(key) for key in stated) or stated.get("mode") in ("val", "test", "eval")
    trained = any(_METRIC.search(key) and not _EVALUATED.match(key) for key in stated)
    if "train_runtime" in stated or (evaluated and not trained) or stated.get("mode") in ("val", "test"):
        return LineProgress(epoch=real(epoch), epochs=epochs)
    if not trained and total is None:
        return LineProgress(epoch=real(epoch)) if evaluated else None
    progress = LineProgress(step, total, real(epoch), epochs, _seconds(stated, step))
    return progress if progress.is_known() else None


def _step_of(values: dict[str, str]) -> tuple[int | None, int | None]:
    """Step and total; NVIDIA's DLLogger prints (epoch, step), others a fraction."""
    text = _first(values, _STEP)
    total = whole(_value(values, _TOTAL))
    if text is None:
        return None, total
    if "/" in text:
        text, _, last = text.partition("/")
        total = whole(last.strip())
    return whole(text.split(",")[-1].strip()), total


def _seconds(values: dict[str, str], step: int | None) -> float | None:
    seconds = real(_value(values, _SECONDS))
    if seconds:
        return seconds
    rate = inverse(real(_value(values, _RATES)))
    if rate is not None:
        return rate
    elapsed_s = clock_s(values.get("elapsed_time", ""))
    return elapsed_s / step if elapsed_s and step else None


def _value(values: dict[str, str], names: tuple[str, ...]) -> str | None:
    text = _first(values, names)
    return text if text is not None and text[:1].isdigit() else None


def _first(values: dict[str, str], names: tuple[str, ...]) -> str | None:
    return next((values[name] for name in names if name in values), None)
