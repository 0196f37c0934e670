"""One daemon per cluster, and one per folder."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from dally.errors import InputError
from dally.live.private_folder import check_file, make_file, own_folder


class ClusterLock:
    """Held as long as the process lives, however it ends."""

    def __init__(self, path: Path, what: str) -> None:
        """InputError if another process holds it, and does `what`, or if it cannot be had."""
        try:
            self._file = os.fdopen(_opened(path), "r+b")
        except OSError as error:
            raise InputError(f"{path}: cannot be locked: {error.strerror}") from None
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


def is_locked(path: Path) -> bool:
    """Whether a daemon holds it now."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _opened(path: Path) -> int:
    """The file, for us alone: a lock that another user can open is one that another user can hold."""
    with suppress(FileExistsError):
        make_file(path)
    check_file(path)
    return os.open(path, os.O_RDWR | os.O_NOFOLLOW)


def lock_folder(own: Path) -> Path:
    """Where daemons of this user lock the clusters that they schedule on this host; `own`: the daemon's folder.

    Users do not share it: what every user can lock, any of them can keep from the others.
    """
    for place in _places():
        try:
            own_folder(place, str(place))
        except InputError:
            continue
        return place
    result = own / "locks"
    own_folder(result, str(result))
    return result


def _places() -> list[Path]:
    if os.geteuid() == 0:
        return [Path("/run/dally/locks")]
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return [Path(runtime) / "dally" / "locks"] if runtime else []
