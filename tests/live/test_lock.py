"""Locks of clusters and folders: who holds them, and who cannot."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from dally.errors import InputError
from dally.live.assembly import Service
from dally.live.config import Config
from dally.live.lock import ClusterLock, lock_folder
from dally.testing.fake_backend import FakeBackend


def test_a_lock_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    ClusterLock(path, "schedules").release()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_lock_that_cannot_be_had_is_told_in_a_sentence(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("precious")
    (tmp_path / "link").symlink_to(precious)
    (tmp_path / "folder").mkdir()
    (tmp_path / "open").touch()
    (tmp_path / "open").chmod(0o666)
    for name, problem in (
        ("folder", "cannot be locked: Is a directory"),
        ("link", "is a link"),
        ("open", "other users can write to it"),
    ):
        with pytest.raises(InputError, match=f"{tmp_path / name}: {problem}"):
            ClusterLock(tmp_path / name, "schedules")
    assert precious.read_text() == "precious"


def test_locks_of_clusters_are_in_a_folder_that_no_other_user_can_write(tmp_path: Path) -> None:
    folder = lock_folder(tmp_path)
    found = folder.stat()
    assert (found.st_uid, stat.S_IMODE(found.st_mode)) == (os.geteuid(), 0o700)


def test_a_dry_run_may_watch_beside_a_daemon_in_another_folder(tmp_path: Path) -> None:
    class Here(FakeBackend):
        def identity(self) -> str:
            return str(tmp_path)

    def begun(folder: str, dry_run: bool) -> Service:
        return Service(Config(folder=tmp_path / folder, dry_run=dry_run), Here(1, 1, 8))

    services = [begun("a", False), begun("b", True)]
    for folder, dry_run, why in (
        ("c", False, "schedules this local cluster"),
        ("c", True, "watches this local cluster"),
    ):
        with pytest.raises(InputError, match=rf"another `dally serve` \(process \d+\) {why} already"):
            begun(folder, dry_run)
    services.pop().close()
    with pytest.raises(InputError, match=r"serve.lock: another .* keeps its state in this folder already"):
        begun("a", True)
    services.append(begun("b", True))
    for service in services:
        service.close()
