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


def sbatch_words(request: Submission) -> list[str]:
    """The call, which reads the script from its input. The job arrives held and can be requeued."""
    asked = request.spec
    words = ["sbatch", "--parsable", "--hold", "--requeue", f"--gpus={asked.gpus}"]
    facts = {
        "model": asked.model or None,
        "expected": asked.duration_s or None,
        "checkpoint": asked.checkpoint_every_s or None,
    }
    stated = {name: value for name, value in facts.items() if value is not None}
    if stated:
        words.append(f"--comment={json.dumps(stated)}")
    if asked.user and asked.user != getpass.getuser():
        words.append(f"--uid={asked.user}")  # Slurm takes that from root alone
    if not request.folder:
        words.append("--output=/dev/null")  # nobody has said where it could go
    if asked.limit_s is not None:
        words.append(f"--time={max(1, math.ceil(asked.limit_s / 60.0))}")
    for option, value in (("job-name", asked.name), ("account", asked.account), ("chdir", request.folder)):
        if value:
            words.append(f"--{option}={value}")
    return words
