"""What the dialogs say before something is done."""

from __future__ import annotations

from typing import Final, NamedTuple

from dally.live.status import ClusterStatus
from dally.web.routes.bodies import Job

OF_USERS: Final = ("hold", "release", "cancel")  # of jobs that are their own


class Dialog(NamedTuple):
    """One question."""

    title: str
    tells: str  # what will happen
    button: str
    danger: bool = False
    asks_time: bool = False  # for how long to hold out
    asks_size: bool = False  # of which gangs
    first: bool | None = None  # in line, or back: what was read is done, whatever others did meanwhile


def job_dialog(what: str, job: Job, first: bool) -> Dialog | None:
    """What is asked of a job; None: there is no such thing. `first`: whether to put it there, or back."""
    name = f"job {job.job_id}" + (f" ({job.spec.name})" if job.spec.name else "")
    runs = job.state in ("running", "starting")
    gives_up = f"It gets SIGTERM and time to save, and gives its {job.spec.gpus} GPUs back"
    until = "is not offered GPUs until somebody releases it."
    made = {
        "hold": Dialog(f"Hold {name}?", f"{gives_up}; it {until}" if runs else f"It {until}", "Hold it"),
        "release": Dialog(f"Release {name}?", "It is offered GPUs again from now on.", "Release it"),
        "priority": _priority(job, name, first),
        "patience": Dialog(
            f"How long is {name} to hold out?",
            "It waits for a place as close together as it can be, and takes any place after that.",
            "Set it",
            asks_time=True,
        ),
        "cancel": Dialog(
            f"Cancel {name}?", f"{gives_up}." if runs else "It is taken out of the queue.", "Cancel it", True
        ),
    }
    return made.get(what)


def _priority(job: Job, name: str, first: bool) -> Dialog:
    if not first:
        tells = "It goes back to its place" + (f"; {job.first_by} put it first." if job.first_by else ".")
        return Dialog(f"Put {name} back in line?", tells, "Put it back", first=False)
    tells = (
        "It is offered GPUs before all others who wait, and keeps what it gets. "
        "Where the policy stops jobs for others, some may be stopped for it."
    )
    return Dialog(f"Put {name} first in line?", tells, "Put it first", first=True)


def machine_dialog(what: str, name: str, status: ClusterStatus) -> Dialog | None:
    """What is asked of a machine; None: there is no such thing."""
    node = next((node for node in status.nodes if node.name == name), None)
    if node is None or what not in ("drain", "resume"):
        return None
    if what == "resume":
        because = f" It was drained: {node.reason}." if node.reason else ""
        return Dialog(f"Resume {name}?", f"Jobs may start there again.{because}", "Resume it")
    count = len(node.jobs)
    runs = (
        f"The {count} jobs there go on"
        if count > 1
        else "The job there goes on"
        if count
        else "Nothing runs there now"
    )
    return Dialog(f"Drain {name}?", f"{runs}; nothing new starts there until it is resumed.", "Drain it")


def timer_dialog() -> Dialog:
    """What is asked of gangs of a size."""
    tells = "Gangs of that size wait for a place as close together as can be, and take any place after that."
    return Dialog("How long are gangs to hold out?", tells, "Set it", asks_time=True, asks_size=True)
