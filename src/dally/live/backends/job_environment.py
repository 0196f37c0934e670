"""The environment that a job begins with: nothing of the daemon's, which may hold its secrets."""

from __future__ import annotations

import os
import pwd
from typing import Final

PATH: Final = "/usr/local/bin:/usr/bin:/bin"
UMASK: Final = 0o022
TOOL_NAMES: Final = ("PATH", "LD_LIBRARY_PATH", "TZ", "SLURM_CONF")  # of the daemon's, that a cluster's tools need


def job_environment(user: str = "") -> dict[str, str]:
    """PATH, LANG and what a login sets for that user; empty: the one that this process runs as."""
    result = {"PATH": PATH, "LANG": "C.UTF-8"}
    try:
        entry = pwd.getpwnam(user) if user else pwd.getpwuid(os.geteuid())
    except KeyError:  # not known on this host
        return result | ({"USER": user, "LOGNAME": user} if user else {})
    return result | {
        "HOME": entry.pw_dir, "USER": entry.pw_name, "LOGNAME": entry.pw_name, "SHELL": entry.pw_shell or "/bin/sh",
    }  # fmt: skip


def tool_environment() -> dict[str, str]:
    """For the cluster's own tools, some of which hand it on to jobs."""
    return {name: os.environ[name] for name in TOOL_NAMES if name in os.environ} | {"LC_ALL": "C.UTF-8"}
