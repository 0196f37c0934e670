"""`dally slurm setup` on a real Slurm: jobs arrive held, users keep hold and release, undoing is exact."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import time
from pathlib import Path

import pytest
from sqlalchemy import select

import dally as dally_package
from dally.cli.live.slurm import remaining_text
from dally.errors import InputError
from dally.live.backends import base
from dally.live.backends.slurm import SlurmBackend
from dally.live.backends.slurm.submit_plugin import changes, script_text
from dally.live.config import Setup
from dally.live.cycle import Scheduler
from dally.live.store import open_store
from dally.live.store.schema import EVENTS
from dally.live.wall_clock import WallClock
from tests.cli.conftest import Run
from tests.live.slurm_cluster import SlurmCluster

SCRIPT = "#!/bin/sh\n#DALLY model=bert expected=2h group=2\nsleep 600\n"


def test_undoing_is_exact(tmp_path: Path) -> None:
    conf = tmp_path / "slurm.conf"
    for text in ("ClusterName=a\n", "ClusterName=a", "", "A=1\n\n# the end\n"):
        conf.write_text(text)
        conf.chmod(0o640)
        for change in changes(conf, ["gpu"], [1000], rollback=False):
            change.carry_out()
        assert conf.read_text().endswith("JobSubmitPlugins=lua\n# dally slurm setup: end\n")
        assert '["gpu"] = true' in (tmp_path / "job_submit.lua").read_text()
        assert changes(conf, ["gpu"], [1000], rollback=False) == []
        for change in changes(conf, [], [], rollback=True):
            change.carry_out()
        assert conf.read_text() == text
        assert [path.name for path in tmp_path.iterdir()] == ["slurm.conf"]
        assert conf.stat().st_mode & 0o777 == 0o640
        assert changes(conf, [], [], rollback=True) == []


def test_what_others_put_there_is_left_alone(tmp_path: Path) -> None:
    conf = tmp_path / "slurm.conf"
    conf.write_text("ClusterName=a\nJobSubmitPlugins=throttle\n")
    with pytest.raises(InputError, match=r"slurm.conf:2: JobSubmitPlugins: is throttle already"):
        changes(conf, [], [], rollback=False)
    conf.write_text("ClusterName=a\n")
    (tmp_path / "job_submit.lua").write_text("-- ours\n")
    for undo in (False, True):
        with pytest.raises(InputError, match=r"job_submit.lua: was not written by Dally"):
            changes(conf, [], [], undo)
    with pytest.raises(InputError, match="no name of a partition"):
        script_text(['a"] = os.execute("x")'], [])


def test_the_check_ends_with_what_remains() -> None:
    assert remaining_text(0, 0) == "All jobs are rolled back"
    assert remaining_text(0, 1).endswith("; 1 job still runs as Dally started it")
    assert remaining_text(0, 1200).endswith("; 1,200 jobs still run as Dally started them")
    assert remaining_text(2, 1).startswith("Waiting jobs that are not rolled back: 2;")


def test_with_slurm(slurm: SlurmCluster, dally: Run) -> None:
    """Arrivals, holds and releases as a user who is not root, if there is one to be."""
    before = slurm.conf.read_text()
    setup = ["slurm", "setup", "--conf", str(slurm.conf)]
    told = json.loads(dally(*setup, "--dry-run", "--json").stdout)
    assert any("+ JobSubmitPlugins=lua" in line for line in told["changes"])
    assert slurm.conf.read_text() == before
    early = User(slurm).submit("--gpus=2", "-H")  # nobody's but its user's
    assert "slurmctld has read it" in dally(*setup).stdout
    try:
        check_arrivals(slurm, early)
    finally:
        told = json.loads(dally("slurm", "rollback", "--conf", str(slurm.conf), "--json").stdout)
    assert told["done"][-1] == "1 waiting jobs rolled back"
    assert told["remaining"] == []
    assert slurm.conf.read_text() == before
    assert not slurm.conf.with_name("job_submit.lua").exists()


RANKS = """#!/bin/bash
export PYTHONPATH={source} SLURM_CONF={conf}
{python} -m dally slurm hosts > {folder}/hosts
export SLURM_HOSTFILE={folder}/hosts
srun --distribution=arbitrary sh -c 'echo $SLURM_PROCID $SLURMD_NODENAME' > {folder}/ranks
touch {folder}/done
"""


def test_ranks_follow_the_fabric(slurm: SlurmCluster, tmp_path: Path) -> None:
    """Where racks do not follow Slurm's own order of nodes, the hosts of a job do."""
    tree = slurm.conf.with_name("topology.conf")
    before = tree.read_text()
    slurm.stop_one("slurmctld")
    odd, even = (",".join(slurm.nodes[first::2]) for first in (0, 1))
    tree.write_text(f"SwitchName=a Nodes={odd}\nSwitchName=b Nodes={even}\nSwitchName=top Switches=a,b\n")
    slurm.start_controller()
    try:
        source = Path(dally_package.__file__).parents[1]
        script = RANKS.format(source=source, conf=slurm.conf, python=sys.executable, folder=tmp_path)
        slurm.run("sbatch", "-N4", "-w", "n[01-04]", "--gpus-per-node=1", "-o", str(tmp_path / "log"), given=script)
        until_s = time.monotonic() + 60.0
        while not (tmp_path / "done").exists() and time.monotonic() < until_s:
            time.sleep(0.1)
    finally:
        slurm.stop_one("slurmctld")
        tree.write_text(before)
        slurm.start_controller()
    hosts = (tmp_path / "hosts").read_text().split()
    assert hosts == ["n01", "n03", "n02", "n04"], (tmp_path / "log").read_text()
    ranks = dict(line.split() for line in (tmp_path / "ranks").read_text().splitlines())
    assert [ranks[str(rank)] for rank in range(4)] == hosts


def check_arrivals(slurm: SlurmCluster, early: str) -> None:
    backend = SlurmBackend(conf=str(slurm.conf))
    user = User(slurm)
    plain, held, without = (user.submit(*words) for words in (("--gpus=2",), ("--gpus=2", "-H"), ()))
    assert states(backend) == {early: base.HELD, plain: base.QUEUED, held: base.HELD if user.name else base.QUEUED}
    job = next(job for job in backend.snapshot().jobs if job.job_id == plain)
    assert (job.spec.model, job.spec.duration_s, job.spec.group) == ("bert", 7200.0, 2)
    assert slurm.run("squeue", "-h", "-j", plain, "-O", "admin_comment:200").startswith("dally:submit=")
    if user.name:
        user.run("scontrol", "hold", plain)
        user.run("scontrol", "release", held)
        assert states(backend) == {early: base.HELD, plain: base.HELD, held: base.QUEUED}
        user.run("scontrol", "release", plain)
        for words in (("Priority=9",), ("Nice=5",), ("AdminComment=x",)):
            user.run("scontrol", "update", f"JobId={plain}", *words, ok=False)
        assert states(backend) == {early: base.HELD, plain: base.QUEUED, held: base.QUEUED}
    for job_id in (held, without):
        slurm.run("scancel", job_id)


def states(backend: SlurmBackend) -> dict[str, str]:
    return {job.job_id: job.state for job in backend.snapshot().jobs if job.state not in base.ENDED}


class User:
    """Somebody who is not root, where root can become that; else whoever runs the tests."""

    def __init__(self, slurm: SlurmCluster) -> None:
        self._slurm = slurm
        self.name = "nobody" if shutil.which("runuser") is not None and os.geteuid() == 0 else ""

    def run(self, *words: str, ok: bool = True, given: str | None = None) -> str:
        become = ("runuser", "-u", self.name, "--") if self.name else ()
        return self._slurm.run(*become, *words, ok=ok, given=given)

    def submit(self, *words: str) -> str:
        sbatch = ("sbatch", "--parsable", "-o", "/dev/null", "-D", "/tmp", *words)
        return self.run(*sbatch, given=SCRIPT).strip()


SHOWN = (
    ("squeue", "-a", "-h", "-o", "%i %T %Q %N %k %y %D"), ("squeue", "-a", "-h", "-O", "JobID,admin_comment:200"),
    ("scontrol", "-o", "show", "node"), ("scontrol", "-o", "show", "reservation"),
    ("scontrol", "-o", "show", "partition"), ("scontrol", "show", "config"),
)  # fmt: skip


def test_a_dry_run_decides_before_the_set_up_and_changes_nothing(slurm: SlurmCluster, tmp_path: Path) -> None:
    """Four nodes are free; Slurm keeps them for a wide job that would be delayed, and Dally would not."""
    user, conf, nodes = User(slurm), slurm.conf.read_text(), slurm.nodes
    first = user.submit("-w", ",".join(nodes[:12]), "-N", "12", "--gpus-per-node=8", "--time=10")
    wait_for(slurm, first, "RUNNING")
    wide = user.submit("-N", "16", "--gpus-per-node=8", "--time=10")
    waiting = [user.submit("-N", "2", "--gpus-per-node=8", "--time=60") for _ in range(2)]
    held, odd = user.submit("--gpus=8", "-H"), user.submit("--gpus=8", "--contiguous", "--time=60")
    untouched = SlurmBackend(conf=str(slurm.conf)).snapshot().jobs
    assert [job.job_id for job in untouched if job.managed and job.state not in base.ENDED] == []
    backend = SlurmBackend(conf=str(slurm.conf), simulate_hold=True)
    store = open_store(f"sqlite:///{tmp_path}/dally.db")
    clock = WallClock(time.time(), 1.0)
    setup = Setup("fifo-backfill")
    scheduler = Scheduler(backend, backend.topology(), setup, store, clock, dry_run=True)
    seen = shown_by(slurm)
    scheduler.run_cycle()
    scheduler.run_cycle()
    assert shown_by(slurm) == seen
    assert slurm.conf.read_text() == conf
    would = {row["job_id"]: row["reason"] for row in store.rows(select(EVENTS)) if row["kind"] == "would"}
    assert sorted(would) == waiting
    places = [part.split(":")[0] for text in would.values() for part in text.removeprefix("run on ").split("+")]
    assert sorted(places) == nodes[12:]
    states = {job.job_id: (job.state, job.managed) for job in backend.snapshot().jobs}
    assert states[first] == (base.RUNNING, True)
    assert states[wide] == (base.QUEUED, True)
    assert states[held][0] == base.HELD
    assert states[odd] == (base.HELD, False)


def wait_for(slurm: SlurmCluster, job_id: str, state: str) -> None:
    until_s = time.monotonic() + 60.0
    while state not in slurm.run("squeue", "-h", "-j", job_id, "-o", "%T"):
        assert time.monotonic() < until_s, slurm.run("squeue", "-a")
        time.sleep(0.1)


def shown_by(slurm: SlurmCluster) -> list[str]:
    """All that Slurm shows but for what it counts by itself."""
    counts = re.compile(r"Configuration data as of.*|(?:CPULoad|FreeMem|LastBusyTime|RunTime)=\S+")
    return [counts.sub("", slurm.run(*command)) for command in SHOWN]
