"""What goes in and out of the API. Times are seconds since 1970, lengths seconds of the scheduler's clock."""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated, Any, Literal, get_type_hints

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    create_model,
    model_validator,
)

from dally.job_spec import PREEMPT_CHOICES, JobSpec
from dally.report.explanation.waiting import REASONS

NO_CONTROL = r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*$"
NO_NUL = r"^[^\x00]*$"
VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]*$"
PATTERNS = {  # what is said of a text that does not match
    NO_CONTROL: "must not hold control characters",
    NO_NUL: "must not hold the character 0",
    VARIABLE: "must be letters, digits and _, not beginning with a digit",
}
MOST_GPUS = 1_000_000
MOST_S = 1e10

LiveState = Literal["waiting", "held", "blocked", "unschedulable", "starting", "running", "stopping"]
EndState = Literal["finished", "failed", "cancelled", "unknown"]
AnyState = Literal[LiveState, EndState]
Name = Annotated[str, StringConstraints(max_length=200, pattern=NO_CONTROL)]
HostList = Annotated[str, StringConstraints(max_length=10_000, pattern=NO_CONTROL)]
Argument = Annotated[str, StringConstraints(max_length=100_000, pattern=NO_NUL)]
Variable = Annotated[str, StringConstraints(max_length=200, pattern=VARIABLE)]
Gpus = Annotated[int, Field(ge=1, le=MOST_GPUS)]
Count = Annotated[int, Field(ge=0, le=MOST_GPUS)]
Amount = Annotated[float, Field(ge=0.0, le=MOST_S, allow_inf_nan=False)]
Seconds = Annotated[float, Field(gt=0.0, le=MOST_S, allow_inf_nan=False)]


def _sound(text: str) -> str:
    """The text without halves of characters, which a cluster's tools may tell and JSON cannot hold."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


Text = Annotated[str, BeforeValidator(_sound)]


class Body(BaseModel):
    """Common to all."""

    model_config = ConfigDict(from_attributes=True, frozen=True, extra="forbid")


class Problem(Body):
    """Why there is no other answer."""

    detail: str


class CarriesSpec(Body):
    """What carries a JobSpec and is one flat object in JSON: `of_spec` adds the fields."""

    @property
    def spec(self) -> JobSpec:
        """What the job asks for."""
        return JobSpec(**{name: getattr(self, name) for name in get_type_hints(JobSpec) if hasattr(self, name)})

    @model_validator(mode="before")
    @classmethod
    def _flat(cls, options: Any) -> Any:
        """Of an object with a `spec`: the fields of both."""
        spec = getattr(options, "spec", None)
        if not isinstance(spec, JobSpec):
            return options
        return {name: getattr(spec if hasattr(spec, name) else options, name) for name in cls.model_fields}


def of_spec(name: str, kinds: dict[Any, Any], stated: bool, without: tuple[str, ...] = ()) -> Any:
    """A base class with the fields of JobSpec; `kinds` replaces types and those of single fields.

    `stated`: none may be left out.
    """
    hints = get_type_hints(JobSpec)
    made: dict[str, Any] = {
        each.name: (
            kinds.get(each.name, kinds.get(hints[each.name], hints[each.name])),
            Field(... if stated or each.name == "gpus" else each.default, description=each.metadata["about"]),
        )
        for each in fields(JobSpec)
        if each.name not in without
    }
    return create_model(name, __base__=CarriesSpec, **made)


class JobBody(of_spec("JobFields", {str: Text}, stated=True, without=("command_line",))):  # type: ignore[misc]
    """A job."""

    job_id: Text
    state: AnyState
    managed: bool = Field(description="Whether it is ours to start and to stop.")
    submit_s: float
    since_s: float = Field(description="Since when it waits or runs; when it ended.")
    place: int | None = Field(description="Place in the order of the queue; 1 is first.")
    placement: dict[str, int] = Field(description="GPUs by machine.")
    tier: Text = Field(description="The closest tier with one domain that holds all of them.")
    work_s: float = Field(description="Done so far, in seconds at full speed.")
    slowdown: float | None = Field(description="At present, against the closest place alone.")
    preemptions: int
    migrations: int
    why: Text = Field(description="Why it waits, is held, or ended as it did.")
    reason: Text = Field(description=f"The same as one word: {', '.join(REASONS)}; empty if it does not wait.")
    next_s: float | None = Field(description="When it takes a farther place than it does now.")
    held_by: Text = Field(default="", description="Who put it on hold here.")
    first_by: Text = Field(default="", description="Who put it first in the queue.")
    delay_by: Text = Field(default="", description="Who set its delay for closer placements.")
    delay_until_s: float | None = Field(
        default=None, description="The end of that delay; after it the job takes any placement."
    )
    non_preemptible: Text = Field(default="", description="Why it cannot be stopped; empty: it can be.")
    step: int | None = Field(default=None, description="Steps of training done, as it prints or reports them.")
    total_steps: int | None = Field(default=None, description="Steps of the whole run.")
    end_s: float | None = Field(default=None, description="When it ends, by its own progress.")
    end_low_s: float | None = Field(default=None, description="With a chance of 80 %, not before")
    end_high_s: float | None = Field(default=None, description="and not after.")


def job_body(line: object) -> JobBody:
    """The job of a status line."""
    result: JobBody = JobBody.model_validate(line)
    return result


class JobPage(Body):
    """Some of the jobs: those that wait in their order, then the others."""

    at_s: float = Field(description="When things stood so.")
    total: int = Field(description="Jobs that fit the filters, on all pages.")
    offset: int
    jobs: list[JobBody]


REQUESTED = {
    str: Name, int: Count, float: Amount, float | None: Seconds | None,
    "gpus": Gpus, "group": Gpus, "include": HostList, "exclude": HostList,
    "preempt": Literal["", *PREEMPT_CHOICES],
}  # fmt: skip


NOT_REQUESTED = ("priority", "command_line")


class JobRequest(of_spec("RequestFields", REQUESTED, stated=False, without=NOT_REQUESTED)):  # type: ignore[misc]
    """A job that somebody asks for. Operators may ask for others; its priority is its cluster's to state."""

    command: list[Argument] = Field(
        default=[], max_length=1000, description="Empty: a job that only takes `duration_s` of time."
    )
    folder: Annotated[str, StringConstraints(max_length=4000, pattern=NO_NUL)] = Field(
        default="", description="Where the command runs."
    )
    environment: dict[Variable, Argument] = Field(
        default={}, max_length=1000, description="Variables of the command, besides those of its user's login."
    )


class Submitted(Body):
    """A job that was taken in."""

    job_id: Text
    note: str = Field(default="", description="What of the request has no effect, and why; empty: nothing.")
    advice: list[Text] = Field(default=[], description="What earlier jobs like it say of it.")


class HistoryEntry(Body):
    """One thing that happened to a job."""

    at_s: float
    kind: str
    text: Text


class Spent(Body):
    """Where a job's time went so far; together that is all since it was submitted."""

    waiting_s: float
    useful_s: float = Field(description="Work done, at full speed.")
    network_s: float = Field(description="Lost to the network, against the closest place alone.")
    other_s: float = Field(description="Restarts, checkpoints, and work that was done twice.")


class SizeEntry(Body):
    """For that time a job has so many GPUs."""

    from_s: float
    until_s: float
    gpus: int = Field(description="0: it waits.")


class Explanation(Body):
    """What happened to a job, and what it waits for."""

    job: JobBody
    history: list[HistoryEntry]
    sizes: list[SizeEntry] = Field(default=[], description="GPUs of an elastic job over time; empty: it is rigid.")
    slowdowns: dict[str, float] = Field(description="What to expect at each tier, alone; empty without a network.")
    slowdowns_from: Text = Field(
        default="", description="The model that a job is taken for which names none, and how that is known."
    )
    spent: Spent


class TierChanceBody(Body):
    """Starting at one tier."""

    tier: str
    chance: float = Field(description="Share of the starts that are there.")
    start_s: float | None = Field(description="The median moment of those.")
    slowdown: float | None = Field(description="Their mean, against the closest place alone.")
    now: float | None = Field(description="The slowdown of a place that is free now.")


class Eta(Body):
    """When a job starts: an interval that holds with `confidence`, from so many simulated futures."""

    job_id: Text = Field(description="Empty: a job that is not submitted.")
    at_s: float = Field(description="When this was worked out.")
    starts_now: bool
    low_s: float
    middle_s: float | None = Field(description="Null: later than the horizon; the same holds for high_s.")
    high_s: float | None
    confidence: float
    futures: int
    seen: float = Field(description="Share of the futures in which it started.")
    learnt_from: int = Field(description="Earlier answers that the interval is corrected by.")
    calibrated: bool = Field(description="Whether they are enough; before that, intervals are wide.")
    tiers: list[TierChanceBody]
    slowdown: float | None = Field(description="The mean over all starts.")
    pays_from_s: float | None = Field(
        description="Work from which on waiting ends sooner than the best placement free now; null: never."
    )
    gpus_now: int = Field(description="A smaller gang of this size would start now; 0: no smaller one would.")


class OutlookBody(Body):
    """When those who wait start, as it was last worked out for all of them."""

    etas: list[Eta]


class CalibrationDayBody(Body):
    """How well the answers of a day held, as far as their jobs have started."""

    day: str
    answers: int
    held: float = Field(description="Share of the intervals in which the start came.")
    held_raw: float = Field(description="The same of the futures' own, before they are corrected.")
    error_s: float = Field(description="Median distance of the start from the middle.")
    first_answers: int = Field(description="Of the answers, those that were the first for their job.")
    first_held: float = Field(description="Share of the first answers that held.")


class CalibrationBody(Body):
    """The latest day first."""

    confidence: float = Field(description="What `held` is to come to.")
    days: list[CalibrationDayBody]


class Node(Body):
    """A machine."""

    name: Text
    domains: list[Text] = Field(description="Above it, closest first.")
    gpus: int
    free: int
    state: Literal["up", "draining", "down"]
    reason: Text
    suspicion: float = Field(description="Probability that it is slow, by the progress of its jobs; 0: no sign.")
    slow_factor: float = Field(description="How many times as long it computes then; 1: no sign.")
    evidence: Text = Field(description="What speaks against its health, drained or not; empty: nothing.")
    jobs: list[Text] = Field(description="Those that the caller may see.")


class Nodes(Body):
    """All machines."""

    at_s: float
    nodes: list[Node]


class Timer(Body):
    """What a demand, or one job, is offered, and how long it delays for closer."""

    job_id: Text = Field(description="Empty: all jobs of the demand.")
    gpus: int
    group: int = Field(description="GPUs that must share a machine.")
    offered: str = Field(description="The closest tier with room; empty: none.")
    delays_s: dict[str, float | None] = Field(
        description="By tier: seconds of waiting after which it takes that; null: it never does."
    )


class Holding(Body):
    """A job that delays for a closer place, and until when."""

    job_id: Text
    gpus: int
    why: Text
    next_s: float


class TimersBody(Body):
    """Offers, jobs that delay, and the tuner's timers where the policy has one."""

    at_s: float
    offers: list[Timer]
    holding: list[Holding]
    tuned: dict[int, dict[str, float | None]] = Field(description="By GPUs, then by tier: seconds.")


class Slots(Body):
    """How many gangs of a size could start now, each inside one domain of a tier."""

    at_s: float
    gpus: int
    slots: dict[str, int] = Field(description="By tier, closest first.")


class WhatIfQuestion(Body):
    """What would be different; what is empty stays as it is."""

    start: Literal["now", "history"] = Field(
        default="now",
        description="From now on, in simulated futures; or for the jobs that ended in the last days.",
    )
    policy: Name = Field(default="", description="As in `dally policies`.")
    settings: dict[Name, Name] = Field(
        default={}, max_length=50, description="Of the policy, as `--set` gives them."
    )
    cluster_delta: Name = Field(default="", description="+2 racks, or -1 rack, +4 machines.")
    network: Name = Field(default="", description="As in `dally networks`.")
    network_settings: dict[Name, Name] = Field(default={}, max_length=50)
    quotas: list[Name] = Field(
        default=[], max_length=50, description="Of the queues in use: research.limit=64, research.guarantee=+64."
    )
    futures: int = Field(default=20, ge=1, le=200)
    horizon_s: float = Field(default=3 * 86400.0, ge=3600.0, le=14 * 86400.0, description="How far they go.")
    days: float = Field(default=7.0, gt=0.0, le=31.0, description="How far to look back.")


class WhatIfFigure(Body):
    """One figure on both sides, and how far its change goes: `low` to `high`."""

    name: str
    label: str
    unit: str
    before: float
    after: float
    change: float
    low: float
    high: float
    about: str


class WhatIfJob(Body):
    """A job that gains or loses: seconds until it is done, in the mean."""

    job_id: Text
    name: Text
    user: Text
    gpus: int
    state: str
    before_s: float
    after_s: float
    change_s: float


class WhatIfAnswerBody(Body):
    """What would change. A job gains or loses by more than 5 % of its time and a minute."""

    headline: Text
    before: Text
    after: Text
    figures: list[WhatIfFigure]
    winners: list[WhatIfJob]
    losers: list[WhatIfJob]
    jobs: int
    better: int
    worse: int
    samples: int = Field(description="Futures, or seeds.")
    spread: str = Field(description="What `low` to `high` is.")
    notes: list[Text]
    verdict: Text = Field(description="How far to trust a replay of the last days.")


class WhatIfBody(Body):
    """A question and how far it is."""

    number: str
    start: Literal["now", "history"]
    requested_by: Text
    requested_s: float
    before: Text
    after: Text
    state: Literal["running", "done", "failed", "cancelled"]
    done: int
    total: int = Field(description="Number of futures or runs; 0: not begun.")
    why: Text = Field(description="It failed.")
    answer: WhatIfAnswerBody | None


class Status(Body):
    """The scheduler."""

    version: str
    backend: str
    policy: str
    dry_run: bool
    speed: float = Field(description="Of its clock: 60 makes a minute of a second.")
    machines: int
    gpus: int
    free_gpus: int
    busy_gpus: int = Field(description="That jobs hold.")
    jobs: dict[str, int] = Field(description="By state, as far as the caller may see them.")
    cycle: int
    at_s: float = Field(description="The latest cycle.")
    failing: Text = Field(description="Why the latest cycle did not come about; empty: it did.")
    problems: list[Text] = Field(description="Of the latest cycle; for operators.")


class Health(Body):
    """Whether it works."""

    status: str


class AlertBody(Body):
    """A rule that holds, as Prometheus would alert of it."""

    name: str
    severity: Literal["critical", "warning"]
    summary: str
    details: Text = Field(description="What is the matter; for operators.")
    since_s: float


class AlertsBody(Body):
    """The gravest first; none: all is well."""

    alerts: list[AlertBody]


class TeamBody(Body):
    """A queue. GPUs of all types together."""

    path: Text
    depth: int = Field(description="0: below no other queue.")
    guarantee: float
    limit: float | None = Field(description="Null: none over all types.")
    held: int
    due: float = Field(description="Of what it holds and asks for.")
    waiting_gpus: int
    used_gpu_h: float = Field(description="Past use, which decays with the half-life.")
    weight: float
    leaf: bool
    borrowed: float = Field(description="GPUs held above the guarantee.")
    lent: float = Field(description="GPUs of the guarantee that it does not hold.")


class TeamsBody(Body):
    """Parents before children."""

    at_s: float
    queues: list[TeamBody]


class EventBody(Body):
    """Something that the scheduler did, or that happened to a job or a machine."""

    id: int
    at_s: float
    kind: str
    job_id: Text
    machine: Text
    tier: Text
    machines: Text = Field(description="Where, as Slurm writes lists of machines.")
    reason: Text


class EventPage(Body):
    """Some events, the latest first."""

    total: int
    offset: int
    events: list[EventBody]
