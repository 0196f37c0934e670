"""The answer to a what-if for people: the two sides, by user, by size, who loses, how far to trust it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dally.metrics.before_after import Group, Side
from dally.report.text_table import TextTable, plain_table
from dally.report.time_text import brief
from dally.sweep.whatif import Answer


def told(found: Answer, values: Mapping[str, Any], top: int) -> Iterator[str | TextTable]:
    """Sentences and tables in the order in which they are read; `top` users and jobs are named."""
    current, new = values["current"], values["new"]
    gpus = " → ".join(f"{count:,}" for count in dict.fromkeys(values["gpus"]))
    yield f"{found.total.jobs:,} jobs on {gpus} GPUs: {current} (current) against {new} (new)"
    yield plain_table(["", current, new, "change"], _sides(found))
    yield verdict(found.total, new)
    yield ""
    yield "By user"
    yield plain_table(*_groups("user", found.top_users))
    yield "By GPUs of the job"
    yield plain_table(*_groups("GPUs", found.sizes))
    yield from _losers(found, top)
    yield from _trusted(found, current)
    yield from _assumptions(values, found.unfinished)


def verdict(both: Group, new: str) -> str:
    """The answer in a sentence."""
    saved, waits_s = both.saved_gpu_h(), both.new.wait_mean_s - both.current.wait_mean_s
    hours = f"{'save' if saved >= 0 else 'cost'} {abs(saved):,.1f} of {both.current.gpu_h:,.1f} GPU-hours"
    waiting = f"{brief(abs(waits_s))} {'longer' if waits_s > 0 else 'less'}" if abs(waits_s) >= 1.0 else "as long"
    return f"{new} would {hours}; the mean job would wait {waiting}."


def _sides(found: Answer) -> list[list[str]]:
    before, after = found.total.current, found.total.new
    hours = {
        "GPU-hours held by jobs": (before.gpu_h, after.gpu_h),
        "- lost to communication": (before.comm_gpu_h, after.comm_gpu_h),
        "- lost to restarts": (before.restart_gpu_h, after.restart_gpu_h),
    }
    times = {
        "waiting, mean": (before.wait_mean_s, after.wait_mean_s),
        "waiting, median": (before.wait_p50_s, after.wait_p50_s),
        "waiting, p95": (before.wait_p95_s, after.wait_p95_s),
        "mean JCT": (before.jct_mean_s, after.jct_mean_s),
        "makespan": (found.makespan_s["current"], found.makespan_s["new"]),
    }
    return [
        [name, shown(a), shown(b), _signed(shown(abs(b - a)), b - a) + _percent(a, b)]
        for figures, shown in ((hours, _hours), (times, _time))
        for name, (a, b) in figures.items()
    ]


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
        group.name, f"{group.jobs:,}", _hours(before.gpu_h), _signed(_hours(abs(saved)), saved), share,
        *_times(before, after), f"{group.better:,}", f"{group.worse:,}",
    ]  # fmt: skip


def _times(before: Side, after: Side) -> list[str]:
    seconds = (before.wait_mean_s, after.wait_mean_s, before.jct_mean_s, after.jct_mean_s)
    return [_time(value) for value in seconds]


def _losers(found: Answer, top: int) -> Iterator[str | TextTable]:
    """Users and jobs worse off by more than 5 % and one minute."""
    if not found.losing_jobs:
        yield "Nobody loses: no job takes more than 5 % and one minute longer."
        return
    lost = brief(sum(job["lost_s"] for job in found.losing_jobs))
    yield (
        f"Who loses: {found.total.worse:,} of {found.total.jobs:,} jobs take more than 5 % and one minute longer, "
        f"{lost} in all"
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


def _trusted(found: Answer, current: str) -> list[str]:
    """What the trace says beside what the replay under the policy in use gives."""
    parts: list[tuple[str, str]] = []
    if found.trust:
        told = found.trust
        recorded = f"mean {brief(told.recorded_mean_s)}, median {brief(told.recorded_p50_s)}"
        replayed = f"mean {brief(told.replayed_mean_s)}, median {brief(told.replayed_p50_s)}"
        parts.append((f"waits of {told.jobs:,} jobs, {recorded}", replayed))
    if found.recorded_gpu_h is not None:
        parts.append((f"{found.recorded_gpu_h:,.1f} GPU-hours", f"{found.total.current.gpu_h:,.1f}"))
    lines = [f"  recorded: {recorded}; replayed: {replayed}" for recorded, replayed in parts]
    return [f"How far to trust it, by the replay under {current}:", *lines] if lines else []


def _assumptions(values: Mapping[str, Any], unfinished: int) -> list[str]:
    """What the answer stands on that nobody stated, and what is not in it."""
    lines = []
    if values["network_assumed"]:
        lines.append(f"Assumed: network {values['network']}, as the topology states no links (--network NAME).")
    if values["models_assumed"]:
        lines.append(
            f"Assumed: models of {values['models_assumed']:,} jobs, by the mix {values['mix']} (--mix NAME)."
        )
    if values["skipped"]:
        lines.append(f"Left out: {values['skipped']:,} jobs larger than the cluster.")
    if values["no_longer_fit"]:
        lines.append(f"Left out: {values['no_longer_fit']:,} jobs larger than the new cluster.")
    if unfinished:
        lines.append(f"Left out: {unfinished:,} jobs that one side or both did not finish.")
    return lines
