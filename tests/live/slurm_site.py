"""A private Slurm as a site configures it: partitions, features, GPU types, licences, and limits by slurmdbd."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tests.live.slurm_accounting import AccountedSlurm
from tests.live.slurm_cluster import PLACES, missing, slurm_cluster

USERS = ("root", "nobody")


def missing_for_a_site() -> list[str]:
    """What is not installed here."""
    others = ("slurmdbd", "mariadbd", "mariadb-install-db", "sacctmgr", "runuser")
    return missing() + [name for name in others if shutil.which(name, path=PLACES) is None]


class SlurmSite(AccountedSlurm):
    """Eight nodes of 16 CPUs and 64 GB in two racks.

    n01 to n06 have four A100s each and are the partition `gpu`, n07 and n08 have two V100s each and are `old`;
    `short` is all of them for half an hour. `whole` (n01 and n02) gives jobs their nodes to themselves, and `lean`
    (n01) four CPUs a GPU and no more than twelve in all. n01 to n04 have the features `ib` and `fast`, n05 and n06
    `ib`, n07 and n08 `eth`.
    """

    reservations: tuple[tuple[str, ...], ...] = (
        ("ReservationName=works", "StartTime=now+3600", "Duration=120", "Nodes=n06", "Users=root", "Flags=MAINT"),
        ("ReservationName=team", "StartTime=now", "Duration=1440", "Nodes=n05", "Accounts=small"),
    )

    types: tuple[tuple[str, str], ...] = (("n[01-06]", "a100"), ("n[07-08]", "v100"))
    features: tuple[tuple[int, int, str, str], ...] = (  # of the first node, the last, their type
        (1, 4, "a100", "ib,fast"), (5, 6, "a100", "ib"), (7, 8, "v100", "eth"),
    )  # fmt: skip
    cpus = 16
    licences = 2
    fewer: Mapping[str, int] = {"v100": 2}  # GPUs of a node, by type, where they are not `gpus`

    def gres_lines(self) -> str:
        """gres.conf."""
        every = self.devices().partition("[")[0]
        return "".join(
            f"NodeName={nodes} Name=gpu Type={kind} File={every}[0-{self._gpus_of(kind) - 1}]\n"
            for nodes, kind in self.types
        )

    def _gpus_of(self, kind: str) -> int:
        return self.fewer.get(kind, self.gpus)

    def node_lines(self) -> str:
        """Nodes, partitions and licences in slurm.conf."""
        first = int(self.ports()[1:].split("-")[0])
        nodes = "".join(
            f"NodeName=n[{low:02d}-{high:02d}] NodeAddr=127.0.0.1 Port=[{first + low - 1}-{first + high - 1}] "
            f"CPUs={self.cpus} RealMemory=64000 TmpDisk=1000 Gres=gpu:{kind}:{self._gpus_of(kind)} "
            f"Feature={features} State=UNKNOWN\n"
            for low, high, kind, features in self.features
        )
        (gpu, _), (old, _) = self.types
        return nodes + (
            f"PartitionName=gpu Nodes={gpu} Default=YES MaxTime=INFINITE State=UP\n"
            f"PartitionName=short Nodes=n[01-{self.features[-1][1]:02d}] MaxTime=30 State=UP\n"
            f"PartitionName=old Nodes={old} MaxTime=INFINITE State=UP\n"
            "PartitionName=whole Nodes=n[01-02] State=UP OverSubscribe=EXCLUSIVE\n"
            "PartitionName=lean Nodes=n01 State=UP MaxCPUsPerNode=12 DefCpuPerGPU=4\n"
            f"Licenses=matlab:{self.licences}\n"
            "ReconfigFlags=KeepPartState\n"  # a partition that a test takes down stays down when slurm.conf is read
        )

    def accounting_lines(self) -> str:
        """slurmdbd, and what it enforces."""
        return super().accounting_lines() + "AccountingStorageEnforce=associations,limits,qos\n"

    def _conf(self) -> str:
        return super()._conf().replace("SelectTypeParameters=CR_Core", "SelectTypeParameters=CR_Core_Memory")

    def start_controller(self) -> None:
        """slurmctld, and when it is new the site's limits and reservations: n06 in an hour, n05 for an account."""
        super().start_controller()
        if "team" in self.run("scontrol", "show", "reservation"):
            return
        for words in LIMITS:  # slurmdbd knows GPUs from slurmctld
            self.run("sacctmgr", "-i", *words, ok=words[1] != "cluster")
        for words in self.reservations:
            self.run("scontrol", "create", "reservation", *words)


LIMITS = (
    ("add", "cluster", "dally-test"),
    ("add", "account", "physics"),
    ("add", "account", "small", "set", "GrpTRES=gres/gpu=4"),
    ("add", "qos", "limited", "set", "MaxJobsPerUser=1"),
    ("add", "qos", "few", "set", "MaxTRESPerUser=gres/gpu=4"),
    *(
        ("add", "user", name, f"account={account}", "DefaultAccount=physics", "QOS=normal,limited,few")
        for account in ("physics", "small")
        for name in USERS
    ),
)


@contextmanager
def slurm_site() -> Iterator[SlurmSite]:
    """The site for the length of a block."""
    with slurm_cluster(2, 4, 4, kind=SlurmSite) as cluster:
        assert isinstance(cluster, SlurmSite)
        yield cluster
