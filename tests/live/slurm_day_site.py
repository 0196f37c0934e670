"""A day's site: 16 nodes of eight GPUs with everything that a site configures, and jobs that use all of it."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tests.live.slurm_cluster import slurm_cluster
from tests.live.slurm_site import SlurmSite

# Slurm's own scheduler at its best for jobs of seconds: it looks at all of them, at every change and every 2 s.
BACKFILL = (
    "SchedulerType=sched/backfill\nMinJobAge=20\nMaxArraySize=1001\n"
    "SchedulerParameters=batch_sched_delay=0,sched_min_interval=1000,default_queue_depth=2000,bf_interval=2,"
    "bf_max_job_test=2000,bf_continue,bf_resolution=60,bf_window=120,requeue_setup_env_fail\n"
)


class SlurmDaySite(SlurmSite):
    """n01 to n12 are `gpu` (A100), n13 to n16 `old` (V100), `short` is all of them.

    Features: `ib` and `fast` on n01 to n08, `ib` on n09 to n12, `eth` on the rest. n11 is reserved for the account
    `small`; n12 is to be maintained for a minute, a minute and a half after the start.
    """

    reservations = (
        ("ReservationName=works", "StartTime=now+90", "Duration=1", "Nodes=n12", "Users=root", "Flags=MAINT"),
        ("ReservationName=team", "StartTime=now", "Duration=1440", "Nodes=n11", "Accounts=small"),
    )

    types = (("n[01-12]", "a100"), ("n[13-16]", "v100"))
    features = ((1, 8, "a100", "ib,fast"), (9, 12, "a100", "ib"), (13, 16, "v100", "eth"))
    cpus = 32
    licences = 4
    fewer: Mapping[str, int] = {}

    def _conf(self) -> str:
        lines = super()._conf().splitlines(keepends=True)
        return "".join(line for line in lines if not line.startswith(("SchedulerParameters=", "MinJobAge=")))


@contextmanager
def slurm_day_site() -> Iterator[SlurmDaySite]:
    """The site for the length of a block."""
    with slurm_cluster(4, 4, 8, BACKFILL, kind=SlurmDaySite) as cluster:
        assert isinstance(cluster, SlurmDaySite)
        yield cluster


@dataclass(frozen=True)
class DayJob:
    """One call of sbatch."""

    options: tuple[str, ...]
    at_s: float  # after the start of the day
    seconds: float  # of work, of each task
    odd: str = ""  # what is unusual about it; empty: nothing
    gpus: int = 0
    tasks: int = 1  # of an array
    after: bool = False  # it depends on the job before it
    release_s: float = -1.0  # its user releases it then
    runs: bool = True  # whether it should ever run


PLAIN = (
    ("-p", "gpu"), ("-p", "gpu"), ("-p", "short"), ("-p", "gpu,old"), ("-p", "gpu", "-C", "ib"),
    ("-p", "short", "-C", "fast|eth"), ("-p", "gpu", "-x", "n[01-02]"), ("-p", "old"), ("-p", "gpu", "--mem=4000"),
)  # fmt: skip
# Options, GPUs and, where it is not 1, the number of tasks. All of them but the last two come to run.
ODD = (
    ("limit of a QOS", ("--qos=limited",), 1),
    ("limit of GPUs by a QOS", ("--qos=few",), 2),
    ("limit of an account", ("--account=small",), 2),
    ("reservation", ("--reservation=team", "--account=small"), 2),
    ("licence", ("-L", "matlab:2"), 1),
    ("throttled array", ("--array=0-3%2",), 1),
    ("later", ("--begin=now+{later}",), 2),
    ("held for a while", ("-H",), 1),
    ("dependency", (), 2),
    ("singleton", ("--dependency=singleton", "-J", "one"), 1),
    ("whole machines", ("--exclusive",), 8),
    ("one node", ("-w", "n03"), 1),
    ("much memory", ("--mem=60000",), 1),
    ("many CPUs", ("-c", "24"), 1),
    ("heterogeneous", ("--mem=100", ":", "--gres=gpu:1", "--mem=100"), 1),
    ("contiguous", ("--contiguous",), 1),
    ("no GPUs", ("-c", "8"), 0),
    ("type", ("-p", "short", "--gres=gpu:v100:2"), 2),
    ("held for ever", ("-H",), 1),
    ("impossible features", ("-C", "fast&eth"), 1),
)


def day_of(jobs: int, seed: int, arrivals_s: float, slow: float = 1.0, odd_share: float = 0.2) -> list[DayJob]:
    """So many jobs, tasks of arrays counted each, in their order; `slow`: all times are so much longer."""
    chance = random.Random(seed)
    result: list[DayJob] = []
    count = 0
    while count < jobs:
        at_s = slow * arrivals_s * count / jobs
        job = _odd(chance, at_s, slow) if chance.random() < odd_share else _plain(chance, at_s, slow)
        result.append(job)
        count += job.tasks
    return result


def _seconds(chance: random.Random) -> float:
    """Most jobs are short, and most of the work is in long ones."""
    low, high = chance.choices(((2.0, 6.0), (8.0, 25.0), (40.0, 70.0)), (70, 25, 5))[0]
    return round(chance.uniform(low, high), 1)


def _limit(seconds: float) -> str:
    """Minutes, as users state them: with room to spare."""
    return str(max(1, round(seconds * 3.0 / 60.0)) + 1)


def _plain(chance: random.Random, at_s: float, slow: float) -> DayJob:
    gpus, seconds = chance.choices((1, 2, 4, 8, 16, 32), (30, 20, 20, 16, 10, 4))[0], slow * _seconds(chance)
    where = chance.choice(PLAIN) if gpus < 32 else PLAIN[0]
    nodes = max(1, gpus // 8)
    asks = ("-N", str(nodes), f"--gres=gpu:{gpus // nodes}", "-t", _limit(seconds))
    return DayJob(_with_memory((*where, *asks)), at_s, seconds, gpus=gpus)


def _odd(chance: random.Random, at_s: float, slow: float) -> DayJob:
    name, options, gpus = chance.choice(ODD)
    seconds = slow * min(12.0, _seconds(chance))
    asks = tuple(option.format(later=round(slow * chance.randint(20, 60))) for option in options)
    stated = any("gres" in option for option in asks[:2]) or not gpus
    words = (*(() if stated else (f"--gres=gpu:{gpus}",)), "-t", _limit(seconds), *asks)
    return DayJob(
        _with_memory(words), at_s, seconds, name, gpus, 4 if "array" in name else 1, name == "dependency",
        at_s + 30.0 * slow if name == "held for a while" else -1.0,
        name not in ("held for ever", "impossible features"),
    )  # fmt: skip


def _with_memory(options: Sequence[str]) -> tuple[str, ...]:
    return tuple(options) if any("--mem" in one for one in options[:4]) else ("--mem=100", *options)
