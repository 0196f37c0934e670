"""By Gittins rank: who is likely to end soon, for the GPUs that takes, comes first."""

from __future__ import annotations

import math
from typing import Any, Final

from mypy_extensions import i64, mypyc_attr

from dally.cluster.capacity import Cluster
from dally.heap import IndexedHeap
from dally.model import CANCELLED, INFINITY, RUNNING, Job
from dally.pickles import picklable
from dally.policies.ordering.ageing import Ageing
from dally.policies.ordering.base import Order
from dally.policies.ordering.inflow import Inflow
from dally.policies.ordering.user_stretch import UserStretch
from dally.policies.prediction.hazard import HazardTable
from dally.policies.prediction.statements import StatementTable

EARLY = 1e-6  # relative; a job this close to an age counts as that old: times are rounded
MOST_INFLOW: Final = 0.5  # of the cluster's GPUs: what comes in beyond that is not counted on
MOST_AT_ONCE: Final = 4096  # ranks worked out anew in one pass; the next ones go on
# What a rank is.
GITTINS: Final = 0  # GPU-seconds per finish
ATTAINED: Final = 1  # GPU-seconds had so far
BY: Final = {"gittins": GITTINS, "las": ATTAINED}


class Ranked:
    """A job in the system: its class, its age bin and its rank; and the same for its age ÷ stated duration."""

    __slots__ = (
        "age_bin", "best", "gone", "job", "leaf", "rank", "relative_bin", "stated_at", "stated_bin", "stated_leaf",
        "stated_s",
    )  # fmt: skip

    def __init__(self, job: Job, leaf: i64, best: float) -> None:
        self.job: Job = job
        self.leaf: i64 = leaf
        self.best: float = best  # the slowdown that it cannot avoid
        self.gone: bool = False  # it is in the system no more
        self.age_bin: i64 = 0
        self.rank: float = 0.0
        self.stated_s: float = 0.0  # how long it takes, as it says itself; 0: it says nothing
        self.stated_leaf: i64 = -1
        self.stated_at: i64 = 0  # its age bin when it said so,
        self.stated_bin: i64 = 0  # and that of its age ÷ stated_s
        self.relative_bin: i64 = 0  # where that is by now


picklable(Ranked, Job(0, "", 0.0, 1, 0.0), 0, 1.0)


@mypyc_attr(allow_interpreted_subclasses=True)
class GittinsOrder(Order):
    """GPUs × expected seconds of service per finish (the inverse Gittins index) × the slowdown that no placement
    avoids.

    Gittins, Bandit Processes and Dynamic Allocation Indices, 1979. A job's rank is computed when it enters an age
    bin, and for all jobs every `refresh_s` seconds, or when enough jobs have finished to change it. With
    `order=las`, the rank is the GPU time so far.
    """

    def __init__(
        self,
        table: HazardTable,
        refresh_s: float = 600.0,
        by: i64 = GITTINS,
        gpu_power: float = 1.0,
        users: UserStretch | None = None,
        ages: Ageing | None = None,
    ) -> None:
        self.table: HazardTable = table
        self.statements: StatementTable = StatementTable()
        self.by: i64 = by
        self.refresh_s: float = refresh_s
        self._ranked: dict[int, Ranked] = {}
        self._crossings: IndexedHeap = IndexedHeap()  # when a running job gets into its next age bin
        self._refreshed_s: float = -INFINITY
        self._known_at: i64 = 0  # finishes when all ranks were last worked out
        self.most_at_once: i64 = MOST_AT_ONCE
        self._restated: list[Ranked] = []  # who said since then how long they take
        self.gpus: float = 0.0  # of the cluster
        self._inflow: Inflow = Inflow()
        self._drain_s: float = INFINITY  # until all would be done, with no GPU idle
        self.gpu_power: float = gpu_power
        self.users: UserStretch | None = users
        self.ages: Ageing | None = ages
        self.alike_times: float = 0.0  # jobs are alike if few take so many times as long as half of them do,
        self.longest_s: float = INFINITY  # and then all take up to this
        self._due: list[Ranked] = []  # whose ranks are to be worked out anew,
        self._refreshed: i64 = 0  # of which so many are done

    def saved(self) -> dict[str, Any]:
        """What was learnt, of statements only if any job made one."""
        saved = self.table.saved()
        if self.ages is not None:
            saved["ageing"] = self.ages.saved()
        return saved | {"statements": self.statements.saved()} if self.statements.any() else saved

    def restore(self, saved: dict[str, Any]) -> None:
        """Go on with what `saved` gave."""
        self.table.restore(saved)
        if "statements" in saved:
            self.statements.restore(saved["statements"])
        if self.ages is not None and "ageing" in saved:
            self.ages.restore(saved["ageing"])

    def key(self, job: Job, now: float) -> float:
        return self.ranked(job).rank

    def ranked(self, job: Job) -> Ranked:
        """What is known of a job, from when it is first asked for."""
        ranked = self._ranked.get(int(job.index))
        if ranked is None:
            ranked = Ranked(job, self.table.class_of(job), self.view.best(job))
            ranked.age_bin = self.table.bin_of(job.work_s)
            self._ranked[int(job.index)] = ranked
            if job.reported_s > 0.0:
                self._state(ranked, job.work_s)
            self._rank(ranked)
            if self.by == GITTINS:
                self._inflow.came(self._left_gpu_s(ranked), job.submit_s)
        return ranked

    def per_finish_s(self, job: Job) -> float:
        """Expected seconds of service per finish of such a job, however many GPUs it takes."""
        return self._per_finish_s(self.ranked(job))

    def left_s(self, job: Job) -> float:
        """Seconds of work that it is expected to have left."""
        ranked = self.ranked(job)
        left_s = self.table.left_s(ranked.leaf, ranked.age_bin)
        if ranked.stated_s <= 0.0:
            return left_s
        share = self._share(ranked)
        return share * self._stated_left_s(ranked) + (1.0 - share) * left_s

    def _share(self, ranked: Ranked) -> float:
        """How likely it is that the job ends as it says: such jobs' share, by how well that foretold its age."""
        share = self.statements.worth(ranked.stated_leaf)
        stated = share * self.statements.survival(ranked.stated_leaf, ranked.stated_bin, ranked.relative_bin)
        other = (1.0 - share) * self.table.survival(ranked.leaf, ranked.stated_at, ranked.age_bin)
        return stated / (stated + other) if stated + other > 0.0 else share

    def _stated_left_s(self, ranked: Ranked) -> float:
        """Seconds of work that it has left by what it says itself."""
        return ranked.stated_s * self.statements.left_s(ranked.stated_leaf, ranked.relative_bin)

    def _per_finish_s(self, ranked: Ranked) -> float:
        """Expected seconds of service per finish: as learnt by age, and by what the job says itself.

        A job that says that it has more left than all jobs together, with those still to come, need to drain the
        cluster ends last: what it says does not put it off, or the cluster would stand idle beside it in the end.
        """
        service_s = self.table.rank_s(ranked.leaf, ranked.age_bin)
        if ranked.stated_s <= 0.0:
            return service_s
        stated_s = ranked.stated_s * self.statements.rank_s(ranked.stated_leaf, ranked.relative_bin)
        share = self._share(ranked)
        pooled_s = 1.0 / (share / stated_s + (1.0 - share) / service_s)
        if pooled_s > service_s and self._stated_left_s(ranked) * ranked.best >= self._drain_s:
            return service_s
        return pooled_s

    def _order(self, ranked: Ranked) -> float:
        """The same where a finish counts by the job's length, which is what the job says itself if it does."""
        power = self.table.length_power
        if power == 0.0:
            return self._per_finish_s(ranked)
        if ranked.stated_s > 0.0:
            return self._per_finish_s(ranked) * math.pow(ranked.stated_s / 3600.0, -power)
        return self.table.order(ranked.leaf, ranked.age_bin)

    def alike(self, times: float) -> bool:
        """Whether ranks of jobs of one size tell nothing yet: none has lived so many times as long as another."""
        return times > 0.0 and self.by == GITTINS and not self.table.distinguishes(times)

    def share_ending(self, job: Job, by_s: float) -> float:
        """The share of jobs like it, of its age, that were seen to end by an age."""
        ranked = self.ranked(job)
        return self.table.share_ending(ranked.leaf, ranked.age_bin, by_s)

    def changed(self, now: float, cluster: Cluster) -> list[Job]:
        return [ranked.job for ranked in self.moved(now)]

    def moved(self, now: float) -> list[Ranked]:
        """Those whose ranks have changed by themselves since this was last asked."""
        moved = [ranked for ranked in self._restated if not ranked.gone]
        self._restated = []
        if self.ages is not None:
            self.ages.now = now
        while len(self._crossings) > 0 and self._crossings.key(self._crossings.first()) <= now:
            ranked = self._ranked[int(self._crossings.pop())]
            if self._cross(ranked, now):
                moved.append(ranked)
            self._expect(ranked, now)
        if now - self._refreshed_s >= self.refresh_s or self.table.is_stale(self._known_at):
            self._refreshed_s = now
            self._known_at = self.table.finishes
            self.longest_s = self.table.recompute(self.alike_times)
            if not self._due:
                self._due = list(self._ranked.values())
                if self.statements.any():
                    self._drain_s = self._draining_s(now)
        if self._due:
            moved += self._refresh()  # one who crossed is named again only if that changed its rank
        return moved

    def set_gpus(self, gpus: float, share: float) -> None:
        """So many the cluster has; a gang of that share of them is one of the whole cluster."""
        self.gpus = gpus
        if self.ages is not None:
            self.ages.gpus = share * gpus

    def _draining_s(self, now: float) -> float:
        """How long all GPUs together need for the work that all jobs in the system are expected to have left.

        Jobs that come meanwhile hold it up by what came lately, as far as one may count on that.
        """
        if self.gpus <= 0.0:
            return INFINITY
        gpu_s = 0.0
        for ranked in self._ranked.values():
            gpu_s += self._left_gpu_s(ranked)
        return gpu_s / self.gpus * (1.0 + min(self._inflow.gpus(now) / self.gpus, MOST_INFLOW))

    def _left_gpu_s(self, ranked: Ranked) -> float:
        """GPU time that the job is expected to have left."""
        return float(ranked.job.requested) * ranked.best * self.left_s(ranked.job)

    def forget_ranks(self) -> None:
        """What nobody can avoid is another slowdown now: work out all ranks again."""
        self._refreshed_s = -INFINITY
        self._due = []
        self._refreshed = 0
        for ranked in self._ranked.values():
            ranked.best = self.view.best(ranked.job)

    def _refresh(self) -> list[Ranked]:
        """Rank those anew who are due, some in each pass; those whose rank is another one now."""
        moved: list[Ranked] = []
        last = min(self._refreshed + self.most_at_once, len(self._due))
        for place in range(self._refreshed, last):
            ranked = self._due[place]
            before = ranked.rank
            self._rank(ranked)
            if ranked.rank != before and not ranked.gone:
                moved.append(ranked)
        self._refreshed = last
        if last == len(self._due):
            self._due = []
            self._refreshed = 0
        return moved

    def _rank(self, ranked: Ranked) -> None:
        job = ranked.job
        if self.by == ATTAINED:
            ranked.rank = float(job.requested) * self.table.edges_s[ranked.age_bin]
        else:
            gpus = float(job.requested)
            if self.gpu_power != 1.0:
                gpus = math.pow(gpus, self.gpu_power)
            ranked.rank = gpus * self._order(ranked) * ranked.best
            if self.users is not None:
                ranked.rank *= self.users.weight(job)
            if self.ages is not None:
                ranked.rank /= self.ages.factor(job)

    def _cross(self, ranked: Ranked, now: float) -> bool:
        """Into the age bin where its work is now; whether that is another one."""
        age_s = ranked.job.done_s(now) * (1.0 + EARLY)
        crossed = False
        while age_s >= self.table.end_s(ranked.age_bin):
            self.table.outlived(ranked.leaf, ranked.age_bin)
            ranked.age_bin += 1
            crossed = True
        if ranked.stated_s > 0.0:
            crossed = self._outlive_statement(ranked, age_s / ranked.stated_s) or crossed
        if crossed:
            self._rank(ranked)
        return crossed

    def _outlive_statement(self, ranked: Ranked, age: float) -> bool:
        """Into the bin of its age ÷ stated duration; whether that is another one."""
        crossed = False
        while age >= self.statements.end_s(ranked.relative_bin):
            self.statements.outlived(ranked.stated_leaf, ranked.relative_bin)
            ranked.relative_bin += 1
            crossed = True
        return crossed

    def _state(self, ranked: Ranked, age_s: float) -> None:
        """The job says how long it takes; what it said before no longer counts."""
        ranked.stated_s = ranked.job.reported_s
        ranked.stated_leaf = self.statements.class_of(ranked.job)
        ranked.stated_at = ranked.age_bin
        ranked.stated_bin = self.statements.bin_of(age_s / ranked.stated_s)
        ranked.relative_bin = ranked.stated_bin

    def reported(self, job: Job, now: float) -> None:
        """The job has said how long it takes."""
        ranked = self.ranked(job)
        self._cross(ranked, now)
        if job.reported_s > 0.0 and job.reported_s != ranked.stated_s:
            self._state(ranked, job.done_s(now))
        self._rank(ranked)
        self._restated.append(ranked)
        self._expect(ranked, now)

    def remeasured(self, job: Job, now: float) -> None:
        """What the job cannot avoid is another slowdown, as its steps show."""
        ranked = self.ranked(job)
        ranked.best = self.view.best(job)
        self._rank(ranked)
        self._restated.append(ranked)

    def _expect(self, ranked: Ranked, now: float) -> None:
        job = ranked.job
        end_s = self.table.end_s(ranked.age_bin)
        if job.status != RUNNING or end_s == INFINITY or job.rate <= 0.0:
            self._crossings.discard(job.index)
            return
        if ranked.stated_s > 0.0:
            end_s = min(end_s, self.statements.end_s(ranked.relative_bin) * ranked.stated_s)
        works_s = job.since_s if job.since_s > now else now  # it may still be restarting
        self._crossings.put(job.index, works_s + (end_s - job.done_s(now)) / job.rate, 0.0)

    def queued(self, job: Job, now: float) -> None:
        if self.users is not None:
            self.users.waits(job, now)
        self.ranked(job)

    def started(self, job: Job, now: float) -> None:
        if self.users is not None:
            self.users.runs(job, now)
        self._expect(self.ranked(job), now)

    def rerated(self, job: Job, now: float) -> None:
        self._expect(self.ranked(job), now)

    def stopped(self, job: Job, now: float) -> None:
        if self.users is not None:
            self.users.waits(job, now)
        self._crossings.discard(job.index)

    def withdrawn(self, job: Job, now: float) -> None:
        if self.users is not None:
            self.users.leaves(job, now)
        if job.status == CANCELLED:  # it counts as far as it got
            ranked = self._ranked.pop(int(job.index), None)
            if ranked is not None:
                ranked.gone = True

    def finished(self, job: Job, now: float) -> None:
        if self.users is not None:
            self.users.leaves(job, now)
        ranked = self._ranked.pop(int(job.index))
        ranked.gone = True
        if self.ages is not None:
            self.ages.ended(job)
        if ranked.stated_s > 0.0:
            self._judge(ranked)
        last = self.table.bin_of(job.work_s)
        while ranked.age_bin < last:
            self.table.outlived(ranked.leaf, ranked.age_bin)
            ranked.age_bin += 1
        self.table.ended(ranked.leaf, ranked.age_bin)

    def _judge(self, ranked: Ranked) -> None:
        """A job that said how long it takes has ended: how well that held."""
        work_s = ranked.job.work_s
        last = self.statements.bin_of(work_s / ranked.stated_s)
        density = self.statements.density(ranked.stated_leaf, ranked.stated_bin, last) / ranked.stated_s
        other = self.table.density(ranked.leaf, ranked.stated_at, self.table.bin_of(work_s))
        self.statements.judge(ranked.stated_leaf, density, other)
        self._outlive_statement(ranked, self.statements.edges_s[last])
        self.statements.ended(ranked.stated_leaf, ranked.relative_bin)
