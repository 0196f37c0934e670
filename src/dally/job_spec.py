"""What a job asks for, once and whole. Everything that knows of a job carries this and restates none of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import wraps
from inspect import signature
from operator import attrgetter
from typing import Any, Final

PREEMPT_CHOICES = ("yes", "priced", "no")  # of `preempt`, the strictest last


def _fact(default: Any, about: str) -> Any:
    """A field; `about` is what the API's documentation says of it."""
    return field(default=default, metadata={"about": about})


@dataclass(frozen=True, eq=False)
class JobSpec:
    """A job as its user states it. Text that is not known is empty, a number that is not known None.

    A new attribute is a field here, the line of its reader, and whoever uses it: traces, the engine's `Job`,
    observed jobs, submissions, the store and the API take it from here. An object has slots for what it
    states (its class is a subclass made for these fields); the rest it has from this class.
    """

    __slots__ = ()

    gpus: int = field(metadata={"about": "GPUs of the whole gang."})
    gpu_type: str = _fact("", "Types of GPU it accepts, with | between them; empty: any.")
    group: int = _fact(1, "GPUs that must share a machine.")
    model: str = _fact("", "What it trains, as in `dally models`.")
    name: str = _fact("", "What its user calls it; jobs run again and again share one.")
    command_line: str = _fact("", "What it runs, without secrets: its command line, or the path of its script.")
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
    pattern: str = _fact("", "How it prints its progress, if no framework does: lap {step} of {total}.")
    any_shape: bool = _fact(False, "Whether it may run on other numbers of machines and tasks than it asks for.")
    sizes: str = _fact("", "Numbers of GPUs it may run on: 4:16, 4:16:4 or 4,8,16; empty: as many as it asks for.")
    resize_s: float | None = _fact(None, "How long it takes to go on at another size; a restart, unless stated.")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JobSpec) and bool(_VALUES(self) == _VALUES(other))

    def __hash__(self) -> int:
        return hash(_VALUES(self))

    def __reduce__(self) -> tuple[Any, ...]:
        names: tuple[str, ...] = type(self).__slots__
        return spec_from, (names, tuple([getattr(self, name) for name in names]))


Maker = Callable[..., JobSpec]
_FIELDS: Final = {each.name: each.default for each in fields(JobSpec)}
_VALUES: Final = attrgetter(*_FIELDS)
_SHAPES: dict[tuple[str, ...], Maker] = {}
_MOST_SHAPES: Final = 1_000  # beyond, specs have all fields


def spec_maker(*names: str) -> Maker:
    """What makes specs of the values of these fields, `gpus` among them; the others have their defaults.

    A trace may have a million jobs and most of them state a few of the fields: what a spec costs is what it states.
    """
    maker = _SHAPES.get(names)
    if maker is None:
        for name in names:
            if name not in _FIELDS:
                raise TypeError(f"JobSpec.__init__() got an unexpected keyword argument {name!r}")
        shape = type(JobSpec.__name__, (JobSpec,), {"__slots__": names, "__module__": __name__})
        # Written out, as `dataclass` does: a loop over the fields would take twice as long.
        known: dict[str, Any] = {f"set_{name}": getattr(shape, name).__set__ for name in names}
        known |= {"new": object.__new__, "shape": shape}
        lines = [f"set_{name}(spec, {name})" for name in names]
        body = "\n ".join(["spec = new(shape)", *lines, "return spec"])
        exec(f"def maker({', '.join(names)}):\n {body}", known)
        maker = _SHAPES[names] = known["maker"]
    return maker


def spec_from(names: tuple[str, ...], values: tuple[Any, ...]) -> JobSpec:
    """The spec with these values of these fields, as pickles state it."""
    if len(_SHAPES) >= _MOST_SHAPES and names not in _SHAPES and _FIELDS.keys() >= set(names):
        facts = _FIELDS | dict(zip(names, values, strict=True))
        names, values = tuple(facts), tuple(facts.values())
    return spec_maker(*names)(*values)


def _new(_: type[JobSpec], gpus: int, *others: Any, **facts: Any) -> JobSpec:
    facts["gpus"] = gpus
    if others:
        in_order = dict(zip([*_FIELDS][1:], others, strict=False))
        twice = next((name for name in in_order if name in facts), None)
        if twice is not None or len(in_order) < len(others):
            problem = "too many arguments" if twice is None else f"multiple values for argument {twice!r}"
            raise TypeError(f"JobSpec.__init__() got {problem}")
        facts |= in_order
    return spec_from(tuple(facts), tuple(facts.values()))


def _makes_shapes(cls: Any) -> None:
    """Let the class make objects of its shapes; its signature stays that of the dataclass."""
    cls.__signature__ = signature(cls)
    cls.__new__ = wraps(cls.__init__)(_new)
    del cls.__init__


_makes_shapes(JobSpec)
