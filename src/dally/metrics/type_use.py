"""Which types of GPU jobs ran on, and for how long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dally.model import EVICT, FINISH, MIGRATE, PREEMPT, START

if TYPE_CHECKING:
    from dally.metrics.simulated import Simulated

MIX = "+"  # between types of one gang


@dataclass(frozen=True)
class TypeUse:
    """By type of GPU: how many there are, GPU-seconds held and offered; by job, on which it ran last."""

    gpus: dict[str, int]
    gpu_s: dict[str, float]
    span_s: float
    last: dict[int, str]  # by the job's index

    def summary(self) -> dict[str, dict[str, float]]:
        """As summary.json has it; empty where types are not told apart."""
        if not any(self.gpus):
            return {}
        return {
            name: {
                "gpus": gpus,
                "gpu_h": self.gpu_s[name] / 3600.0,
                "utilization": self.gpu_s[name] / (gpus * self.span_s) if gpus and self.span_s > 0.0 else 0.0,
            }
            for name, gpus in self.gpus.items()
        }


def type_use(record: Simulated) -> TypeUse:
    """The use of every type, from the log."""
    topology, log = record.topology, record.log
    gpus: dict[str, int] = dict.fromkeys(topology.gpu_types, 0)
    for kind, count in zip(topology.gpu_types, topology.gpus[0], strict=True):
        gpus[kind] += int(count)
    gpu_s = dict.fromkeys(gpus, 0.0)
    open_: dict[int, tuple[float, dict[str, int]]] = {}
    last: dict[int, str] = {}
    part = 0
    for row in range(len(log)):
        event, number, end = int(log.kinds[row]), int(log.jobs[row]), int(log.part_ends[row])
        if event in (FINISH, PREEMPT, EVICT, MIGRATE) and number in open_:
            _close(open_.pop(number), log.times[row], gpu_s)
        if event in (START, MIGRATE):
            held: dict[str, int] = {}
            for place in range(part, end):
                kind = topology.gpu_types[int(log.part_machines[place])]
                held[kind] = held.get(kind, 0) + int(log.part_gpus[place])
            open_[number] = (log.times[row], held)
            last[number] = MIX.join(held)
        part = end
    for stay in open_.values():
        _close(stay, record.end_s, gpu_s)
    first_s = record.outcomes[0].submit_s if record.outcomes else 0.0
    return TypeUse(gpus, gpu_s, record.end_s - first_s, last)


def _close(stay: tuple[float, dict[str, int]], end_s: float, gpu_s: dict[str, float]) -> None:
    since_s, held = stay
    for kind, gpus in held.items():
        gpu_s[kind] += gpus * (end_s - since_s)
