"""What a job asks for, once and whole. Everything that knows of a job carries this and restates none of it."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, field, fields
from functools import wraps
from typing import Any

PREEMPT_CHOICES = ("yes", "priced", "no")  # of `preempt`, the strictest last


def _fact(default: Any, about: str) -> Any:
    """A field; `about` is what the API's documentation says of it."""
    return field(default=default, metadata={"about": about})


@dataclass(frozen=True, slots=True)
class JobSpec:
    """A job as its user states it. Text that is not known is empty, a number that is not known None.

    A new attribute is a field here, the line of its reader, and whoever uses it: traces, the engine's `Job`,
    observed jobs, submissions, the store and the API take it from here.
    """

    gpus: int = field(metadata={"about": "GPUs of the whole gang."})
    gpu_type: str = _fact("", "Types of GPU it accepts, with | between them; empty: any.")
    group: int = _fact(1, "GPUs that must share a machine.")
    model: str = _fact("", "What it trains, as in `dally models`.")
    name: str = _fact("", "What its user calls it; jobs run again and again share one.")
    user: str = _fact("", "Its owner.")
    account: str = _fact("", "The account it is charged to.")
    partition: str = _fact("", "The partition it asks for; several with commas between them: any of these.")
    qos: str = _fact("", "Its quality of service, or priority class.")
    queue: str = _fact("", "The queue it names.")
    priority: float = _fact(0.0, "As the cluster states it; larger is sooner.")
    limit_s: float | None = _fact(None, "Its time limit.")
    duration_s: float | None = _fact(None, "How long it runs, as its user states.")
    checkpoint_every_s: float | None = _fact(None, "Seconds of work between its checkpoints.")
    preempt: str = _fact("", "Whether it may be preempted: yes, no or priced; empty: as is usual here.")
    gpus_per_node: int = _fact(0, "GPUs on each machine that it uses, exactly; 0: any number.")
    nodes_min: int = _fact(0, "Machines that it uses at least; 0: any number.")
    nodes_max: int = _fact(0, "Machines that it uses at most; 0: any number.")
    cpus_per_gpu: float = _fact(0.0, "CPUs beside each of its GPUs, on the same machine.")
    cpus_per_node: float = _fact(0.0, "CPUs on each machine that it uses, in addition.")
    memory_mb_per_gpu: float = _fact(0.0, "Memory beside each of its GPUs, in MB.")
    memory_mb_per_node: float = _fact(0.0, "Memory on each machine that it uses, in addition, in MB.")
    resources_per_gpu: str = _fact("", "Other resources beside each of its GPUs: rdma/hca=1,nic=0.5.")
    resources_per_node: str = _fact("", "The same on each machine that it uses, in addition.")
    licences: str = _fact("", "Licences that it holds while it runs: matlab=2,ansys=1.")
    exclusive: bool = _fact(False, "Whether it shares its machines with no other job.")
    features: str = _fact("", "What its machines must have, with & and | and parentheses: a100&(ib|roce).")
    include: str = _fact("", "Machines it must use, all of them: n[01-04],n07.")
    exclude: str = _fact("", "Machines it must not use, in the same form.")
    reservation: str = _fact("", "The reservation it runs in.")
    any_shape: bool = _fact(False, "Whether it may run on other numbers of machines and tasks than it asks for.")


def _made_quickly(cls: type[Any]) -> None:
    """Give a frozen class with slots an `__init__` that takes a fifth of the time: a trace may have a million jobs.

    The one that `dataclass` writes calls `object.__setattr__` for each field. This one stores them as any other
    class does, while the object is of a class with the same slots that is not frozen.
    """
    parts = fields(cls)
    names: dict[str, Any] = {f"_{each.name}": each.default for each in parts}
    arguments = [each.name if each.default is MISSING else f"{each.name}=_{each.name}" for each in parts]
    lines = ["store(self, '__class__', draft)", *(f"self.{each.name} = {each.name}" for each in parts)]
    body = "\n ".join([*lines, "self.__class__ = cls"])
    draft = type(cls.__name__, (), {"__slots__": tuple(each.name for each in parts)})
    names |= {"cls": cls, "draft": draft, "store": object.__setattr__}
    exec(f"def init(self, {', '.join(arguments)}):\n {body}", names)
    cls.__init__ = wraps(cls.__init__)(names["init"])


_made_quickly(JobSpec)
