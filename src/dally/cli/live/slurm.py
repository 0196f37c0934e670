"""Get Slurm ready for Dally, and back."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from dally.cli.commands import group, in_group
from dally.errors import InputError

if TYPE_CHECKING:
    from dally.live.backends.slurm.slurm_backend import SlurmBackend
    from dally.live.backends.slurm.submit_plugin import Change

CONF = typer.Option(None, metavar="FILE", help="slurm.conf.  [default: $SLURM_CONF, or what scontrol says]")
app = group(__doc__)


@in_group(
    app,
    "setup",
    "dally slurm setup --dry-run",
    "dally slurm setup --partition gpu --user dally",
    "dally slurm setup --undo",
)
def setup(
    conf: Path = CONF,
    partitions: list[str] = typer.Option([], "--partition", metavar="NAME", help="Whose jobs Dally starts.  [all]"),
    users: list[str] = typer.Option(
        [], "--user", metavar="NAME", help="Whom the daemon runs as; root and you may release jobs anyway."
    ),
    undo: bool = typer.Option(False, "--undo", help="Take everything back, and leave the waiting jobs to Slurm."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Say what would be changed, and change nothing."),
    as_json: bool = typer.Option(False, "--json", help="Print the changes as JSON."),
) -> None:
    """Let jobs that ask for GPUs arrive held: job_submit.lua beside slurm.conf, and one line there."""
    from dally.live.backends.slurm.submit_plugin import changes

    backend = _backend(conf, partitions)
    path = conf or _conf_path(backend)
    desired = changes(path, partitions, [os.getuid(), *map(_user_id, users)], undo)
    lines = [line for change in desired for line in change.changes_text()]
    if not dry_run:
        lines += _carry_out(backend, desired, undo)
    if as_json:
        typer.echo(json.dumps({"conf": str(path), "dry_run": dry_run, "changes": lines}, indent=2))
    else:
        typer.echo("\n".join(lines or [f"{path}: nothing to do"]))


def _conf_path(backend: SlurmBackend) -> Path:
    from dally.live.backends.base import BackendError

    try:
        return Path(backend.conf_path())
    except BackendError as error:
        raise InputError(f"dally slurm setup: {error}; give --conf FILE") from None


def _carry_out(backend: SlurmBackend, desired: list[Change], undo: bool) -> list[str]:
    """Write, let slurmctld read it, and hand the jobs over; what was done."""
    from dally.live.backends.base import BackendError

    for change in desired:
        change.carry_out()
    try:
        done = []
        if desired:
            backend.reconfigure()
            done.append("slurmctld has read it")
        if undo:
            done += backend.hand_over()
    except BackendError as error:
        raise InputError(f"{error}; the files are written: run `scontrol reconfigure`") from None
    return done


@in_group(app, "hosts", "dally slurm hosts", "dally slurm hosts --per-gpu > hosts.$SLURM_JOB_ID")
def hosts(
    per_gpu: bool = typer.Option(False, "--per-gpu", help="Each machine as often as the job has GPUs there."),
    job: str = typer.Option(None, metavar="ID", help="The job.  [default: $SLURM_JOB_ID, the one this runs in]"),
    conf: Path = CONF,
) -> None:
    """Print a job's machines in the order of the fabric, machine by machine, rack by rack, for its ranks.

    Slurm numbers tasks by its own order of nodes. In a batch script: dally slurm hosts --per-gpu > hosts;
    SLURM_HOSTFILE=hosts srun --distribution=arbitrary …
    """
    from dally.live.backends.base import BackendError

    job_id = job or os.environ.get("SLURM_JOB_ID")
    if not job_id:
        raise InputError("dally slurm hosts: not inside a job; give --job ID")
    try:
        for name, gpus in _backend(conf, []).hosts(job_id).items():
            typer.echo("\n".join([name] * (gpus if per_gpu else 1)))
    except BackendError as error:
        raise InputError(f"dally slurm hosts: {error}") from None


def _backend(conf: Path | None, partitions: list[str]) -> SlurmBackend:
    from dally.extras import need

    need("structlog", "slurm")
    from dally.live.backends.slurm import SlurmBackend

    return SlurmBackend(partitions, str(conf) if conf else "")


def _user_id(name: str) -> int:
    import pwd

    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        raise InputError(f"--user {name}: there is no such user here") from None
