"""Ada-SRSF: shortest remaining service first, LWF-κ placement, and AdaDUAL on the links."""

from __future__ import annotations

from mypy_extensions import mypyc_attr

from dally.policies.composed import ComposedPolicy


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
