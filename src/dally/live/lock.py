"""One daemon per cluster, and one per folder."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from dally.errors import InputError

OF_ALL = 0o666  # a lock in /tmp is for whoever comes next, also as another user


class ClusterLock:
    """Held as long as the process lives, however it ends."""

    def __init__(self, path: Path, what: str, mode: int = 0o600) -> None:
        """InputError if another process holds it, and does `what`, or if it cannot be had."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.fdopen(_opened(path, mode), "r+b")
        except OSError as error:
            raise InputError(
                f"{path}: cannot be locked: {error.strerror}; is it another user's? "
                "Remove it, unless a daemon of theirs runs"
            ) from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            owner = self._file.read(32).decode(errors="replace").strip()
            self._file.close()
            raise InputError(f"{path}: another `dally serve` (process {owner}) {what} already") from None
        self._file.truncate(0)
        self._file.write(f"{os.getpid()}\n".encode())
        self._file.flush()

    def release(self) -> None:
        """Let another daemon have the cluster."""
        self._file.close()


def _opened(path: Path, mode: int) -> int:
    """The file, with that mode if it is new; the kernel may refuse to create what is another user's in /tmp."""
    how = os.O_RDWR | os.O_NOFOLLOW
    try:
        return os.open(path, how)
    except FileNotFoundError:
        made = os.open(path, how | os.O_CREAT | os.O_EXCL, mode)
        os.fchmod(made, mode)  # whatever the umask
        return made
