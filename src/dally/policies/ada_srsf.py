"""Ada-SRSF: shortest remaining service first, LWF-κ placement, and AdaDUAL on the links."""

from __future__ import annotations

from typing import Final

from mypy_extensions import mypyc_attr

from dally.policies.base import Policy
from dally.policies.composed import ComposedPolicy
from dally.policies.declaration import DURATIONS, NamedPolicy
from dally.policies.ordering.remaining import SmallestRemaining
from dally.policies.placement.least_workload import KAPPA, LeastWorkload
from dally.policies.preemption.base import NoPreemption
from dally.policies.settings import Settings


@mypyc_attr(allow_interpreted_subclasses=True)
class AdaSrsf(ComposedPolicy):
    """A policy whose jobs' transfers are admitted to links by AdaDUAL.

    Wang, Shi, Wang, Chu: Communication Contention Aware Scheduling of Multiple Deep Learning Training Jobs
    (arXiv 2002.10105). Departures: remaining service counts communication as the job would see it alone at its
    closest placement, since a waiting job has no other yet (there: none before it is placed); GPUs are not
    shared by jobs; a job on one machine is not sent to the network; and AdaDUAL works as an average
    over many iterations (see perf/adadual_sharing.py), as the engine has no events within one.
    """

    def sharing(self) -> str:
        return "adadual"


def _ada_srsf(settings: Settings) -> Policy:
    return AdaSrsf(SmallestRemaining(), LeastWorkload(settings["kappa"]), NoPreemption())


PAPER: Final = (
    "Wang et al., Communication Contention Aware Scheduling of Multiple Deep Learning Training Jobs, "
    "arXiv 2002.10105"
)
ADA_SRSF: Final = NamedPolicy(
    "ada-srsf", _ada_srsf, "remaining GPU-time", "least loaded machines (LWF-κ), links by AdaDUAL", "never",
    DURATIONS, PAPER, (KAPPA,),
)  # fmt: skip
