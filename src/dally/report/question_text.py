"""An operator's questions for people: a better policy, fewer GPUs, where GPU time is lost, what to buy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dally.report.text_table import TextTable, plain_table
from dally.report.time_text import brief
from dally.report.whatif_text import assumption_sentences, trust_sentences

Values = Mapping[str, Any]


def opening(values: Values) -> Iterator[str]:
    """Whether the figures can be used, and what was replayed."""
    yield values["verdict"]["text"]
    if values["verdict"]["reasons"]:
        yield "Most likely because"
        yield from (f"- {reason}" for reason in values["verdict"]["reasons"])
    yield from trust_sentences(values)
    yield f"{values['total']['jobs']:,} jobs on {values['gpus'][0]:,} GPUs under {values['current']}"
    yield ""


def three_parts(values: Values) -> Iterator[str | TextTable]:
    """The three questions that `dally whatif` asks by itself."""
    questions = values["questions"]
    yield from opening(values)
    yield "1. Is there a better policy?"
    yield _policies(questions["policies"])
    current, best = values["current"], questions["best"]
    yield f"{current} has the shortest mean JCT." if best == current else _better(questions)
    yield ""
    yield "2. Would fewer GPUs do for the same wait?"
    yield from saving_sentences(questions["save_gpus"])
    yield ""
    yield "3. Where do GPU-hours go today?"
    yield _losses(questions["loss"])
    yield from assumption_sentences(values)
    yield f"Next: --policy {best} (which users gain and lose), --save-gpus, --buy; --out DIR writes a page."


def _policies(rows: Sequence[Values]) -> TextTable:
    names = [f"{row['policy']} (today)" if not number else row["policy"] for number, row in enumerate(rows)]
    heads = ["policy", "mean wait", "p99 wait", "mean JCT", "utilization"]
    lines = [
        [name, *(_time(row[key]) for key in ("queue_mean_s", "queue_p99_s", "jct_mean_s")), _percent(row)]
        for name, row in zip(names, rows, strict=True)
    ]
    return plain_table(heads, lines)


def _percent(row: Values) -> str:
    return f"{100 * row['utilization']:.1f} %"


def _time(seconds: float) -> str:
    return brief(seconds, in_table=True)


def _better(questions: Values) -> str:
    now = questions["policies"][0]
    best = next(row for row in questions["policies"] if row["policy"] == questions["best"])
    share = 100 * (1 - best["jct_mean_s"] / now["jct_mean_s"]) if now["jct_mean_s"] else 0.0
    text = f"{best['policy']} has a {share:.0f} % shorter mean JCT than {now['policy']}."
    change = best.get("wait_change", {})
    if not change:
        return text
    low, high = (_signed(change[end]) for end in ("low", "high"))
    return f"{text} Forecast of the mean wait: {_signed(change['share'])} % (90 % interval {low} to {high} %)."


def _signed(share: float) -> str:
    return f"{100 * share:+.0f}".replace("-", "−")


def saving_sentences(saving: Values) -> Iterator[str]:
    """The smallest cluster that keeps today's mean wait, with its interval."""
    now, after = saving["today"], saving["smallest"]
    low, high = saving["saved_gpus_range"]
    if after is None or not saving["saved_gpus"]:
        most = f" (90 % interval of the GPUs that could go: {low:,} to {high:,})" if high else ""
        yield f"No: under {saving['policy']}, the mean job waits longer on any smaller cluster{most}."
        return
    yield (
        f"Yes: under {saving['policy']}, {after['gpus']:,} of {now['gpus']:,} GPUs keep the mean wait: "
        f"{saving['saved_gpus']:,} fewer (90 % interval {low:,} to {high:,})."
    )
    yield (
        f"Mean wait {brief(now['wait_mean_s'])} today, {brief(after['wait_mean_s'])} then; "
        f"p95 {brief(now['wait_p95_s'])} and {brief(after['wait_p95_s'])}."
    )


def _losses(loss: Mapping[str, float]) -> TextTable:
    whole = sum(loss.values()) or 1.0
    lines = [[name, f"{hours:,.1f}", f"{100 * hours / whole:.1f} %"] for name, hours in loss.items()]
    return plain_table(["GPUs are", "GPU-hours", "share"], lines)


def saving_parts(values: Values) -> Iterator[str | TextTable]:
    """`--save-gpus`: the answer and every size that was tried."""
    saving = values["save_gpus"]
    yield from opening(values)
    yield from saving_sentences(saving)
    rows = [(f"{one['gpus']:,}", one) for one in saving["tried"].values() if one]
    yield plain_table(["GPUs", *TRIAL_HEADS], [[name, *_trial(one)] for name, one in rows])
    yield INTERVAL
    yield from assumption_sentences(values)


TRIAL_HEADS = ("mean wait", "p95 wait", "mean job waits", "90 % interval")
INTERVAL = "Intervals: days of the record, or twentieths of a shorter one, resampled."


def _trial(one: Values) -> list[str]:
    ends = f"{_longer(one['low_s'])} to {_longer(one['high_s'])}"
    return [_time(one["wait_mean_s"]), _time(one["wait_p95_s"]), _longer(one["longer_s"]), ends]


def _longer(seconds: float) -> str:
    return f"{'+' if seconds >= 0 else '-'}{brief(abs(seconds), in_table=True)}"


def buying_parts(values: Values) -> Iterator[str | TextTable]:
    """`--buy`: what each purchase would change."""
    yield from opening(values)
    rows = values["buy"]
    lines = [[row["what"], f"{row['gpus']:,}", *_trial(row)] for row in rows if "why_not" not in row]
    yield plain_table(["purchase", "GPUs", *TRIAL_HEADS], lines)
    yield from (f"{row['what']}: {row['why_not']}." for row in rows if "why_not" in row)
    yield INTERVAL
    yield from assumption_sentences(values)
