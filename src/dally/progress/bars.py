"""Progress bars: those of tqdm, of Rich, and of Keras."""

from __future__ import annotations

import re
from typing import Final

from dally.progress.line_progress import LineProgress
from dally.progress.line_text import NUMBER, real, whole
from dally.progress.seconds import in_seconds, inverse, seconds_per_step

_COUNT: Final = r"\d[\d,]*(?:\.\d+)?[kKMGT]?"
_TQDM: Final = re.compile(
    rf"(?:(?P<percent>\d{{1,3}})%\|[^|]*\||\s(?P<bare>\d{{1,3}})%|(?<!\S))\s*(?P<step>{_COUNT})/(?P<total>{_COUNT})\s*"
    rf"(?P<size>[kKMGTi]*B)?\s*\[(?:\d+ days?, )?(?P<elapsed>\d+:\d\d(?::\d\d)?|\d+\.\d[smh])<"
    rf"(?:(?P<left>[\d:?]+(?: days?, [\d:]+)?|\d+\.\d[smh])"
    r"(?:, *(?P<rate>[\d.]+|\?) ?(?P<scale>[kMG]?)(?P<unit>\w+/s|s/\w+|ms/\w+))?)?"
)
_ENDLESS: Final = re.compile(
    rf"(?<!\S)(?P<step>{_COUNT})(?P<what>it|step|batch) \[(?P<elapsed>[\d:]+), *"
    r"(?P<rate>[\d.]+|\?)(?P<scale>[kMG]?)(?P<unit>\w+/s|s/\w+)"
)
_COMMON_UNITS: Final = {
    "it",
    "batch",
    "batches",
    "step",
    "steps",
    "iter",
    "iters",
    "sample",
    "samples",
    "img",
    "update",
    "updates",
    "epoch",
}
_ELSEWHERE: Final = re.compile(
    r"download|upload|\bmap\b|mapping|filter|generating|load|fetch|tokeni[sz]|sanity|predict|\bsav(?:e|ing)|extract|"
    r"resolv|convert|process|cast|comput|creat|running|flatten|shuffl|push|pull|\bpack|cach|\bindex|build|read|writ|"
    r"shards|prompts|captur|infer|decod|quanti|calibrat|merg|scan|plot|copy|hash|verif|sort|import|export|install|"
    r"prepar|augment|resiz|transform|benchmark|simulat|search|scor|encod|embed|collect|render|files?\b|unpack|compress|sampling|request|queries|"
    r"\.(?:json|bin|safetensors|txt|model|pth?|gz|zip|tar|parquet|arrow|whl|onnx|npz|ckpt|gguf|h5|py)\b",
    re.IGNORECASE,
)
EVALUATES: Final = re.compile(
    r"(?<![a-z])(?:val|valid|validat\w*|eval\w*|test(?:ing)?|dev)(?![a-z])(?!_?(?:loss|acc))|class +images",
    re.IGNORECASE,
)
_TRAINS: Final = re.compile(
    r"(?<![a-z])(?:(?:pre)?train\w*|epi(?:sodes?)?|rounds?|epochs?|steps?|iter\w*|loss\w*|fine-?tun\w*|batch\w*|updates?|optim\w*|fit\w*|progress|ep)(?![a-z])",
    re.IGNORECASE,
)
_METRIC: Final = re.compile(
    r"\b\w*(?:loss|lr|learning_rate|grad|acc\w*|ppl|reward|v_num|psnr|kl)\w*['\"]?\s*[=:]", re.IGNORECASE
)
_EPOCH: Final = re.compile(
    r"(?<![a-z])(?:epochs?|ep)[\s:=\[(#]*(\d+(?:\.\d+)?)(?:\s*(?:/|of)\s*(\d+))?", re.IGNORECASE
)
_EPOCH_AFTER: Final = re.compile(r"\bepoch['\"]?\s*[=: ]\s*['\"]?(\d+(?:\.\d+)?)(?:/(\d+))?", re.IGNORECASE)
_YOLO: Final = re.compile(r"^\s*(\d+)/(\d+)\s+[\d.]+[GM]\s")
_TUNE: Final = re.compile(r"(\d+)\|\d+\|Loss:")
_EPOCHS_ONLY: Final = re.compile(r"(?:^|[\s\]:])epochs?\W*$", re.IGNORECASE)
_LOGGER: Final = re.compile(r"^(?:\d[\d\-/:.,TZ\s]*|\s|\[[^\]]*\]|INFO\w*|DEBUG|\|)*")


def bar(text: str) -> LineProgress | None:
    """What a bar says of training; None if the line has none, an empty row if it is of something else."""
    if "[" in text and (":" in text or "<" in text):
        bars = list(_TQDM.finditer(text)) or list(_ENDLESS.finditer(text))
        if bars:
            return _last_of(text, bars)
    return _rich(text) or _keras(text)


def _last_of(text: str, bars: list[re.Match[str]]) -> LineProgress:
    """What the last of the bars that is of training says: without line ends, several stand in one line."""
    ends = [0, *(bar.end() for bar in bars)]
    for place in range(len(bars) - 1, -1, -1):
        label = text[ends[place] : bars[place].start()]
        progress = _tqdm(label.rpartition("]")[2] if place else label, text[bars[place].end() :], bars[place])
        if progress.is_known():
            return progress
    return LineProgress()


def _tqdm(label: str, rest: str, match: re.Match[str]) -> LineProgress:
    values = match.groupdict()
    epoch, epochs = _epoch_of(label, rest)
    if EVALUATES.search(label):
        return LineProgress(epoch=epoch, epochs=epochs) if _EPOCH.search(label) else LineProgress()
    yolo = _YOLO.match(label) is not None
    if values.get("size") or not (yolo or _of_training(label, rest, values.get("unit"))):
        return LineProgress()
    step, total = whole(values["step"]), whole(values.get("total")) or None
    counts_epochs = _EPOCHS_ONLY.search(label) or "epoch" in (values.get("unit") or "")
    if counts_epochs and _EPOCH.search(label) is None:
        return LineProgress(epoch=None if step is None else float(step), epochs=total)
    return LineProgress(step, total, epoch, epochs, _pace(values) or seconds_per_step(rest.partition("]")[0]))


def _of_training(label: str, rest: str, unit: str | None) -> bool:
    """Whether a bar with that label, and with that behind it, counts steps of training."""
    bare = _LOGGER.sub("", label).strip(" :|")
    if _EPOCH.search(bare) is not None:
        return True
    if _ELSEWHERE.search(bare):
        return False
    if _TRAINS.search(bare) and (
        bare != "Batches" or _METRIC.search(rest)
    ):  # so says what only computes embeddings
        return not (unit or "").endswith("B/s")
    counted = (unit or "it/s").removesuffix("/s").removeprefix("s/").removeprefix("ms/")
    if counted not in _COMMON_UNITS:
        return False
    return not bare or _METRIC.search(rest) is not None


def _pace(values: dict[str, str | None]) -> float | None:
    """Seconds per step of a bar's rate."""
    rate, unit = real(values.get("rate")), values.get("unit") or ""
    if not rate:
        return None
    if unit.startswith("s/"):
        return rate
    if unit.startswith("ms/"):
        return rate / 1e3
    return inverse(rate * {"k": 1e3, "M": 1e6, "G": 1e9}.get(values.get("scale") or "", 1.0))


def _epoch_of(label: str, rest: str) -> tuple[float | None, int | None]:
    row = _YOLO.match(label) or _TUNE.search(label)
    if row is not None:
        return float(row[1]), int(row[2]) if row.re is _YOLO else None
    within, _, after = rest.partition("]")
    if not after.lstrip().startswith(("{", "epoch")):
        after = ""  # of another writer
    match = _EPOCH.search(label) or _EPOCH_AFTER.search(within) or _EPOCH_AFTER.search(after)
    return (None, None) if match is None else (float(match[1]), whole(match[2]))


# Rich's: Lightning's RichProgressBar, and the bars of ultralytics since 8.3.
_RICH: Final = re.compile(
    rf"Epoch (?P<epoch>\d+)(?:/(?P<epochs>\d+))?:?\s+[━╸╺─ ]+(?P<step>\d+)/(?P<total>\d+)\s+[\d:]+ •\s+[\d:\-]+\s*"
    rf"(?:(?P<rate>{NUMBER})(?P<unit>it/s|s/it))?"
)
_ROW: Final = re.compile(
    rf"^\s*(?P<epoch>\d+)/(?P<epochs>\d+)\s+[\d.]+[GM]\s.*?\d+% [━╸─]+ (?P<step>\d+)/(?P<total>\d+)"
    rf"(?:\s+(?P<rate>{NUMBER})(?P<unit>it/s|s/it))?"
)
_LABELLED: Final = re.compile(
    r"^\W*(?:[Pp]re)?[Tt]rain\w{0,9}:?(?:\W{1,4}[Ee]poch (?P<epoch>\d+)(?:/(?P<epochs>\d+))?)?"
    r":? +[━╸╺─ ]{4,}(?:\d+%)?\s+"
    r"(?P<step>\d+)/(?P<total>\d+)(?!\s*[kKMG]?i?B\b)(?:.*?\s(?P<rate>[\d.]+) ?(?P<unit>it/s|s/it))?"
)


def _rich(text: str) -> LineProgress | None:
    if "━" not in text and "─" not in text:
        return None
    match = _RICH.search(text) or _ROW.search(text) or _LABELLED.match(text)
    if match is None or EVALUATES.search(text, 0, match.start("step")):
        return None
    values = match.groupdict()
    return LineProgress(
        whole(values["step"]), whole(values["total"]), real(values["epoch"]), whole(values["epochs"]), _pace(values)
    )


_KERAS: Final = re.compile(
    r"^\s*(?P<step>\d+)/(?P<total>\d+|Unknown|None)\s+(?:\[[=>.]+\]\s*(?:- )?|[━─╸]+ *|- )\s*"
    r"(?:ETA: \S+|[\d:]+\s?m?s?\b)(?P<rest>.*)$"
)
_KERAS_PACE: Final = re.compile(rf"(?P<value>{NUMBER})(?P<unit>us|µs|ms|s)/(?:step|sample)")
_KERAS_METRIC: Final = re.compile(r"- \w[\w /]*: (?:\d|nan|inf)")


def _keras(text: str) -> LineProgress | None:
    match = _KERAS.match(text)
    if match is None:
        return None
    if _KERAS_METRIC.search(match["rest"]) is None:  # a download, or predictions
        return LineProgress()
    pace = _KERAS_PACE.search(match["rest"])
    seconds = None if pace is None else in_seconds(pace["value"], pace["unit"])
    return LineProgress(whole(match["step"]), whole(match["total"]), s_per_step=seconds)
