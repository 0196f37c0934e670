"""Looks at how fast the jobs of a simulation work, names machines and links that are slow, and keeps jobs away.

All it has of a job is its step time, off by noise, beside what the speed model expects. A suspect takes no new jobs
and loses those that gain by a move; once it is idle it is probed, and a passing probe brings it back.
"""

from __future__ import annotations

from math import sqrt
from typing import Final, NamedTuple

from dally.engine.draws import uniform
from dally.engine.link_evidence import LinkEvidence
from dally.engine.machine_swap import swapped
from dally.engine.state import State
from dally.engine.watch import Watch
from dally.health.lemons import lemons
from dally.health.speed_history import LEAST_WINDOWS, SpeedHistory
from dally.health.suspicion import NAMED, Member, ModelErrors, PlacedSpeed, Suspect, suspects
from dally.model import INFINITY, Action, Job, Migrate, Preempt, Start
from dally.perf.hidden_faults import HiddenFaults
from dally.policies import events

_STREAM: Final = 9_200_001  # of draws
WINDOW_S: Final = 60.0  # of a step time that is off by the stated noise
WORTH_A_LOOK: Final = 0.5  # probability of a suspect that is acted on: a probe decides
LASTS_S: Final = 3600.0  # for which a fault goes on, on average: Greyhound's are spread over three decades
REMEMBERED_S: Final = 3600.0  # for which a job that ended slow still speaks


class WatchSettings(NamedTuple):
    """How closely it looks, and what it does: docs/health.md."""

    every_s: float = 120.0
    noise: float = 0.05
    act: bool = True
    most: float = 0.1  # share of machines that is ever kept out
    probe_s: float = 120.0
    again_s: float = 1800.0  # between a probe that failed and the next


class NamedSuspect(NamedTuple):
    """A suspect was named."""

    at_s: float
    suspect: Suspect


class HealthWatch(Watch):
    """Looks every so often at the jobs that run."""

    def __init__(self, faults: HiddenFaults, settings: WatchSettings, seed: int = 1, start_s: float = 0.0) -> None:
        super().__init__()
        self.faults = faults
        self.settings = settings
        self.accusations: list[NamedSuspect] = []
        self.moves = 0
        self.probes = 0
        self.quarantined: dict[
            int, float
        ] = {}  # machines, and when they are probed next; infinity: once they are idle
        self.most_out = 0
        self.lost_gpu_s = 0.0  # GPU time that was lost to slow members, as the simulation knows it
        self.worked_gpu_s = 0.0
        self._seed = seed
        self._look_s = start_s + settings.every_s
        self._next_s = self._look_s
        self._rounds = 0
        self._histories: dict[int, tuple[float, SpeedHistory, tuple[Member, ...]]] = {}  # by job: since when
        self.lemons: set[int] = set()
        self._failures: dict[int, int] = {}  # by machine
        self._down: set[int] = set()
        self._errors = ModelErrors()
        self._links = LinkEvidence(faults)
        self._ended: list[PlacedSpeed] = []
        self._named: set[str] = set()
        self._aside: dict[int, int] = {}  # GPUs taken out of the books, by machine
        self._moved: list[Job] = []
        self._paused: dict[int, tuple[float, float, Suspect]] = {}  # probed gangs, by job: until, since, why
        self._state: State | None = None

    # What mypyc keeps for a pickle are the attributes of the compiled base alone.
    def __reduce__(self) -> tuple[object, ...]:
        return (HealthWatch, (self.faults, self.settings, self._seed), dict(self.__dict__))

    def next_s(self) -> float:
        return self._next_s

    def holds_back(self) -> bool:
        return any(machine not in self.lemons for machine in self.quarantined)

    def look(self, state: State, now: float) -> None:
        self._state = state
        if self.settings.act:
            self._probe(state, now)
            self._end_pauses(state, now)
        if now >= self._look_s:
            self._look_s = now + self.settings.every_s
            self._rounds += 1
            self._count_losses(state, now)
            self._count_failures(state)
            named = suspects(self._observe(state, now), WORTH_A_LOOK, self._errors, self._named)
            for suspect in named:
                known = suspect.name in self._named or self._machine_of(suspect.places[0]) in self.quarantined
                if is_named(suspect) and not known:
                    self.accusations.append(NamedSuspect(now, suspect))
            self._named = {suspect.name for suspect in named if is_named(suspect)}
            if self.settings.act:
                self._act(state, named, now)
        due = [due_s for due_s in self.quarantined.values() if due_s < INFINITY]
        due += [until_s for until_s, _, _ in self._paused.values()]
        self._next_s = min([self._look_s, *due])

    # What it sees.

    def _count_losses(self, state: State, now: float) -> None:
        for job in state.cluster.running.values():
            if job.since_s > now:
                continue  # restarting
            usual = self.faults.expected_rate(job)[0]
            gpu_s = float(job.gpus) * self.settings.every_s
            self.worked_gpu_s += gpu_s
            self.lost_gpu_s += gpu_s * max(0.0, 1.0 - job.rate / usual)

    def _observe(self, state: State, now: float) -> list[PlacedSpeed]:
        running = state.cluster.running
        for index in [index for index in self._histories if index not in running]:
            self._forget(index)
        result: list[PlacedSpeed] = []
        for index, job in running.items():
            if now - job.since_s < self.settings.every_s:
                continue  # restarting, or too short a while at this place
            since_s, history, members = self._histories.get(index, (-1.0, SpeedHistory(), ()))
            if since_s != job.placed_s:
                self._forget(index)
                history, members = SpeedHistory(), self._members(job)
                self._histories[index] = (job.placed_s, history, members)
            history.observe(now, self._measured_s(job), 1.0 / self.faults.expected_rate(job)[0])
            speed = history.steady if len(members) > 1 else history.now
            if speed is not None and history.now is not None and history.now.windows >= LEAST_WINDOWS:
                result.append(PlacedSpeed(job.job_id, kind_of(job), members, speed, history.before))
        self._ended = [row for row in self._ended if row.now.until_s > now - REMEMBERED_S]
        return self._links.attach(result, running) + self._ended

    def _forget(self, index: int) -> None:
        """The job left its place. If it was slow there, that is remembered for a while."""
        entry = self._histories.pop(index, None)
        if entry is None:
            return
        _, history, members = entry
        if history.now is not None and history.before is not None and history.now.mean > history.before.mean + 0.04:
            name = f"{index} before"
            self._ended.append(PlacedSpeed(name, name, members, history.now, history.before, running=False))

    def _measured_s(self, job: Job) -> float:
        """The job's step time in the units of its expected one, as its log has it."""
        spread = -2.0
        for place in range(4):
            spread += uniform(self._seed, _STREAM + 4 * self._rounds + place, int(job.index))
        noise = self.settings.noise * sqrt(WINDOW_S / self.settings.every_s)
        measured_s: float = (1.0 + noise * 1.7320508 * spread) / job.rate
        return measured_s

    def _members(self, job: Job) -> tuple[Member, ...]:
        assert job.allocation is not None
        computes = 1.0 - self.faults.expected_rate(job)[1]
        parts = job.allocation.parts()
        machines = {machine: f"machine {machine}" for machine, _ in parts}
        members = [Member(name, computes, name) for name in machines.values()]
        for link, share in self.faults.link_shares(job):
            if share > 0.01:  # the first links are the machines'
                members.append(Member(f"link {link}", share, machines.get(link, f"link {link}")))
        return tuple(members)

    # What it does.

    def _act(self, state: State, named: list[Suspect], now: float) -> None:
        self._moved = [job for job in self._moved if not self._settled(state, job, now)]
        for suspect in named:
            machines = [self._machine_of(place) for place in suspect.places]
            new = [machine for machine in machines if machine not in self.quarantined]
            if min(machines) < 0 or not new:
                continue
            on = {int(job.index): job for machine in new for job in state.cluster.jobs_on[machine]}
            if not suspect.sure:
                self._pause(state, list(on.values()), suspect, now)
            elif self._keep_out(state, new, suspect.factor, INFINITY):
                for job in on.values():
                    self._move(state, job, suspect, now)
                self._expect_probes(state, now)
        self._take_out(state, now)

    def _keep_out(self, state: State, machines: list[int], factor: float, due_s: float) -> list[int]:
        """Take these machines out until a probe passes, as many as may be; which."""
        most = int(self.settings.most * int(state.cluster.topology.machine_count()))
        out = machines[: max(0, most - len(self.quarantined))]  # likeliest first
        for machine in out:
            self.quarantined[machine] = due_s
            self.faults.believed[machine] = factor
        self.most_out = max(self.most_out, len(self.quarantined))
        return out

    def _pause(self, state: State, jobs: list[Job], suspect: Suspect, now: float) -> None:
        """Stop jobs of which any machine may be the slow one for as long as a probe takes, if that pays.

        They keep their machines, so that nobody else is without them.
        """
        if not self._pays(state, jobs, suspect, now):
            return
        for job in jobs:
            if job.non_preemptible or job.non_migratable or job.since_s > now:
                continue
            assert job.allocation is not None
            state.apply(Migrate(job, job.allocation), now)
            job.since_s += self.settings.probe_s
            job.overhead_s += self.settings.probe_s
            self._paused[int(job.index)] = (now + self.settings.probe_s, now, suspect)

    def _end_pauses(self, state: State, now: float) -> None:
        """Have gangs whose machines were probed go on, without those that failed."""
        due = [index for index, (until_s, _, _) in self._paused.items() if until_s <= now]
        for index in due:
            _, since_s, suspect = self._paused.pop(index)
            job = state.cluster.running.get(index)
            if job is None or job.placed_s != since_s:
                continue  # it ended, or others moved it
            assert job.allocation is not None
            machines = [machine for machine, _ in job.allocation.parts() if self._can_probe(state, machine, now)]
            self.probes += len(machines)
            for machine in machines:
                if self._is_sound(machine):
                    self._forgive(machine)
            bad = [machine for machine in machines if not self._is_sound(machine)]
            if self._keep_out(state, bad, suspect.factor, now + self.settings.again_s):
                self._move(state, job, suspect._replace(probability=1.0), now)
        if due:
            self._take_out(state, now)

    def _can_probe(self, state: State, machine: int, now: float) -> bool:
        """Whether nothing works on it, and it is not known already."""
        idle = all(job.since_s >= now for job in state.cluster.jobs_on[machine])
        return idle and machine not in self.quarantined

    def _count_failures(self, state: State) -> None:
        """Keep out machines that fail more often than chance explains; only an operator brings them back."""
        down = state.cluster.down
        now_down = {machine for machine in range(len(down)) if down[machine]}
        for machine in now_down - self._down:
            self._failures[machine] = self._failures.get(machine, 0) + 1
        if self.settings.act and now_down - self._down:
            most = int(self.settings.most * int(state.cluster.topology.machine_count()))
            for name in lemons({str(machine): self._failures.get(machine, 0) for machine in range(len(down))}):
                if len(self.quarantined) < most or int(name) in self.quarantined:
                    self.quarantined[int(name)] = INFINITY
                    self.lemons.add(int(name))
        self._down = now_down

    def _settled(self, state: State, job: Job, now: float) -> bool:
        """Whether a job that was moved runs again, and has no precedence any more."""
        if job.allocation is None and job.prioritized:
            return False
        state.override(job, False, job.delay_until_s, now)
        return True

    def _machine_of(self, place: str) -> int:
        """The machine that is kept out for a suspect; below 0: a link above the machines, which cannot be."""
        kind, number = place.split()
        return int(number) if kind == "machine" else -1

    def _probe(self, state: State, now: float) -> None:
        """Probe machines that are idle and due."""
        self._expect_probes(state, now)
        for machine, due_s in list(self.quarantined.items()):
            if due_s <= now:
                self.probes += 1
                if self._is_sound(machine):
                    self._bring_back(state, machine, now)
                else:
                    self.quarantined[machine] = now + self.settings.again_s

    def _expect_probes(self, state: State, now: float) -> None:
        """Machines that became idle are probed soon; those on which a job was left, once it ends."""
        for machine, due_s in self.quarantined.items():
            busy = bool(state.cluster.jobs_on[machine])
            if machine not in self.lemons and busy != (due_s == INFINITY):
                self.quarantined[machine] = INFINITY if busy else now + self.settings.probe_s

    def _is_sound(self, machine: int) -> bool:
        return self.faults.slow_factor(machine) == 1.0 and self.faults.link_share(machine) == 1.0

    def _bring_back(self, state: State, machine: int, now: float) -> None:
        del self.quarantined[machine]
        self.faults.believed.pop(machine, None)
        self._forgive(machine)
        gpus = self._aside.pop(machine, 0)
        if gpus and not state.cluster.down[machine]:
            state.cluster.set_aside(machine, -gpus)
            state.notify(events.UNSCHEDULABLE, now, machine, -gpus)
            state.notify(events.CAPACITY_CHANGED, now)

    def _forgive(self, machine: int) -> None:
        """A probe passed: what was observed before says nothing any more."""
        names = {f"machine {machine}", f"link {machine}"}
        self._ended = [row for row in self._ended if not names & {member.name for member in row.members}]
        self._named -= names

    def _move(self, state: State, job: Job, suspect: Suspect, now: float) -> None:
        """Have a job leave machines that are kept out, if it gains: it keeps the others, or waits for a place."""
        if job.non_preemptible:
            return
        assert job.allocation is not None
        place = None if job.non_migratable else swapped(state.cluster, job, self.quarantined)
        if place is not None:
            expected = self.faults.expected
            slower = expected.alone(job, place) / expected.alone(job, job.allocation)
            if self._pays(state, [job], suspect, now, slower):
                self.moves += 1
                state.apply(Migrate(job, place), now)
                return
        needed = sum(gpus for machine, gpus in job.allocation.parts() if machine in self.quarantined)
        free = sum(int(state.cluster.all_free_on(machine)) for machine in self._open(state))
        if needed > free or not self._pays(state, [job], suspect, now):
            return  # its GPUs may come back before others are free
        self.moves += 1
        state.override(job, True, job.delay_until_s, now)
        state.apply(Preempt(job), now)
        self._moved.append(job)

    def _open(self, state: State) -> list[int]:
        down = state.cluster.down
        return [machine for machine in range(len(down)) if not down[machine] and machine not in self.quarantined]

    def _pays(self, state: State, jobs: list[Job], suspect: Suspect, now: float, slower: float = 1.0) -> bool:
        """Whether these jobs may lose more GPU time here than restarts and probes cost them.

        Each is taken to last about as long again as it has. `slower`: how many times as long its steps take there.
        """
        balance = 0.0
        wait_s = 0.0 if suspect.sure else self.settings.probe_s
        for job in jobs:
            if job.since_s <= now:  # one that is stopped already has paid
                balance -= float(job.gpus) * (state.view.restart_s(job) + wait_s)
            if job.job_id in suspect.jobs:
                computes = 1.0 - self.faults.expected_rate(job)[1]
                lost = 1.0 / slower - 1.0 / (1.0 + computes * (suspect.factor - 1.0))
                balance += suspect.probability * lost * min(job.run_s(now), LASTS_S) * float(job.gpus)
        return balance > 0.0

    # What the engine asks of it.

    def before_pass(self, now: float) -> None:
        if self._state is not None and (self.quarantined or self._aside):
            self._take_out(self._state, now)

    def refusal(self, action: Action) -> str:
        """No start on a machine that is kept out: a policy may have made room there in this pass."""
        if not self.quarantined or isinstance(action, Preempt):
            return ""
        assert isinstance(action, (Start, Migrate))
        closed = any(machine in self.quarantined for machine, _ in action.allocation.parts())
        return "the machine takes no new jobs" if closed else ""

    def _take_out(self, state: State, now: float) -> None:
        """No GPU that is free on a machine that is kept out is offered."""
        cluster = state.cluster
        for machine in sorted(self.quarantined):
            if cluster.down[machine]:
                self._aside.pop(machine, None)  # a repair brings all of its GPUs back
                continue
            free = int(cluster.all_free_on(machine))
            if free > 0:
                self._aside[machine] = self._aside.get(machine, 0) + free
                cluster.set_aside(machine, free)
                state.notify(events.UNSCHEDULABLE, now, machine, free)

    def result(self) -> dict[str, float]:
        share = self.lost_gpu_s / self.worked_gpu_s if self.worked_gpu_s else 0.0
        return {
            "lost_gpu_s": self.lost_gpu_s, "lost_share": share, "accusations": float(len(self.accusations)),
            "moves": float(self.moves), "probes": float(self.probes), "lemons": float(len(self.lemons)),
            "most_out": float(self.most_out),
        }  # fmt: skip


def is_named(suspect: Suspect) -> bool:
    """Whether it is sure enough for people."""
    return suspect.sure and suspect.probability >= NAMED


def kind_of(job: Job) -> str:
    """What jobs are alike."""
    return f"{job.user}/{job.name}/{job.model}/{int(job.gpus)}"
