"""The socket by which users of this machine ask: the kernel says who they are."""

from __future__ import annotations

import os
import socket
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from dally.errors import InputError
from dally.live.config import Config
from dally.live.lock import ClusterLock
from dally.live.private_folder import SOCKET, check_folder

PUBLIC: Final = Path("/run/dally")  # where clients look for it; systemd makes it for RuntimeDirectory=dally


class UnixSocket:
    """Bound as long as the daemon lives. `note`: what an operator should know of its place."""

    def __init__(self, config: Config) -> None:
        self.note = ""
        self._lock: ClusterLock | None = None
        self.path = self._place(config)
        is_public = (
            config.backend != "local"
        )  # on the local cluster, jobs run as the daemon's user: for that user alone
        check_folder(self.path.parent, f"--socket {self.path}")
        try:
            self.bound, self._inode = _bound(self.path, 0o666 if is_public else 0o600)
        except OSError as error:
            self._release()
            raise InputError(
                f"--socket {self.path}: cannot be made: {error.strerror}; name another place"
            ) from None

    def _place(self, config: Config) -> Path:
        """As configured, or in the folder that systemd or root's daemon has for it, or in the daemon's own."""
        own = config.folder / SOCKET
        if config.socket:
            path = Path(config.socket)
            self._lock = _locked(path)
            return path
        runtime = os.environ.get("RUNTIME_DIRECTORY", "").split(":")[0]
        if config.backend == "local" or not (runtime or os.geteuid() == 0):
            return own
        path = Path(runtime or PUBLIC) / SOCKET
        try:
            self._lock = _locked(path)
        except InputError as error:
            self.note = f"only {config.folder} has a socket: {error}"
            return own
        return path

    def close(self) -> None:
        """Let go of it, and of its name if that is still ours."""
        self.bound.close()
        with suppress(OSError):
            if self.path.lstat().st_ino == self._inode:
                self.path.unlink()
        self._release()

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()


def _locked(path: Path) -> ClusterLock:
    """One daemon has a socket in a folder that is not its own."""
    try:
        if not path.parent.exists():
            path.parent.mkdir()
            path.parent.chmod(0o755)  # others go through, and change nothing
    except OSError as error:
        raise InputError(f"--socket {path}: its folder cannot be made: {error.strerror}") from None
    check_folder(path.parent, f"--socket {path}")
    return ClusterLock(path.with_name(f"{path.name}.lock"), f"answers at {path}")


def _bound(path: Path, mode: int) -> tuple[socket.socket, int]:
    """Made beside and renamed, so that the name never leads nowhere and never to a socket with another mode.

    Through the folder's descriptor: addresses of sockets are short, and folders' names may not be.
    """
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    temporary = f".{path.name}.{os.getpid()}"
    try:
        with suppress(FileNotFoundError):
            if not stat.S_ISSOCK(path.lstat().st_mode):
                raise FileExistsError(17, "there is a file of that name")
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)
        before = os.umask(0o777 & ~mode)
        try:
            made.bind(f"/proc/self/fd/{folder}/{temporary}")
        finally:
            os.umask(before)
        os.rename(temporary, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        return made, os.stat(path.name, dir_fd=folder, follow_symlinks=False).st_ino
    except OSError:
        made.close()
        raise
    finally:
        os.close(folder)
