"""A request for a job as a call of sbatch."""

from __future__ import annotations

import json
import math
import os
import shlex

from dally.live.backends.base import Submission
from dally.live.backends.job_environment import job_environment
from dally.live.backends.slurm.job_logs import REPORT_SUFFIX
from dally.live.private_folder import user_name
from dally.progress.report_file import VARIABLE


def script_of(request: Submission) -> str:
    """The batch script: the command, or a sleep of the length that was asked for.

    It states its environment itself. Of ours, sbatch is given what it needs to find its cluster, and no more: it
    runs with our rights, and hands on what it has. No line of a user's comes before the first command, where sbatch
    would read #SBATCH lines.
    """
    command = request.command or ("sleep", f"{request.spec.duration_s or 0.0:g}")
    stated = job_environment(request.spec.user) | request.environment
    lines = [f"export {name}={shlex.quote(value)}" for name, value in stated.items()]
    if request.folder and VARIABLE not in stated:  # beside what it prints, where the daemon looks
        lines.insert(0, f'export {VARIABLE}="$PWD/slurm-$SLURM_JOB_ID.out{REPORT_SUFFIX}"')
    unset = "unset SLURM_TIME_FORMAT SLURM_BITSTR_LEN LC_ALL LD_LIBRARY_PATH"
    return "\n".join(["#!/bin/sh", unset, *lines, f"exec {shlex.join(command)}", ""])


def sbatch_arguments(request: Submission) -> list[str]:
    """The call, which reads the script from its input. The job arrives held and can be requeued."""
    requested = request.spec
    type_before = f"{requested.gpu_type}:" if requested.gpu_type else ""
    parts = ["sbatch", "--parsable", "--hold", "--requeue", f"--gpus={type_before}{requested.gpus}"]
    facts = {
        "model": requested.model or None,
        "expected": requested.duration_s or None,
        "checkpoint": requested.checkpoint_every_s or None,
        "gpus": requested.sizes or None,
    }
    stated = {name: value for name, value in facts.items() if value is not None}
    if stated:
        parts.append(f"--comment={json.dumps(stated)}")
    if requested.user and requested.user != user_name(os.geteuid()):
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
