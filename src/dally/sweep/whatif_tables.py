"""The answer to a what-if for people: the two sides, by user, by size, who loses, how far to trust it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from dally.metrics.before_after import Group, Side
from dally.metrics.spread import MEANING
from dally.report.text_table import TextTable, plain_table
from dally.report.time_text import brief
from dally.report.whatif_words import assumption_words, fit_table, trust_words
from dally.sweep.whatif import Answer

UNITS_S = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def told(found: Answer, values: Mapping[str, Any], top: int) -> Iterator[str | TextTable]:
    """Sentences and tables in the order in which they are read; `top` users and jobs are named."""
    current, new = values["current"], values["new"]
    verdict = values["verdict"]
    yield verdict["text"]
    if verdict["reasons"]:
        yield "Most likely because"
        yield from (f"- {reason}" for reason in verdict["reasons"])
    yield from trust_words(values)
    yield ""
    gpus = " → ".join(f"{count:,}" for count in dict.fromkeys(values["gpus"]))
    yield f"{found.total.jobs:,} jobs on {gpus} GPUs: {current} (current) against {new} (new)"
    yield plain_table(["", current, new, "change"], _sides(found))
    yield in_a_sentence(found.total, new)
    if len(values["seeds"]) > 1:
        yield f"± is {MEANING}."
    yield ""
    if len(found.queues) > 1:
        yield "By queue"
        yield plain_table(*_by_queue(found.queues))
    yield "By user"
    yield plain_table(*_groups("user", found.top_users))
    for what, groups in (("account", found.accounts), ("partition", found.partitions)):
        if len(groups) > 1:
            yield f"By {what}"
            yield plain_table(*_groups(what, groups[:top]))
    yield "By GPUs of the job"
    yield plain_table(*_groups("GPUs", found.sizes))
    yield from _losers(found, top)
    yield from _fit(values, found)
    yield from assumption_words(values)


def in_a_sentence(both: Group, new: str) -> str:
    """The answer in a sentence."""
    saved, waits_s = both.saved_gpu_h(), both.new.wait_mean_s - both.current.wait_mean_s
    sure = _plus_minus(saved, both.half("saved_gpu_h"), _hours)
    hours = f"{'save' if saved >= 0 else 'cost'} {abs(saved):,.1f}{sure} of {both.current.gpu_h:,.1f} GPU-hours"
    half_s = both.half("saved_wait_mean_s")
    waiting = f"{brief(abs(waits_s))} {'longer' if waits_s > 0 else 'less'}"
    if abs(waits_s) < 1.0 or abs(waits_s) <= half_s:
        waiting = "as long" + (f", give or take {brief(half_s)}" if half_s >= 1.0 else "")
    return f"{new} would {hours}; the mean job would wait {waiting}."


def _sides(found: Answer) -> list[list[str]]:
    """Each figure on both sides with its range over seeds, and the change."""
    figures = {
        "GPU-hours held by jobs": "gpu_h",
        "- lost to communication": "comm_gpu_h",
        "- lost to restarts": "restart_gpu_h",
        "GPU-hours waited for": "wait_gpu_h",
        "waiting, mean": "wait_mean_s",
        "waiting, median": "wait_p50_s",
        "waiting, p95": "wait_p95_s",
        "mean JCT": "jct_mean_s",
    }
    both = found.total
    lines = [
        _line(
            name, (getattr(both.current, key), getattr(both.new, key)),
            tuple(both.half(f"{side}_{key}") for side in ("current", "new", "saved")),
            _hours if key.endswith("_h") else _time,
        )
        for name, key in figures.items()
    ]  # fmt: skip
    makespans = (found.makespan_s["current"], found.makespan_s["new"])
    halves = tuple((high - low) / 2 for low, high in found.makespan_ranges.values())
    return [*lines, _line("makespan", makespans, halves, _time)]


def _line(
    name: str, values: tuple[float, float], halves: tuple[float, ...], shown: Callable[[float], str]
) -> list[str]:
    before, after = values
    change = _signed(shown(abs(after - before)), after - before)
    texts = [(shown(before), before), (shown(after), after), (change, abs(after - before))]
    ranged = [text + _plus_minus(value, half, shown) for (text, value), half in zip(texts, halves, strict=True)]
    return [name, *ranged[:2], ranged[2] + _percent(before, after)]


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


def _groups(what: str, groups: Sequence[Group]) -> tuple[list[str], list[list[str]]]:
    columns = [
        what,
        "jobs",
        "GPU-hours",
        "saved",
        "",
        "mean wait",
        "new",
        "mean JCT",
        "new",
        "better off",
        "worse off",
    ]
    return columns, [_group(group) for group in groups]


def _group(group: Group) -> list[str]:
    before, after = group.current, group.new
    saved = group.saved_gpu_h()
    share = _share(saved, before.gpu_h) if before.gpu_h > 0 else "-"
    return [
        group.name, f"{group.jobs:,}", _hours(before.gpu_h),
        _signed(_hours(abs(saved)), saved) + _plus_minus(saved, group.half("saved_gpu_h"), _hours), share,
        *_times(before, after), f"{group.better:,}", f"{group.worse:,}",
    ]  # fmt: skip


def _by_queue(groups: Sequence[Group]) -> tuple[list[str], list[list[str]]]:
    """Waits and completion times of every queue on both sides, and by how much they change."""
    heads = ["queue", "jobs", "mean wait", "new", "change", "mean JCT", "new", "change", "better off", "worse off"]
    rows = []
    for group in groups:
        cells = []
        for key in ("wait_mean_s", "jct_mean_s"):
            values = (getattr(group.current, key), getattr(group.new, key))
            halves = tuple(group.half(f"{side}_{key}") for side in ("current", "new", "saved"))
            cells += _line("", values, halves, _time)[1:]
        rows.append([group.name, f"{group.jobs:,}", *cells, f"{group.better:,}", f"{group.worse:,}"])
    return heads, rows


def _times(before: Side, after: Side) -> list[str]:
    seconds = (before.wait_mean_s, after.wait_mean_s, before.jct_mean_s, after.jct_mean_s)
    return [_time(value) for value in seconds]


def _losers(found: Answer, top: int) -> Iterator[str | TextTable]:
    """Users and jobs worse off by more than 5 % and one minute."""
    if not found.losing_jobs:
        yield "Nobody loses: no job takes more than 5 % and one minute longer."
        return
    lost = brief(sum(job["lost_s"] for job in found.losing_jobs))
    take = "takes" if found.total.worse == 1 else "take"
    yield (
        f"Who loses: {found.total.worse:,} of {found.total.jobs:,} jobs {take} more than 5 % and one minute "
        f"longer, {lost} in all"
    )
    users = [[g.name, f"{g.jobs:,}", *_jct(g.current.jct_mean_s, g.new.jct_mean_s)] for g in found.losing_users]
    if users:
        yield plain_table(["user, mean job", "jobs", "JCT", "new", "longer by", ""], users[:top])
    rows = [
        [job["job_id"], job["user"], str(job["gpus"]), *_jct(job["current_jct_s"], job["new_jct_s"])]
        for job in found.losing_jobs[:top]
    ]
    yield plain_table(["job", "user", "GPUs", "JCT", "new", "longer by", ""], rows, numbers_from=2)
    rest = [(len(users) - top, "user"), (len(found.losing_jobs) - top, "job")]
    more = [f"{count:,} more {what}{'s' * (count > 1)}" for count, what in rest if count > 0]
    if more:
        yield f"and {' and '.join(more)}: --top N, --json"


def _jct(before_s: float, after_s: float) -> list[str]:
    percent = f"+{100 * (after_s / before_s - 1):,.0f}%" if before_s > 0 else "-"
    return [_time(before_s), _time(after_s), _time(after_s - before_s), percent]


def _fit(values: Mapping[str, Any], found: Answer) -> Iterator[str | TextTable]:
    """What the trace says beside what the replay under the policy in use gives."""
    if values["fit"]["whole"]["jobs"]:
        yield f"How well the replay under {values['current']} fits recorded waits"
        yield fit_table(values)
    if found.recorded_gpu_h is not None:
        yield f"GPU-hours recorded: {found.recorded_gpu_h:,.1f}; replayed: {found.total.current.gpu_h:,.1f}"
