"""What a job asks for, once and whole. Everything that knows of a job carries this and restates none of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


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
    partition: str = _fact("", "The partition it asks for.")
    qos: str = _fact("", "Its quality of service, or priority class.")
    queue: str = _fact("", "The queue it names.")
    priority: float = _fact(0.0, "As the cluster states it; larger is sooner.")
    limit_s: float | None = _fact(None, "Its time limit.")
    duration_s: float | None = _fact(None, "How long it runs, as its user states.")
    checkpoint_every_s: float | None = _fact(None, "Seconds of work between its checkpoints.")
