"""What is written is read back as the same topology, and no damaged file breaks a reader."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.fuzz_topologies import SEEDS, check, damaged
from hypothesis import given, settings
from hypothesis import strategies as st

from dally.cluster.formats.from_machines import ImportOptions
from dally.cluster.formats.hostlist import expand_list, fold
from dally.cluster.formats.slurm_conf import read_slurm
from dally.cluster.formats.toml_file import parse_toml
from dally.cluster.formats.writers import to_slurm, to_toml
from dally.cluster.topology import Link, Machine, Topology, default_tiers
from tests.examples import many

FILE = Path("written")
ODD_NAMES = st.text("ab/[]_, é\"'\\\t\x7f#=.0", max_size=70)
PLAIN_NAMES = st.from_regex(r"[a-c][a-c0-9_.-]{0,8}", fullmatch=True)
NUMBERED = st.builds(
    "{}{}{}".format, st.sampled_from(["", "n", "gpu-"]), st.integers(0, 120), st.sampled_from(["", "x"])
)
LINKS = st.builds(
    Link,
    capacity_gbps=st.sampled_from([0.0, 12.5, 50.0]),
    latency_s=st.sampled_from([0.0, 2e-6]),
    efficiency=st.sampled_from([0.0, 0.9]),
    oversubscription=st.sampled_from([0.0, 2.0]),
    background=st.sampled_from([-1.0, 0.0, 0.3]),
)
FABRICS = st.builds(
    Link,
    capacity_gbps=st.sampled_from([0.0, 25.0]),
    fabric=st.sampled_from(["", "nvswitch"]),
    fabric_gbps=st.sampled_from([0.0, 300.0]),
    fabric_latency_s=st.sampled_from([0.0, 1e-6]),
)


@st.composite
def topologies(draw: st.DrawFn, names: st.SearchStrategy[str], alike: bool) -> Topology:
    """Uneven trees of 2 to 5 tiers. `alike`: domains under different parents may share a name."""
    above = draw(st.integers(0, 3))
    pool = draw(st.lists(names, min_size=above * 3 + 1, max_size=above * 3 + 12, unique=True))
    machine_names, domain_names = pool[above * 3 :], pool[: above * 3]
    machines = []
    for name in machine_names:
        places = [draw(st.integers(0, 2)) for _ in range(above)]
        if alike:
            path = tuple(domain_names[place] for place in places)
        else:
            path = tuple("/".join(map(str, places[: tier + 1])).replace("/", ".") for tier in range(above))
        machines.append(Machine(path, name, draw(st.sampled_from([1, 4, 8]))))
    paths = {(*machine.path, machine.name) for machine in machines}
    paths |= {path[:length] for path in paths for length in range(1, len(path))}
    links = {path: draw(FABRICS if len(path) == above + 1 else LINKS) for path in sorted(paths)}
    return Topology(default_tiers(above + 2), machines, links if draw(st.booleans()) else None)


def shape(topology: Topology) -> object:
    return [[int(parent) for parent in parents] for parents in topology.parents], list(topology.gpus[0])


def facts(topology: Topology) -> object:
    return [[link.facts() for link in tier] for tier in topology.links[:-1]]


@settings(max_examples=many(150))
@given(topologies(st.one_of(PLAIN_NAMES, NUMBERED), alike=True))
def test_toml_reads_back_the_same(topology: Topology) -> None:
    again = parse_toml(FILE, to_toml(topology))
    assert (again.tiers, again.names, shape(again)) == (topology.tiers, topology.names, shape(topology))
    assert facts(again) == facts(topology)


@settings(max_examples=many(150))
@given(topologies(st.one_of(PLAIN_NAMES, NUMBERED), alike=False))
def test_topology_conf_reads_back_the_same(topology: Topology) -> None:
    """All but links and the names of tiers, of which Slurm knows nothing."""
    written = to_slurm(topology)
    again = read_slurm(FILE, written, ImportOptions()).topology
    assert shape(again) == shape(topology)
    assert again.names[0] == topology.names[0]
    assert to_slurm(again) == written


@settings(max_examples=many(150))
@given(topologies(ODD_NAMES, alike=True))
def test_names_that_a_format_cannot_hold_are_changed(topology: Topology) -> None:
    for again in (
        parse_toml(FILE, to_toml(topology)),
        read_slurm(FILE, to_slurm(topology), ImportOptions()).topology,
    ):
        assert shape(again) == shape(topology)
        assert len(set(again.names[0])) == len(topology.names[0])


def test_what_is_written_by_hand() -> None:
    machines = [Machine(("p1", "r"), "a/1", 8), Machine(("p1", "r"), "a_1", 8), Machine(("p2", "r"), "n9", 4)]
    machines += [Machine(("p2", "r"), f"n{number}", 4) for number in (10, 11, 20)]
    topology = Topology(default_tiers(4), machines, {("p2", "r"): Link(capacity_gbps=12.5)})
    assert to_slurm(topology).splitlines() == [
        "SwitchName=network Switches=p[1-2]",
        "SwitchName=p1 Switches=r",
        "SwitchName=p2 Switches=r_2",
        "SwitchName=r Nodes=a_1_2,a_1",
        "SwitchName=r_2 Nodes=n[9-11,20]",
        "#GPUs NodeName=a_1_2,a_1 Gres=gpu:8",
        "#GPUs NodeName=n[9-11,20] Gres=gpu:4",
    ]
    assert to_toml(topology).split("\n\n")[4:] == [
        '[[machines]]\npath = "p1/r"\nnames = [\n    "a_1_2", "a_1",\n]\ngpus = 8',
        '[[machines]]\npath = "p2/r"\nnames = "n[9-11,20]"\ngpus = 4',
        '[[domains]]\npath = "p2/r"\ncapacity_gb_s = 12.5\n',
    ]


@given(st.lists(st.one_of(NUMBERED, st.text("ab019-", min_size=1)), min_size=1))
def test_folded_names_unfold(names: list[str]) -> None:
    assert expand_list(",".join(fold(names))) == names


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("rack[1-2]n[01-02]", ["rack1n01", "rack1n02", "rack2n01", "rack2n02"]),
        ("a,b[1,3-4]-ib, c", ["a", "b1-ib", "b3-ib", "b4-ib", "c"]),
        ("gpu[008-010,020]", ["gpu008", "gpu009", "gpu010", "gpu020"]),
    ],
)
def test_host_lists(text: str, names: list[str]) -> None:
    assert expand_list(text) == names


@pytest.mark.parametrize(
    "text", ["", "a,", "a[1", "a]1[", "a[[1]]", "a[1-2", "a[x]", "a[-1]", "a[1--2]", "a[]", "[1],,"]
)
def test_broken_host_lists(text: str) -> None:
    with pytest.raises(ValueError, match=r"must be|is not"):
        expand_list(text)


@pytest.mark.parametrize("reader", SEEDS)
def test_the_fuzzers_seeds_are_good(reader: str) -> None:
    assert all(check(reader, text.encode()) for text in SEEDS[reader])


@pytest.mark.parametrize("reader", SEEDS)
def test_damaged_files_give_a_topology_or_an_input_error(reader: str) -> None:
    @settings(max_examples=many(100))
    @given(damaged(reader))
    def run(content: bytes) -> None:
        check(reader, content)

    run()
