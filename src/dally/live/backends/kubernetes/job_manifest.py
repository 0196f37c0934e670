"""A request for a job as a Job of Kubernetes: a pod per GPU, so that any split over machines will do."""

from __future__ import annotations

import re
import uuid
from typing import Any

from dally.live.backends.base import Submission
from dally.live.backends.kubernetes import names
from dally.progress.report_file import PRINTED, VARIABLE

FAILURES = 6  # of each pod, before the job is given up
EVICTIONS_DO_NOT_COUNT = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}


def manifest(request: Submission, image: str, scheduler: str, logs: bool = False) -> dict[str, Any]:
    """The Job. Its pods are told their rank and their number, and the command runs in each of them.

    `logs`: they are read, so `dally.report` prints there: no file of a pod reaches the daemon.
    """
    job = request.spec
    command = list(request.command or ("sleep", f"{job.duration_s or 0.0:g}"))
    stated = {
        "model": job.model,
        "expected": f"{job.duration_s:g}" if job.duration_s else "",
        "checkpoint": f"{job.checkpoint_every_s:g}" if job.checkpoint_every_s else "",
        "gpus": job.sizes,
        "user": job.user,
    }
    notes = {f"{names.PREFIX}{name}": value for name, value in stated.items() if value}
    values = {"DALLY_GPUS": names.WORLD_SIZE, "DALLY_RANK": names.RANK}
    noted = [
        {"name": name, "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{note}']"}}}
        for name, note in values.items()
    ]
    environment = ({VARIABLE: PRINTED} if logs else {}) | request.environment
    stated_values = [{"name": name, "value": value} for name, value in environment.items()]
    container: dict[str, Any] = {
        "name": "main", "image": image, "command": command, "env": [*stated_values, *noted],
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
    }  # fmt: skip
    if request.folder:
        container["workingDir"] = request.folder
    spec: dict[str, Any] = {
        "schedulerName": scheduler, "restartPolicy": "Never", "containers": [container],
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
    }  # fmt: skip
    if job.limit_s is not None:
        spec["activeDeadlineSeconds"] = max(1, int(job.limit_s))
    numbers = {} if job.sizes else {"completions": job.gpus}  # which no server lets us change later
    return {
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": job_name(job.name), "annotations": notes},
        "spec": {
            "parallelism": job.gpus, **numbers, "backoffLimit": FAILURES * job.gpus,
            "podFailurePolicy": EVICTIONS_DO_NOT_COUNT,
            "template": {"metadata": {"annotations": notes}, "spec": spec},
        },
    }  # fmt: skip


def job_name(wished: str) -> str:
    """A name that Kubernetes takes and nobody has."""
    plain = re.sub(r"[^a-z0-9-]+", "-", wished.lower()).strip("-")[:40]
    return f"{plain or 'job'}-{uuid.uuid4().hex[:8]}"
