"""The contract of a policy, and of the parameters it shows to users."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from mypy_extensions import i64, mypyc_attr

from dally.cluster.capacity import Cluster
from dally.cluster.feasibility.signatures import Signatures
from dally.errors import PolicyError
from dally.model import INFINITY, Action, Job
from dally.policies.delay_timers import DelayOverrides
from dally.policies.events import PolicyEvent
from dally.policies.ordering.base import Order
from dally.policies.ordering.simple import SubmitOrder
from dally.policies.part import Part
from dally.policies.placement.base import Placement
from dally.policies.prediction.base import Predictor
from dally.policies.queue import Queue
from dally.policies.reasons import Reason, Reasons
from dally.policies.view import View


class Param(NamedTuple):
    """A parameter that `--set name=value` changes; its default also gives its type."""

    name: str
    default: float | int | str | bool
    about: str
    least: float = 0.0  # numbers below this are refused
    period: bool = False  # seconds from one decision to the next: refused where the clock would not move on


@mypyc_attr(allow_interpreted_subclasses=True)
class Policy(Part):
    """Decides who runs where. Subclass it and write `schedule`; everything else has a default.

    A policy has no clock, no engine and no I/O: what it knows is what it is handed. The same object
    runs in the simulator and on a live cluster.
    """

    registered_name: str = ""  # in the registry, in a user's file or of an entry point; empty: built by hand
    # What the engine reads: at `begin`, but for the last two.
    order: Order = SubmitOrder()  # the rank under which jobs wait
    placement: Placement = Placement()  # which jobs of one size are not equally easy to place: its `kind`
    predictor: Predictor = Predictor()  # foresees job.predicted_s at submission
    queue: Queue | None = None  # where its jobs wait; None: in a plain one
    lease_s: float = INFINITY  # for how long GPUs are granted before the job must defend them again
    suspend_s: float = INFINITY  # seconds until a gang that it stopped works again; never more than the run's price
    link_sharing: str = "fair"  # how its jobs' transfers share links: `fair`, or admitted one by one by `adadual`
    migrates: bool = False  # whether its running gangs may move to faster GPUs
    delay_overrides: DelayOverrides | None = None  # what operators say of delays; None: its jobs have none
    wakeup_s: float = INFINITY  # when to be asked again even if nothing happens until then
    successor: Policy | None = None  # decides from the end of this cycle on; a simulation hands the cluster over
    reasons: Reasons  # where it records why, from `begin` on

    def begin(self, view: View) -> None:
        """A run begins. Called once, before anything else."""
        super().begin(view)
        self.reasons = Reasons()

    def answer_for(self, other: Policy) -> None:
        """What the engine reads of this policy is what it would read of the other, where jobs wait apart."""
        own: Any = other  # a class in plain Python may state these in its body, which only plain Python sees
        self.order = own.order
        self.placement = own.placement
        self.predictor = own.predictor
        self.lease_s = own.lease_s
        self.suspend_s = own.suspend_s
        self.link_sharing = own.link_sharing
        self.migrates = own.migrates
        self.delay_overrides = own.delay_overrides

    def constrain(self, signatures: Signatures) -> None:
        """Jobs of this run have constraints: a policy with clusters of its own has them know."""

    def schedule(self, now: float, queue: Queue, cluster: Cluster) -> Iterable[Action]:
        """Yield actions. Each is carried out before the next is asked for, so queue and cluster stay true."""
        raise PolicyError(f"policy {type(self).__name__}: schedule(now, queue, cluster) is missing")

    def on(self, event: PolicyEvent) -> None:
        """Something happened, for policies that keep a ledger: see policies/events.py."""

    def why(self, job: Job) -> Reason:
        """What the job waits for, until when, and what would change it, from what is in `reasons`."""
        return self.reasons.why(job)

    def save(self) -> dict[str, Any]:
        """What it has learnt, as plain values (JSON): a daemon that restarts goes on with it."""
        return {}

    def load(self, saved: dict[str, Any]) -> None:
        """Go on with what `save` gave."""


def ranks_before(key: float, tie: float, index: i64, other_key: float, other_tie: float, other_index: i64) -> bool:
    """Whether the first rank comes before the second."""
    if key != other_key:
        return key < other_key
    if tie != other_tie:
        return tie < other_tie
    return index < other_index
