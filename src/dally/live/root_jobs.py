"""Jobs that would run as root: nobody submits one by accident, or by way of a daemon that is root's."""

from __future__ import annotations

import os
import pwd

from dally.live.config import Config

ALLOW = "set allow_root_jobs = true in dally.toml to allow it"


def why_refused(config: Config, user: str, caller_uid: int | None) -> str:
    """Why a job of that user is not taken in; empty: it is. `caller_uid`: who asks, if the kernel says so."""
    if (
        config.allow_root_jobs or config.backend == "kubernetes"
    ):  # there, users are labels, and pods say as whom they run
        return ""
    if config.backend == "local":  # its jobs run as the daemon's user, whoever they are for
        return f"jobs of this daemon run as root; {ALLOW}" if os.geteuid() == 0 and caller_uid != 0 else ""
    try:
        uid = pwd.getpwnam(user).pw_uid if user else os.geteuid()
    except KeyError:
        return f"user: {user!r}: there is no such user on the scheduler's machine"
    if uid != 0:
        return ""
    return (
        f"user: {user!r}: the job would run as root; {ALLOW}"
        if user
        else f"user: must be given, or the job would run as root; {ALLOW}"
    )
