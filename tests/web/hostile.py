"""An unprivileged local user, and a daemon of a real cluster to attack."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from dally.live.assembly import Service
from dally.live.config import Config, Setup
from dally.web.server import ApiServer
from tests.web.conftest import OwnBackend

NOBODY = 65534
as_nobody = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")

# Sends requests, each of its own connection, and prints what comes back: [status, body] each.
CLIENT = r"""
import json, socket, sys
given = json.load(sys.stdin)
def ask(request):
    if isinstance(given["to"], str):
        end = socket.socket(socket.AF_UNIX); end.settimeout(20); end.connect(given["to"])
    else:
        end = socket.socket(); end.settimeout(20); end.connect(tuple(given["to"]))
    end.sendall(request.encode("latin-1"))
    answer = b""
    try:
        while True:
            piece = end.recv(65536)
            if not piece: break
            answer += piece
    except OSError: pass
    head, _, body = answer.partition(b"\r\n\r\n")
    return [int(head.split()[1]) if head else 0, body.decode("utf-8", "replace")]
try: print(json.dumps([ask(one) for one in given["requests"]]))
except OSError as error: print(json.dumps([[0, str(error)]]))
"""


def python() -> str:
    """An interpreter that other users can run."""
    for path in (sys.executable, "/usr/bin/python3"):
        with suppress(OSError):
            subprocess.run(
                [path, "-c", ""], user=NOBODY, group=NOBODY, extra_groups=[], cwd="/", check=True, env={}
            )
            return path
    pytest.skip("no Python that another user can run")


def run_as_nobody(code: str, given: Any = None, *words: str) -> str:
    """What a program prints that runs as the user nobody."""
    done = subprocess.run(
        [python(), "-c", code, *words], input=json.dumps(given), capture_output=True, text=True, user=NOBODY,
        group=NOBODY, extra_groups=[], cwd="/", env={"LC_ALL": "C.UTF-8"}, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


class Answer(NamedTuple):
    """What came back."""

    status: int
    body: str


def http(method: str, path: str, body: Any = None, **headers: str) -> str:
    """A request as text."""
    content = "" if body is None else json.dumps(body)
    lines = [f"{method} {path} HTTP/1.1"]
    usual = {"Host": "127.0.0.1", "Connection": "close"}
    if body is not None:
        usual |= {"Content-Type": "application/json", "Content-Length": str(len(content))}
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in (usual | headers).items()]
    return "\r\n".join([*lines, "", content])


class Target:
    """A daemon over a cluster in memory, which counts as a real one, with both of its ends."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.backend = OwnBackend(2, 2, 8)
        self.backend.folder = str(folder)
        self.socket = folder / "run" / "serve.sock"
        config = Config(
            backend="slurm", folder=folder / "state", listen="127.0.0.1:0", socket=str(self.socket),
            setup=Setup("fifo"),
        )  # fmt: skip
        self.service = Service(replace(config, **settings), self.backend)
        self.service.daemon.run_cycle()
        self.server = ApiServer(self.service)
        self.server.start()
        host, port = self.server.url.rpartition("//")[2].split(":")
        self.address = (host, int(port))

    def cycle(self) -> None:
        self.backend.now_s += 1.0
        self.service.daemon.run_cycle()

    def as_nobody(self, by_socket: bool, *requests: str) -> list[Answer]:
        """What the user nobody is answered."""
        to = str(self.socket) if by_socket else self.address
        return [Answer(*one) for one in json.loads(run_as_nobody(CLIENT, {"to": to, "requests": requests}))]

    def close(self) -> None:
        self.server.stop()
        self.service.close()


@contextmanager
def target(**settings: Any) -> Iterator[Target]:
    """A daemon whose socket other users can reach; cycles come by themselves, as a submission waits for one."""
    with tempfile.TemporaryDirectory(prefix="dally-target-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        made = Target(folder, **settings)
        stop = threading.Event()

        def cycles() -> None:
            while not stop.wait(0.1):
                made.cycle()

        thread = threading.Thread(target=cycles, daemon=True)
        thread.start()
        try:
            yield made
        finally:
            stop.set()
            thread.join()
            made.close()
