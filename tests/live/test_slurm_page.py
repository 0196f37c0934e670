"""docs/slurm.md on a real Slurm: its commands, in its order."""

from __future__ import annotations

import os
import pwd
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import dally
from tests.live.slurm_cluster import SlurmCluster
from tests.waiting import wait_for

USER = pwd.getpwuid(os.getuid()).pw_name  # takes the place of dally
PAGE = Path(__file__).parents[2] / "docs" / "slurm.md"


def commands() -> list[str]:
    blocks = re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    lines = [line for block in blocks for line in block.splitlines() if line]
    done_otherwise = ("python3 ", "export ")
    return [line.replace("--user dally", f"--user {USER}") for line in lines if not line.startswith(done_otherwise)]


class Reader:
    """Somebody who follows the page."""

    def __init__(self, slurm: SlurmCluster, home: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.listen = f"127.0.0.1:{free.getsockname()[1]}"
        self.home = home
        self.environment = os.environ | {
            "SLURM_CONF": str(slurm.conf),
            "XDG_STATE_HOME": str(home),
            "DALLY_SERVER": f"http://{self.listen}",
            "PYTHONPATH": str(Path(dally.__file__).parents[1]),
        }
        self.daemon: subprocess.Popen[bytes] | None = None

    def follow(self, line: str) -> str:
        words = shlex.split(line)
        if words[0] == "dally":
            words = [sys.executable, "-m", *words]
        if words[2:4] == ["dally", "serve"]:
            self.stop()
            listening = [*words, "--listen", self.listen]
            self.daemon = subprocess.Popen(listening, env=self.environment, cwd=self.home)
            wait_for(self.answers)
            return ""
        if "rollback" in words:
            self.stop()
        done = subprocess.run(
            words, env=self.environment, cwd=self.home, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        return done.stdout

    def answers(self) -> bool:
        """Whether the daemon has looked at Slurm by now."""
        words = [sys.executable, "-m", "dally", "nodes"]
        done = subprocess.run(words, env=self.environment, capture_output=True, text=True)
        return "n16" in done.stdout

    def stop(self) -> None:
        if self.daemon is not None:
            self.daemon.send_signal(signal.SIGTERM)
            assert self.daemon.wait(20) == 0
            self.daemon = None


def test_the_page_can_be_followed(slurm: SlurmCluster, tmp_path: Path) -> None:
    reader = Reader(slurm, tmp_path)
    (tmp_path / "train.sh").write_text("#!/bin/sh\nsleep 600\n")
    before = slurm.conf.read_text()
    try:
        for line in commands():
            if line.startswith("dally shadow"):  # by then a job has ended, under Slurm's own scheduler
                number = reader.follow("sbatch --gres=gpu:8 -o /dev/null --wrap 'sleep 2'").split()[-1]
                wait_for(lambda number=number: f"JobId={number} " in slurm.completed.read_text())  # type: ignore[misc]
                time.sleep(3.0)  # the daemon looks once a second
            told = reader.follow(line)
            if line.startswith("sbatch"):
                number = told.split()[-1]
                wait_for(lambda number=number: "RUNNING" in slurm.run("squeue", "-h", "-j", number, "-o", "%T"))  # type: ignore[misc]
        assert slurm.conf.read_text() == before
        assert (tmp_path / "week" / "answer" / "report.html").exists()
    finally:
        reader.stop()
        reader.follow("dally slurm rollback")
