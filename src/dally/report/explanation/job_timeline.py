"""What happened to a job and why, and which jobs wait for what, from the record that a run or the daemon left."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import inf, nextafter
from typing import Any, Final

import polars as pl

from dally.cluster.formats.hostlist import fold
from dally.errors import InputError
from dally.metrics.record import Record
from dally.report.explanation import ACTION, BY_ACTION, HOLDS
from dally.report.explanation.course import MAKES
from dally.report.explanation.instant import Instant, Timeline
from dally.report.explanation.waiting import placement_text
from dally.report.time_text import duration, run_clock, run_stamp
from dally.runs.assemble import TierSlowdowns

LEAST_SLOWDOWN: Final = 1.005  # what reads 1.00 is none
MOST_CAUSES: Final = 6  # of one wait that a history names
BEGINS_TO_WAIT: Final = ("submit", "preempt", "evict")
WAITS_ON: Final = (*BEGINS_TO_WAIT, "release", "start_failed")  # as long as nothing else happens
ASIDE: Final = ("renew", "would", ACTION)  # kinds that neither begin nor end a wait


@dataclass(frozen=True)
class TimelineEntry:
    """One thing that happened to a job."""

    time_s: float
    kind: str
    text: str


@dataclass(frozen=True)
class WaitingJob:
    """One job that waits at an instant."""

    job_id: str
    gpus: int
    since_s: float
    place: int | None  # in the order, 1 is first; None: the policy gave no ranks
    why: str
    reason: str  # one of waiting.REASONS
    until_s: float | None  # the moment that `why` ends with


class Explainer:
    """Explanations of one record."""

    def __init__(self, run: Record) -> None:
        self.run = run
        self.tiers = run.tiers
        self.jobs = run.jobs
        self.events = run.events
        self.decisions = run.decisions

    def job(self, job_id: str) -> dict[str, Any]:
        """The job's row of jobs.csv, or an InputError that suggests the nearest name."""
        return self.run.job(job_id)

    @cached_property
    def _heads(self) -> pl.DataFrame:
        """Decisions by which another job came to be first in the queue."""
        heads = self.decisions.filter(pl.col("kind").is_in(["head", "reserve"]))
        return heads.filter(pl.col("job_id").ne_missing(pl.col("job_id").shift(1)))

    @cached_property
    def timeline(self) -> Timeline:
        """Which jobs were where at any instant."""
        return Timeline(self.run)

    def stamp(self, seconds: float) -> str:
        """An instant of the run, with the trace's own date if it has dates."""
        return run_stamp(self.run, seconds)

    def clock(self, seconds: float) -> str:
        """The same within a sentence."""
        return run_clock(self.run, seconds)

    def slowdowns(self, job: dict[str, Any]) -> list[float]:
        """How much slower the job's model runs at each tier, alone; [] without a network."""
        return self._speeds(job["model"] or "", int(job["gpus"]))

    @cached_property
    def _speeds(self) -> TierSlowdowns:
        return TierSlowdowns(self.run.scenario, self.run.topology)

    # The history of one job.

    def history(self, job_id: str, until_s: float = inf, most: int | None = None) -> list[TimelineEntry]:
        """What happened to the job up to an instant, in order.

        Of more than `most` events, only the first and the last are explained, with an entry that counts the others:
        under a policy that preempts by the minute, a job has thousands.
        """
        job = self.job(job_id)
        rows = self.events.filter(pl.col("job_id") == job_id, pl.col("time_s") <= until_s)
        if rows.is_empty():
            return [TimelineEntry(job["submit_s"], "pending", "not submitted yet")]
        own = self.decisions.filter(pl.col("job_id") == job_id, pl.col("time_s") <= until_s)
        acts = iter(self.timeline.course.acts_of(self.timeline.numbers[job_id]))
        entries: list[TimelineEntry] = []
        since_s = waits_s = 0.0  # since a cycle knows that it waits, and since it does
        renewals: list[float] = []
        skipped = _middle(rows.height, most)
        for place, row in enumerate(rows.iter_rows(named=True)):
            time_s, kind, reason = row["time_s"], row["kind"], row.get("reason") or ""
            act = next(acts) if kind in MAKES else -1
            if place in skipped:
                since_s, waits_s = (time_s, time_s) if kind in BEGINS_TO_WAIT else (since_s, waits_s)
                if place == skipped.start:
                    entries += self._renewals(renewals)
                    renewals = []
                    entries.append(TimelineEntry(time_s, "skipped", f"… {len(skipped):,} more events …"))
                continue
            if kind == "renew":
                renewals.append(time_s)
                continue
            entries += self._renewals(renewals)
            renewals = []
            if kind in ("start", "migrate", "resize", "adopt") and row["machines"] is not None:
                if kind == "start":
                    entries += self._causes(job_id, own, since_s, time_s)
                crossed = self._speeds.crossed(job["model"] or "", row["machines"], row["machine_gpus"])
                text = self._placed(row, act, own, waits_s) + crossed_text(crossed)
                entries.append(TimelineEntry(time_s, kind, text))
            elif kind == "finish":
                entries.append(TimelineEntry(time_s, kind, _outcome(job)))
            elif kind in BEGINS_TO_WAIT:
                since_s = time_s
                waits_s = min(time_s, job["submit_s"]) if kind == "submit" else time_s
                entries.append(TimelineEntry(waits_s, kind, self._stopped(kind, job, own, time_s)))
            elif kind not in HOLDS or reason != BY_ACTION:
                entries.append(TimelineEntry(time_s, kind, _intervention(kind, reason)))
        entries += self._renewals(renewals)
        if rows.filter(~pl.col("kind").is_in(ASIDE))["kind"].tail(1).is_in(WAITS_ON).any():
            entries += self._causes(job_id, own, since_s, nextafter(min(until_s, self.run.end_s), inf))
        return sorted(entries, key=lambda entry: entry.time_s)  # things happen to jobs while they wait

    def _causes(self, job_id: str, own: pl.DataFrame, since_s: float, until_s: float) -> list[TimelineEntry]:
        """What kept the job waiting, as far as it changed."""
        if until_s <= since_s:
            return []
        moments = self._moments(job_id, own, since_s, until_s)
        left_out = len(moments) - MOST_CAUSES
        half = MOST_CAUSES // 2
        shown = moments if left_out <= 0 else [*moments[:half], *moments[-half:]]
        entries: list[TimelineEntry] = []
        for place, at_s in enumerate(shown):
            if left_out > 0 and place == half:
                entries.append(TimelineEntry(moments[half], "wait", f"… {left_out} more decisions about it …"))
            wait = self.wait_of(job_id, at_s)
            if wait is not None and (not entries or entries[-1].text != wait.why):
                entries.append(TimelineEntry(at_s, "wait", wait.why))
        return entries

    def _moments(self, job_id: str, own: pl.DataFrame, since_s: float, until_s: float) -> list[float]:
        """When it began to wait, and when something was recorded that may have kept it waiting."""
        mine = own.filter(pl.col("kind").is_in(["defer", "admit", "offer"]))
        offers = self._offers_for(own.filter(pl.col("rank").is_not_null()), job_id, until_s)
        times = {since_s}
        for rows in (self._heads, mine, offers):
            times |= set(rows.filter(pl.col("time_s") > since_s, pl.col("time_s") < until_s)["time_s"].to_list())
        return sorted(times)

    def _offers_for(self, demands: pl.DataFrame, job_id: str, until_s: float) -> pl.DataFrame:
        """Offers up to an instant to the job, or to all jobs with the demand of the first of these rows."""
        offers = self.decisions.filter(pl.col("kind") == "offer", pl.col("time_s") <= until_s)
        if demands.is_empty():
            return offers.clear()
        same = [pl.col(name) == demands[name][0] for name in ("gpus", "group", "demand_kind")]
        return offers.filter(*same, (pl.col("job_id") == job_id).fill_null(True))

    def _stopped(self, kind: str, job: dict[str, Any], own: pl.DataFrame, time_s: float) -> str:
        if kind == "submit":
            model = f", model {job['model']}" if job["model"] else ""
            return f"submitted: {job['gpus']} GPU{'s' if job['gpus'] != 1 else ''}{model}"
        if kind == "evict":
            return "one of its machines failed; waits again"
        return f"{self._preempted(job, own, time_s)}; waits again"

    def _preempted(self, job: dict[str, Any], own: pl.DataFrame, time_s: float) -> str:
        """For which job or queue, and at what cost."""
        lost = own.filter(pl.col("kind") == "lose", pl.col("time_s") == time_s)
        if lost.is_empty():
            return "preempted" + self._spent(job, time_s)
        reclaimed = self._reclaimed(job["job_id"], time_s)
        if reclaimed:
            return reclaimed
        winner, prices = lost["winner"][0], lost["prices"][0]
        if winner is None:
            return "lease ended; released GPUs that are farther apart than it accepts before its delay"
        if winner == job["job_id"]:
            return "lease ended; released its GPUs for a better fit"
        if len(prices) == 0:
            return f"preempted for {winner}"
        _, _, restart_s, at_risk_s, *idle_gpu_s = prices
        risk = f" and {duration(at_risk_s)} of work that is not saved" if at_risk_s > 0.0 else ""
        idle = f"; {duration(idle_gpu_s[0])} of GPU time stood idle beside that gang" if idle_gpu_s else ""
        verb = "drained" if idle_gpu_s else "preempted"
        return f"{verb} for {winner}, at the cost of a restart of {duration(restart_s)}{risk}{idle}"

    def _spent(self, job: dict[str, Any], time_s: float) -> str:
        """Whether that was because a budget was used up."""
        rows = self.run.stalls.filter(
            pl.col("time_s") == time_s, pl.col("cause") == "budget", pl.col("queue") == job.get("queue", "")
        )
        return f": the budget of queue {rows['of'][0]} is used up" if not rows.is_empty() else ""

    def _reclaimed(self, loser: str, time_s: float) -> str:
        """For which queue's share the job was preempted; empty: for none."""
        rows = self.run.reclaims.filter(pl.col("loser") == loser, pl.col("time_s") == time_s)
        if rows.is_empty():
            return ""
        row = rows.row(0, named=True)
        return (
            f"preempted for {row['winner']} of queue {row['winner_queue']}, which is due these GPUs: "
            f"{row['loser_queue']} held {row['held']} and was due {row['due']:.1f}"
        )

    def _placed(self, row: dict[str, Any], act: int, own: pl.DataFrame, since_s: float) -> str:
        where, place = machines_text(row["machines"], row["machine_gpus"]), placement_text(self.tiers, row["tier"])
        if row["kind"] == "adopt":
            return f"observed running on {place} and taken over: {where}"
        if row["kind"] == "migrate":
            return f"moved {self._why_moved(row, act, own)}to {place}: {where}"
        if row["kind"] == "resize":
            return f"resized {self._why_resized(row, act, own)} on {place}: {where}"
        accepted = own.filter(pl.col("kind") == "accept", pl.col("time_s") == row["time_s"])
        why = self._chosen(row, act, own) if accepted.is_empty() else self._accepted(row, accepted)
        return f"started on {place} after waiting {duration(row['time_s'] - since_s)}{why}: {where}"

    def _accepted(self, row: dict[str, Any], accepted: pl.DataFrame) -> str:
        """Why that tier, where the policy has delay timers."""
        delay_s, number = accepted["patience_s"][0], self.tiers.index(row["tier"])
        if delay_s <= 0.0:
            closest = self.run.topology.closest_tier(accepted["gpus"][0], accepted["group"][0])
            return ", as close as it can be" if number <= closest else ", it does not wait for closer"
        offers = self._offers_for(accepted, row["job_id"], row["time_s"]).filter(pl.col("time_s") < row["time_s"])
        before_s = float(offers["timers_s"][-1][number - 1]) if number > 0 and not offers.is_empty() else 0.0
        shortened = " (shortened at that moment)" if delay_s < before_s else ""
        return f", its delay of {duration(delay_s)} for that had passed{shortened}"

    def _why_moved(self, row: dict[str, Any], act: int, own: pl.DataFrame) -> str:
        """From how many domains to how many, for whom, and what that costs and saves; empty: no record says."""
        moves = own.filter(pl.col("kind") == "move", pl.col("time_s") == row["time_s"])
        if moves.is_empty():
            return ""
        cost_s, saved_s = moves["prices"][0]
        winner = moves["winner"][0]
        if winner is not None:
            return f"to make room for {winner}, at the cost of {duration(cost_s)}, "
        course = self.timeline.course
        shape = self._reshaped(
            *([machine for machine, _ in course.parts(one)] for one in (course.before[act], act))
        )
        return f"{shape}(costs {duration(cost_s)}, saves an expected {duration(saved_s)}) "

    def _why_resized(self, row: dict[str, Any], act: int, own: pl.DataFrame) -> str:
        """From how many GPUs to how many, for whom, and what that costs and saves as far as a record says."""
        course = self.timeline.course
        before, after = (sum(gpus for _, gpus in course.parts(one)) for one in (course.before[act], act))
        sizes = f"from {before} to {after} GPUs"
        moves = own.filter(pl.col("kind") == "move", pl.col("time_s") == row["time_s"])
        if moves.is_empty():
            return sizes
        cost_s, saved_s = moves["prices"][0]
        if moves["winner"][0] is not None:
            return f"{sizes} to make room for {moves['winner'][0]} (costs {duration(cost_s)})"
        return f"{sizes} (costs {duration(cost_s)}, saves an expected {duration(saved_s)})"

    def _reshaped(self, before: list[int], after: list[int]) -> str:
        """From how many domains of the farthest tier that tells the difference to how many."""
        topology = self.run.topology
        for tier in reversed(range(len(self.tiers) - 1)):
            one, other = (len({topology.domain_of(tier, machine) for machine in part}) for part in (before, after))
            if one != other:
                return f"from {one} {self.tiers[tier]}s to {other} " if one > 1 else ""
        return ""

    def _chosen(self, row: dict[str, Any], act: int, own: pl.DataFrame) -> str:
        """Why that tier, where the policy has no timers."""
        ranked = own.filter(pl.col("rank").is_not_null())
        if ranked.is_empty():
            return ""
        gpus, group, number = ranked["gpus"][0], ranked["group"][0], self.tiers.index(row["tier"])
        if number <= self.run.topology.closest_tier(gpus, group):
            return ", as close as it can be"
        free = self.timeline.before(act).free_by_tier
        closest = next((tier for tier, domains in enumerate(free) if max(domains) >= gpus), -1)
        return ", nothing closer had room" if group == 1 and closest == number else ""

    def _renewals(self, times: list[float]) -> list[TimelineEntry]:
        if not times:
            return []
        often = "once" if len(times) == 1 else f"{len(times)} times, last at {self.clock(times[-1])}"
        return [TimelineEntry(times[0], "renew", f"lease ended and no job ahead needed its GPUs: renewed {often}")]

    # All that wait at an instant.

    def waiting(self, at_s: float) -> list[WaitingJob]:
        """The waiting jobs at an instant, first in order first."""
        instant = self.timeline.at(at_s)
        return [self._wait(instant, place) for place in range(1, len(instant.waiting) + 1)]

    def wait_of(self, job_id: str, at_s: float) -> WaitingJob | None:
        """The same of one job; None: it does not wait then."""
        instant = self.timeline.at(at_s)
        places = (place for place, job in enumerate(instant.waiting, 1) if job.job_id == job_id)
        place = next(places, None)
        return None if place is None else self._wait(instant, place)

    def _wait(self, instant: Instant, place: int) -> WaitingJob:
        job, why = instant.waiting[place - 1], instant.why(place)
        return WaitingJob(
            job.job_id, job.gpus, job.lost_s, place if job.ranked else None, why.sentence(self.clock), why.reason,
            why.until_s,
        )  # fmt: skip

    def busiest_s(self) -> float:
        """The instant at which most jobs waited."""
        if self.events.is_empty():
            raise InputError("nothing happened in this run; no job ever waited")
        steps = self.events.filter(pl.col("kind").is_in([*BEGINS_TO_WAIT, "start"])).select(
            "time_s", pl.when(pl.col("kind") == "start").then(-1).otherwise(1).alias("step")
        )
        depth = steps.group_by("time_s", maintain_order=True).agg(pl.col("step").sum())
        depth = depth.with_columns(pl.col("step").cum_sum())
        busiest: float = depth.sort("step", "time_s", descending=[True, False])["time_s"][0]
        return busiest


def machines_text(machines: list[str], gpus: list[int]) -> str:
    """rack0-m[0-1] (8 GPUs each), rack0-m2 (4 GPUs)."""
    by_gpus: dict[int, list[str]] = {}
    for name, count in zip(machines, gpus, strict=True):
        by_gpus.setdefault(count, []).append(name)
    return ", ".join(
        f"{','.join(fold(names))} ({count} GPU{'s' if count != 1 else ''}{' each' if len(names) > 1 else ''})"
        for count, names in by_gpus.items()
    )


def crossed_text(crossed: dict[str, str]) -> str:
    """`; over machine uplinks: data, pipeline`, by the highest tier that each kind of groups crosses."""
    by_tier: dict[str, list[str]] = {}
    for kind, tier in crossed.items():
        by_tier.setdefault(tier, []).append(kind.replace("_", " "))
    return "".join(f"; over {tier} uplinks: {', '.join(sorted(kinds))}" for tier, kinds in by_tier.items())


def _intervention(kind: str, reason: str) -> str:
    """What people or the cluster did, or did not let happen, on live clusters."""
    because = f": {reason}" if reason else ""
    texts = {
        ACTION: reason,
        "hold": "put on hold; it is not offered GPUs",
        "release": "released from hold",
        "cancel": "cancelled",
        "start_failed": f"could not be started{because}; keeps waiting",
        "preempt_failed": f"could not be preempted{because}; keeps running",
        "migrate_failed": f"could not be moved{because}; keeps running where it is",
        "adopt": "taken over as it was",
        "would": f"dry run: Dally would {reason.replace('run on', 'run it on').replace('stop', 'stop it')}",
    }
    return texts.get(kind, kind)


def _outcome(job: dict[str, Any]) -> str:
    ended = job.get("outcome") or "finished"  # of a live job: it may have failed
    often = "once" if job["preemptions"] == 1 else f"{job['preemptions']} times"
    preempted = f", preempted {often}" if job["preemptions"] else ""
    return (
        f"{ended} {duration(job['jct_s'])} after submission: waited {duration(job['queue_s'])}, "
        f"ran {duration(job['run_s'])}{_network_text(job)}{preempted}"
    )


def _network_text(job: dict[str, Any]) -> str:
    """What a farther place and other jobs on the links cost; communication at the closest place is no loss."""
    if not job["comm_s"] or not job["slowdown"]:
        return ""
    lost_s = (job["compute_s"] + job["comm_s"]) * (1.0 - 1.0 / job["slowdown"])
    if job["slowdown"] < LEAST_SLOWDOWN:
        return f", {duration(job['comm_s'])} of it communicating, as at its closest place"
    return f", {duration(lost_s)} of it lost to the network (slowdown {job['slowdown']:.2f})"


def _middle(count: int, most: int | None) -> range:
    """The places between the first and the last that are shown; none if all are."""
    return range(0) if most is None or count <= most else range(most // 2, count - (most - most // 2))
