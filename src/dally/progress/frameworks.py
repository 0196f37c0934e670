"""What single frameworks print, where general rules would misread it: one line of the table each."""

from __future__ import annotations

import re
from itertools import count
from typing import Final, NamedTuple

from dally.progress.line_progress import LineProgress
from dally.progress.line_text import NUMBER, real, whole
from dally.progress.report_file import LINE
from dally.progress.seconds import in_seconds, inverse, seconds_per_step


class Pattern(NamedTuple):
    """A pattern with groups step, total, epoch, epochs, s, ms or per_s; without a time of its own, one by name."""

    framework: str
    regex: re.Pattern[str]
    timed: bool = True  # seconds per step may stand elsewhere in the line


def pattern(framework: str, text: str, timed: bool = True) -> Pattern:
    """A pattern in which <step> and the like stand for a number of that name; alternatives may have the same."""
    places = count()

    def group(name: re.Match[str]) -> str:
        scaled = "[kKMG]?" if name[1] in ("step", "total") else ""
        return f"(?P<{name[1]}__{next(places)}>{NUMBER}{scaled})"

    named = re.sub(r"<(step|total|epoch|epochs|s|ms|per_s)>", group, text)
    return Pattern(framework, re.compile(named), timed)


TABLE: Final = (
    # Phases, summaries and validation: they hold no step of training.
    pattern("DeepSpeed phases", r"time \(ms\) \|", False),
    pattern("Megatron validation", r"validation loss at (?:iteration|the end)", False),
    pattern("Composer evaluation", r"\[Eval batch=", False),
    pattern("MaxText evaluation", r"eval metrics after step", False),
    pattern(
        "Checkpoints",
        r"(?i)(?:sav|load|writ|restor|upload)(?:ed|ing|e) .*checkpoint|checkpoint "
        r"(?:sav|load)ed",
        False,
    ),
    pattern("MMEngine evaluation", r"Epoch\((?:val|test)\)\s*\[<epoch>\]", False),
    pattern("MMEngine evaluation by iteration", r"Iter\((?:val|test)\)\s*\[", False),
    # Training.
    pattern("dally.report", rf"^\s*{LINE}<step>(?:/<total>)?\s*$", False),
    pattern("DeepSpeed 0.2", r"(?:^|\s)<epoch>/<step>, SamplesPerSec="),
    pattern("Composer", r"^\s*(?:.*\s)?(?:\[epoch=<epoch>(?:/<epochs>)?\])?\[batch=<step>/<total>\]"),
    pattern("Composer step", r"^\s*(?:\[metric\])?\s*[Tt]rain time/batch: <step>\s*$", False),
    pattern("Composer rate", r"^\s*[Tt]rain throughput/batches_per_sec: <per_s>\s*$", False),
    pattern("ESPnet", r"(?<!\d)<epoch>epoch:train:\d+-<step>batch:"),
    pattern("ALF", r"->\s*\S+:\s+<step> time=<s> throughput="),
    pattern("Ray Train", r"Training finished iter(?:ation)? <step> at ", False),
    pattern("Ray Train table", r"^\s*│?\s*training_iteration:?\s+<step>\s*│?\s*$", False),
    pattern("Ray Train seconds", r"^\s*│?\s*time_this_iter_s:?\s+<s>\s*│?\s*$", False),
    pattern("TensorFlow rate", r"\bglobal_step/sec: <per_s>"),
    pattern("TensorFlow model garden", r"TimeHistory: [\d.]+ seconds.* between steps \d+ and <step>", False),
    pattern("tf_cnn_benchmarks", r"^\s*<step>\s+images/sec: ", False),
    pattern("torchtitan start", r"\btotal steps <total> \(warmup \d+\)", False),
    pattern("Unsloth start", r"\bNum Epochs = <epochs> \| Total steps = <total>", False),
    pattern("Marian", r"\bEp\. <epoch> : Up\. <step> : ", False),
    pattern("Hugging Face start", r"[Tt]otal (?:optimization )?steps\s*=\s*<total>", False),
    pattern("Hugging Face epochs", r"^\W*(?:.*(?:INFO|>>|\s-)\S*\s+)?[Nn]um [Ee]pochs = <epochs>\s*$", False),
    pattern("Coqui TTS", r"--> (?:TIME: \S+ \S+ -- )?STEP: <step>/<total> -- GLOBAL_STEP: \d", False),
    pattern("DeePMD-kit", r"\bDEEPMD INFO\s+[Bb]atch\s+<step>: ", False),
    # Samples, not steps: the time beside them is that of a batch.
    pattern("OpenCLIP", r"\bTrain Epoch: <epoch>\s*\[ *<step>/ *<total> \(.*\bBatch \(t\):", False),
    pattern("LitGPT", r"(?:\bEpoch <epoch> \| )?\biter \d+ step <step>\b", False),  # several iterations a step
    pattern("darkflow", r"^\W*Finish <epoch> epoch\(es\)", False),
    pattern("MindSpore seconds", r"\bTrain epoch time: [\d.]+ ms, per step time: <ms> ms", False),
    pattern("Tacotron 2", r"^\W*Train loss <step> [\d.]+ Grad Norm"),
    pattern("llama.cpp", r"\btrain: \[[^\]]*\] data=<step>/<total> loss=", False),
    pattern("Deeplearning4j", r"\bScore at iteration <step> is ", False),
    pattern("Stable-Baselines3", r"^\W*total_timesteps\s+\|\s+<step>\s*\|\s*$", False),
    pattern("MLPerf", r":::MLLOG .*\"(?:step_num\": <step>|epoch_num\": <epoch>)", False),
    pattern(
        "HF Trainer in notebooks",
        r"\[\s*<step>/<total> [\d:]+ < [\d:]+, <per_s> it/s(?:, Epoch <epoch>/"
        r"<epochs>)?",
    ),
    pattern("PyTorch tutorial", r"\bEpoch <epoch> \| Batchsize: \d+ \| Steps: <total>\b", False),
    pattern("DLLogger", r"\bDLL .* - \(<epoch>, <step>\)"),
    pattern("clu", r"\]\s+\[<step>\] (?:\w+/)*\w+=[\d.]+, ", True),
    pattern("Levanter", r"Progress on:\s*train\s+<step>(?:it)?/<total>(?:it)?\s+rate:(?:<s>s/it|<per_s>it/s)"),
    pattern("nerfstudio", r"^\s*<step> \(\d+\.\d+%\)\s+(?:<ms> ms|<s> s)\s"),
    pattern("XGBoost, LightGBM", r"^\s*\[<step>\]\s+\S+(?:-\w+:|'s \w+: )[\d.]+", False),
    pattern("CatBoost", r"^\s*<step>:\s+learn: [\d.]+.*\btotal: [\d.]+", False),
    pattern("Darknet", r"^\s*<step>: [\d.]+, [\d.]+ avg(?: loss)?, [\d.]+ rate, <s> seconds"),
    # Epoch and step in brackets, as `Train: 0 [  50/10009 (  0%)]` of timm, `Train: 1/3 ( 33%) [ 49/323`.
    pattern(
        "timm, OpenPCDet",
        r"\bTrain: +(?:\[<epoch>(?:/<epochs>)?\]|<epoch>(?:/<epochs> \( *\d+%\))?)\s*\[ *<step>/ *"
        r"<total>[ \]]",
    ),
    pattern("MXNet", r"\bEpoch\[<epoch>\]\s*Batch ?\[(?:\d+-)?<step>\]\s*Speed"),
)  # fmt: skip


def by_framework(text: str) -> LineProgress | None:
    """What the first pattern that fits says; None if none does, an empty row if it is no step of training."""
    for entry in TABLE:
        match = entry.regex.search(text)
        if match is not None:
            return _reading(entry, match, text)
    return None


def _reading(entry: Pattern, match: re.Match[str], text: str) -> LineProgress:
    values = {name.partition("__")[0]: text for name, text in match.groupdict().items() if text is not None}
    seconds = real(values.get("s"))
    if "ms" in values:
        seconds = in_seconds(values["ms"], "ms")
    elif "per_s" in values:
        seconds = inverse(real(values["per_s"]))
    elif not seconds and entry.timed:
        seconds = seconds_per_step(text)
    return LineProgress(
        whole(values.get("step")), whole(values.get("total")), real(values.get("epoch")),
        whole(values.get("epochs")), seconds,
    )  # fmt: skip
