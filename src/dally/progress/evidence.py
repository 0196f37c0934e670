"""Whether a line with counters is of training: other programs count steps, too."""

from __future__ import annotations

import re
from typing import Final

from dally.progress.line_text import NUMBER

# What only training measures; a word that other programs use counts only with a number behind it.
_MEASURED: Final = (
    r"(?<!\w)(?<!--)(?<!\s-)(?:\w{0,30}(?:loss|perplexity|entropy|reward|accuracy|likelihood|grad_?norm|ppl|elbo|psnr|ssim|lpips|"
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
_RESULT: Final = re.compile(
    rf"(?<![\w\-])\w{{0,30}}(?:loss|acc|accuracy|reward|ppl|perplexity|cost|error)\w{{0,30}}['\"]?[\s:=(\[]+-?(?:{NUMBER}|nan)",
    re.IGNORECASE,
)
# Right ahead of a counter.
_TRAINS: Final = re.compile(
    r"(?<![a-z_.])(?:(?:pre|fine-?)?train(?:ing)?|fine-?tun(?:e|ing)|learning)[\])>]?[\s:|/_\-]{0,3}$",
    re.IGNORECASE,
)
# A line that a shell, a compiler, a server or an iterative solver prints, code, or settings of a run.
_OTHER: Final = re.compile(
    r"^\s*(?:export|set|\+|\$|>>>(?= \w+ ?[.(=])|#!|import|from|def|return|class|raise|assert) |"
    r"HTTP/\d|\b(?:GET|POST|PUT) /|"
    r"\bprint\(|\blogger\.|\.format\(|%\d*d\b|\{\w*(?:step|epoch)\w*[^}]*\}|"
    r"^\s*Step \d+/\d+ ?: [A-Z]{3}|\bTrial \d+ finished|"
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


def measures_result(text: str) -> bool:
    """Whether the line has more than settings: a loss, an accuracy, or the like with a number."""
    return _RESULT.search(text) is not None


def trains(text: str, begin: int) -> bool:
    """Whether the words ahead of a counter that begins there say that something is trained."""
    return _TRAINS.search(text, max(0, begin - 24), begin) is not None
