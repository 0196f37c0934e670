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
    """Admits the transfers of jobs to links by AdaDUAL.

    Wang, Shi, Wang, Chu: Communication Contention Aware Scheduling of Multiple Deep Learning Training Jobs (arXiv
    2002.10105). The paper finds that neither avoiding all contention nor accepting all of it is best: a transfer
    may join another one on a link if it is short compared with the remainder of that one, and no transfer joins two
    others. The paper reports a mean JCT 20.1 % below one transfer at a time and 36.7 % below any two at once, on 10
    Gb Ethernet. On such a network (`ethernet-10g`) this policy is also below fair sharing, by less
    (tests/policies/test_claims.py). On other networks sharing costs no penalty, and its placement, which does not
    consider racks, decides the result (see `lwf`). Jobs wait for links in order of remaining service. Departures:
    remaining service counts communication as the job would see it alone at its closest placement, because a waiting
    job has no placement yet (the paper counts none before the placement); jobs do not share GPUs; a job on one
    machine is not sent to the network; and AdaDUAL works as an average over many iterations (see perf/adadual.py),
    because the engine has no events within an iteration. A test shows that this is near an event-by-event AdaDUAL;
    single transfers cannot be followed in runs of weeks.
    """

    link_sharing = "adadual"


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
