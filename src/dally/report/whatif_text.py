"""A what-if from history for people, on a terminal or a page: sentences and tables of whatif.json."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from dally.metrics.metric_list import MEANING
from dally.report.text_table import TextTable, plain_table
from dally.report.time_text import brief

Values = Mapping[str, Any]
STATED = "both are given"  # why no calibration was needed
NEAR_NOTHING_S = 60.0  # a mean wait below that tells no policies apart
UNITS_S = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
SIDES = ("current", "new", "saved")
FIGURES = {
    "GPU-hours held by jobs": "gpu_h",
    "- lost to communication": "comm_gpu_h",
    "- lost to restarts": "restart_gpu_h",
    "GPU-hours waited for": "wait_gpu_h",
    "waiting, mean": "wait_mean_s",
    "waiting, median": "wait_p50_s",
    "waiting, p95": "wait_p95_s",
    "mean JCT": "jct_mean_s",
}
GROUPS = {"queues": "queue", "users": "user", "accounts": "account", "partitions": "partition", "sizes": "GPUs"}
GROUP_HEADS = (
    "jobs", "GPU-hours", "saved", "", "mean wait", "new", "mean JCT", "new", "better off", "worse off",
)  # fmt: skip
NO_LOSERS = "No job loses: none takes more than 5 % and one minute longer."


class VerdictCell(NamedTuple):
    """A text of a table, whether it is better or worse, and the number to sort by."""

    text: str
    look: str = ""
    value: float | None = None


def whatif_parts(values: Values, top_users: Sequence[Values], top: int) -> Iterator[str | TextTable]:
    """Sentences and tables in the order in which they are read; `top` users and jobs are named."""
    current, new = values["current"], values["new"]
    verdict = values["verdict"]
    yield verdict["text"]
    if verdict["reasons"]:
        yield "Most likely because"
        yield from (f"- {reason}" for reason in verdict["reasons"])
    yield from trust_sentences(values)
    yield ""
    gpus = " → ".join(f"{count:,}" for count in dict.fromkeys(values["gpus"]))
    yield f"{values['total']['jobs']:,} jobs on {gpus} GPUs: {current} (current) against {new} (new)"
    yield _plain(["", current, new, "change"], figure_rows(values))
    yield values["answer"]
    yield from gpu_hours_caution(values)
    if len(values["seeds"]) > 1:
        yield f"± is {MEANING}."
    yield ""
    if len(values.get("queues", [])) > 1:
        yield "By queue"
        yield plain_table(*_by_queue(values["queues"]))
    yield "By user"
    yield _plain(["user", *GROUP_HEADS], group_rows(top_users))
    for key in ("accounts", "partitions"):
        if len(values[key]) > 1:
            yield f"By {GROUPS[key]}"
            yield _plain([GROUPS[key], *GROUP_HEADS], group_rows(values[key][:top]))
    yield "By GPUs of the job"
    yield _plain(["GPUs", *GROUP_HEADS], group_rows(values["sizes"]))
    yield from _losers(values, top)
    if values["fit"]["whole"]["jobs"]:
        yield f"How well the replay under {current} fits recorded waits"
        yield fit_table(values)
    if values["recorded_gpu_h"] is not None:
        replayed = values["total"]["current"]["gpu_h"]
        yield f"GPU-hours recorded: {values['recorded_gpu_h']:,.1f}; replayed: {replayed:,.1f}"
    yield from assumption_sentences(values)


def gpu_hours_caution(values: Values) -> list[str]:
    """A sentence where the change in GPU-hours is smaller than what the replay itself is off by; else none.

    The verdict compares waits, and a replay that fits them can still hold GPUs for longer than the record.
    """
    recorded_h, saved_h = values.get("recorded_gpu_h"), abs(values["total"]["saved_gpu_h"])
    if recorded_h is None or saved_h < 0.05:
        return []
    excess_h = values["total"]["current"]["gpu_h"] - recorded_h
    if abs(excess_h) <= saved_h:
        return []
    more = f"{_hours(abs(excess_h))} GPU-hours {'more' if excess_h > 0 else 'fewer'}"
    return [f"The replay holds {more} than the record, and the change is smaller: do not quote GPU-hours."]


def _plain(heads: Sequence[str], rows: Sequence[Sequence[VerdictCell]]) -> TextTable:
    return plain_table(list(heads), [[cell.text for cell in row] for row in rows])


def in_a_sentence(both: Values, new: str, off: float | None = None) -> str:
    """The answer in a sentence; of a replay that is `off` by that share and may not be quoted, ranges."""
    before, after, saved = both["current"], both["new"], both["saved_gpu_h"]
    waits_s = after["wait_mean_s"] - before["wait_mean_s"]
    if off is not None:
        low, high = _rough(abs(saved), off)
        hours = f"{'save' if saved >= 0 else 'cost'} {low:,.0f} to {high:,.0f} of {before['gpu_h']:,.0f} GPU-hours"
        low_s, high_s = _rough(abs(waits_s), off)
        less = "longer" if waits_s > 0 else "less"
        waiting = "about as long" if high_s < 60.0 else f"{brief(low_s)} to {brief(high_s)} {less}"
        return f"Roughly: {new} would {hours}; the mean job would wait {waiting}."
    sure = _plus_minus(saved, _half(both, "saved_gpu_h"), _hours)
    hours = f"{'save' if saved >= 0 else 'cost'} {abs(saved):,.1f}{sure} of {before['gpu_h']:,.1f} GPU-hours"
    half_s = _half(both, "saved_wait_mean_s")
    waiting = f"{brief(abs(waits_s))} {'longer' if waits_s > 0 else 'less'}"
    if abs(waits_s) < 1.0 or abs(waits_s) <= half_s:
        waiting = "as long" + (f", give or take {brief(half_s)}" if half_s >= 1.0 else "")
    return f"{new} would {hours}; the mean job would wait {waiting}."


def _rough(value: float, off: float) -> tuple[float, float]:
    """From the value over 1 + off to that many times it, each to one digit."""
    low, high = value / (1.0 + off), value * (1.0 + off)
    return tuple(float(f"{one:.1g}") for one in (low, high))  # type: ignore[return-value]


def figure_rows(values: Values) -> list[list[VerdictCell]]:
    """Each figure on both sides with its range over seeds, and the change."""
    both = values["total"]
    rows = []
    for name, key in FIGURES.items():
        halves = [_half(both, f"{side}_{key}") for side in SIDES]
        shown = _hours if key.endswith("_h") else _time
        rows.append([VerdictCell(name), *_both(both["current"][key], both["new"][key], halves, shown)])
    halves = [(high - low) / 2 for low, high in values["makespan_ranges"].values()]
    spans = values["makespan_s"]
    return [*rows, [VerdictCell("makespan"), *_both(spans["current"], spans["new"], halves, _time)]]


def _both(before: float, after: float, halves: Sequence[float], shown: Callable[[float], str]) -> list[VerdictCell]:
    """Both sides and the change; less is better, unless the change is no larger than its range."""
    change = after - before
    texts = [(shown(before), before), (shown(after), after), (_signed(shown(abs(change)), change), abs(change))]
    ranged = [text + _plus_minus(value, half, shown) for (text, value), half in zip(texts, halves, strict=True)]
    noise = abs(change) <= halves[2] or shown(abs(change)) == shown(0.0)
    look = "" if noise else "better" if change < 0 else "worse"
    return [VerdictCell(ranged[0]), VerdictCell(ranged[1]), VerdictCell(ranged[2] + _percent(before, after), look)]


def group_rows(groups: Sequence[Values]) -> list[list[VerdictCell]]:
    """A row for each user, size, …: the columns of GROUP_HEADS after its name."""
    return [_group(group) for group in groups]


def _group(group: Values) -> list[VerdictCell]:
    before, after = group["current"], group["new"]
    saved, half = group["saved_gpu_h"], _half(group, "saved_gpu_h")
    look = "" if abs(saved) < 0.05 or abs(saved) <= half else "better" if saved > 0 else "worse"
    share = _share(saved, before["gpu_h"]) if before["gpu_h"] > 0 else "-"
    cells = [
        VerdictCell(group["name"]),
        VerdictCell(f"{group['jobs']:,}", value=group["jobs"]),
        VerdictCell(_hours(before["gpu_h"]), value=before["gpu_h"]),
        VerdictCell(_signed(_hours(abs(saved)), saved) + _plus_minus(saved, half, _hours), look, saved),
        VerdictCell(share, look),
    ]
    for key in ("wait_mean_s", "jct_mean_s"):
        gain = before[key] - after[key]
        sure = abs(gain) > max(_half(group, f"saved_{key}"), 60.0, 0.05 * before[key])
        cells.append(VerdictCell(_time(before[key]), value=before[key]))
        cells.append(VerdictCell(_time(after[key]), ("better" if gain > 0 else "worse") * sure, after[key]))
    return [*cells, *(VerdictCell(f"{group[key]:,}", value=group[key]) for key in ("better", "worse"))]


def _by_queue(groups: Sequence[Values]) -> tuple[list[str], list[list[str]]]:
    """Waits and completion times of every queue on both sides, and by how much they change."""
    heads = ["queue", "jobs", "mean wait", "new", "change", "mean JCT", "new", "change", "better off", "worse off"]
    rows = []
    for group in groups:
        texts = [group["name"], f"{group['jobs']:,}"]
        for key in ("wait_mean_s", "jct_mean_s"):
            halves = [_half(group, f"{side}_{key}") for side in SIDES]
            texts += [cell.text for cell in _both(group["current"][key], group["new"][key], halves, _time)]
        rows.append([*texts, f"{group['better']:,}", f"{group['worse']:,}"])
    return heads, rows


def _half(group: Values, figure: str) -> float:
    """What follows ±: half the range over seeds of a figure such as `saved_gpu_h` or `new_wait_mean_s`."""
    low, high = group["ranges"].get(figure, (0.0, 0.0))
    return float(high - low) / 2


def _plus_minus(value: float, half: float, shown: Callable[[float], str]) -> str:
    """± and half the range in the unit of the value, unless these digits say zero."""
    if shown is _hours:
        text = _hours(half)
    else:
        unit = _time(value).rpartition(" ")[2]
        text = f"{half / UNITS_S[unit]:.1f}"
    return "" if not text.strip("0.,") else f" ±{text}"


def _hours(value: float) -> str:
    return f"{value:,.1f}"


def _time(seconds: float) -> str:
    return brief(seconds, in_table=True)


def _signed(text: str, value: float) -> str:
    """The text with a sign, unless it says zero."""
    return text if text.startswith("0.0") else f"{'-' if value < 0 else '+'}{text}"


def _percent(before: float, after: float) -> str:
    """The change in brackets; nothing where there was next to nothing before."""
    return f" ({_share(after - before, before)})" if before >= 0.05 else ""


def _share(change: float, of: float) -> str:
    return _signed(f"{abs(100 * change / of):.1f}%", change)


def _losers(values: Values, top: int) -> Iterator[str | TextTable]:
    """Users and jobs worse off by more than 5 % and one minute."""
    jobs, both = values["losing_jobs"], values["total"]
    if not jobs:
        yield NO_LOSERS
        return
    lost = brief(sum(job["lost_s"] for job in jobs))
    take = "takes" if both["worse"] == 1 else "take"
    yield (
        f"Who loses: {both['worse']:,} of {both['jobs']:,} jobs {take} more than 5 % and one minute "
        f"longer, {lost} in all"
    )
    users = [
        [group["name"], f"{group['jobs']:,}", *_jct(group["current"]["jct_mean_s"], group["new"]["jct_mean_s"])]
        for group in values["losing_users"]
    ]
    if users:
        yield plain_table(["user, mean job", "jobs", "JCT", "new", "longer by", ""], users[:top])
    rows = [
        [job["job_id"], job["user"], str(job["gpus"]), *_jct(job["current_jct_s"], job["new_jct_s"])]
        for job in jobs[:top]
    ]
    yield plain_table(["job", "user", "GPUs", "JCT", "new", "longer by", ""], rows, numbers_from=2)
    rest = [(len(users) - top, "user"), (len(jobs) - top, "job")]
    more = [f"{count:,} more {what}{'s' * (count > 1)}" for count, what in rest if count > 0]
    if more:
        yield f"and {' and '.join(more)}: --top N, --json"


def _jct(before_s: float, after_s: float) -> list[str]:
    percent = f"+{100 * (after_s / before_s - 1):,.0f}%" if before_s > 0 else "-"
    return [_time(before_s), _time(after_s), _time(after_s - before_s), percent]


def network_name(name: str, stated: bool = False) -> str:
    """What people call a network."""
    return name or ("the links that the topology states" if stated else "no network")


def trust_sentences(values: Values) -> list[str]:
    """How the policy in use and its network were found, and what there is to know about that."""
    result = values["calibration"]
    network = network_name(values["network"], values["links_stated"])
    if not result["searched"]:
        return [f"Replayed under {values['current']} on {network}: {_why_not_searched(values)}."]
    lines = [f"{_searched(values)} {values['current']} on {network} fits the record best."]
    lines += [record for record in (_network_sentence(values), _little_waiting(values)) if record]
    return lines


def _why_not_searched(values: Values) -> str:
    skipped = values["calibration"]["skipped"]
    return f"not calibrated, {skipped}" if skipped != STATED else "both as given"


def _searched(values: Values) -> str:
    result = values["calibration"]
    parts = []
    if len(result["policies"]) > 1:
        parts.append(f"{len(result['policies'])} policies")
    if len(result["networks"]) > 1:
        parts.append(f"{len(result['networks'])} networks")
    return f"Of {' and '.join(parts)},"


def _network_sentence(values: Values) -> str:
    """How sure the network is."""
    result = values["calibration"]
    if len(result["networks"]) == 1:
        return ""
    evidence, others = result["network_evidence"], result["other_networks"]
    if not evidence:
        return (
            "The record does not tell the network: that takes jobs of one name at several recorded places, with "
            "their models. What depends on it is a guess; give --network NAME."
        )
    names = ", ".join(network_name(name) for name in others)
    sure = (
        f"; {names} {'is' if len(others) == 1 else 'are'} nearly as likely"
        if others
        else ", the others are ruled out"
    )
    return f"Running times of {evidence['jobs']:,} recurring jobs speak for this network{sure}."


def _little_waiting(values: Values) -> str:
    mean_s = values["fit"]["whole"]["recorded_mean_s"]
    if mean_s >= NEAR_NOTHING_S or len(values["calibration"]["policies"]) == 1:
        return ""
    return f"The mean recorded wait is {brief(mean_s)}: hardly any jobs waited, and that tells no policies apart."


def fit_table(values: Values) -> TextTable:
    """How well waits are replayed, by size of the gang; the last line is what was held out."""
    parts = [("all", values["fit"]["whole"]), ("last quarter, held out", values["fit"]["held_out"])]
    lines = [_fit_line(size["name"], size) for size in values["fit"]["whole"]["sizes"]]
    for name, part in parts:
        if part["jobs"]:
            lines.append(_fit_line(name, part | {"off_p50": None}))
    heads = ["GPUs of the job", "waits", "recorded mean", "replayed mean", "off, median job", "off, p90 job"]
    return plain_table(heads, lines)


def _fit_line(name: str, part: Mapping[str, Any]) -> list[str]:
    means = [brief(part[key], in_table=True) for key in ("recorded_mean_s", "replayed_mean_s")]
    jobs = ["", ""] if part["off_p50"] is None else [off_text(part[key]) for key in ("off_p50", "off_p90")]
    return [name, f"{part['jobs']:,}", *means, *jobs]


def off_text(off: float) -> str:
    """How far off: 12 %, or 4.0× from twice on."""
    return f"{1 + off:,.1f}×" if off >= 1.0 else f"{100 * off:.0f} %"


def assumption_sentences(values: Values) -> list[str]:
    """What the answer stands on that nobody stated, and what is not in it."""
    lines = []
    if values["network_assumed"] and not values["calibration"]["searched"]:
        lines.append(f"Assumed: network {values['network']}, as the topology states no links (--network NAME).")
    if values["models_assumed"]:
        lines.append(
            f"Assumed: models of {values['models_assumed']:,} jobs, by the mix {values['mix']} (--mix NAME)."
        )
    lines += [f"{count:,} job{'s' if count != 1 else ''} {what}." for what, count in values["notes"].items()]
    missing = values["places"]["missing"]
    if missing:
        named = ", ".join(missing[:5]) + (f" and {len(missing) - 5:,} more" if len(missing) > 5 else "")
        lines.append(f"Machines of the record that the cluster does not have: {named}.")
    for key, what in (
        ("skipped", "jobs larger than the cluster"),
        ("no_longer_fit", "jobs larger than the new cluster"),
        ("unfinished", "jobs that one side or both did not finish"),
    ):
        if values[key]:
            lines.append(f"Left out: {values[key]:,} {what}.")
    return lines
