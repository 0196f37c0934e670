"""The story of a job, and who waits for what, from the records that a run left."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import inf, nextafter
from typing import Any

import polars as pl

from dally.errors import InputError
from dally.metrics.record import Record
from dally.report.by_hand import ACT, BY_WORD, HOLDS
from dally.report.explanation.instant import ASIDE, BEGINS_TO_WAIT, WAITS_ON, Instant, Occupancy
from dally.report.time_text import run_stamp, span
from dally.runs.assemble import tier_slowdowns

OFFERS_TOLD = 6  # changes of what was on offer that a story tells per wait


@dataclass(frozen=True)
class Line:
    """One thing that happened to a job."""

    time_s: float
    kind: str
    text: str


@dataclass(frozen=True)
class Wait:
    """One job that waits at an instant."""

    job_id: str
    gpus: int
    since_s: float
    place: int | None  # in the order, 1 is first; None: the policy gave no ranks
    offered: str  # the closest tier with room right now, or nothing
    accepts: str  # the farthest tier it takes now
    next_tier: str  # the next farther tier,
    next_s: float | None  # and when it takes that
    why: str  # who is ahead, what is free, who holds the rest, and what else keeps it waiting


class Stories:
    """What a run left, told as stories."""

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
    def occupancy(self) -> Occupancy:
        """Who held which GPUs when."""
        return Occupancy(self.run)

    def stamp(self, seconds: float) -> str:
        """An instant of the run, with the trace's own date if it has dates."""
        return run_stamp(self.run, seconds)

    def slowdowns(self, job: dict[str, Any]) -> list[float]:
        """How much slower the job's model runs at each tier, alone; [] without a network."""
        return tier_slowdowns(self.run.scenario, job["model"] or "", int(job["gpus"]), self.run.topology)

    # The story of one job.

    def story(self, job_id: str, until_s: float = float("inf")) -> list[Line]:
        """What happened to the job up to an instant, in order."""
        job = self.job(job_id)
        rows = self.occupancy.events.filter(pl.col("job_id") == job_id, pl.col("time_s") <= until_s)
        own = self.decisions.filter(pl.col("job_id") == job_id, pl.col("time_s") <= until_s)
        lines: list[Line] = []
        since_s = 0.0
        renewals: list[float] = []
        for row in rows.iter_rows(named=True):
            time_s, kind = row["time_s"], row["kind"]
            if kind == "renew":
                renewals.append(time_s)
                continue
            lines += self._renewals(renewals)
            renewals = []
            if kind in ("start", "migrate", "adopt") and row["machines"] is not None:
                if kind == "start":
                    lines += self._waited(job, own, since_s, time_s)
                lines.append(self._started(row, own, since_s))
            elif kind == "finish":
                lines.append(Line(time_s, kind, _outcome(job)))
            elif kind in BEGINS_TO_WAIT:
                since_s = time_s
                lines.append(Line(time_s, kind, self._stopped(kind, job, own, time_s)))
            elif kind not in HOLDS or row.get("reason") != BY_WORD:
                lines.append(Line(time_s, kind, _meddled(kind, row.get("reason") or "")))
        lines += self._renewals(renewals)
        if rows.is_empty():
            return [Line(job["submit_s"], "pending", "is submitted only then")]
        if rows.filter(~pl.col("kind").is_in(ASIDE))["kind"].tail(1).is_in(WAITS_ON).any():
            lines += self._waited(job, own, since_s, nextafter(min(until_s, self.run.end_s), inf))
        return sorted(lines, key=lambda line: line.time_s)  # things happen to jobs while they wait

    def _waited(self, job: dict[str, Any], own: pl.DataFrame, since_s: float, until_s: float) -> list[Line]:
        """What kept the job waiting: offers where the policy has timers for all, else how things stood."""
        if until_s <= since_s:
            return []
        if self._has_timers:
            return self._offers(own, since_s, until_s)
        moments = self._moments(job["job_id"], own, since_s, until_s)
        left_out = len(moments) - OFFERS_TOLD
        if left_out > 0:
            moments = [*moments[:3], *moments[-3:]]
        lines: list[Line] = []
        for at_s in moments:
            found = self.waits(job["job_id"], at_s)
            if found is not None and (not lines or lines[-1].text != found.why):
                lines.append(Line(at_s, "wait", found.why))
        if left_out > 0:
            lines.insert(3, Line(moments[3], "wait", f"… what kept it waiting changed {left_out} more times …"))
        return lines

    def _moments(self, job_id: str, own: pl.DataFrame, since_s: float, until_s: float) -> list[float]:
        """When it began to wait, and when something was recorded that may have kept it waiting."""
        firsts = self.decisions.filter(pl.col("kind").is_in(["head", "reserve"]))
        firsts = firsts.filter(pl.col("job_id").ne_missing(pl.col("job_id").shift(1)))
        mine = own.filter(pl.col("kind").is_in(["defer", "admit", "offer"]))
        offers = self._offers_for(own.filter(pl.col("rank").is_not_null()), job_id, until_s)
        times = {since_s}
        for rows in (firsts, mine, offers):
            times |= set(rows.filter(pl.col("time_s") > since_s, pl.col("time_s") < until_s)["time_s"].to_list())
        return sorted(times)

    @cached_property
    def _has_timers(self) -> bool:
        """Whether what is on offer was recorded for all who wait, as delay scheduling does."""
        return not self.decisions.filter(pl.col("kind") == "offer", pl.col("job_id").is_null()).is_empty() and (
            not self.decisions.filter(pl.col("kind") == "accept").is_empty()
        )

    def _stopped(self, kind: str, job: dict[str, Any], own: pl.DataFrame, time_s: float) -> str:
        if kind == "submit":
            model = f", trains {job['model']}" if job["model"] else ""
            return f"submitted; asks for {job['gpus']} GPU{'s' if job['gpus'] != 1 else ''}{model}"
        if kind == "evict":
            return "lost its GPUs: one of its machines failed"
        lost = own.filter(pl.col("kind") == "lose", pl.col("time_s") == time_s)
        if lost.is_empty():
            return "preempted; waits again" + self._spent(job, time_s)
        winner = lost["winner"][0]
        shared = self._reclaimed(job["job_id"], time_s)
        if shared:
            return shared
        if winner is None:
            return "lease ended; gave up its GPUs, farther apart than it takes before it has waited; waits again"
        prices = lost["prices"][0]
        if len(prices) > 0:
            return f"preempted in favour of {winner}: {_stop_price(prices)}; waits again"
        return f"preempted in favour of {winner}{self._against(job['job_id'], winner, time_s)}; waits again"

    def _spent(self, job: dict[str, Any], time_s: float) -> str:
        """Whether that was because a budget was used up."""
        rows = self.run.stalls.filter(
            pl.col("time_s") == time_s, pl.col("cause") == "budget", pl.col("queue") == job.get("queue", "")
        )
        return f": the budget of queue {rows['of'][0]} is used up" if not rows.is_empty() else ""

    def _reclaimed(self, loser: str, time_s: float) -> str:
        """For which queue's share the job was stopped; empty: for none."""
        rows = self.run.reclaims.filter(pl.col("loser") == loser, pl.col("time_s") == time_s)
        if rows.is_empty():
            return ""
        row = rows.row(0, named=True)
        return (
            f"stopped for {row['winner']} of queue {row['winner_queue']}, which is due these GPUs: "
            f"{row['loser_queue']} held {row['held']} and was due {row['due']:.1f}; waits again"
        )

    def _against(self, loser: str, winner: str, time_s: float) -> str:
        """Rank against rank: the winner's when it took the GPUs, the loser's when it lost them."""
        ranks = self.decisions.filter(pl.col("rank").is_not_null(), pl.col("time_s") <= time_s)
        one = ranks.filter(pl.col("job_id") == winner)["rank"].to_list()
        other = ranks.filter(pl.col("job_id") == loser)["rank"].to_list()
        if not one or not other or one[-1] == other[-1] or inf in (abs(one[-1]), abs(other[-1])):
            return ""
        return f" ({_ranks(one[-1], other[-1])})"

    def _started(self, row: dict[str, Any], own: pl.DataFrame, since_s: float) -> Line:
        time_s, tier = row["time_s"], row["tier"]
        where = "+".join(f"{name}:{gpus}" for name, gpus in zip(row["machines"], row["machine_gpus"], strict=True))
        if row["kind"] == "adopt":
            return Line(
                time_s, "adopt", f"found running on {where} ({self._place(tier)}); the scheduler goes by that"
            )
        if row["kind"] == "migrate":
            return Line(time_s, "migrate", f"moved {self._why_moved(row, own)}to {where} ({self._place(tier)})")
        took = own.filter(pl.col("kind") == "accept", pl.col("time_s") == time_s)
        why = "" if not took.is_empty() else self._chosen(row, own)
        if not took.is_empty():
            patience_s = took["patience_s"][0]
            timer = f", its {span(patience_s)} timer for that had run out"
            if patience_s < self._told_s(took, tier, time_s):
                timer += " (shortened at that moment)"
            closest = self.run.topology.closest_tier(took["gpus"][0], took["group"][0])
            at_once = (
                "as close as it can be" if self.tiers.index(tier) <= closest else "it does not wait for closer"
            )
            why = timer if patience_s > 0 else f", {at_once}"
        return Line(
            time_s, "start", f"started on {self._place(tier)} after waiting {span(time_s - since_s)}{why}: {where}"
        )

    def _why_moved(self, row: dict[str, Any], own: pl.DataFrame) -> str:
        """From how many domains to how many, for whom, and what that costs and saves; empty if nobody said."""
        told = own.filter(pl.col("kind") == "move", pl.col("time_s") == row["time_s"])
        if told.is_empty():
            return ""
        cost_s, saved_s = told["prices"][0]
        winner = told["winner"][0]
        if winner is not None:
            return f"out of the way of {winner}, at the cost of {span(cost_s)}, "
        before = self.occupancy.placements.filter(pl.col("end") == row["row"], pl.col("job_id") == row["job_id"])
        shape = "" if before.is_empty() else self._reshaped(before["machines"][0].to_list(), row["machines"])
        return f"{shape}(costs {span(cost_s)}, saves an expected {span(saved_s)}) "

    def _reshaped(self, before: list[str], after: list[str]) -> str:
        """From how many domains of the farthest tier that tells the difference to how many."""
        topology = self.run.topology
        numbers = {name: number for number, name in enumerate(topology.names[0])}
        for tier in reversed(range(len(self.tiers) - 1)):
            one, other = (
                len({topology.domain_of(tier, numbers[name]) for name in machines}) for machines in (before, after)
            )
            if one != other:
                return f"from {one} {self.tiers[tier]}s to {other} " if one > 1 else ""
        return ""

    def _chosen(self, row: dict[str, Any], own: pl.DataFrame) -> str:
        """Why that tier, where the policy has no timers."""
        asked = own.filter(pl.col("rank").is_not_null())
        if asked.is_empty():
            return ""
        gpus, group = asked["gpus"][0], asked["group"][0]
        number = self.tiers.index(row["tier"])
        if number <= self.run.topology.closest_tier(gpus, group):
            return ", as close as it can be"
        closest = self.occupancy.closest_with_room(row["row"], gpus)
        return ", nothing closer had room" if group == 1 and closest == number else ""

    def _told_s(self, took: pl.DataFrame, tier: str, time_s: float) -> float:
        """The timer for that tier as last told before an instant."""
        told = self._offers_for(took, took["job_id"][0], time_s).filter(pl.col("time_s") < time_s).tail(1)
        number = self.tiers.index(tier)
        return float(told["timers_s"][0][number - 1]) if number > 0 and not told.is_empty() else 0.0

    def _renewals(self, times: list[float]) -> list[Line]:
        if not times:
            return []
        often = "once" if len(times) == 1 else f"{len(times)} times, the last at {self.stamp(times[-1])}"
        return [Line(times[0], "renew", f"lease ended and nobody ahead needed its GPUs: renewed {often}")]

    def _offers(self, own: pl.DataFrame, since_s: float, until_s: float) -> list[Line]:
        """What was on offer while the job waited, until before an instant, as far as it changed."""
        asked = own.filter(pl.col("kind") == "wait")
        if asked.is_empty() or until_s <= since_s:
            return []
        offers = self._offers_for(asked, asked["job_id"][0], until_s)
        before = offers.filter(pl.col("time_s") <= since_s).tail(1)
        during = offers.filter(pl.col("time_s") > since_s, pl.col("time_s") < until_s)
        lines: list[Line] = []
        told = ""
        for row in pl.concat([before, during]).iter_rows(named=True):
            text = self._offer_text(row, since_s)
            if text != told:
                lines.append(Line(max(row["time_s"], since_s), "offer", text))
            told = text
        left_out = len(lines) - OFFERS_TOLD
        if left_out > 0:
            middle = Line(lines[3].time_s, "offer", f"… what was on offer changed {left_out} more times …")
            lines = [*lines[:3], middle, *lines[-3:]]
        return lines

    def _offers_for(self, asked: pl.DataFrame, job_id: str, until_s: float) -> pl.DataFrame:
        """Offers up to an instant to the job, or to all that ask for the same as the first of these rows."""
        offers = self.decisions.filter(pl.col("kind") == "offer", pl.col("time_s") <= until_s)
        if asked.is_empty():
            return offers.clear()
        same = [pl.col(name) == asked[name][0] for name in ("gpus", "group", "demand_kind")]
        return offers.filter(*same, (pl.col("job_id") == job_id).fill_null(True))

    def _offer_text(self, offer: dict[str, Any], since_s: float) -> str:
        tier = offer["tier"]
        if tier is None:
            return "not enough GPUs free anywhere"
        number = self.tiers.index(tier)
        timer_s = offer["timers_s"][number - 1] if number > 0 else 0.0
        if timer_s == 0.0:
            return f"{self._place(tier)} on offer, which it takes when its turn comes"
        if timer_s == float("inf"):
            return f"{self._place(tier)} on offer at best: declined, it never takes that"
        return f"{self._place(tier)} on offer at best: declined until {self.stamp(since_s + timer_s)}"

    def _place(self, tier: str) -> str:
        return f"GPUs across the {tier}" if tier == self.tiers[-1] else f"one {tier}"

    # All that wait at an instant.

    def waiting(self, at_s: float) -> list[Wait]:
        """The waiting jobs at an instant, first in order first."""
        instant = Instant(self.occupancy, at_s)
        return [self._wait(place, row, instant) for place, row in enumerate(instant.waiting)]

    def waits(self, job_id: str, at_s: float) -> Wait | None:
        """The same of one job; None: it does not wait then."""
        instant = Instant(self.occupancy, at_s)
        found = [
            self._wait(place, row, instant) for place, row in enumerate(instant.waiting) if row["job_id"] == job_id
        ]
        return found[0] if found else None

    def _wait(self, place: int, row: dict[str, Any], instant: Instant) -> Wait:
        asked = pl.DataFrame([row]).select("gpus", "group", "demand_kind")
        offers = self._offers_for(asked, row["job_id"], instant.at_s).tail(1)
        offered, accepts, next_tier, declined = "", "", "", ""
        next_s: float | None = None
        if not offers.is_empty():
            offered = (offers["tier"][0] if instant.free_gpus >= row["gpus"] else None) or "nothing"
            declined = self._offer_text(offers.row(0, named=True), row["since_s"])
            timers_s = [0.0, *offers["timers_s"][0]]
            taken = [tier for tier, timer_s in enumerate(timers_s) if row["since_s"] + timer_s <= instant.at_s]
            accepts = self.tiers[max(taken)]
            farther = [tier for tier in range(max(taken) + 1, len(timers_s)) if timers_s[tier] < float("inf")]
            if farther:
                next_tier, next_s = self.tiers[farther[0]], row["since_s"] + timers_s[farther[0]]
        known = place + 1 if row["rank"] is not None else None
        why = instant.why(place, declined)
        return Wait(row["job_id"], row["gpus"], row["since_s"], known, offered, accepts, next_tier, next_s, why)

    def busiest_s(self) -> float:
        """The instant at which most jobs waited."""
        if self.events.is_empty():
            raise InputError("nothing happened in this run; nobody ever waited")
        steps = self.events.filter(pl.col("kind").is_in([*BEGINS_TO_WAIT, "start"])).select(
            "time_s", pl.when(pl.col("kind") == "start").then(-1).otherwise(1).alias("step")
        )
        depth = steps.group_by("time_s", maintain_order=True).agg(pl.col("step").sum())
        depth = depth.with_columns(pl.col("step").cum_sum())
        found: float = depth.sort("step", "time_s", descending=[True, False])["time_s"][0]
        return found


def _stop_price(prices: list[float]) -> str:
    """Rank against rank, the restart, and the work since the checkpoint if there is any."""
    winner_rank, loser_rank, restart_s, at_risk_s = prices
    risk = f", {span(at_risk_s)} since its checkpoint" if at_risk_s > 0.0 else ""
    return f"{_ranks(winner_rank, loser_rank)}, restart {span(restart_s)}{risk}"


def _ranks(winner: float, loser: float) -> str:
    """One against the other, large ones in full."""
    told = [f"{rank:.0f}" if abs(rank) >= 1000.0 else f"{rank:.4g}" for rank in (winner, loser)]
    return f"rank {told[0]} against {told[1]}"


def _meddled(kind: str, reason: str) -> str:
    """What others did, or did not let happen: this is of live clusters."""
    because = f": {reason}" if reason else ""
    said = {
        ACT: reason,
        "hold": "put on hold; it is not offered GPUs",
        "release": "taken off hold",
        "cancel": "cancelled",
        "start_failed": f"could not be started{because}; waits on",
        "preempt_failed": f"could not be stopped{because}; goes on",
        "migrate_failed": f"could not be moved{because}; goes on where it is",
        "adopt": "taken over as it was",
    }
    return said.get(kind, kind)


def _outcome(job: dict[str, Any]) -> str:
    ended = job.get("outcome") or "finished"  # of a live job: it may have failed
    often = "once" if job["preemptions"] == 1 else f"{job['preemptions']} times"
    preempted = f", preempted {often}" if job["preemptions"] else ""
    lost = ""
    if job["comm_s"]:
        lost = f", {span(job['comm_s'])} of it lost to the network (slowdown {job['slowdown']:.2f})"
    return (
        f"{ended} {span(job['jct_s'])} after submission: waited {span(job['queue_s'])}, "
        f"ran {span(job['run_s'])}{lost}{preempted}"
    )
