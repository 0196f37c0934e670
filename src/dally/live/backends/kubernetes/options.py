"""What an operator may say of a Kubernetes cluster: the table `[kubernetes]` of dally.toml, or --set-backend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from dally.errors import InputError, unknown
from dally.live.backends.kubernetes import tenancy
from dally.traces.times import span_s

GPU_TAINTS = ("nvidia.com/gpu", "amd.com/gpu")


@dataclass(frozen=True)
class KubeOptions:
    """All have defaults that fit a cluster with one daemon."""

    kubeconfig: str = ""  # its path; empty: the pod's service account, or the user's usual file
    context: str = ""  # of the kubeconfig
    scheduler_name: str = "dally"  # pods with this schedulerName are ours
    lease_namespace: str = "dally"  # of the Lease by which daemons agree who leads
    nodes: str = ""  # a label selector: only these nodes; empty: all that have GPUs
    labels: tuple[str, ...] = ()  # that say where a node stands, from the top down
    preset: str = ""  # or a named list of them; neither: the preset that fits best
    taints: tuple[str, ...] = GPU_TAINTS  # that keep nothing of ours away
    conditions: tuple[str, ...] = ()  # of nodes that, while they are true, speak against their health
    image: str = ""  # of jobs that `dally submit` makes; empty: it makes none
    namespace: str = "default"  # where it makes them
    force: bool = False  # delete what a disruption budget keeps, or what does not end in time
    gates: bool = True  # take pods behind the scheduling gate dally.io/gate, where the server knows gates
    suspend: bool = False  # Jobs of ours may wait suspended, without pods
    kueue: bool = False  # take queues and quotas from Kueue's objects in the cluster
    priorities: bool = True  # PriorityClasses order our jobs, and higher ones preempt
    trust: tuple[str, ...] = (tenancy.QUEUE,)  # which of pods' labels say whose they are: user, queue
    autoscaler: str = ""  # how long a gang that no node could hold is left to it; empty: all pods are
    logs: bool = False  # read what pods print, to know how far they are
    events: bool = True  # write events and conditions of pods

    def autoscaler_wait_s(self) -> float | None:
        """Of `autoscaler`; None: it is not stated."""
        return span_s("kubernetes: autoscaler", self.autoscaler) if self.autoscaler else None


ALIASES: Final = {"tell": "events"}  # names of earlier versions


def read_options(options: Mapping[str, Any]) -> KubeOptions:
    """The options, from texts; lists are separated by commas."""
    known = {item.name: getattr(KubeOptions, item.name) for item in fields(KubeOptions)}
    result: dict[str, Any] = {}
    for stated, value in options.items():
        name = ALIASES.get(stated, stated)
        if name not in known:
            raise unknown("option of the Kubernetes backend", name, list(known))
        result[name] = _fitting(name, str(value), known[name])
    for label in result.get("trust", ()):
        if label not in tenancy.TRUSTED:
            raise InputError(f"kubernetes: trust: {label!r}: must be of {', '.join(tenancy.TRUSTED)}")
    read = KubeOptions(**result)
    if read.autoscaler and not read.events:
        raise InputError('kubernetes: autoscaler: needs events = "true": it looks at the conditions of pods')
    read.autoscaler_wait_s()  # says what is wrong with it
    return read


def _fitting(name: str, text: str, usual: Any) -> Any:
    if isinstance(usual, bool):
        if text.lower() not in ("true", "false"):
            raise InputError(f"kubernetes: {name}: {text!r}: must be true or false")
        return text.lower() == "true"
    if isinstance(usual, tuple):
        return tuple(part.strip() for part in text.split(",") if part.strip())
    return text
