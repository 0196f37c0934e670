"""What goes in and out of requests that do something to jobs and machines."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from dally.web.routes.bodies import MOST_GPUS, MOST_S, NO_CONTROL, Body, Text

LONGEST_WHY = 500
Held = Annotated[float, Field(ge=0.0, le=MOST_S, allow_inf_nan=False)] | None
Why = Annotated[str, StringConstraints(max_length=LONGEST_WHY, pattern=NO_CONTROL, strip_whitespace=True)]


class Reasoned(Body):
    """Why: it is kept with who asked, and told in the job's story."""

    why: Why = Field(default="", description="Users may leave it out for jobs of their own.")


class Priority(Reasoned):
    """Whether the job is to come before all others who wait."""

    first: bool = True


class Patience(Reasoned):
    """For how long a job, from now on, holds out for a closer place."""

    seconds: Held = Field(description="0: it takes any place from now on; null: as the policy has it.")


class SetTimer(Patience):
    """For how long gangs of a size hold out for a closer place."""

    gpus: int = Field(ge=1, le=MOST_GPUS)


class Acted(Body):
    """It is written down, and holds from the next cycle on, or was asked of the cluster."""

    job_id: Text
    machine: Text
    what: str
    text: Text = Field(description="What was done, by whom and why.")


class Action(Body):
    """One thing that somebody asked for."""

    id: int
    at_s: float
    who: Text
    what: str
    job_id: Text = Field(description="Empty: it was about a machine, or about gangs of a size.")
    machine: Text
    told: Text = Field(description="What, in words.")
    why: Text
    outcome: Text = Field(description="done; refused, and why; asked: nobody noted what came of it.")


class ActionPage(Body):
    """Some of them, the latest first."""

    total: int
    offset: int
    actions: list[Action]
