"""Folders and files of the daemon: nobody else can write to them, change them for others, or lock them.

A folder is only as safe as the folders above it: a user who can rename one of those decides what is found below.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
from pathlib import Path
from typing import Final

from dally.errors import InputError

OWN_FOLDER: Final = 0o700
OWN_FILE: Final = 0o600
OTHERS_WRITE: Final = 0o002
GROUP_WRITES: Final = 0o020
STORE: Final = "dally.db"
LOCK: Final = "serve.lock"
SOCKET: Final = "serve.sock"
TOKEN: Final = "operator.token"
# What daemons keep in their folder.
OURS: Final = frozenset(
    (
        STORE, f"{STORE}-wal", f"{STORE}-shm", f"{STORE}-journal", LOCK, SOCKET, TOKEN,
        "term", "drained.json", "jobs", "shadow", "locks",
    )
)  # fmt: skip


def own_folder(path: Path, what: str) -> None:
    """The folder is there, ours, and closed to others; an InputError that begins with `what` if that cannot be."""
    try:
        path.mkdir(mode=OWN_FOLDER, parents=True, exist_ok=True)
        check_folder(path, what)
        entries = sorted(path.iterdir())
        for entry in entries:
            if entry.name in OURS:
                check_file(entry)
        if path.stat().st_uid == os.geteuid() and all(entry.name in OURS for entry in entries):
            path.chmod(OWN_FOLDER)  # a folder that holds other things too stays as its owner has it
    except OSError as error:
        raise InputError(f"{what}: cannot be made: {error.strerror}") from None


def check_folder(path: Path, what: str) -> None:
    """InputError unless only we and root can change the folder and those above it."""
    whole = Path(os.path.abspath(path))
    real = whole.resolve()
    for one in (*reversed(whole.parents), whole, *reversed(real.parents)):
        _check_step(one, what, is_last=False)
    _check_step(real, what, is_last=True)


def _check_step(path: Path, what: str, is_last: bool) -> None:
    status = path.lstat()
    if status.st_uid not in (0, os.geteuid()):
        raise InputError(
            f"{what}: {path} belongs to {user_name(status.st_uid)}, and this runs as {user_name(os.geteuid())}; "
            f"run it as {user_name(status.st_uid)}, or name another folder"
        )
    if stat.S_ISLNK(status.st_mode):
        return  # where it leads is looked at too
    is_sticky = (
        bool(status.st_mode & stat.S_ISVTX) and not is_last
    )  # in /tmp, nobody renames what is another user's
    if _others_write(status) and not is_sticky:
        raise InputError(
            f"{what}: other users can write to {path} (mode {stat.S_IMODE(status.st_mode):04o}); "
            f"run `chmod go-w {path}`, or name another folder"
        )


def check_file(path: Path) -> None:
    """InputError unless only we and root can write to the file; of ours, only we can read it from now on."""
    status = path.lstat()
    if status.st_uid not in (0, os.geteuid()):
        raise InputError(f"{path}: belongs to {user_name(status.st_uid)}; remove it, or run `chown` on it")
    if stat.S_ISLNK(status.st_mode):
        raise InputError(f"{path}: is a link, and the daemon writes to this folder; remove the link")
    if _others_write(status) and not stat.S_ISSOCK(status.st_mode):  # those are told who asks
        raise InputError(
            f"{path}: other users can write to it (mode {stat.S_IMODE(status.st_mode):04o}); "
            "look at what it holds, and run `chmod go-w` on it"
        )
    if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid():
        path.chmod(OWN_FILE)


def check_unwritable(path: Path, what: str) -> None:
    """InputError if another user can write to the file, wherever links lead."""
    try:
        status = path.stat()
    except OSError:
        return  # whoever reads it says so
    if status.st_uid not in (0, os.geteuid()) or _others_write(status):
        raise InputError(
            f"{what}: other users can write to it ({user_name(status.st_uid)}'s, mode "
            f"{stat.S_IMODE(status.st_mode):04o}), and it says who may do what; run `chown` and `chmod go-w` on it"
        )


def _others_write(status: os.stat_result) -> bool:
    """Whether anybody but the owner and root can write; a group of the owner alone does not count."""
    if status.st_mode & OTHERS_WRITE:
        return True
    return bool(status.st_mode & GROUP_WRITES) and not _is_private_group(status.st_gid)


def _is_private_group(group: int) -> bool:
    """Whether the group is root's or this user's own, as distributions make one per user."""
    if group == 0:
        return True
    if group != os.getegid():
        return False
    try:
        entry = grp.getgrgid(group)
    except KeyError:  # a number that a container was started with
        return True
    name = user_name(os.geteuid())
    return entry.gr_name == name and not set(entry.gr_mem) - {name}


def make_file(path: Path, content: bytes = b"") -> None:
    """A new file for us alone; FileExistsError if there is anything of that name, a link too."""
    made = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, OWN_FILE)
    with os.fdopen(made, "wb") as file:
        os.fchmod(made, OWN_FILE)  # whatever the umask
        file.write(content)


def user_name(uid: int) -> str:
    """The user's name; `uid N` where it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"
