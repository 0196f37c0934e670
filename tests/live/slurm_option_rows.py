"""Options of sbatch, what should become of a job with each of them, and a bench that finds out."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dally.cli.main import exit_code
from dally.cluster.formats.hostlist import expand_list
from dally.live.backends import base
from dally.live.backends.base import ObservedJob
from dally.live.backends.slurm import SlurmBackend
from dally.live.backends.slurm.job_record import records_of
from dally.live.backends.slurm.job_request import unmodelled_shape
from dally.live.backends.slurm.left_alone import left_note
from dally.live.backends.slurm.tools import Tools
from dally.live.config import Setup
from dally.live.cycle import Scheduler
from dally.live.store import open_store
from dally.live.wall_clock import WallClock
from tests.live.slurm_site import SlurmSite
from tests.live.test_slurm_setup import User

STARTS, BLOCKED, LEFT = "starts", "blocked", "left alone"
WITHIN_S = 20.0
A100 = "n[01-04,06]"  # n05 is reserved; n06 until its maintenance begins
FAST = "n[01-04]"


@dataclass(frozen=True)
class OptionRow:
    """One job."""

    options: str
    outcome: str
    on: str = ""  # nodes that it may start on, the reason it is blocked with, or the name by which it is left alone
    shape: tuple[int, ...] = ()  # GPUs by node, the most first
    beside: tuple[str, ...] = ()  # options of jobs that run meanwhile


ROWS = (
    OptionRow("--gres=gpu:2", STARTS, A100, (2,)),
    OptionRow("--gres=gpu:a100:2", STARTS, A100, (2,)),
    OptionRow("--gpus=8", STARTS, A100, (4, 4)),
    OptionRow("--gpus=3", STARTS, A100, (3,)),
    OptionRow("-N2 --gpus=4", STARTS, A100, (2, 2)),
    OptionRow("-N2 --gpus-per-node=1 --ntasks-per-node=2 -c2", STARTS, A100, (1, 1)),
    OptionRow("-N2-3 --gpus=6", STARTS, A100),
    OptionRow("--gpus-per-task=1 -n4", STARTS, A100, (4,)),
    OptionRow("-n2 -c8 --gpus=1", STARTS, A100, (1,)),
    OptionRow("--gres=gpu:1 --cpus-per-gpu=4 --mem-per-gpu=1000", STARTS, A100, (1,)),
    OptionRow("--gres=gpu:1 -c16", STARTS, "n[02-04,06]", (1,), ("-w n01 -c1 --mem=100",)),
    OptionRow("--gres=gpu:1 --mem=60000", STARTS, "n[02-04,06]", (1,), ("-w n01 -c1 --mem=10000",)),
    OptionRow("--gres=gpu:1 --mem-per-cpu=1000 -c4", STARTS, A100, (1,)),
    OptionRow("--gres=gpu:1 -w n03", STARTS, "n03", (1,)),
    OptionRow("--gres=gpu:1 -x n[01-03]", STARTS, "n[04,06]", (1,)),
    OptionRow("--gres=gpu:1 -C ib&fast", STARTS, FAST, (1,)),
    OptionRow("--gres=gpu:1 -C fast|eth -p short", STARTS, "n[01-04,07-08]", (1,)),
    OptionRow("--gres=gpu:1 -p old", STARTS, "n[07-08]", (1,)),
    OptionRow("--gres=gpu:v100:1 -p short", STARTS, "n[07-08]", (1,)),
    OptionRow("--gres=gpu:4 -N2 -p old,gpu", STARTS, "n[01-04,06-08]", (4, 4)),
    OptionRow("--gres=gpu:1 -p gpu,old -C eth", STARTS, "n[07-08]", (1,)),
    OptionRow("--gres=gpu:v100:1 -p gpu,old", STARTS, "n[07-08]", (1,)),
    OptionRow("--gres=gpu:v100:2 -N2 -p gpu,old", STARTS, "n[07-08]", (2, 2)),
    OptionRow("--gres=gpu:1 -p gpu,old -w n08", STARTS, "n08", (1,)),
    OptionRow("--gres=gpu:1 -p short,gpu -t 60", STARTS, FAST, (1,)),
    OptionRow("-N2-8 --gpus-per-node=2", STARTS, A100, (2, 2)),
    OptionRow("-N1-2 -n20 --gpus=4", STARTS, A100, (2, 2)),
    OptionRow("--gres=gpu:1 -n40", STARTS, A100, (1, 1, 1)),
    OptionRow("--gres=gpu:1 -n40 --overcommit", STARTS, A100, (1,)),
    OptionRow("--gpus=4 --gpus-per-node=2 -N1-4", STARTS, A100, (2, 2)),
    OptionRow("--gres=gpu:1 -t 240", STARTS, FAST, (1,)),  # n06 is to be maintained before that is over
    OptionRow("--gres=gpu:1 --reservation=team --account=small", STARTS, "n05", (1,)),
    OptionRow("--gres=gpu:1 -L matlab:2", STARTS, A100, (1,)),
    OptionRow("--gres=gpu:1 --exclusive", STARTS, A100, (4,)),
    OptionRow("--gres=gpu:1 --exclusive -p old", STARTS, "n[07-08]", (2,)),
    OptionRow("--gres=gpu:1 -N2 --exclusive -p short -C eth", STARTS, "n[07-08]", (2, 2)),
    OptionRow("--gres=gpu:1 -N2 --exclusive -p short", STARTS, A100, (4, 4)),
    OptionRow("-N2 --gpus=6", STARTS, A100, (3, 3)),
    OptionRow("-N2 --gpus=6 --gpus-per-node=3", STARTS, A100, (3, 3)),
    OptionRow("--gpus=2 -w n[01-02]", STARTS, "n[01-02]", (1, 1)),
    OptionRow("--gpus-per-task=1 -n4 --ntasks-per-node=2", STARTS, A100, (2, 2)),
    OptionRow("--ntasks-per-gpu=2 --gpus=4", STARTS, A100, (4,)),
    OptionRow("--gres=gpu:1 --mem=0", STARTS, A100, (1,)),
    OptionRow("--gres=gpu:1 --no-requeue", STARTS, A100, (1,)),
    OptionRow("--gres=gpu:1 --account=small", STARTS, A100, (1,)),
    OptionRow("--gres=gpu:1 --qos=few", STARTS, A100, (1,)),
    OptionRow("--gres=gpu:2 -n2 --gpu-bind=single:1 --gres-flags=enforce-binding", STARTS, A100, (2,)),
    OptionRow("--gres=gpu:1 --signal=B:USR1@60", STARTS, A100, (1,)),
    OptionRow("--gres=gpu:1 -t 1 --deadline=2035-01-01", STARTS, A100, (1,)),
    OptionRow("--gres=gpu:1 --time-min=5 -t 20", STARTS, A100, (1,)),
    OptionRow("--gres=gpu:1 --nice=100", STARTS, A100, (1,)),
    OptionRow("--gres=gpu:1 -N2 --spread-job --use-min-nodes", STARTS, A100, (1, 1)),
    OptionRow("--gres=gpu:1 --mincpus=4 --hint=nomultithread", STARTS, A100, (1,)),
    OptionRow("--gres=gpu:1 -B 1:1:1 --no-kill", STARTS, A100, (1,)),
    OptionRow("-N2 --gpus-per-node=2 --ntasks-per-gpu=1", STARTS, A100, (2, 2)),
    OptionRow("--gpus-per-task=2 -n3 -c2", STARTS, A100, (2, 2, 2)),
    OptionRow("--gpus=4 --gres=gpu:2", STARTS, A100, (2, 2)),
    OptionRow("--gres=gpu:1 -L matlab:2", BLOCKED, "icen", (), ("--gres=gpu:1 -L matlab:1",)),
    OptionRow("--gres=gpu:2 --qos=limited", BLOCKED, "QOSMaxJobsPerUserLimit", (), ("--gres=gpu:1 --qos=limited",)),
    OptionRow("--gres=gpu:4 --qos=few", BLOCKED, "QOSMaxGRESPerUser", (), ("--gres=gpu:1 --qos=few",)),
    OptionRow("--gres=gpu:4 --account=small", BLOCKED, "AssocGrpGRES", (), ("--gres=gpu:1 --account=small",)),
    OptionRow("--gres=gpu:1 --begin=now+1hour", BLOCKED, "BeginTime"),
    OptionRow("--gres=gpu:1 --hold", BLOCKED, "BeginTime"),  # as job_submit.lua writes a user's hold
    OptionRow("--gres=gpu:1 --dependency=singleton -J x", BLOCKED, "Dependency", (), ("--gres=gpu:1 -J x",)),
    OptionRow("--gres=gpu:1 -p short -t 60", BLOCKED, "PartitionTimeLimit"),
    OptionRow("--gres=gpu:1 --cores-per-socket=2", BLOCKED, "BadConstraints"),  # nodes have one core a socket
    OptionRow("-N2 --gpus=5", LEFT, "uneven"),
    OptionRow("-N1-3 --gpus=7", LEFT, "uneven"),
    OptionRow("-N3 -n4 --gpus-per-task=1", LEFT, "uneven"),
    OptionRow("--gpus-per-task=1 -n5 --ntasks-per-node=2", LEFT, "uneven"),
    OptionRow("--gres=gpu:1 -N3 -w n01,n02", LEFT, "nodelist"),
    OptionRow("--gres=gpu:0", LEFT, "no-gpus"),
    OptionRow("--gres=gpu:1 --exclusive=user", LEFT, "shared"),
    OptionRow("--gres=gpu:1 --oversubscribe", LEFT, "shared"),
    OptionRow("--gres=gpu:1 --switches=1", LEFT, "switches"),
    OptionRow("--gres=gpu:1 --contiguous", LEFT, "contiguous"),
    OptionRow("--gres=gpu:1 --prefer=eth -p short", LEFT, "prefer"),
    OptionRow("--gres=gpu:1 --tmp=1", LEFT, "tmp"),
    OptionRow("--gres=gpu:1 -N2 -C [ib*1&fast*1]", LEFT, "features"),
    OptionRow("--gpus-per-socket=1 --sockets-per-node=1", LEFT, "socket"),
    OptionRow("--gres=gpu:1 : --gres=gpu:1", LEFT, "het"),
)

NO_ROOM = "enough free GPUs"  # it waits, and was not sent to Slurm in vain
NO_MACHINE = "no machines have all that it needs"
# Above all of what partitions set for their jobs; not compared when rolled back: Slurm notes it at jobs by and by.
PARTITION_ROWS = (
    OptionRow("--gres=gpu:1 -p whole", STARTS, "n02", (4,), ("--gres=gpu:1 -w n01",)),
    OptionRow("--gpus=6 -p whole", STARTS, "n[01-02]", (4, 4)),
    OptionRow("--gres=gpu:1 -w n01", BLOCKED, NO_ROOM, (), ("--gres=gpu:1 -p whole -w n01",)),
    OptionRow("--gres=gpu:1 -p lean", STARTS, "n01", (1,), ("--gres=gpu:2 -p lean",)),
    OptionRow("--gres=gpu:2 -p lean", BLOCKED, NO_ROOM, (), ("--gres=gpu:2 -p lean",)),
    OptionRow("--gres=gpu:1 -p lean -c5", BLOCKED, NO_ROOM, (), ("--gres=gpu:2 -p lean",)),
    # Slurm alone refuses these at once.
    OptionRow("--gpus=4 -c20", BLOCKED, NO_MACHINE),
    OptionRow("--gres=gpu:2 --mem-per-gpu=40000", BLOCKED, NO_MACHINE),
    OptionRow("-N1 --gpus=8", BLOCKED, NO_MACHINE),
    OptionRow("-N9 --gres=gpu:1", BLOCKED, NO_MACHINE),
    OptionRow("--gres=gpu:1 -p gpu -w n07", BLOCKED, "must use n07, where it may not run"),
)


@dataclass(frozen=True)
class OptionOutcome:
    """What became of a row."""

    row: OptionRow
    seen: str
    fine: bool


class OptionBench:
    """The daemon's scheduler on a site, one row after the other."""

    def __init__(self, site: SlurmSite, folder: Path) -> None:
        self._site, self._user = site, User(site)
        self._folder = folder
        self._backend = SlurmBackend(conf=str(site.conf))
        self._tools = Tools(str(site.conf))

    def run(self, rows: Sequence[OptionRow]) -> list[OptionOutcome]:
        """Set up, all rows, and rolled back."""
        conf = ("--conf", str(self._site.conf))
        assert exit_code(("slurm", "setup", *conf)) == 0
        store = open_store(f"sqlite:///{self._folder}/dally.db")
        clock = WallClock(time.time(), 1.0)
        setup = Setup("fifo-backfill")
        self._scheduler = Scheduler(self._backend, self._backend.topology(), setup, store, clock)
        try:
            return [self._outcome(row) for row in rows]
        finally:
            assert exit_code(("slurm", "rollback", *conf)) == 0
            self._backend.close()
            store.close()

    def _outcome(self, row: OptionRow) -> OptionOutcome:
        for options in row.beside:
            other = self._submit(options)
            if "gpu" in options:
                self._settled(other, (base.RUNNING,))
            else:  # Slurm's own
                self._until_runs(other)
        job_id = self._submit(row.options)
        seen = self._judge(row, job_id)
        self._site.cancel_all()
        self._scheduler.run_cycle()
        return seen

    def _submit(self, options: str) -> str:
        limits = () if "-t " in options else ("-t", "20")
        memory = () if "--mem" in options else ("--mem=100",)
        return self._user.submit(*limits, *memory, *options.split()).split(";")[0]

    def _judge(self, row: OptionRow, job_id: str) -> OptionOutcome:
        if row.outcome == LEFT:
            comment = self._tools.run("squeue", "-h", "-t", "all", "-j", job_id, "-O", "admin_comment:80").split(
                "\n"
            )[0]
            name = left_note(comment.strip()) or self._found_by_daemon(job_id)
            job = self._settled(job_id, (base.RUNNING, base.FINISHED), 3.0)
            ours = job is not None and job.managed
            return OptionOutcome(row, f"left alone: {name}", name == row.on and not ours)
        if row.outcome == BLOCKED:
            job = self._settled(job_id, (base.BLOCKED, base.HELD))
            message = self._message(job_id, job)
            return OptionOutcome(row, message, row.on in message and (job is None or job.state != base.RUNNING))
        job = self._settled(job_id, (base.RUNNING,))
        if job is None or job.state != base.RUNNING:
            return OptionOutcome(row, self._message(job_id, job), False)
        shape = tuple(sorted(job.placement.values(), reverse=True))
        fine = set(job.placement) <= set(expand_list(row.on)) and (not row.shape or row.shape == shape)
        where = ", ".join(f"{name}:{gpus}" for name, gpus in sorted(job.placement.items()))
        return OptionOutcome(row, f"starts on {where}", fine)

    def _found_by_daemon(self, job_id: str) -> str:
        """What job_submit.lua does not see, and the daemon gives back."""
        rows = self._tools.rows("jobs", "squeue", "--json")
        record = next(one for one in records_of(rows) if one.job_id == job_id)
        return unmodelled_shape(record, self._site.gpus)

    def _message(self, job_id: str, job: ObservedJob | None) -> str:
        """Why it does not start, from wherever that is known."""
        roster = self._scheduler.roster
        why = roster.unschedulable.get(job_id)
        order = roster.orders.get(job_id)
        parts = [job.state if job else "gone", job.reason if job else "", order.reason if order else ""]
        parts += [why[1]] if why else []
        if job_id in roster.jobs and job is not None and job.state == base.QUEUED:
            parts.append(str(self._scheduler.state.policy.why(roster.jobs[job_id])))
        return "; ".join(part for part in parts if part)

    def _settled(self, job_id: str, states: Sequence[str], seconds: float = WITHIN_S) -> ObservedJob | None:
        """Cycle after cycle until the job is in one of these states, or for so long."""
        until_s = time.monotonic() + seconds
        while True:
            self._scheduler.run_cycle()
            job = next((one for one in self._scheduler.roster.snapshot.jobs if one.job_id == job_id), None)
            if (job is not None and job.state in states) or time.monotonic() > until_s:
                return job
            time.sleep(0.2)

    def _until_runs(self, job_id: str) -> None:
        state = ("squeue", "-h", "-j", job_id, "-o", "%T")
        self._site.until(lambda: "RUNNING" in self._site.run(*state, ok=False))


def report(outcomes: Sequence[OptionOutcome]) -> str:
    """The table, as in documentation."""
    lines = ["| sbatch | beside | should | did | |", "|---|---|---|---|---|"]
    for outcome in outcomes:
        row = outcome.row
        options, others = (text.replace("|", "\\|") for text in (row.options, " and ".join(row.beside)))
        lines.append(
            f"| `{options}` | {others} | {row.outcome} {row.on} | {outcome.seen[:110]} | "
            f"{'yes' if outcome.fine else 'NO'} |"
        )
    fine = sum(outcome.fine for outcome in outcomes)
    return "\n".join([*lines, f"{fine} of {len(outcomes)} rows as they should be"])
