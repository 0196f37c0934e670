"""A trial: GPUs taken and given back as if, and all of it undone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from librt.vecs import append, vec
from mypy_extensions import i64

from dally.errors import PolicyError
from dally.model import Allocation, Job

if TYPE_CHECKING:
    from dally.cluster.capacity import Cluster


class Step:
    """Where jobs have constraints: a gang took GPUs or gave them back, with all that goes with them."""

    __slots__ = ("allocation", "sign", "signature")

    def __init__(self, allocation: Allocation, signature: i64, sign: i64) -> None:
        self.allocation: Allocation = allocation
        self.signature: i64 = signature
        self.sign: i64 = sign


class Trial:
    """What would be free if. Between `cluster.trial()` and `undo` the cluster's own counts show it.

    Who runs stays as it is. The cost of undoing is that of what was tried. Where jobs have constraints, all that
    goes with the GPUs is taken and given back too.
    """

    __slots__ = ("_blocked", "_free", "_gpus", "_machines", "_steps", "open")

    def __init__(self, free: Cluster) -> None:
        self.open: bool = True
        self._free: Cluster = free
        self._steps: list[Step] = []
        self._machines: vec[i64] = vec[i64]()  # every change, in order
        self._gpus: vec[i64] = vec[i64]()
        self._blocked: list[tuple[int, int]] = []  # machines from, up to before

    def __enter__(self) -> Trial:
        return self

    def __exit__(self, kind: object, error: object, where: object) -> None:
        self.undo()

    def take(self, allocation: Allocation, job: Job | None = None) -> None:
        """As if these GPUs were taken; PolicyError unless they are free.

        By the job, by the one that gave them back in this trial, or else by the one in focus.
        """
        self._check_open()
        if self._free.feasibility is not None:
            self._take_all(allocation, job)
            return
        machines = allocation.machines
        count = len(self._free.free[0])
        for part in range(len(machines)):
            machine = machines[part]
            gpus = allocation.gpus[part]
            if machine < 0 or machine >= count or gpus < 1 or self._free.free[0][machine] < gpus:
                raise PolicyError(f"a trial takes {allocation!r}, which is not free")
            self._change(machine, -gpus)

    def release(self, allocation: Allocation) -> None:
        """As if these GPUs were given back; those in a blocked domain are not to be had all the same."""
        self._check_open()
        if self._free.feasibility is not None:
            self._release_all(allocation)
            return
        machines = allocation.machines
        for part in range(len(machines)):
            machine = machines[part]
            gpus = allocation.gpus[part]
            if self._free.free[0][machine] + gpus > self._free.topology.gpus[0][machine]:
                raise PolicyError(f"a trial gives back {allocation!r}, of which GPUs are free already")
            if not self._is_blocked(machine):
                self._change(machine, gpus)

    def block(self, tier: i64, domain: i64) -> None:
        """As if nothing were free in that domain, nor became so."""
        self._check_open()
        first, last = self._free.topology.machines_of(tier, domain)
        if self._free.feasibility is not None:
            self._block_all(first, last, 1)
            self._blocked.append((int(first), int(last)))
            return
        for machine in range(first, last):
            if self._free.free[0][machine] > 0:
                self._change(machine, -self._free.free[0][machine])
        self._blocked.append((int(first), int(last)))

    def undo(self) -> None:
        """Put everything back as it was when the trial began, and end it. A second time does nothing."""
        place: i64 = len(self._machines) - 1
        while place >= 0:
            self._free.change(self._machines[place], -self._gpus[place])
            place -= 1
        self._machines = vec[i64]()
        self._gpus = vec[i64]()
        if self._free.feasibility is not None and self.open:
            self._undo_all()
        self.open = False

    # The same where jobs have constraints.

    def _take_all(self, allocation: Allocation, job: Job | None) -> None:
        fit = self._free.feasibility
        assert fit is not None
        machines = allocation.machines
        for part in range(len(machines)):
            machine = machines[part]
            gpus = allocation.gpus[part]
            known = machine >= 0 and machine < len(fit.free)
            if not known or gpus < 1 or fit.blocked[machine] > 0 or fit.free[machine] < gpus:
                raise PolicyError(f"a trial takes {allocation!r}, which is not free")
        self._step(allocation, job.signature if job is not None else self._taker(allocation), -1)

    def _release_all(self, allocation: Allocation) -> None:
        fit = self._free.feasibility
        assert fit is not None
        machines = allocation.machines
        for part in range(len(machines)):
            if fit.free[machines[part]] + allocation.gpus[part] > fit.topology.gpus[0][machines[part]]:
                raise PolicyError(f"a trial gives back {allocation!r}, of which GPUs are free already")
        self._step(allocation, self._holder(allocation), 1)

    def _taker(self, allocation: Allocation) -> i64:
        """The signature of the job that gave these GPUs back in this trial, or of the one in focus."""
        for step in self._steps:
            if step.allocation is allocation:
                return step.signature
        return self._free.focused

    def _holder(self, allocation: Allocation) -> i64:
        """The signature of the job that has these GPUs, in this trial or on the cluster."""
        for step in self._steps:
            if step.allocation is allocation:
                return step.signature
        for job in self._free.jobs_on[allocation.machines[0]]:
            if job.allocation is allocation:
                return job.signature
        return self._free.focused

    def _step(self, allocation: Allocation, signature: i64, sign: i64) -> None:
        self._steps.append(Step(allocation, signature, sign))
        self._free.shift(allocation, signature, sign)

    def _block_all(self, first: i64, last: i64, count: i64) -> None:
        fit = self._free.feasibility
        assert fit is not None
        for machine in range(first, last):
            fit.blocked[machine] += count
            self._free.show(machine)

    def _undo_all(self) -> None:
        for step in reversed(self._steps):
            self._free.shift(step.allocation, step.signature, -step.sign)
        self._steps = []
        for first, last in self._blocked:
            self._block_all(first, last, -1)
        self._blocked = []

    def _change(self, machine: i64, gpus: i64) -> None:
        self._free.change(machine, gpus)
        self._machines = append(self._machines, machine)
        self._gpus = append(self._gpus, gpus)

    def _is_blocked(self, machine: i64) -> bool:
        return any(first <= machine < last for first, last in self._blocked)

    def _check_open(self) -> None:
        if not self.open:
            raise PolicyError("a trial was used after its end")
