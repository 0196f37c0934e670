"""What a job finds in its environment: a login's variables and those of its submission, nothing of the daemon's."""

from __future__ import annotations

import os
import pwd
import time
from pathlib import Path

import pytest

from dally.cluster.spec import read_topology
from dally.job_spec import JobSpec
from dally.live.backends import base
from dally.live.backends.base import Submission
from dally.live.backends.job_environment import job_environment
from dally.live.backends.kubernetes.job_manifest import manifest
from dally.live.backends.local import LocalBackend
from dally.live.backends.slurm import SlurmBackend
from dally.live.backends.slurm.job_logs import REPORT_SUFFIX, log_path
from dally.live.backends.slurm.submit_arguments import script_of
from tests.live.slurm_cluster import SlurmCluster

STATED = {"DATA": "/scratch/a b; touch /tmp/x\n#SBATCH --uid=0", "EMPTY": ""}
SECRET = "postgresql://dally:secret@host"
PRINT = ("/bin/sh", "-c", "env -0 > $1.new; umask > $1.umask; mv $1.new $1", "-")


def variables(path: Path) -> dict[str, str]:
    """What the job wrote, once it has."""
    until_s = time.monotonic() + 60.0
    while not path.exists():
        assert time.monotonic() < until_s, "the job has written nothing"
        time.sleep(0.1)
    return dict(entry.split("=", 1) for entry in path.read_text().split("\0") if entry)


@pytest.fixture
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """The daemon's, under names that the cluster's tools would read and hand on."""
    for name in ("DALLY_TOKEN", "STORE", "SBATCH_COMMENT", "SLURM_JWT", "SSH_AUTH_SOCK", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, SECRET)


def test_local(tmp_path: Path, secrets: None) -> None:
    backend = LocalBackend(tmp_path, read_topology("1x1x8"))
    out = tmp_path / "out"
    job = backend.submit(Submission(JobSpec(1), (*PRINT, str(out)), str(tmp_path), STATED | {"DALLY_JOB_ID": "9"}))
    before = os.umask(0o077)
    try:
        backend.start_job(job, {"rack0-m0": 1})
    finally:
        os.umask(before)
    found = variables(out)
    theirs = {name: value for name, value in found.items() if not name.startswith("DALLY_") and name != "_"}
    theirs.pop("PWD", None)
    theirs.pop("OLDPWD", None)
    assert theirs == job_environment() | STATED
    assert found["DALLY_JOB_ID"] == job
    assert out.with_suffix(".umask").read_text().strip() == "0022"
    while backend.snapshot().jobs[0].state not in base.ENDED:
        time.sleep(0.05)


def test_slurm(slurm: SlurmCluster, tmp_path: Path, secrets: None) -> None:
    backend = SlurmBackend(conf=str(slurm.conf))
    out = tmp_path / "out"
    job = backend.submit(Submission(JobSpec(1), (*PRINT, str(out)), str(tmp_path), STATED))
    backend.snapshot()
    backend.start_job(job, {slurm.nodes[0]: 1})
    found = variables(out)
    assert SECRET not in found.values()
    stated = job_environment() | STATED
    assert {name: found.get(name) for name in stated} == stated
    extra = {
        name for name in found.keys() - stated.keys()
        if not name.startswith(("SLURM", "CUDA_", "ROCR_", "GPU_", "ZE_"))
    }  # fmt: skip
    assert extra <= {
        "DALLY_PROGRESS", "ENVIRONMENT", "HOSTNAME", "PWD", "OLDPWD", "TMPDIR", "TZ", "_", "KRB5CCNAME",
    }  # fmt: skip
    assert found.keys().isdisjoint(("SLURM_JWT", "SLURM_TIME_FORMAT"))
    assert out.with_suffix(".umask").read_text().strip() == "0022"


def test_a_script_of_slurm_has_no_line_of_the_user_before_its_first_command() -> None:
    script = script_of(Submission(JobSpec(1), ("true", "x\n#SBATCH --uid=0\n"), "", STATED))
    first = next(line for line in script.splitlines() if not line.startswith("#"))
    before = script.split(first)[0]
    assert (first.split()[0], before) == ("unset", "#!/bin/sh\n")


def test_kubernetes() -> None:
    made = manifest(Submission(JobSpec(1), ("true",), "", STATED | {"DALLY_RANK": "9"}), "image", "dally")
    env = made["spec"]["template"]["spec"]["containers"][0]["env"]
    assert {one["name"]: one["value"] for one in env[:2]} == STATED
    assert env[-1]["name"] == "DALLY_RANK"  # the last of a name counts
    assert "valueFrom" in env[-1]


def test_where_reports_of_progress_go() -> None:
    """Beside the log that Slurm makes; on Kubernetes into the log, if that is read; or where the user says."""
    script = script_of(Submission(JobSpec(1), ("true",), "/home/ana", {}))
    assert 'export DALLY_PROGRESS="$PWD/slurm-$SLURM_JOB_ID.out.progress"' in script.splitlines()
    row = {"job_id": 7, "current_working_directory": "/home/ana"}
    assert f"{log_path(row)}{REPORT_SUFFIX}" == "/home/ana/slurm-7.out.progress"
    assert "$PWD" not in script_of(Submission(JobSpec(1), ("true",), "", {}))
    own = {"DALLY_PROGRESS": "/scratch/p"}
    assert "$PWD" not in script_of(Submission(JobSpec(1), ("true",), "/home/ana", own))
    for logs, stated, value in ((True, {}, "-"), (True, own, "/scratch/p"), (False, {}, None)):
        made = manifest(Submission(JobSpec(1), ("true",), "", stated), "image", "dally", logs)
        env = made["spec"]["template"]["spec"]["containers"][0]["env"]
        assert {one["name"]: one.get("value") for one in env}.get("DALLY_PROGRESS") == value


def test_the_environment_of_a_user_who_is_not_known_here() -> None:
    me = pwd.getpwuid(os.geteuid())
    assert job_environment()["HOME"] == me.pw_dir
    assert job_environment("nobody")["USER"] == "nobody"
    assert "HOME" not in job_environment("no-such-user")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root submits for others")
def test_a_job_of_slurm_runs_as_the_user_it_is_for(slurm: SlurmCluster, secrets: None) -> None:
    backend = SlurmBackend(conf=str(slurm.conf))
    folder = slurm.folder / "nobodys"
    folder.mkdir()
    os.chown(folder, 65534, 65534)
    out = folder / "out"
    command = ("/bin/sh", "-c", "id -u > $1.uid; env -0 > $1.new; mv $1.new $1", "-", str(out))
    job = backend.submit(Submission(JobSpec(1, user="nobody"), command, str(folder)))
    backend.snapshot()
    backend.start_job(job, {slurm.nodes[0]: 1})
    found = variables(out)
    assert out.with_suffix(".uid").read_text().strip() == "65534"
    assert (found["USER"], found["HOME"]) == ("nobody", pwd.getpwnam("nobody").pw_dir)
    assert SECRET not in found.values()
