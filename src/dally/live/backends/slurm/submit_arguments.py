"""A request for a job as a call of sbatch."""

from __future__ import annotations

import getpass
import json
import math
import shlex

from dally.live.backends.base import Submission


def script_of(request: Submission) -> str:
    """The batch script: the command, or a sleep of the length that was asked for."""
    command = request.command or ("sleep", f"{request.spec.duration_s or 0.0:g}")
    return f"#!/bin/sh\nexec {shlex.join(command)}\n"


def sbatch_arguments(request: Submission) -> list[str]:
    """The call, which reads the script from its input. The job arrives held and can be requeued."""
    requested = request.spec
    type_before = f"{requested.gpu_type}:" if requested.gpu_type else ""
    parts = ["sbatch", "--parsable", "--hold", "--requeue", f"--gpus={type_before}{requested.gpus}"]
    facts = {
        "model": requested.model or None,
        "expected": requested.duration_s or None,
        "checkpoint": requested.checkpoint_every_s or None,
    }
    stated = {name: value for name, value in facts.items() if value is not None}
    if stated:
        parts.append(f"--comment={json.dumps(stated)}")
    if requested.user and requested.user != getpass.getuser():
        parts.append(f"--uid={requested.user}")  # Slurm takes that from root alone
    if not request.folder:
        parts.append("--output=/dev/null")  # nobody has said where it could go
    if requested.limit_s is not None:
        parts.append(f"--time={max(1, math.ceil(requested.limit_s / 60.0))}")
    texts = {
        "job-name": requested.name, "account": requested.account, "partition": requested.partition,
        "qos": requested.qos, "chdir": request.folder,
    }  # fmt: skip
    for option, value in texts.items():
        if value:
            parts.append(f"--{option}={value}")
    return parts
