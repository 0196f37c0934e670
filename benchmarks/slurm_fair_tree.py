"""Our fair tree beside a real Slurm's: the same shares and use; are LevelFS, FairShare and sprio's factor the same?

usage: python -m benchmarks.slurm_fair_tree [--waves 4] [--seed 1]

Starts a private cluster of two nodes with 8 pretended GPUs each, with slurmdbd and a MariaDB of its own, and in
it a random tree of accounts and users. In each wave other users run jobs and a share is changed; a minute
later, as Slurm counts no oftener, sshare is asked. Takes ten minutes. Needs, beside Slurm, Debian's slurmdbd
and mariadb-server, neither of them running as a service, and to be root.
"""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from pathlib import Path
from typing import Final, NamedTuple

from tests.live.slurm_accounting import AccountedSlurm
from tests.live.slurm_cluster import SlurmCluster, missing

from benchmarks.command_line import options
from benchmarks.fair_tree import FairShare, decayed, decayed_use, fair_tree
from dally.errors import InputError
from dally.quotas.slurm import read_slurm_shares
from dally.quotas.tree import QueueTree

# Whom Debian knows from the start; jobs run under their names.
USERS: Final = ("daemon", "bin", "sys", "games", "man", "lp", "mail", "news", "uucp", "proxy", "backup", "list")
WEIGHT: Final = 1_000_000
HALF_LIFE_S: Final = 240.0
PERIOD_S: Final = 60.0  # PriorityCalcPeriod, which is in minutes
SOON_S: Final = 4.0
PROGRAMS: Final = ("slurmdbd", "mariadbd", "mariadb-install-db", "mariadb", "sacctmgr", "sshare", "sprio")
ACCOUNTING: Final = """
PriorityType=priority/multifactor
PriorityWeightFairShare={weight}
PriorityDecayHalfLife={half_life}
PriorityUsageResetPeriod=YEARLY
PriorityCalcPeriod=1
AccountingStorageEnforce=associations
"""


class Shown(NamedTuple):
    """What sshare says of an account or a user."""

    used: float
    level: float
    factor: float


class AccountedCluster(AccountedSlurm):
    """A Slurm with its accounting, on ports and in files of its own; half_life as slurm.conf has it, 0 for none."""

    def __init__(self, folder: Path, half_life: str) -> None:
        super().__init__(folder, 1, 2, 8, "")
        own = ACCOUNTING.format(weight=WEIGHT, half_life=half_life)
        lines = [line for line in self._conf().splitlines() if not line.startswith("PriorityType")]
        billed = [
            f'{line} TRESBillingWeights="CPU=0,GRES/gpu=1"' if line.startswith("Part") else line for line in lines
        ]
        self.conf.write_text("\n".join(billed) + own)

    def account(self, *words: str) -> str:
        """Ask sacctmgr."""
        return self.run("sacctmgr", "-i", *words)

    def tree(self) -> QueueTree:
        """The associations, through our own reader."""
        return read_slurm_shares(Path("sacctmgr"), self.account("show", "assoc", "tree", "-P"))

    def shares(self) -> dict[str, Shown]:
        """What sshare says, by the path that our reader gives an association."""
        found: dict[str, Shown] = {}
        above: list[str] = []
        heading, *lines = self.run("sshare", "-a", "-l", "-P").splitlines()
        for line in lines:
            field = dict(zip(heading.split("|"), line.split("|"), strict=True))
            account = field["Account"].lstrip(" ")
            depth = len(field["Account"]) - len(account)
            del above[max(depth - 1, 0) :]
            name = field["User"] or account
            path = "/".join([*above, name])
            if not field["User"] and depth:
                above.append(account)
            if depth:
                found[path] = Shown(*(float(field[key] or 0.0) for key in ("RawUsage", "LevelFS", "FairShare")))
        return found


def grow(cluster: AccountedCluster, rng: random.Random) -> list[tuple[str, str]]:
    """A random tree of three levels of accounts with users in each; (account, user) of every user."""
    members: list[tuple[str, str]] = []
    for top in ("research", "prod", "teaching"):
        cluster.account("add", "account", top, f"fairshare={rng.randint(1, 9)}")
        for account in [top, *(f"{top}{number}" for number in range(rng.randint(1, 3)))]:
            if account != top:
                cluster.account("add", "account", account, f"parent={top}", f"fairshare={rng.randint(1, 9)}")
            for user in rng.sample(USERS, rng.randint(1, 4)):
                cluster.account("add", "user", user, f"account={account}", f"fairshare={rng.randint(1, 5)}")
                members.append((account, user))
    return members


def use(cluster: SlurmCluster, rng: random.Random, members: list[tuple[str, str]]) -> None:
    """Other users than before run jobs, up to all GPUs."""
    cluster.cancel_all()
    free = 16
    for account, user in rng.sample(members, len(members) // 2):
        gpus = rng.choice((1, 2, 3))
        if gpus <= free:
            _submit(cluster, account, user, f"--gres=gpu:{gpus}")
            free -= gpus


def _submit(cluster: SlurmCluster, account: str, user: str, *words: str) -> str:
    """A job that ends when it is cancelled; its number."""
    as_user = (f"--uid={user}", f"--account={account}", "--chdir=/", "--output=/dev/null", "--parsable")
    return cluster.run("sbatch", *as_user, *words, given="#!/bin/bash\nsleep 3600\n").strip()


def differences(shown: dict[str, Shown], ours: dict[str, FairShare], leaves: list[str]) -> tuple[float, int]:
    """The largest relative difference of a level, and how many leaves have another rank."""
    worst = 0.0
    for path, share in ours.items():
        real = shown[path].level
        if share.level != real:  # also both infinite
            worst = max(worst, abs(share.level - real) / max(real, 1e-9))
    # sshare writes six digits
    return worst, sum(abs(shown[path].factor - ours[path].factor) > 1e-5 for path in leaves)


def waves(count: int, seed: int) -> None:
    """Print a line for each wave: how far LevelFS is off, and who has another rank."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="dally-slurm-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        cluster = AccountedCluster(Path(folder), "0")
        try:
            cluster.start()
            members = grow(cluster, rng)
            for wave in range(count):
                if wave:
                    use(cluster, rng, members)
                    account, user = rng.choice(members)
                    change = (f"fairshare={rng.randint(0, 5)}", "where", f"account={account}", f"user={user}")
                    cluster.account("modify", "user", "set", *change)
                time.sleep(PERIOD_S + SOON_S)
                report(wave, cluster)
            print(waiting(cluster, members))
        finally:
            cluster.stop()


def report(wave: int, cluster: AccountedCluster) -> None:
    tree, shown = cluster.tree(), cluster.shares()
    leaves = tree.leaves()
    shares = {path: 0.0 if node.priority < 0.0 else node.weight for path, node in tree.nodes.items()}
    ours = fair_tree(shares, {path: shown[path].used for path in leaves})
    worst, wrong = differences(shown, ours, leaves)
    used = sum(shown[path].used for path in leaves)
    ranks = len({shown[path].factor for path in leaves})
    print(
        f"wave {wave}: {len(leaves)} users in {len(shares) - len(leaves)} accounts, {used:.0f} GPU-s used, "
        f"{ranks} ranks: LevelFS within {worst:.2e}, {wrong} of {len(leaves)} with another FairShare"
    )


def waiting(cluster: AccountedCluster, members: list[tuple[str, str]]) -> str:
    """Fill the cluster, let every user wait, and see whether sprio orders the jobs as our factors do."""
    cluster.cancel_all()
    _submit(cluster, "root", "root", "--gres=gpu:8", "--nodes=2")
    jobs = {_submit(cluster, *member, "--gres=gpu:8"): member for member in members}
    time.sleep(PERIOD_S + SOON_S)
    by_member = {tuple(path.split("/")[-2:]): share.factor for path, share in cluster.shares().items()}
    factors = dict(line.split() for line in cluster.run("sprio", "-h", "-o", "%i %F").splitlines())
    off = [abs(float(factors[job]) / WEIGHT - by_member[member]) for job, member in jobs.items()]
    return f"sprio: {len(off)} waiting jobs, fair-share factors within {max(off):.1e} of sshare's"


def fading() -> None:
    """Print what Slurm counts of a job while it runs, and how that fades afterwards, beside our own count."""
    with tempfile.TemporaryDirectory(prefix="dally-slurm-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        cluster = AccountedCluster(Path(folder), f"00:{HALF_LIFE_S / 60:02.0f}:00")
        try:
            cluster.start()
            cluster.account("add", "account", "a")
            cluster.account("add", "user", "daemon", "account=a")
            start_s = time.time()
            _submit(cluster, "a", "daemon", "--gres=gpu:4")
            time.sleep(2.5 * PERIOD_S)
            real, now_s = cluster.shares()["a/daemon"].used, time.time()
            least, most = (decayed_use(4.0, start_s, at_s, at_s, HALF_LIFE_S) for at_s in (now_s - PERIOD_S, now_s))
            told = f"ours {least:.0f} a minute ago, {most:.0f} now"
            print(f"half-life {HALF_LIFE_S:.0f} s, a job still running: Slurm counts {real:.0f} GPU-s, {told}")
            cluster.cancel_all()
            time.sleep(PERIOD_S + SOON_S)
            before = cluster.shares()["a/daemon"].used
            time.sleep(2.0 * PERIOD_S)
            after = cluster.shares()["a/daemon"].used
            ours = decayed(1.0, 2.0 * PERIOD_S, HALF_LIFE_S)
            print(f"two minutes after it ended Slurm counts {after / before:.3f} of it, we {ours:.3f}")
        finally:
            cluster.stop()


def main() -> None:
    """Compare, and print a line each."""
    given = options(__doc__, waves=4, seed=1)
    lacking = missing() + [name for name in PROGRAMS if shutil.which(name) is None]
    if lacking:
        raise InputError(f"not installed: {', '.join(lacking)}")
    waves(given.waves, given.seed)
    fading()


if __name__ == "__main__":
    main()
