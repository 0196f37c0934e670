"""Folders of the daemon that other users could have prepared or could change are refused."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from dally.cli.main import exit_code
from dally.errors import InputError
from dally.live import private_folder
from dally.live.assembly import Service
from dally.live.config import Config
from dally.live.private_folder import own_folder
from dally.live.store import open_store
from dally.testing.fake_backend import FakeBackend

NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_state_is_readable_by_the_daemon_alone(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    before = os.umask(0)
    try:
        Service(Config(folder=folder), FakeBackend(1, 1, 8)).close()
    finally:
        os.umask(before)
    assert mode(folder) == 0o700
    assert {path.name: mode(path) for path in folder.iterdir() if path.is_file()} == {
        "dally.db": 0o600,
        "serve.lock": 0o600,
    }


def test_files_of_earlier_versions_are_closed_and_other_files_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir(mode=0o755)
    (folder / "dally.db").touch(mode=0o644)
    own_folder(folder, "x")
    assert (mode(folder), mode(folder / "dally.db")) == (0o700, 0o600)
    folder.chmod(0o755)
    (folder / "train.sh").touch(mode=0o755)
    own_folder(folder, "x")
    assert (mode(folder), mode(folder / "train.sh")) == (0o755, 0o755)


def linked(folder: Path) -> None:
    (folder / "dally.db").symlink_to("/etc/passwd")


def writable(folder: Path) -> None:
    folder.chmod(0o777)


def writable_above(folder: Path) -> None:
    folder.parent.chmod(0o777)


def sticky_itself(folder: Path) -> None:
    folder.chmod(0o1777)


def writable_file(folder: Path) -> None:
    (folder / "dally.db").touch()
    (folder / "dally.db").chmod(0o666)


def group_writable(folder: Path) -> None:
    os.chown(folder, -1, 54321)
    folder.chmod(0o770)


def of_another(folder: Path) -> None:
    os.chown(folder, NOBODY, NOBODY)


def file_of_another(folder: Path) -> None:
    (folder / "dally.db").touch()
    os.chown(folder / "dally.db", NOBODY, NOBODY)


def link_of_another(folder: Path) -> None:
    real = folder.rename(folder.with_name("real"))
    folder.symlink_to(real)
    os.chown(folder, NOBODY, NOBODY, follow_symlinks=False)


@pytest.mark.parametrize(
    ("prepare", "problem"),
    [
        (linked, "dally.db: is a link"),
        (writable, "other users can write to"),
        (writable_above, "other users can write to"),
        (sticky_itself, "other users can write to"),
        (writable_file, r"dally.db: other users can write to it \(mode 0666\)"),
        pytest.param(group_writable, "other users can write to", marks=as_root),
        pytest.param(of_another, "belongs to nobody, and this runs as root; run it as nobody", marks=as_root),
        pytest.param(file_of_another, "dally.db: belongs to nobody", marks=as_root),
        pytest.param(link_of_another, "belongs to nobody", marks=as_root),
    ],
)
def test_a_folder_that_others_can_change_is_refused(
    tmp_path: Path, prepare: Callable[[Path], None], problem: str
) -> None:
    folder = tmp_path / "above" / "state"
    folder.mkdir(parents=True)
    prepare(folder)
    with pytest.raises(InputError, match=problem):
        Config(folder=folder).make_folder()


def test_a_password_of_the_store_is_in_no_message() -> None:
    for address in ("postgresql+psycopg://dally:secret@127.0.0.1:1/x", "nodb://dally:secret@host/x"):
        with pytest.raises(InputError) as told:
            open_store(address)
        assert "secret" not in str(told.value)


def test_a_configuration_that_others_can_write_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It names the operators, the backend and the store."""
    path = tmp_path / "dally.toml"
    path.write_text('backend = "slurm"\noperators = ["nobody"]\n')
    path.chmod(0o666)
    monkeypatch.setattr("dally.cli.live.serve.run", lambda *_: None)
    assert exit_code(["serve", "--config", str(path)]) == 2
    path.chmod(0o644)
    assert exit_code(["serve", "--config", str(path)]) in (None, 0)


def test_a_volume_of_kubernetes_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is root's, and the pod's group may write: nobody else is in that group."""
    folder = tmp_path / "volume"
    folder.mkdir()
    monkeypatch.setattr(os, "getegid", lambda: 10001)
    monkeypatch.setattr(private_folder, "_others_write", _only_group(private_folder._others_write))
    own_folder(folder, "x")


def _only_group(real: Callable[[os.stat_result], bool]) -> Callable[[os.stat_result], bool]:
    """As if each folder were of the group 10001, which may write."""

    def check(status: os.stat_result) -> bool:
        values = list(status)
        values[0], values[5] = 0o042775, 10001
        return real(os.stat_result(values))

    return check
