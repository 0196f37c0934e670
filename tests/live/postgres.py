"""A PostgreSQL server of our own, where Debian's packages are installed."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PROGRAMS = sorted(Path("/usr/lib/postgresql").glob("*/bin"))


@contextmanager
def postgresql(folder: Path) -> Iterator[str]:
    """The address of an empty database that is gone afterwards."""
    if not PROGRAMS:
        pytest.skip("no PostgreSQL server is installed")
    programs = PROGRAMS[-1]
    who: list[str] = []
    if os.geteuid() == 0:  # the server refuses to run as root
        who = ["runuser", "-u", "postgres", "--"]
        for path in [folder, *folder.parents[:3]]:
            path.chmod(0o755)
        shutil.chown(folder, "postgres")
    data = folder / "data"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = f"-c port={port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off"
    run([*who, str(programs / "initdb"), "-D", str(data), "-A", "trust", "-U", "dally", "--no-sync"])
    run([*who, str(programs / "pg_ctl"), "-D", str(data), "-w", "-l", str(folder / "log"), "-o", options, "start"])
    try:
        yield f"postgresql+psycopg://dally@127.0.0.1:{port}/postgres"
    finally:
        run([*who, str(programs / "pg_ctl"), "-D", str(data), "-m", "immediate", "stop"])


def run(command: list[str]) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd="/", timeout=240)
