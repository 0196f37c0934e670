"""`dally topology`: import, show and check, and what is imported can be simulated."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run

CONF = """SwitchName=core Switches=leaf[1-4]
SwitchName=leaf1 Nodes=gpu[01-04]
SwitchName=leaf2 Nodes=gpu[05-08]
SwitchName=leaf3 Nodes=gpu[09-12]
SwitchName=leaf4 Nodes=gpu[13-16]
"""
SCONTROL = "".join(
    f"NodeName=gpu{number:02} Arch=x86_64 CoresPerSocket=32\n   Gres=gpu:a100:8(S:0-1)\n   State=MIXED\n\n"
    for number in range(1, 17)
)
GRES = "NodeName=gpu[01-16] Name=gpu Type=a100 File=/dev/nvidia[0-7]\n"
JOBS = "job_id,submit_s,gpus,duration_s\na,0,64,100\nb,0,32,100\nc,0,32,100\nd,5,128,10\n"


@pytest.fixture
def slurm(tmp_path: Path) -> Path:
    """A folder like /etc/slurm, and a trace."""
    (tmp_path / "topology.conf").write_text(CONF)
    (tmp_path / "scontrol.txt").write_text(SCONTROL)
    (tmp_path / "my-gres.conf").write_text(GRES)
    (tmp_path / "jobs.csv").write_text(JOBS)
    return tmp_path


@pytest.mark.parametrize(
    "source", [("--nodes", "scontrol.txt"), ("--gres", "my-gres.conf"), ("--gpus-per-node", "8")]
)
def test_a_slurm_tree_of_16_nodes(source: tuple[str, str], slurm: Path, dally: Run) -> None:
    done = dally("topology", "import", "topology.conf", *source, "--out", "cluster.toml")
    types, typed = ("; 128 a100", " a100") if source[0] != "--gpus-per-node" else ("", "")
    assert (done.stdout, done.stderr) == (f"cluster.toml: 128 GPUs; 1 network, 4 rack, 16 machine{types}\n", "")
    assert dally("topology", "show", "cluster.toml").stdout.splitlines() == [
        "network: 128 GPUs",
        "└── leaf1 … leaf4: 4 × 32 GPUs",
        f"    └── gpu01 … gpu04: 4 × 8{typed} GPUs",
    ]
    summary = dally("simulate", "--trace", "jobs.csv", "--cluster", "cluster.toml", "--json")
    assert json.loads(summary.stdout)["makespan_s"] == 110.0


def test_a_cluster_is_read_where_slurm_keeps_it(slurm: Path, dally: Run) -> None:
    (slurm / "my-gres.conf").rename(slurm / "gres.conf")
    run = ("simulate", "--trace", "jobs.csv", "--cluster", "topology.conf", "--network", "slow")
    done = dally(*run, "--out", "run")
    assert (done.returncode, done.stderr) == (0, "")
    scenario = (slurm / "run" / "scenario.toml").read_text()
    assert f'"{slurm}/gres.conf" = ' in scenario
    (slurm / "gres.conf").write_text(GRES.replace("0-7", "0-3"))
    done = dally("simulate", "--scenario", "run/scenario.toml")
    assert done.stderr == f"dally: {slurm}/gres.conf: has changed since the scenario was written\n"


def test_to_slurm_and_back(slurm: Path, dally: Run) -> None:
    dally("topology", "import", "topology.conf", "--nodes", "scontrol.txt", "--to", "slurm", "--out", "new.conf")
    again = dally("topology", "import", "new.conf", "--out", "again.toml", "--json")
    assert json.loads(again.stdout)["gpus"] == 128
    text = (slurm / "new.conf").read_text()
    assert text == CONF.replace("core", "network") + "#GPUs NodeName=gpu[01-16] Gres=gpu:a100:8\n"
    assert json.loads(again.stdout)["machines"][15]["gpu_type"] == "a100"


def test_json(slurm: Path, dally: Run) -> None:
    (slurm / "t.conf").write_text("SwitchName=s Nodes=a,b\n#GPUs NodeName=a,c Gres=gpu:2\n")
    record = json.loads(dally("topology", "check", "t.conf", "--json").stdout)
    assert record == {
        "gpus": 2,
        "tiers": [{"name": "machine", "domains": 1}, {"name": "network", "domains": 1}],
        "machines": [{"name": "a", "path": [], "gpus": 2}],
        "left_out": {"without a GPU count": ["b"], "not in the tree": ["c"]},
    }
    shown = json.loads(dally("topology", "show", "2x1x4", "--json").stdout)
    assert shown["machines"][1] == {"name": "rack1-m0", "path": ["rack1"], "gpus": 4}
    done = dally("topology", "check", "t.conf")
    assert done.stderr == "dally: t.conf: 2 nodes left out: 1 without a GPU count (b), 1 not in the tree (c)\n"
    assert dally("topology", "check", "t.conf", "--strict").returncode == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--to", "yaml"], "unknown format to write 'yaml'; known: toml, slurm"),
        (["--format", "slrm"], "unknown format 'slrm'; did you mean 'slurm'?"),
        (["--format", "kubernetes"], "topology.conf:1: broken JSON: Expecting value"),
        (["--preset", "aws"], "topology.conf: --preset is for kubernetes; this file is slurm"),
        ([], "topology.conf: nothing says how many GPUs its nodes have; give --nodes FILE"),
        (["--nodes", "none.txt"], "none.txt: cannot be read: No such file or directory"),
        (["--gpus-per-node", "8", "--out", "no/where.toml"], "no/where.toml: cannot be written: No such file"),
    ],
)
def test_mistakes_leave_nothing_behind(options: list[str], message: str, slurm: Path, dally: Run) -> None:
    before = sorted(slurm.iterdir())
    done = dally(
        "topology", "import", "topology.conf", *(["--out", "out.toml"] if "--out" not in options else []), *options
    )
    assert done.returncode == 2
    assert done.stderr.startswith(f"dally: {message}")
    assert sorted(slurm.iterdir()) == before
