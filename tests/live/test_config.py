"""The configuration of a daemon: what is wrong with it is said before anything begins."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from dally.cli.live.serve import start_message
from dally.cli.main import exit_code
from dally.cluster.spec import read_topology
from dally.errors import InputError
from dally.live.assembly import Service
from dally.live.backends.base import BackendError
from dally.live.config import Config, Setup, read_config
from dally.testing.fake_backend import FakeBackend


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('# ours\npolcy = "las"\n', "dally.toml:2: unknown field 'polcy'; did you mean 'policy'?"),
        ('policy = "las"\nspeed = "2"\n', "dally.toml:2: speed: '2': must be a number"),
        ("[settings]\n[policy]\nx = 1\n", "dally.toml:2: policy: {'x': 1}: must be a text"),
        ("[settings]\nx = 1\n[kuberntes]\n", "dally.toml:3: unknown field 'kuberntes'; did you mean 'kubernetes'?"),
        ("restart_s = -1\n", "restart_s: -1: must not be negative"),
    ],
)
def test_fields_that_are_wrong_are_told_with_their_line(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "dally.toml"
    path.write_text(text)
    with pytest.raises(InputError) as told:
        read_config(path).checked()
    assert str(told.value).endswith(problem)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('policy = "lass"', "unknown policy 'lass'; did you mean 'las'?"),
        ("[settings]\nx = 1", "policy 'dally' has no parameter 'x'"),
        ('queues = "no.toml"', "no.toml: cannot be read"),
        ('network = "slo"', "unknown network 'slo'; did you mean 'slow'?"),
        ('network = "slow"\nusual_model = "zz"', "usual_model: unknown model 'zz'"),
        ('network = "slow"\ngpu = "a10"', "gpu and usual_model: unknown GPU type 'a10'"),
    ],
)
def test_what_cannot_be_scheduled_with_never_begins(tmp_path: Path, text: str, problem: str) -> None:
    """A job without a model would have stopped every turn; a policy that is none, the first one."""
    path = tmp_path / "dally.toml"
    path.write_text(f'folder = "{tmp_path}/state"\ncluster = "1x1x8"\n{text}\n')
    with pytest.raises(InputError) as told:
        Service(read_config(path).checked())
    assert problem in str(told.value)
    assert not (tmp_path / "state" / "dally.db").exists()


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"--folder .*file/state: cannot be made: Not a directory"):
        Service(Config(folder=tmp_path / "file" / "state"))


def test_a_cluster_that_does_not_answer_at_the_start(tmp_path: Path) -> None:
    class Mute(FakeBackend):
        def identity(self) -> str:
            raise BackendError("scontrol show: no answer")

    with pytest.raises(InputError, match=r"--backend local: scontrol show: no answer"):
        Service(Config(folder=tmp_path), Mute(1, 1, 8))


def test_quotas_that_do_nothing_are_told_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "queues.toml").write_text("[queues.a]\nlimit = {A100 = 8}\ndefault = true\n")
    config = Config(folder=tmp_path, setup=Setup(queues=str(tmp_path / "queues.toml")))
    service = SimpleNamespace(config=config, topology=read_topology("1x2x8"))
    access = SimpleNamespace(owner_is_known=True, reading_is_open=True)
    local = SimpleNamespace(path=tmp_path / "serve.sock", note="")
    server = SimpleNamespace(url="http://x", access=access, local=local, first_token="")
    assert "Mind:    jobs are in queues with quotas that do nothing: of A100" in start_message(service, server)


@pytest.mark.parametrize(
    ("words", "policy", "settings", "kubernetes"),
    [
        (["--set", "floors=1,2"], "las", {"lease_s": "60", "floors": "1,2"}, {"preset": "nvidia"}),
        (["--policy", "las", "--set", "lease_s=5"], "las", {"lease_s": "5"}, {"preset": "nvidia"}),
        (["--policy", "fifo"], "fifo", {}, {"preset": "nvidia"}),
        (["--set-backend", "context=lab"], "las", {"lease_s": "60"}, {"preset": "nvidia", "context": "lab"}),
    ],
)
def test_options_merge_over_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], policy: str, settings: dict[str, str],
    kubernetes: dict[str, str],
) -> None:  # fmt: skip
    path = tmp_path / "dally.toml"
    path.write_text('policy = "las"\n[settings]\nlease_s = 60\n[kubernetes]\npreset = "nvidia"\n')
    begun: list[Config] = []
    monkeypatch.setattr("dally.cli.live.serve.run", lambda config, _: begun.append(config))
    assert exit_code(["serve", "--config", str(path), *words]) in (None, 0)
    (config,) = begun
    assert (config.setup.policy, config.setup.settings, config.kubernetes) == (policy, settings, kubernetes)


def test_a_faster_clock_is_said(tmp_path: Path) -> None:
    service = Service(Config(folder=tmp_path, cluster="1x1x8", speed=60.0))
    try:
        access = SimpleNamespace(owner_is_known=True, reading_is_open=True)
        local = SimpleNamespace(path=tmp_path / "s", note="")
        server = SimpleNamespace(url="http://x", local=local, access=access, first_token="")
        assert "Clock:   runs 60 times as fast as this machine's (--speed)\n" in start_message(service, server)
    finally:
        service.close()


@pytest.mark.parametrize(("name", "meant"), [("slrum", "slurm"), ("k8s", "kubernetes"), ("Kube", "kubernetes")])
def test_a_backend_under_another_name_is_suggested(name: str, meant: str) -> None:
    with pytest.raises(InputError, match=f"unknown backend '{name}'; did you mean '{meant}'"):
        Config(backend=name).checked()
