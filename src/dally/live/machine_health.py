"""Machines that jobs' progress or monitoring speaks against: drained with the evidence, probed, and resumed.

Nothing is done unless the table `health` of dally.toml says `act = "on"`. A drain is an act like an operator's: it
is written down first, shown with its reason, and `dally resume` takes it back. Whose drain it is, the cluster
says by that reason, so a restart changes nothing; machines that others drained are left alone.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from dally.errors import InputError
from dally.health.speed_history import LEAST_WINDOWS, SpeedHistory
from dally.health.suspicion import Member, ModelErrors, PlacedSpeed, Suspect, suspects
from dally.live.acts import ActRefused, Busy
from dally.live.backends.base import UP
from dally.live.health_settings import HealthSettings
from dally.live.job_progress import StepCount
from dally.live.lemon_list import DAYS, LemonList
from dally.live.machine_signals import MachineSignals
from dally.live.store.database import StoreError
from dally.model import RUNNING, Job

if TYPE_CHECKING:
    from dally.live.cycle import CycleResult, Scheduler
    from dally.live.daemon import Daemon

WHO: Final = "dally-health"
REASON: Final = "slow by the progress of jobs"  # every reason of ours begins so,
SIGNALLED: Final = "by the signals of monitoring"  # or so
MOST_KINDS: Final = 10_000  # of jobs whose fastest step is known; the one that ran last longest ago is forgotten

log = structlog.get_logger("dally")


class DrainsMachines(Protocol):
    """What of `Acts` it needs."""

    def drain(self, machine: str, who: str, why: str) -> object:
        """What runs there goes on, nothing new starts."""

    def resume(self, machine: str, who: str, why: str) -> object:
        """It takes jobs again."""


class MachineHealth:
    """Looks after each cycle, if it is time."""

    def __init__(
        self,
        settings: HealthSettings,
        daemon: Daemon,
        acts: DrainsMachines,
        signals: MachineSignals | None = None,
        lemons: LemonList | None = None,
    ) -> None:
        self.settings = settings
        self.signals = signals or MachineSignals({}, "")
        self.lemons = lemons
        self.suspects: list[Suspect] = []  # as of the latest look
        self._daemon = daemon
        self._acts = acts
        self._next_s = 0.0
        self._errors = ModelErrors()
        self._steps: dict[str, StepCount] = {}  # by job, as of the look before
        self._histories: dict[str, tuple[float, SpeedHistory]] = {}  # by job: since when it is at its place
        self._users: dict[str, str] = {}  # by job, of those looked at
        self._least_s: dict[str, float] = {}  # fastest step of a kind of jobs, as at its best place
        self._probes: dict[str, tuple[subprocess.Popen[bytes], float]] = {}  # by machine, and until when
        self._again_s: dict[str, float] = {}  # when a machine is probed next
        daemon.watchers.append(self.on_cycle)

    def on_cycle(self, result: CycleResult, cpu_s: float) -> None:
        """After each cycle; what goes wrong costs a line in the log."""
        scheduler = self._daemon.scheduler
        if scheduler is None or result.failed or result.now < self._next_s:
            return
        self._next_s = result.now + self.settings.every_s
        with self._daemon.lock:
            jobs = [job for job in scheduler.roster if job.status == RUNNING and job.allocation is not None]
            rows = self.observe(jobs, scheduler)
            machines = scheduler.roster.snapshot.machines
            states = {row.name: (row.state, row.reason) for row in machines}
            signs = {row.name: row.signs for row in machines if row.signs}
            busy = {name for job in jobs for name in self._names(job, scheduler)}
        self.suspects = [row for row in suspects(rows, errors=self._errors) if row.sure]
        self.signals.look(states, signs, max(1, self._most(states)))
        try:
            if self.lemons is not None:
                self.lemons.look({name: state for name, (state, _) in states.items()}, result.now)
            self.act(states, busy, result.now)
        except (ActRefused, Busy, InputError, StoreError) as error:
            log.warning("health", what=str(error))

    def observe(self, jobs: Iterable[Job], scheduler: Scheduler) -> list[PlacedSpeed]:
        """What the steps since the look before say of each job's place."""
        result: list[PlacedSpeed] = []
        seen: set[str] = set()
        for job in jobs:
            seen.add(job.job_id)
            self._users[job.job_id] = job.user
            count = scheduler.progress.step_count(job)
            before = self._steps.get(job.job_id)
            if count is None:
                continue
            if before is None or before.placed_s != count.placed_s or count.done < before.done:
                self._steps[job.job_id] = count
                self._histories[job.job_id] = (count.placed_s, SpeedHistory())
                continue
            if count.done == before.done:
                continue  # a pause, or a log that is read later
            self._steps[job.job_id] = count
            kind = f"{job.user}/{job.name}/{job.model}/{int(job.gpus)}"
            step_s = (count.worked_s - before.worked_s) / (count.done - before.done)
            least_s = self._fastest_s(kind, step_s * job.rate)
            _, history = self._histories[job.job_id]
            history.observe(count.worked_s, step_s, least_s / job.rate)
            if history.now is not None and history.now.windows >= LEAST_WINDOWS:
                computes = 1.0 - job.comm_rate
                members = tuple(Member(name, computes, name) for name in self._names(job, scheduler))
                result.append(PlacedSpeed(job.job_id, kind, members, history.now, history.before))
        for job_id in self._steps.keys() - seen:
            del self._steps[job_id], self._histories[job_id]
        for job_id in self._users.keys() - seen:
            del self._users[job_id]
        return result

    def _fastest_s(self, kind: str, step_s: float) -> float:
        """The fastest step of that kind of jobs, with this one."""
        result = min(self._least_s.pop(kind, step_s), step_s)
        self._least_s[kind] = result  # the latest is last
        if len(self._least_s) > MOST_KINDS:
            del self._least_s[next(iter(self._least_s))]
        return result

    def _names(self, job: Job, scheduler: Scheduler) -> list[str]:
        assert job.allocation is not None
        names = scheduler.roster.topology.names[0]
        return [names[machine] for machine, _ in job.allocation.parts()]

    def act(self, states: Mapping[str, tuple[str, str]], busy: set[str], now: float) -> None:
        """Drain who is to be drained, and probe who was and is idle; `states`: state and reason by machine."""
        if not self.settings.act:
            return
        ours = {name for name, (state, why) in states.items() if state != UP and _is_ours(why)}
        for machine, why in self._accused().items():
            if len(ours) < self._most(states) and machine not in ours and states.get(machine, ("", ""))[0] == UP:
                ours.add(machine)
                log.info("health", drains=machine, why=why)
                self._acts.drain(machine, WHO, why)
        if self.settings.probe:
            for machine in sorted(ours):
                self._probe(machine, machine in busy or machine in self.signals.present, now)

    def _most(self, states: Mapping[str, tuple[str, str]]) -> int:
        """How many machines are drained for this at most."""
        return int(self.settings.most_out * len(states))

    def _accused(self) -> dict[str, str]:
        """Machines to drain, and why: first those of which an operator's own monitoring says so."""
        result = {
            machine: f"{SIGNALLED}: {', '.join(names)}" for machine, names in sorted(self.signals.present.items())
        }
        for suspect in self.suspects:
            # Without a probe steps are all the evidence, and whoever prints them may lie: two users have to agree.
            certain = bool(self.settings.probe) or len({self._users[job_id] for job_id in suspect.jobs}) > 1
            if certain:
                result.setdefault(suspect.name, reason_text(suspect))
        return result

    def evidence(self, shown: Collection[str]) -> dict[str, str]:
        """What speaks against machines, whatever is done about it; `shown`: jobs that may be named."""
        result = {suspect.name: [reason_text(suspect, shown)] for suspect in self.suspects}
        for machine, names in self.signals.present.items():
            result.setdefault(machine, []).append(f"{SIGNALLED}: {', '.join(names)}")
        for machine, count in self.lemon_failures().items():
            result.setdefault(machine, []).append(f"a lemon: down {count} times in {DAYS} days")
        return {machine: "; ".join(parts) for machine, parts in result.items()}

    def lemon_failures(self) -> dict[str, int]:
        """How often lemons went down lately."""
        return {} if self.lemons is None else self.lemons.failures

    def _probe(self, machine: str, busy: bool, now: float) -> None:
        running = self._probes.get(machine)
        if running is None:
            if not busy and now >= self._again_s.get(machine, 0.0):
                env = {**os.environ, "DALLY_MACHINE": machine}
                try:
                    probe = subprocess.Popen(self.settings.probe, env=env, stdin=subprocess.DEVNULL)
                except OSError as error:
                    raise InputError(f"health: probe: {self.settings.probe[0]}: {error.strerror}") from None
                self._probes[machine] = (probe, now + self.settings.probe_timeout_s)
            return
        probe, until_s = running
        code = probe.poll()
        if code is None and now < until_s:
            return
        if code is None:
            probe.kill()
            probe.wait()
        del self._probes[machine]
        self._again_s[machine] = now + self.settings.again_s
        log.info("health", probed=machine, passed=code == 0)
        if code == 0:
            self._acts.resume(machine, WHO, "its probe passed")

    def windows(self) -> dict[str, int]:
        """How many windows of each job's present speed were seen."""
        histories = {job_id: history.now for job_id, (_, history) in self._histories.items()}
        return {job_id: now.windows for job_id, now in histories.items() if now is not None}

    def close(self) -> None:
        """End probes that run, and questions that wait."""
        self.signals.close()
        for probe, _ in self._probes.values():
            probe.kill()
            probe.wait()


def _is_ours(reason: str) -> bool:
    """Whether we drained it; Kubernetes says first that it is cordoned."""
    return reason.removeprefix("cordoned: ").startswith((REASON, SIGNALLED))


def reason_text(suspect: Suspect, shown: Collection[str] | None = None) -> str:
    """Why a machine is drained, with the evidence; `shown`: jobs that may be named, None: all."""
    jobs = [job_id for job_id in suspect.jobs if shown is None or job_id in shown]
    more = " and others" if len(suspect.jobs) > min(4, len(jobs)) else ""
    named = f"; jobs {', '.join(jobs[:4])}{more}" if jobs else ""
    sure = f"{100.0 * suspect.probability:.0f} %"
    return f"{REASON}: {suspect.factor:g} times as long, probability {sure}{named}"
