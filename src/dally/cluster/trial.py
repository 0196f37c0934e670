"""A trial: GPUs taken and given back as if, and all of it undone."""

from __future__ import annotations

from librt.vecs import append, vec
from mypy_extensions import i64

from dally.cluster.free_gpus import FreeGpus
from dally.errors import PolicyError
from dally.model import Allocation


class Trial:
    """What would be free if. Between `cluster.trial()` and `undo` the cluster's own counts show it.

    Who runs stays as it is. The cost of undoing is that of what was tried.
    """

    __slots__ = ("_blocked", "_free", "_gpus", "_machines", "open")

    def __init__(self, free: FreeGpus) -> None:
        self.open: bool = True
        self._free: FreeGpus = free
        self._machines: vec[i64] = vec[i64]()  # every change, in order
        self._gpus: vec[i64] = vec[i64]()
        self._blocked: list[tuple[int, int]] = []  # machines from, up to before

    def __enter__(self) -> Trial:
        return self

    def __exit__(self, kind: object, error: object, where: object) -> None:
        self.undo()

    def take(self, allocation: Allocation) -> None:
        """As if these GPUs were taken; PolicyError unless they are free."""
        self._check_open()
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
        self.open = False

    def _change(self, machine: i64, gpus: i64) -> None:
        self._free.change(machine, gpus)
        self._machines = append(self._machines, machine)
        self._gpus = append(self._gpus, gpus)

    def _is_blocked(self, machine: i64) -> bool:
        return any(first <= machine < last for first, last in self._blocked)

    def _check_open(self) -> None:
        if not self.open:
            raise PolicyError("a trial was used after its end")
