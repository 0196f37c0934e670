"""Whether a line with counters is of training: other programs count steps, too."""

from __future__ import annotations

import re
from typing import Final

from dally.progress.line_text import NUMBER

# What only training measures; a word that other programs use counts only with a number behind it.
_MEASURED: Final = (
    r"(?<!\w)(?:\w{0,30}(?:loss|perplexity|entropy|reward|accuracy|likelihood|grad_?norm|ppl|elbo|psnr|ssim|lpips|"
    r"rmse|miou)\w{0,30}|learning[ _-]rate|lr\w?|grad(?:ient)?[ _-]?norm|gnorm|"
    r"(?:\w{1,20}_)?acc(?:uracy)?(?:_\w{1,20})?|acc@?\d*|top-?[15]|"
    r"(?:mfu|tflops?|ppx|bleu|wer|cer|auc|f1(?:[ _-]score)?|fid|mse|mae|map(?:50)?|dice|iou|kl|nll|bp[bc]|cost|"
    r"kimg|epsilon|xent|fvu|score/mean|episodic_return|ep_rew\w{0,20}|return|error rate|objf?|q_?value)(?![a-z]))"
)
_METRIC: Final = re.compile(
    rf"{_MEASURED}(?:@\d+)?['\"]?(?:(?! at\b| step| epoch| iter)[^|,;=:\d]){{0,24}}?[|:= \[(→]+\s*[-+$]?"
    rf"(?:{NUMBER}|\.\d|nan|inf)",
    re.IGNORECASE,
)
_THROUGHPUT: Final = re.compile(
    rf"{NUMBER}[kKM]?\s*(?:tok(?:en)?s?|samples?|im(?:a)?ge?s?|imgs|examples?|seq(?:uence)?s?|words?|sents?|wd|ex)"
    rf"(?: |_)?(?:/|per[ _])(?:s|sec|second)\b|"
    rf"\b(?:tokens?|tok|samples?|images?|img|examples?|seqs?|words?)[ _]?(?:/|[ _]?per[ _]?)s(?:ec(?:ond)?)?"
    rf"\w{{0,30}}['\"]?[\s:=]+{NUMBER}|\b(?:tps|wps|ips|fps|sps|tgs|mfu)['\"]?[\s:=]+{NUMBER}|\bloss\[",
    re.IGNORECASE,
)
_STEP_TIME: Final = re.compile(
    rf"\b(?:it|iters?|steps?|batch(?:es)?|updates?)/s(?:ec(?:ond)?)?['\"]?[\s:=]+{NUMBER}|"
    rf"{NUMBER} ?(?:it|iters?|steps?|batch(?:es)?|updates?)/s|{NUMBER} ?(?:m?s|sec)/(?:it|iter|step|batch)|"
    r"(?:step|iter|batch)[ _-]?time|time[ _/]per[ _](?:step|iter|batch)",
    re.IGNORECASE,
)
_TRAINS: Final = re.compile(
    r"(?<![a-z_.])(?:(?:pre|fine-?)?train(?:ing)?|fine-?tun(?:e|ing)|learning)(?![a-z])", re.IGNORECASE
)
# A line that a shell, a compiler, a server or an iterative solver prints, code, or settings of a run.
_OTHER: Final = re.compile(
    r"^\s*(?:export|set|\+|\$|>>>|#!|import|from|def|return|class|raise|assert) |HTTP/\d|\b(?:GET|POST|PUT) /|"
    r"\bprint\(|\blogger\.|\.format\(|%\d*d\b|\{\w*(?:step|epoch)\w*[^}]*\}|"
    r"leader[ _]epoch|packet loss|\bloss of\b|residual|proj g|\binertia\b|wall clock|^\s*(?:usage|error):|"
    r"\b(?:Namespace|Config|Args|Arguments|Options)\(|\b(?:num_workers|weight_decay|batch_size|seed|patience)\s*[=:].*"
    r"(?:optimizer|epochs|dropout|model|data\w*|lr\w*|seed|workers)\s*=",
    re.IGNORECASE,
)
_CLEAR: Final = re.compile(r"(?<![a-z])\w*loss\w*|\blr\b|learning[ _]rate|\bppl\b|grad_?norm", re.IGNORECASE)


def is_other(text: str) -> bool:
    """Whether the line is a shell's, code, settings, or of a program that trains nothing."""
    return _OTHER.search(text) is not None


def measures(text: str) -> bool:
    """Whether the line has a metric, a throughput or a time per step of training."""
    return (
        _METRIC.search(text) is not None
        or _THROUGHPUT.search(text) is not None
        or _STEP_TIME.search(text) is not None
    )


def measures_loss(text: str) -> bool:
    """Whether the line has a loss, a learning rate or the like: enough for a counter without a word."""
    return _CLEAR.search(text) is not None and _METRIC.search(text) is not None


def trains(text: str) -> bool:
    """Whether the words say that something is trained."""
    return _TRAINS.search(text) is not None
