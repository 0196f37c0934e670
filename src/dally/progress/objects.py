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
# Names in small letters, without signs and what stands before a slash or a dot: train/global_step is globalstep.
_STEP: Final = (
    "globalstep", "globalstep/maxsteps", "currentsteps", "currentstep", "numupdates", "curiter", "iteration",
    "iter", "iternum", "trainingiteration", "step", "steps", "stepnum", "batchidx", "update", "updates", "it",
)  # fmt: skip
_TOTAL: Final = (
    "totalsteps",
    "maxsteps",
    "totaliters",
    "maxiters",
    "maxiter",
    "numsteps",
    "totaliterations",
    "totalbatches",
    "numbatches",
)
_EPOCH: Final = ("epoch", "curepoch", "currentepoch", "epochnum", "ep")
_EPOCHS: Final = ("numepochs", "totalepochs", "maxepochs", "maxepoch", "epochs", "numtrainepochs")
_SECONDS: Final = (
    "steptime", "itertime", "timeperstep", "timeperiter", "secperstep", "sperstep", "steptimes", "iterationtime",
    "secondsperstep", "trainspeed(s/it)", "s/it", "batchtime", "timethisiters", "currentsteptimeseconds",
    "steptimeseconds", "trainsteptimingins",
    "time", "dt",
)  # fmt: skip
_MILLISECONDS: Final = ("steptimems", "itertimems", "dtms", "msperstep", "msperiter", "batchtimems", "timems")
_RATES: Final = ("ups", "stepspersecond", "stepspersec", "it/s", "trainspeed(iter/s)", "iterspersec", "itspersec")
_UNITS: Final = re.compile(r"^[^/(]*\(?(?:it|iter|s|global_step)/(?:s|it|max_steps)\)?$")
_METRIC: Final = re.compile(
    r"(?:^|[/_ ])(?:\w*loss\w*|lr|learning_rate|grad_?norm|gnorm|ppl|perplexity|acc\w*|reward\w*|mfu)(?:$|[/_ \d])"
)
_SETTING: Final = re.compile(
    r"batchsize|seed|num_?workers|weightdecay|dropout|optimizer|warmup|savesteps|logdir|output|gpus?$|phi|model"
)
_SETTINGS: Final = re.compile(r"(?:param\w*|config\w*|arg\w*|settings?|options|hyper\w*|best)\W*$", re.IGNORECASE)
_EVALUATED: Final = re.compile(r"^(?:eval|val|valid|validation|test)(?:_|/|$)")


def dictionary(text: str) -> LineProgress | None:
    """What a dictionary says of training; None if the line has none, an empty row if it is of something else."""
    start = text.find("{")
    if start < 0 or "}" not in text[start:]:
        return None
    if _SETTINGS.search(text, max(0, start - 30), start):
        return LineProgress()  # what a run was asked to do
    values = {
        match["key"]: (match["text"] or match["list"] or match["bare"] or "").strip()
        for match in _PAIR.finditer(text, start)
    }
    if not values:
        return None
    written = {key: value for key, value in values.items() if value not in ("null", "None", "")}
    stated: dict[str, str] = {}
    for key, value in written.items():
        stated.setdefault(_plain(key), value)
    if sum(_SETTING.search(key) is not None for key in stated) >= 2 and not {"loss", "trainloss"} & set(stated):
        return LineProgress()  # what a run was asked to do
    epoch, epochs = _first(stated, _EPOCH), whole(_value(stated, _EPOCHS))
    if epoch is not None and "/" in epoch:
        epoch, _, last = epoch.partition("/")
        epochs = whole(last)
    step, total = _step_of(stated)
    evaluated = any(_EVALUATED.match(key) for key in written) or stated.get("mode") in ("val", "test", "eval")
    trained = any(_METRIC.search(key) and not _EVALUATED.match(key) for key in written)
    if "trainruntime" in stated or (evaluated and not trained) or stated.get("mode") in ("val", "test"):
        return LineProgress(epoch=real(epoch), epochs=epochs)
    if not trained and total is None:
        return LineProgress(epoch=real(epoch)) if evaluated else None
    progress = LineProgress(step, total, real(epoch), epochs, _seconds(stated, step))
    return progress if progress.is_known() else None


def _plain(key: str) -> str:
    """A name as the lists above have it."""
    last = key if _UNITS.match(key) else re.split(r"[/.](?=\w)", key)[-1]
    return re.sub(r"[ _-]", "", last).lower()


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
    milliseconds = real(_value(values, _MILLISECONDS))
    if milliseconds:
        return milliseconds / 1e3
    rate = inverse(real(_value(values, _RATES)))
    if rate is not None:
        return rate
    elapsed_s = clock_s(values.get("elapsedtime", ""))
    return elapsed_s / step if elapsed_s and step else None


def _value(values: dict[str, str], names: tuple[str, ...]) -> str | None:
    text = _first(values, names)
    return text if text is not None and text[:1].isdigit() else None


def _first(values: dict[str, str], names: tuple[str, ...]) -> str | None:
    return next((values[name] for name in names if name in values), None)
