"""Large models in a catalogue: read, priced by their groups on placements, and bad fields named."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest
from librt.vecs import vec
from mypy_extensions import i64

from dally.cluster.links import Network, connect
from dally.cluster.presets import find_preset
from dally.cluster.topology import Machine, Topology
from dally.errors import InputError
from dally.perf.catalogue import Catalogue
from dally.perf.gang import gang_on
from dally.perf.iteration import demand_of
from dally.perf.profiles import find_profile, load_profiles

SHAPE = "{ layers = 32, hidden = 4096, heads = 32, kv_heads = 8, ffn = 14336, vocab = 128256 }"
MODEL = f"""
[[models]]
name = "our-8b"
kind = "language"
source = "our configuration"
transformer = {SHAPE}
layout = {{ seq = 8192, micro_batches = 8, tp = 4, pp = 2 }}
"""
MEASURED = """
[[models.measured]]
gpu = "h100"
precision = "bf16"
gpus = 16
step_s = 4.0
source = "a log"
"""


def catalogue(path: Path, text: str) -> Catalogue:
    file = path / "mine.toml"
    file.write_text(text)
    return load_profiles(file)


def cluster(preset: str = "normal") -> Network:
    hosts = [Machine((f"r{rack}",), f"r{rack}m{host}", 8) for rack in range(4) for host in range(4)]
    return connect(Topology(["machine", "rack", "network"], hosts), find_preset(preset))


def step_on(network: Network, known: Catalogue, parts: dict[int, int], name: str = "our-8b") -> float:
    profile = find_profile(name, "h100", catalogue=known).step(sum(parts.values()))
    gang = gang_on(network, vec[i64](list(parts)), vec[i64](list(parts.values())))
    demand = demand_of(network, gang, profile)
    return demand.iteration_s(demand.alone_s)


def test_a_placement_is_priced_as_its_groups_are(tmp_path: Path) -> None:
    known = catalogue(tmp_path, MODEL)
    network = cluster()
    profile = find_profile("our-8b", "h100", catalogue=known).step(16)
    for parts in ({0: 8, 1: 8}, {0: 8, 4: 8}, {0: 4, 1: 4, 2: 4, 3: 4}, {0: 3, 1: 8, 2: 5}):
        gang = gang_on(network, vec[i64](list(parts)), vec[i64](list(parts.values())))
        demand = demand_of(network, gang, profile)
        placed = profile.groups.placed(network, gang)
        assert demand.iteration_s(demand.alone_s) == pytest.approx(placed.parts.total_s, rel=1e-9)
        assert demand.compute_s() == pytest.approx(profile.compute_s(), rel=1e-9)


def test_shapes_that_align_with_the_groups_are_faster(tmp_path: Path) -> None:
    """16 GPUs with tp 4: whole blocks in each machine, against one that is cut and so goes over NICs."""
    known = catalogue(tmp_path, MODEL)
    network = cluster()
    aligned = step_on(network, known, {0: 8, 1: 8})
    assert step_on(network, known, {0: 3, 1: 8, 2: 5}) > 1.2 * aligned
    assert step_on(network, known, {0: 4, 1: 4, 2: 4, 3: 4}) >= aligned


def test_a_measured_step_fixes_the_model_there(tmp_path: Path) -> None:
    known = catalogue(tmp_path, MODEL + MEASURED)
    own = find_profile("our-8b", "h100", catalogue=known)
    assert own.large is not None
    large, priced = own.large
    assert priced.step(large.layout(16)).total_s == pytest.approx(4.0, rel=1e-4)
    assert own.basis == "measured"


def test_the_known_shapes_have_names(tmp_path: Path) -> None:
    text = MODEL.replace(SHAPE, '{ like = "Qwen3-30B-A3B" }').replace("tp = 4, pp = 2", "ep = 8")
    known = catalogue(tmp_path, text)
    assert find_profile("our-8b", "h100", catalogue=known).params == pytest.approx(30.5e9, rel=0.01)
    network = cluster()
    one_machine = step_on(network, known, {0: 8})
    assert step_on(network, known, {0: 4, 1: 4}) > one_machine


def test_degrees_follow_the_size_of_the_gang(tmp_path: Path) -> None:
    known = catalogue(tmp_path, MODEL)
    own = find_profile("our-8b", "h100", catalogue=known)
    assert own.large is not None
    layouts = {gpus: own.large[0].layout(gpus) for gpus in (2, 4, 8, 32)}
    assert [(layout.tp, layout.pp, layout.dp) for layout in layouts.values()] == [
        (2, 1, 1), (4, 1, 1), (4, 2, 1), (4, 2, 4),
    ]  # fmt: skip
    assert all(layout.micro_batches == 8 for layout in layouts.values())


def test_profiles_of_groups_can_be_pickled(tmp_path: Path) -> None:
    profile = find_profile("our-8b", "h100", catalogue=catalogue(tmp_path, MODEL)).step(16)
    again = pickle.loads(pickle.dumps(profile))
    assert again.groups.layout == profile.groups.layout
    assert again.compute_s() == profile.compute_s()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("layers = 32", "layers = 0", "transformer.layers"),
        ("heads = 32", "heads = 'many'", "transformer.heads"),
        ("tp = 4", "tp = 4, zero = 9", "layout.zero"),
        ("pp = 2", "pp = 2, vpp = 40", "vpp 40"),
        ("pp = 2", "pp = 2, recompute = 'some'", "layout.recompute"),
        ("tp = 4", "tq = 4", "layout.tq"),
        ('source = "our configuration"', "", "source"),
        (SHAPE, '{ like = "unheard-of" }', "transformer.like"),
    ],
)
def test_bad_fields_are_named(tmp_path: Path, old: str, new: str, words: str) -> None:
    assert old in MODEL
    with pytest.raises(InputError, match="mine") as caught:
        catalogue(tmp_path, MODEL.replace(old, new))
    assert words in str(caught.value)


def test_a_gpu_type_that_is_not_known_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="t4"):
        find_profile("our-8b", "t4", catalogue=catalogue(tmp_path, MODEL))


def test_predict_shows_what_crosses_and_writes_the_order_of_ranks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """12 GPUs of three machines, tp 4 and three replicas: gradients alone leave the machines."""
    from dally.cli.main import exit_code

    file, hosts = tmp_path / "mine.toml", tmp_path / "hosts"
    file.write_text(MODEL.replace("tp = 4, pp = 2", "tp = 4"))
    words = ["predict", "--model", "our-8b", "--gpu", "h100", "--profiles", str(file), "--cluster", "1x4x4"]
    words += ["--network", "normal", "--placement", "4+4+4"]
    assert exit_code([*words, "--hostfile", str(hosts), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["crosses"] == {"data": "machine"}
    assert facts["ranks"] == hosts.read_text().split()
    assert [facts["ranks"].count(name) for name in dict.fromkeys(facts["ranks"])] == [4, 4, 4]
    assert facts["ranks"][0] == facts["ranks"][3]
    assert facts["iteration_s"] == pytest.approx(sum(facts["parts_s"].values()))
    assert exit_code(words) == 0
    assert "groups that cross" in capsys.readouterr().out
    other = ["predict", "--model", "resnet50", *words[7:]]
    assert exit_code([*other, "--hostfile", str(hosts)]) == 2
    assert "states no parallel groups" in capsys.readouterr().err


def test_explain_says_which_groups_cross_what(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """16 GPUs on two machines of 8: stages or replicas meet over NICs, and 8 GPUs stay in one machine."""
    from dally.cli.main import exit_code

    file, jobs, run = tmp_path / "mine.toml", tmp_path / "jobs.csv", tmp_path / "run"
    file.write_text(MODEL)
    jobs.write_text("job_id,submit_s,gpus,duration_s,model\na,0,16,900,our-8b\nb,9000,8,900,our-8b\n")
    words = ["simulate", str(jobs), "--cluster", "2x2x8", "--network", "normal", "--profiles", str(file)]
    assert exit_code([*words, "--out", str(run)]) == 0
    capsys.readouterr()
    assert exit_code(["explain", "a", "--run", str(run)]) == 0
    assert "; over machine uplinks: " in capsys.readouterr().out
    assert exit_code(["explain", "b", "--run", str(run)]) == 0
    assert "uplinks" not in capsys.readouterr().out
