"""Set up Slurm for Dally, and roll back."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from dally.cli.commands import group, in_group
from dally.errors import InputError

if TYPE_CHECKING:
    from dally.cluster.topology import Topology
    from dally.live.backends.base import Placement
    from dally.live.backends.slurm.slurm_backend import SlurmBackend
    from dally.live.backends.slurm.submit_plugin import FileChange
    from dally.live.backends.slurm.watchdog import Absence

CONF = typer.Option(None, metavar="FILE", help="slurm.conf.  [default: $SLURM_CONF, or what scontrol says]")
PARTITIONS = typer.Option([], "--partition", metavar="NAME", help="A partition whose jobs Dally starts.  [all]")
FOLDER = typer.Option(
    Path("/var/lib/dally"), metavar="DIR", help="The daemon's folder, which one without a lease has locked."
)
AS_JSON = typer.Option(False, "--json", help="Print it as JSON.")
app = group(__doc__)


@in_group(app, "setup", "dally slurm setup --dry-run", "dally slurm setup --partition gpu --user dally")
def setup(
    conf: Path = CONF,
    partitions: list[str] = PARTITIONS,
    users: list[str] = typer.Option(
        [], "--user", metavar="NAME", help="The user that the daemon runs as; root and you may release jobs anyway."
    ),
    dry_run: bool = typer.Option(False, "--dry-run", help="Say what would be changed, and change nothing."),
    as_json: bool = typer.Option(False, "--json", help="Print the changes as JSON."),
) -> None:
    """Make jobs that ask for GPUs arrive held: job_submit.lua beside slurm.conf, and one line there."""
    from dally.live.backends.slurm.submit_plugin import changes

    backend = _backend(conf, partitions)
    path = conf or _conf_path(backend, "setup")
    desired = changes(path, partitions, [os.getuid(), *map(_user_id, users)], rollback=False)
    lines = [line for change in desired for line in change.changes_text()]
    if not dry_run:
        lines += _carry_out(backend, desired)
    _print(lines or [f"{path}: nothing to do"], as_json, {"conf": str(path), "dry_run": dry_run, "changes": lines})


def _print(lines: list[str], as_json: bool, values: dict[str, Any]) -> None:
    typer.echo(json.dumps(values, indent=2) if as_json else "\n".join(lines))


def _conf_path(backend: SlurmBackend, command: str) -> Path:
    from dally.live.backends.base import BackendError

    try:
        return Path(backend.conf_path())
    except BackendError as error:
        raise InputError(f"dally slurm {command}: {error}; give --conf FILE") from None


def _carry_out(backend: SlurmBackend, desired: list[FileChange]) -> list[str]:
    """Write, and let slurmctld read it; what was done."""
    from dally.live.backends.base import BackendError

    for change in desired:
        change.carry_out()
    if not desired:
        return []
    try:
        backend.reconfigure()
    except BackendError as error:
        raise InputError(f"{error}; the files are written: run `scontrol reconfigure`") from None
    return ["slurmctld has read it"]


@in_group(app, "check", "dally slurm check", "dally slurm check --partition gpu --json")
def check(conf: Path = CONF, partitions: list[str] = PARTITIONS, as_json: bool = AS_JSON) -> None:
    """Print which jobs with GPUs Dally leaves to Slurm, and why, and whether the plugin is set up."""
    backend = _backend(conf, partitions)
    plugin = _plugin_state(backend, conf)
    result = _answer("check", backend.survey)
    managed = ", ".join(f"{count} {state.lower()}" for state, count in result.managed.items()) or "none"
    lines = [f"Plugin:          {plugin}", f"Jobs of Dally's: {managed}", f"Left to Slurm:   {len(result.left)}"]
    lines += [f"  job {job.job_id} ({job.user}, {job.state.lower()}) {job.reason}" for job in result.left]
    left = [asdict(job) for job in result.left]
    _print(lines, as_json, {"plugin": plugin, "managed": result.managed, "left": left})


@in_group(app, "rollback", "dally slurm rollback --dry-run", "dally slurm rollback", "dally slurm rollback --check")
def rollback(
    conf: Path = CONF,
    check_only: bool = typer.Option(
        False,
        "--check",
        help="Only list the jobs that are not rolled back; exit code 1 if one waits for Dally.",
    ),
    jobs_only: bool = typer.Option(False, "--jobs-only", help="Leave job_submit.lua and slurm.conf as they are."),
    force: bool = typer.Option(False, "--force", help="Roll back even if a daemon still schedules this cluster."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Say what would be done, and do nothing."),
    folder: Path = FOLDER,
    as_json: bool = AS_JSON,
) -> None:
    """Roll back: return the cluster to Slurm's own scheduler, with every job as its user submitted it."""
    backend = _backend(conf, [])
    if check_only:
        raise typer.Exit(_print_remaining(backend, as_json))
    if not (dry_run or force):
        _check_no_daemon(backend, folder)
    lines = _rolled_back(backend, conf, jobs_only, dry_run)
    remaining = [] if dry_run else _answer("rollback", backend.rollback().remaining)
    waiting = [one for one in remaining if one.waits]
    _print(
        [*lines, *(f"job {one.job_id}: {one.why}" for one in remaining)],
        as_json,
        {"dry_run": dry_run, "done": lines, "remaining": [asdict(one) for one in remaining]},
    )
    raise typer.Exit(1 if waiting else 0)


def _rolled_back(backend: SlurmBackend, conf: Path | None, jobs_only: bool, dry_run: bool) -> list[str]:
    """The plugin first, so that no job arrives held meanwhile, and then the jobs; what was done."""
    from dally.live.backends.slurm.submit_plugin import changes

    desired = [] if jobs_only else changes(conf or _conf_path(backend, "rollback"), [], [], rollback=True)
    lines = [line for change in desired for line in change.changes_text()]
    if not dry_run:
        lines += _carry_out(backend, desired)
    work = backend.rollback()
    plan = _answer("rollback", work.plan)
    lines += [job.text() for job in plan]
    if not dry_run:
        lines += _answer("rollback", lambda: work.carry_out(plan))
    return [*lines, f"{len(plan)} waiting jobs {'to roll' if dry_run else 'rolled'} back"]


def _print_remaining(backend: SlurmBackend, as_json: bool) -> int:
    remaining = _answer("rollback", backend.rollback().remaining)
    waiting = sum(one.waits for one in remaining)
    lines = [
        *(f"job {one.job_id}: {one.why}" for one in remaining),
        remaining_text(waiting, len(remaining) - waiting),
    ]
    _print(lines, as_json, {"remaining": [asdict(one) for one in remaining]})
    return 1 if waiting else 0


def remaining_text(waiting: int, running: int) -> str:
    """How far the jobs are rolled back, in a line."""
    if waiting:
        return f"Waiting jobs that are not rolled back: {waiting}; run `dally slurm rollback`"
    if not running:
        return "All jobs are rolled back"
    runs = "1 job still runs" if running == 1 else f"{running:,} jobs still run"
    return f"All waiting jobs are rolled back; {runs} as Dally started {'it' if running == 1 else 'them'}"


def _check_no_daemon(backend: SlurmBackend, folder: Path) -> None:
    from dally.live.backends.slurm.lease import EXPIRES_S

    held = _answer("rollback", backend.leases)
    if _is_running(folder):
        raise InputError(f"dally slurm rollback: a daemon runs in {folder}: stop it first, or give --force")
    age_s = time.time() - held[-1].renewed_s if held else EXPIRES_S
    if age_s < EXPIRES_S:
        raise InputError(
            f"dally slurm rollback: a daemon schedules this cluster (term {held[-1].term}, {age_s:.0f} s ago): "
            "stop it first, or give --force"
        )


@in_group(
    app,
    "watchdog",
    "dally slurm watchdog --after 15m",
    "dally slurm watchdog --after 15m --state /run/dally.watchdog",
)
def watchdog(
    after: str = typer.Option("15m", metavar="TIME", help="Roll back if no daemon has led for this long."),
    state: Path = typer.Option(
        Path("/var/lib/dally/watchdog.json"), metavar="FILE", help="Where it stores since when no daemon has led."
    ),
    folder: Path = FOLDER,
    conf: Path = CONF,
    as_json: bool = AS_JSON,
) -> None:
    """Roll back if the daemon is away for too long: for a timer of systemd's or a line of cron's, every minute.

    Before that it looks twice, so that a clock that jumps is no absence.
    """
    from dally.live.backends.slurm.watchdog import absence
    from dally.traces.times import span_s

    limit_s = span_s("--after", after)
    backend = _backend(conf, [])
    set_up_s = _set_up_s(conf or _conf_path(backend, "watchdog"))
    away = absence(_answer("watchdog", backend.leases), state, set_up_s)
    lines, over = [away.text()], away.seconds > limit_s
    if over and _is_back(backend, away, folder):
        lines, over = [*lines, "but it is there: nothing is rolled back"], False
    if over:
        lines += _rolled_back(backend, conf, jobs_only=False, dry_run=False)
    _print(lines, as_json, {"away_s": away.seconds, "term": away.term, "rolled_back": over, "done": lines[1:]})


def _set_up_s(conf: Path) -> float:
    from dally.live.backends.slurm.submit_plugin import SCRIPT

    script = conf.with_name(SCRIPT.name)
    return script.stat().st_mtime if script.exists() else 0.0


def _is_back(backend: SlurmBackend, away: Absence, folder: Path) -> bool:
    """Whether a daemon renews its lease after all, or schedules without one (--i-am-alone)."""
    from dally.live.backends.slurm.lease import RENEW_EVERY_S

    if not away.term:
        return _is_running(folder)
    time.sleep(2.0 * RENEW_EVERY_S)
    held = _answer("watchdog", backend.leases)
    return bool(held) and (held[-1].term, held[-1].renewed_s) != (away.term, away.renewed_s)


def _is_running(folder: Path) -> bool:
    from dally.live.lock import is_locked
    from dally.live.private_folder import LOCK

    return is_locked(folder / LOCK)


@in_group(app, "status", "dally slurm status", "dally slurm status --json")
def status(conf: Path = CONF, as_json: bool = AS_JSON) -> None:
    """Print who schedules the cluster, and how many jobs wait for it, run, or are left to Slurm."""
    backend = _backend(conf, [])
    held, result = _answer("status", backend.leases), _answer("status", backend.survey)
    plugin = _plugin_state(backend, conf)
    age_s = time.time() - held[-1].renewed_s if held else None
    leader = "no daemon" if age_s is None else f"term {held[-1].term}, renewed {age_s:.0f} s ago"
    managed = ", ".join(f"{count} {name.lower()}" for name, count in result.managed.items()) or "none"
    lines = [
        f"Leader:          {leader}", f"Plugin:          {plugin}", f"Jobs of Dally's: {managed}",
        f"Left to Slurm:   {len(result.left)}",
    ]  # fmt: skip
    values = {"term": held[-1].term if held else None, "renewed_s_ago": age_s, "plugin": plugin}
    _print(lines, as_json, {**values, "managed": result.managed, "left": len(result.left)})


def _plugin_state(backend: SlurmBackend, conf: Path | None) -> str:
    from dally.live.backends.slurm.submit_plugin import state_of

    return state_of(conf or _conf_path(backend, "check"))


Result = TypeVar("Result")


def _answer(command: str, question: Callable[[], Result]) -> Result:
    """What Slurm answers; an InputError that says why it does not."""
    from dally.live.backends.base import BackendError

    try:
        return question()
    except BackendError as error:
        raise InputError(f"dally slurm {command}: {error}") from None


@in_group(
    app, "hosts", "dally slurm hosts", "dally slurm hosts --per-gpu > hosts.$SLURM_JOB_ID",
    "dally slurm hosts --model our-70b --profiles large.toml --gpu h100 --network dgx-h100-superpod > hosts",
)  # fmt: skip
def hosts(
    per_gpu: bool = typer.Option(False, "--per-gpu", help="Each machine as often as the job has GPUs there."),
    job: str = typer.Option(None, metavar="ID", help="The job.  [default: $SLURM_JOB_ID, the one this runs in]"),
    model: str = typer.Option(None, metavar="NAME", help="A large model: the machine of each rank, a line a rank."),
    gpu: str = typer.Option("a100", metavar="TYPE", help="With --model: the GPU type."),
    profiles: Path = typer.Option(None, metavar="FILE", help="With --model: a catalogue of your own."),
    network: str = typer.Option("", metavar="NAME", help="With --model: the network, as of dally networks."),
    conf: Path = CONF,
) -> None:
    """Print a job's machines in the order of the fabric, machine by machine, rack by rack, for its ranks.

    Slurm numbers tasks by its own order of nodes. In a batch script: dally slurm hosts --per-gpu > hosts;
    SLURM_HOSTFILE=hosts srun --distribution=arbitrary …
    """
    job_id = job or os.environ.get("SLURM_JOB_ID")
    if not job_id:
        raise InputError("dally slurm hosts: not inside a job; give --job ID")
    backend = _backend(conf, [])
    held = _answer("hosts", lambda: backend.hosts(job_id))
    if model:
        typer.echo("\n".join(_ranks(_answer("hosts", backend.topology), held, model, gpu, profiles, network)))
        return
    for name, gpus in held.items():
        typer.echo("\n".join([name] * (gpus if per_gpu else 1)))


def _ranks(
    topology: Topology, held: Placement, model: str, gpu: str, profiles: Path | None, network: str
) -> list[str]:
    """The machine of each rank of a large model on these GPUs."""
    from dally.cluster.spec import connect_topology
    from dally.live.facts import allocation_of
    from dally.live.rank_order import rank_machines
    from dally.perf.llm.placed import Groups
    from dally.perf.profiles import find_profile, load_profiles

    links = connect_topology(topology, network, {}, "")
    if links is None:
        raise InputError("--network is missing: the cluster states no links")
    catalogue = load_profiles(profiles) if profiles else None
    groups = find_profile(model, gpu, catalogue=catalogue).step(sum(held.values())).groups
    if not isinstance(groups, Groups):
        raise InputError(f"--model {model}: states no parallel groups")
    numbers = {name: number for number, name in enumerate(topology.names[0])}
    allocation = allocation_of(topology, numbers, held)
    if allocation is None:
        raise InputError("the job has machines that the topology does not have")
    return rank_machines(groups, allocation, links)


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
