"""Teams share the machines: each has a policy of its own, and whose turn it is goes by what they are due."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import NamedTuple

from dally.cluster.capacity import Cluster
from dally.cluster.links import Network
from dally.cluster.topology import Topology
from dally.model import INFINITY, WAITING, Action, Job, Migrate, Preempt, Start
from dally.policies import events
from dally.policies.base import Policy
from dally.policies.events import PolicyEvent
from dally.policies.queue import Queue
from dally.policies.sharing.desks import Desk, Desks
from dally.policies.sharing.fair_shares import FairShares, fair_order
from dally.policies.sharing.moves_up import MoveUp, best_move
from dally.policies.sharing.pool import Pool
from dally.policies.sharing.reclaim import claim
from dally.policies.sharing.stalls import Stall, stall_of
from dally.policies.sharing.teams import Team, below
from dally.quotas.tree import QueueTree

SAMPLE_EVERY_S = 3600.0
LONGEST_ROUND_S = 3600.0  # policies that go by longer ones are not waited for
REVIEW_S = 300.0  # while somebody waits: past use fades, and so does what teams are due
EPSILON = 1e-9


class Reclaimed(NamedTuple):
    """A job that stopped so that another could have what it was due."""

    time_s: float
    loser: str
    winner: str
    loser_queue: str
    winner_queue: str
    gpus: int
    ran_s: float
    held: int  # by the loser's queue before, and what it was due
    due: float


class Sample(NamedTuple):
    """What a team holds, asks for and is due of a pool at one moment."""

    time_s: float
    queue: str
    gpu_type: str
    held: int
    asked: int
    due: float
    guaranteed: float
    used_gpu_s: float  # past use, decayed


class SharingPolicy(Desks):
    """The pass takes back what is lent to those who must give it back, and offers GPUs to every team up to its due.

    What is left goes to whoever may have more, in the fair order, one job at a time. Limits and budgets hold
    whatever the policies ask for.
    """

    def __init__(
        self,
        tree: QueueTree,
        build: Callable[[], Policy],
        topology: Topology,
        network: Network | None = None,
        mixed: Sequence[str] = (),
    ) -> None:
        super().__init__(tree, build, topology, network, mixed)
        self.samples: list[Sample] = []
        self.reclaimed: list[Reclaimed] = []
        self.stalls: list[Stall] = []
        self._told: dict[int, tuple[str, str]] = {}  # by line, cause and queue of its latest stall
        self._by_kind = [pool for pool in self._pools if not pool.partition]
        self._kept: dict[tuple[int, int], tuple[int, float]] = {}  # by team and pool: GPUs for it, and until when
        self._stopped_for: dict[int, set[int]] = {}  # by job, those for whom it was stopped: it does not stop them
        self._vain: dict[int, tuple[int, float]] = {}  # by team: a claim that did not help, GPUs and until when
        self._known: dict[int, FairShares] = {}  # by pool, until anything changes
        self._sample_due_s = -INFINITY
        self._dues: dict[int, float] = {}  # by team, GPUs it is due as of the latest pass
        self._dues_s = 0.0  # and when that was
        self._due_gpu_s: dict[int, float] = {}  # the same over time
        self._now = -INFINITY
        self._due_s = INFINITY

    def _forget(self, job: Job) -> None:
        super()._forget(job)
        self._stopped_for.pop(int(job.index), None)

    def _bring_up(self, now: float) -> None:
        super()._bring_up(now)
        self._known.clear()

    def on(self, event: PolicyEvent) -> None:
        super().on(event)
        if event.kind == events.PASS_ENDED:
            self._set_wakeup(event.now)

    def _set_wakeup(self, now: float) -> None:
        self.wakeup_s = min(self._due_s, min(team.budget_turns_s(now) for team in self._teams))
        for desk in self._desks.values():
            if now < desk.policy.wakeup_s < self.wakeup_s:
                self.wakeup_s = desk.policy.wakeup_s

    def schedule(self, now: float, queue: Queue, cluster: Cluster) -> Iterable[Action]:
        self._bring_up(now)
        self._count_dues(now)
        self._due_s = INFINITY
        self._now = now
        for pool in self._pools:
            if pool.whole:
                pool.cluster = cluster
        if now >= self._sample_due_s:
            self._take_samples(now)
        return self._pass(now)

    def news(self) -> list[Sample | Reclaimed | Stall]:
        """What was noted since this was last asked; it is not kept any longer."""
        found: list[Sample | Reclaimed | Stall] = [*self.samples, *self.reclaimed, *self.stalls]
        self.samples, self.reclaimed, self.stalls = [], [], []
        return found

    def queue_of(self, job: Job) -> str:
        """The path of the queue that the job is in."""
        return self.desk(job).team.path

    def due_gpu_s(self, now: float) -> dict[str, float]:
        """By queue, what it was due over time."""
        self._count_dues(now)
        return {team.path: self._due_gpu_s.get(team.number, 0.0) for team in self._teams}

    def _count_dues(self, now: float) -> None:
        for number, due in self._dues.items():
            self._due_gpu_s[number] = self._due_gpu_s.get(number, 0.0) + due * (now - self._dues_s)
        self._dues_s = now

    def _note_dues(self) -> None:
        """What everybody is due until the next pass."""
        found = {pool.kind: self._shares(pool).due for pool in self._by_kind if pool.gpus > 0}
        self._dues = {team.number: sum(due[team.number] for due in found.values()) for team in self._teams}

    def _tell_stalls(self, now: float) -> None:
        """What the first job of every line waits for, where that changed."""
        for desk in self._desks.values():
            job = desk.line.best(INFINITY) if len(desk.line) > 0 else None
            if job is None or desk.pool.gpus == 0:
                continue
            found = stall_of(desk, job, self._due(desk), now)
            if self._told.get(desk.number, ("", "")) != (found.cause, found.of):
                self._told[desk.number] = (found.cause, found.of)
                self.stalls.append(found)

    def _take_samples(self, now: float) -> None:
        """At the first pass of every hour."""
        self._sample_due_s = (now // SAMPLE_EVERY_S + 1.0) * SAMPLE_EVERY_S
        for pool in self._by_kind:
            shares = self._shares(pool)
            for team in self._teams[1:]:
                held, asked = team.held[pool.kind], sum(leaf.asked[pool.kind] for leaf in below(team))
                due, sure = shares.due[team.number], shares.guaranteed[team.number]
                self.samples.append(Sample(now, team.path, pool.name, held, asked, due, sure, team.used_gpu_s))

    def _pass(self, now: float) -> Iterator[Action]:
        yield from self._stop_spent(now)
        if len(self._pools) > 1:
            self._change_lines(now)
            self._known.clear()
        for pool in self._pools:
            if pool.gpus == 0:
                continue
            order = [self._desks.get((team.number, pool.number)) for team in fair_order(self._root)]
            desks = [desk for desk in order if desk is not None and len(desk.line) > 0]
            if not desks:
                continue
            owed = yield from self._take_back(desks, pool, now)
            if not owed:
                yield from self._leave_the_rest(desks, pool, now)
            if sum(self._root.held) > 0:  # else it takes a budget, an operator or nothing at all to change things
                self._due_s = min(self._due_s, now + REVIEW_S)
        yield from self._ask_those_without_waiting_jobs(now)
        if len(self._pools) > 1 and self._sample.migrates:
            yield from self._move_up(now)
        self._note_dues()
        self._tell_stalls(now)
        self._collect_reasons()

    def _ask_those_without_waiting_jobs(self, now: float) -> Iterator[Action]:
        """Their leases end, and are renewed as nobody waits; and their gangs may move to better places."""
        for desk in list(self._desks.values()):
            if len(desk.line) == 0 and (desk.number in self._lease_ended or desk.policy.migrates):
                yield from desk.policy.schedule(now, desk.line, desk.pool.cluster)
        self._lease_ended.clear()

    def _move_up(self, now: float) -> Iterator[Action]:
        """Gangs move to faster types of GPU that nobody waits for, those first to whom each GPU is worth most."""
        rows: list[tuple[float, int, Job]] = []
        for desk in list(self._desks.values()):
            for job in desk.pool.cluster.running.values():
                move = self._best_move(job, desk, now)
                if move is not None:
                    rows.append((-move.saved_s, int(job.index), job))
        for _, _, job in sorted(rows, key=lambda row: row[:2]):
            move = self._best_move(job, self.desk(job), now)  # as it is after those before it
            if move is not None:
                self._moving = self._desk_at(self.desk(job).team, move.pool)
                yield Migrate(job, move.allocation)
                self._moving = None

    def _best_move(self, job: Job, desk: Desk, now: float) -> MoveUp | None:
        if (
            job.non_preemptible
            or self.desk(job) is not desk
            or job.since_s > now
            or job.placed_s >= now
            or job.rate <= 0.0
        ):
            return None
        open_to = [one for one in self._open_to(job) if one.pool is not desk.pool]
        allowed = [one for one in open_to if self._may_have(job, self._desk_at(desk.team, one.pool))]
        return best_move(job, self._views[desk.pool.number], allowed, self._lengths, now)

    def _may_have(self, job: Job, desk: Desk) -> bool:
        return self._room(desk, INFINITY) >= float(job.gpus)

    def _stop_spent(self, now: float) -> Iterator[Action]:
        """Jobs of those whose budget is used up."""
        for team in self._teams:
            if team.written.budget is None or team.budget_left_gpu_s() > 0.0:
                continue
            for job in self._running_of(team):
                if not job.non_preemptible:
                    yield Preempt(job)

    def _can_pay(self, job: Job, desk: Desk, now: float) -> bool:
        """Whether its restart, after those under way, leaves something of each budget: else nobody would get on."""
        cost_gpu_s = job.restart_due_s * float(job.gpus)
        if cost_gpu_s <= 0.0:
            return True
        paying = [team for team in desk.team.up() if team.written.budget is not None]
        return all(team.budget_left_gpu_s() > cost_gpu_s + self._restarting_gpu_s(team, now) for team in paying)

    def _restarting_gpu_s(self, team: Team, now: float) -> float:
        """What restarts of the team's jobs will still take."""
        return sum(float(job.gpus) * max(0.0, job.since_s - now) for job in self._running_of(team))

    def _running_of(self, team: Team) -> list[Job]:
        """Jobs of the team and of those below it."""
        desks = [desk for desk in self._desks.values() if team in desk.team.up()]
        return [job for desk in desks for job in desk.pool.cluster.running.values() if self.desk(job) is desk]

    def _shares(self, pool: Pool) -> FairShares:
        found = self._known.get(pool.kind)
        if found is None:
            found = FairShares(self._root, pool.kind, self._by_kind[pool.kind].gpus, self._part(pool))
            self._known[pool.kind] = found
        return found

    def _part(self, pool: Pool) -> float:
        """What GPUs of its type are of all GPUs."""
        return self._by_kind[pool.kind].gpus / sum(each.gpus for each in self._by_kind if len(each.types) == 1)

    def _due(self, desk: Desk) -> float:
        """GPUs the team is due of the pool."""
        return self._shares(desk.pool).due[desk.team.number]

    def _take_back(self, desks: list[Desk], pool: Pool, now: float) -> Generator[Action, None, bool]:
        """Serve each team up to its due, and stop others for it where they hold more than theirs.

        Returns whether somebody is owed GPUs of its guarantee that others still hold: until then nobody borrows.
        """
        owed = False
        first = [desk for desk in desks if _lacks(desk, self._shares(pool).guaranteed)]
        for desk in [*first, *(desk for desk in desks if desk not in first)]:
            yield from self._serve(desk, self._due, now)
            while True:
                job = self._claimant(desk, now)
                if job is None:
                    break
                shares = self._shares(pool)
                sure = desk.team.held[pool.kind] + int(job.gpus) <= shares.guaranteed[desk.team.number] + EPSILON
                spared = set() if sure else self._stopped_for.get(int(job.index), set())
                found = claim(job, pool.kind, shares, self._team_of, pool.cluster, spared, now)
                if found is None or not found.losers:
                    if found is not None and found.ripe_s < INFINITY:
                        self._due_s = min(self._due_s, found.ripe_s)
                        owed = owed or sure
                    break
                for loser in found.losers:
                    self._note(loser, job, desk, shares, now)
                    yield Preempt(loser)
                yield from self._serve(desk, self._due, now)
                if job.status == WAITING:
                    self._put_off(desk, job, now)
                    break
        return owed

    def _put_off(self, desk: Desk, job: Job, now: float) -> None:
        """The policy did not start the job though it could: if it goes by rounds, keep the GPUs until the next."""
        self._tell(desk, events.PASS_ENDED, None, now)
        again_s = desk.policy.wakeup_s
        by_rounds = now < again_s <= now + LONGEST_ROUND_S
        until_s = again_s if by_rounds else now + max(REVIEW_S, desk.team.written.min_runtime_s)
        self._vain[desk.team.number] = (int(job.gpus), until_s)
        if by_rounds:
            self._kept[desk.team.number, desk.pool.number] = (int(job.gpus), until_s)

    def _claimant(self, desk: Desk, now: float) -> Job | None:
        """The best-ranked job of the team that its due and its limits have room for."""
        room = min(self._due(desk) - desk.team.held[desk.pool.kind], self._allowed(desk))
        job = desk.line.best(room + EPSILON)
        gpus, until_s = self._vain.get(desk.team.number, (0, 0.0))
        vain = job is not None and job.gpus == gpus and now < until_s
        return None if job is None or vain or not self._can_pay(job, desk, now) else job

    def _note(self, loser: Job, winner: Job, desk: Desk, shares: FairShares, now: float) -> None:
        team = self._team_of[int(loser.index)]
        self._stopped_for.setdefault(int(loser.index), set()).add(int(winner.index))
        self.reasons.lost(loser, winner)
        self.reclaimed.append(
            Reclaimed(
                now, loser.job_id, winner.job_id, team.path, desk.team.path, int(loser.gpus), now - loser.placed_s,
                team.held[desk.pool.kind], shares.due[team.number],
            )
        )  # fmt: skip

    def _leave_the_rest(self, desks: list[Desk], pool: Pool, now: float) -> Iterator[Action]:
        """Offer what is left to whoever its limits let have more, one job at a time in the fair order."""
        again = True
        while again:
            again = False
            for desk in desks:
                if len(desk.line) > 0:
                    started = yield from self._serve(desk, _anything, now, most_starts=1)
                    again = again or (started > 0 and pool.cluster.free_gpus > 0)

    def _serve(
        self, desk: Desk, due: Callable[[Desk], float], now: float, most_starts: int = 1 << 30
    ) -> Generator[Action, None, int]:
        """One pass of a team's policy, up to what it is due; returns how many jobs it started."""
        starts = freed = 0
        self._show(desk, self._room(desk, due(desk)))
        for action in desk.policy.schedule(now, desk.line, desk.pool.cluster):
            gpus = int(action.job.gpus)
            if isinstance(action, Start):
                if not self._can_pay(action.job, desk, now):
                    desk.line.take(action.job)  # it comes back after the pass
                    continue
                if gpus <= min(freed, self._allowed(desk)):  # it replaces others of its team
                    freed -= gpus
                elif starts >= most_starts or float(gpus) > self._room(desk, due(desk)) + EPSILON:
                    desk.line.take(action.job)  # it comes back after the pass
                    continue
                else:
                    starts += 1
            yield action
            if isinstance(action, Preempt) and action.job.status == WAITING:
                freed += gpus
            self._show(desk, self._room(desk, due(desk)) if starts < most_starts else 0.0)
        desk.line.show(INFINITY)
        desk.line.reopen()  # what follows is another pass
        return starts

    def _show(self, desk: Desk, room: float) -> None:
        """Hide jobs for which there is no room; nobody where no more GPUs are free: a job may replace another."""
        free = float(desk.pool.cluster.free_gpus)
        desk.line.show(INFINITY if free <= room + EPSILON else room + EPSILON)

    def _room(self, desk: Desk, due: float) -> float:
        """GPUs the team may take now: up to its due and its limits, of those free that others do not keep back."""
        free = float(desk.pool.cluster.free_gpus) - self._kept_back(desk)
        return max(0.0, min(due - desk.team.held[desk.pool.kind], self._allowed(desk), free))

    def _allowed(self, desk: Desk) -> float:
        """GPUs that its limits and those above it still let it have."""
        return min(team.room(desk.pool.kind) for team in desk.team.up())

    def _kept_back(self, desk: Desk) -> float:
        """Free GPUs that others are guaranteed and do not lend."""
        pool = desk.pool
        part = self._part(pool)
        kept = 0.0
        below: Team | None = None
        for team in desk.team.up():
            for child in team.children:
                if child is not below:
                    kept += max(0.0, child.lends_all_but(pool.kind, part) - child.held[pool.kind])
            below = team
        for (team_number, pool_number), (gpus, until_s) in self._kept.items():
            if pool_number == pool.number and team_number != desk.team.number and until_s > self._now:
                kept += gpus
        return kept


def _anything(_: Desk) -> float:
    return INFINITY


def _lacks(desk: Desk, guaranteed: dict[int, float]) -> bool:
    """Whether the team holds less than it is guaranteed."""
    return desk.team.held[desk.pool.kind] < guaranteed[desk.team.number] - EPSILON
