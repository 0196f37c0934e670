"""One daemon per cluster."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import BinaryIO

from dally.errors import InputError


class ClusterLock:
    """Held as long as the process lives, however it ends."""

    def __init__(self, path: Path, what: str) -> None:
        """InputError if another process holds it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: BinaryIO = path.open("a+b")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.seek(0)
            owner = self._file.read(32).decode(errors="replace").strip()
            self._file.close()
            raise InputError(f"{path}: another `dally serve` (process {owner}) schedules {what} already") from None
        self._file.truncate(0)
        self._file.write(f"{os.getpid()}\n".encode())
        self._file.flush()

    def release(self) -> None:
        """Let another daemon have the cluster."""
        self._file.close()
