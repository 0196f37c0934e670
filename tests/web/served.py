"""`dally serve` as a process, to be asked, killed and started again at the same address."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx

import dally

STARTS_WITHIN_S = 30.0


class Served:
    """A daemon with a folder and a port of its own."""

    def __init__(self, folder: Path, *options: str, env: dict[str, str] | None = None) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.listen = f"127.0.0.1:{free.getsockname()[1]}"
        self.url = f"http://{self.listen}"
        self.folder = folder
        self.token = ""
        config = folder.parent / f"{folder.name}.toml"
        config.write_text("allow_root_jobs = true\n")  # tests may run as root
        self._options = ("--config", str(config), *options)
        self._env = os.environ | {"PYTHONPATH": str(Path(dally.__file__).parents[1])} | (env or {})
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Return once it answers."""
        words = [sys.executable, "-m", "dally", "serve", "--folder", str(self.folder), "--listen", self.listen]
        with (self.folder.parent / f"{self.folder.name}.log").open("ab") as log:
            self._process = subprocess.Popen([*words, *self._options], env=self._env, stdout=log, stderr=log)
        until = time.monotonic() + STARTS_WITHIN_S
        while not self._is_ready():
            assert self._process.poll() is None, "the daemon ended"
            assert time.monotonic() < until, "the daemon does not answer"
            time.sleep(0.1)

    def _is_ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}/readyz").status_code == 200
        except httpx.HTTPError:
            return False

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """End it at once; jobs run on."""
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait()
            self._process = None

    def command(self, *words: str) -> str:
        """What a command of ours prints."""
        done = subprocess.run(
            [sys.executable, "-m", "dally", *words], env=self._env, capture_output=True, text=True, timeout=60,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def ask(self, method: str, path: str, **more: Any) -> Any:
        """The API's answer."""
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        found = httpx.request(method, f"{self.url}/api/v1/{path}", headers=headers, timeout=30, **more)
        assert found.is_success, found.text
        return found.json()

    def add_token(self, name: str, *role: str) -> str:
        """A new token for the dashboard or the API."""
        made = self.command("token", "add", name, "--role", *role, "--folder", str(self.folder))
        return next(word for word in made.split() if word.startswith("dally_"))

    def add_operator(self) -> None:
        """Ask as an operator from now on, once the daemon has read of the token, which it does now and then."""
        self.token = self.add_token("op", "operator")
        hers = {"Authorization": f"Bearer {self.token}"}
        until = time.monotonic() + STARTS_WITHIN_S
        while [httpx.get(f"{self.url}/api/v1/status", headers=one).status_code for one in ({}, hers)] != [401, 200]:
            assert time.monotonic() < until, "the daemon does not know of the tokens"
            time.sleep(0.1)

    def submit(self, gpus: int, seconds: float, **facts: Any) -> str:
        """A job that only takes time; its id."""
        found: str = self.ask("POST", "jobs", json={"gpus": gpus, "duration_s": seconds, **facts})["job_id"]
        return found
