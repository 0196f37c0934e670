"""Labels, annotations and other names that users, other controllers and this backend write on objects."""

from __future__ import annotations

from typing import Final

PREFIX: Final = "dally.io/"
# Said by users.
GANG: Final = "dally.io/gang"  # label: pods that start together
GANG_SIZE: Final = "dally.io/gang-size"  # label or annotation: how many
HOLD: Final = "dally.io/hold"  # annotation: "true" keeps a gang waiting
USER: Final = "dally.io/user"  # label or annotation
FACTS: Final = ("model", "expected", "checkpoint", "group", "preempt", "pattern", "gpus")  # annotations dally.io/…
PROGRESS: Final = "dally.io/progress"  # annotation: steps done, of how many: 120/400
GATE: Final = "dally.io/gate"  # a scheduling gate
HOSTFILE: Final = "dally-hosts-"  # before the gang's name: the ConfigMap with its machines
# Said by us, with the binding.
RANK: Final = "dally.io/rank"
PLACEMENT: Final = "dally.io/placement"  # of the whole gang: n01=8,n02=8
NODE: Final = "dally.io/node"  # of a pod that was let through its gate,
SCHEDULER: Final = "dally.io/scheduler"  # and by whom
TIER: Final = "dally.io/tier"
SIGNATURE: Final = "dally.io/signature"  # of all of these: users write annotations too
WORLD_SIZE: Final = "dally.io/world-size"  # pods of a Job that start together: for its environment
REQUESTED: Final = "dally.io/requested-pods"  # annotation of an elastic Job: the parallelism it came with
ADMITTED: Final = "dally.io/admitted"  # annotation of a Job that was suspended: when we admitted it
ORDERS: Final = "dally.io/orders"  # annotation of the lease: bindings that are about to be sent
CONDITION: Final = "dally.io/Placed"
DRAINED: Final = "dally.io/drained"  # annotation of a node that was cordoned here: why
# Said by others.
POD_GROUP: Final = "kueue.x-k8s.io/pod-group-name"
POD_GROUP_SIZE: Final = "kueue.x-k8s.io/pod-group-total-count"
POD_GROUP_OF_COSCHEDULING: Final = "scheduling.x-k8s.io/pod-group"  # label
POD_GROUP_OF_VOLCANO: Final = "scheduling.k8s.io/group-name"  # annotation
QUEUES: Final = ("dally.io/queue", "kueue.x-k8s.io/queue-name", "kai.scheduler/queue")  # the first that is there
JOBSET: Final = "jobset.sigs.k8s.io/jobset-name"
KUBEFLOW: Final = "training.kubeflow.org/job-name"
KUBEFLOW_OPERATOR: Final = "training.kubeflow.org/operator-name"
RAY: Final = "ray.io/cluster"
LEADER_WORKER: Final = "leaderworkerset.sigs.k8s.io/name"  # of which each group is a gang:
LEADER_WORKER_GROUP: Final = "leaderworkerset.sigs.k8s.io/group-index"
ROLES: Final = ("training.kubeflow.org/replica-type", "training.kubeflow.org/job-role", "ray.io/node-type")
FIRST_ROLES: Final = frozenset(("master", "launcher", "chief", "leader", "head"))
INDEXES: Final = (
    "jobset.sigs.k8s.io/job-index",
    "batch.kubernetes.io/job-completion-index",
    "training.kubeflow.org/replica-index",
    "leaderworkerset.sigs.k8s.io/worker-index",
)
