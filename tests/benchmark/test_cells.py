"""The benchmark's cells: made from a stand-in for the shared data, and from the real data where it is."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import pytest

from dally.benchmark.cells import NETWORKS, WORKLOADS, Cell, Tree, cells, prepare, read_tree, scaled, to_toml
from dally.cluster.presets import PRESETS
from dally.cluster.spec import read_topology
from dally.errors import InputError
from dally.metrics.summary import row_of
from dally.runs.assemble import assemble
from dally.runs.execute import execute
from dally.sweep.run import Prepared
from tests.metrics.test_summary import KEYS as SUMMARY_KEYS

DAY_S = 86400.0
GZIPPED = (
    "helios_venus_window20d.csv.gz", "ms_itp2021_cluster04.csv.gz", "philly_win14d.csv.gz",
    "alibaba_lingjun2023.csv.gz",
)  # fmt: skip


@pytest.fixture
def stand_in(tmp_path: Path) -> Path:
    """A folder like shared/: 1,200 jobs, half of them of 30 min or more, some of 0 s and some of 20 days."""
    traces = tmp_path / "shared" / "traces"
    traces.mkdir(parents=True)
    lines = ["job_id,user,submit_s,gpus,duration_s,status,wait_s,machines,gpu_type"]
    for index in range(1200):
        duration_s = (0, 1800, 1799, 20 * 86400)[index % 4]
        lines.append(f"j{index},u{index % 3},{index * 10},{1 << index % 5},{duration_s},Pass,,,")
    for name in GZIPPED:
        (traces / name).write_bytes(gzip.compress("\n".join(lines).encode()))
    paper = "job_id,submit_s,gpus,model,iterations,time_per_iteration_s,ideal_jct_s\n"
    paper += "a,0,4,MobileNetV3,826085656,0.0007665,158314.250\nb,5,1,BERT,1,1,2.5\nc,5,16,VGG,1,1,3600\n"
    for name in ("paper_batch500.csv", "paper_poisson_week.csv"):
        (traces / name).write_text(paper)
    hosts = [f"h{i},S{i // 4 % 30},P{i // 120},G6" for i in range(240)]
    (traces / "lingjun_topology.csv").write_text("\n".join(["host,ASW,PSW,DSW", *hosts]) + "\n")
    return tmp_path / "shared"


def rows(prepared: Prepared) -> list[dict[str, str]]:
    with prepared.trace.open(newline="") as file:
        return list(csv.DictReader(file))


def column(prepared: Prepared, name: str) -> list[float]:
    return [float(row[name]) for row in rows(prepared)]


def test_the_names_are_the_benchmarks() -> None:
    assert list(WORKLOADS) == [
        "venus80", "itp72", "philly200", "batch32", "lingjun", "paper-batch", "paper-poisson",
    ]  # fmt: skip
    assert NETWORKS == ("fast", "normal", "slow", "congested")
    assert set(NETWORKS) <= set(PRESETS)


@pytest.mark.parametrize(
    ("name", "machines"), [("venus80", 80), ("itp72", 72), ("philly200", 200), ("batch32", 32), ("paper-batch", 64)]
)
def test_clusters_are_machines_of_8_in_racks_of_8(name: str, machines: int) -> None:
    topology = read_topology(WORKLOADS[name].cluster)
    assert (topology.machine_count(), topology.total_gpus()) == (machines, 8 * machines)
    assert list(topology.child_counts[1]) == [8] * (machines // 8)


def test_cells_are_every_combination_in_order() -> None:
    assert cells(["venus80", "lingjun"], iter(["slow", "fast"]), iter([1, 2])) == [
        Cell(name, network, seed)
        for name in ("venus80", "lingjun")
        for network in ("slow", "fast")
        for seed in (1, 2)
    ]


@pytest.mark.parametrize(
    ("names", "networks", "message"),
    [
        (["venus8"], ["slow"], r"unknown workload 'venus8'; did you mean 'venus80'\?"),
        (["venus80"], ["slwo"], r"unknown network 'slwo'; did you mean 'slow'\?"),
        (["?"], ["slow"], "unknown workload '[?]'; known: venus80, itp72"),
    ],
)
def test_unknown_names_are_refused(names: list[str], networks: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        cells(names, networks, [1])


def test_absent_data_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"'itp72' is made from .*ms_itp2021_cluster04.csv.gz, which is not here"):
        prepare("itp72", 1, tmp_path, tmp_path)
    with pytest.raises(InputError, match="unknown workload 'itp7'"):
        prepare("itp7", 1, tmp_path, tmp_path)


def test_a_folder_that_cannot_be_written_is_named(stand_in: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"file: cannot be written"):
        prepare("venus80", 1, stand_in, tmp_path / "file")


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_same_seed_gives_the_same_bytes_and_leaves_the_data_alone(
    name: str, stand_in: Path, tmp_path: Path
) -> None:
    before = {path: path.read_bytes() for path in stand_in.rglob("*.*")}
    one, two = (prepare(name, 3, stand_in, tmp_path / folder) for folder in ("one", "two"))
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()
    assert one.trace.parent == tmp_path / "one"
    assert len(rows(one)) == len(rows(two)) > 0
    assert {path: path.read_bytes() for path in stand_in.rglob("*.*")} == before


def test_philly_is_cut_at_14_days(stand_in: Path, tmp_path: Path) -> None:
    made = prepare("philly200", 1, stand_in, tmp_path)
    assert column(made, "duration_s")[:4] == [0, 1800, 1799, 14 * DAY_S]
    assert column(made, "submit_s")[:3] == [0, 10, 20]


def test_the_others_are_not_cut(stand_in: Path, tmp_path: Path) -> None:
    for name in ("venus80", "itp72"):
        assert column(prepare(name, 1, stand_in, tmp_path), "duration_s")[:4] == [0, 1800, 1799, 20 * DAY_S]


def test_the_batch_is_500_long_jobs_at_once(stand_in: Path, tmp_path: Path) -> None:
    made = prepare("batch32", 1, stand_in, tmp_path)
    assert len(rows(made)) == 500
    assert set(column(made, "submit_s")) == {0.0}
    assert set(column(made, "duration_s")) == {1800.0, 2 * DAY_S}
    drawn = [[row["job_id"] for row in rows(prepare("batch32", seed, stand_in, tmp_path))] for seed in (1, 2)]
    assert drawn[0] != drawn[1]
    assert drawn[0] == sorted(drawn[0], key=lambda name: int(name[1:])), "in the order they came"
    assert len(set(drawn[0])) == 500


def test_too_few_long_jobs_are_an_error(stand_in: Path, tmp_path: Path) -> None:
    text = "job_id,submit_s,gpus,duration_s\na,0,1,1800\nb,0,1,1799\n"
    (stand_in / "traces" / GZIPPED[0]).write_text(text)
    with pytest.raises(InputError, match=r"'batch32': .*csv.gz: the trace holds 1 jobs of at least 30 min"):
        prepare("batch32", 1, stand_in, tmp_path)


def test_lingjun_has_no_zero_durations(stand_in: Path, tmp_path: Path) -> None:
    made = prepare("lingjun", 1, stand_in, tmp_path)
    assert column(made, "duration_s")[:4] == [30, 1800, 1799, 20 * DAY_S]


def test_lingjun_keeps_the_trees_shape(stand_in: Path, tmp_path: Path) -> None:
    """240 hosts in 2 PSWs of 30 leaves of 4: half of it is 2 PSWs of 15 leaves of 4."""
    topology = read_topology(prepare("lingjun", 1, stand_in, tmp_path).cluster)
    assert topology.tiers == ["machine", "asw", "psw", "dsw"]
    assert [len(names) for names in topology.names] == [120, 30, 2, 1]
    assert list(topology.child_counts[1]) == [4] * 30
    assert len(set(topology.names[1])) == 30, "a leaf's name under one PSW is not the same leaf under another"


@pytest.mark.parametrize(
    ("tree", "hosts", "expected"),
    [
        ({"P": {"a": 8, "b": 8}}, 8, {"P": {"b": 8}}),
        ({"P": {"a": 8, "b": 8}}, 16, {"P": {"a": 8, "b": 8}}),
        ({"P": {"a": 3, "b": 4, "c": 4}, "Q": {"a": 5}}, 8, {"P": {"a": 3, "c": 3}, "Q": {"a": 2}}),
        ({"P": {"a": 1, "b": 8}, "Q": {"a": 1}}, 1, {"P": {"b": 1}}),
        ({"P": {"a": 1, "b": 1, "c": 7}}, 8, {"P": {"a": 1, "b": 1, "c": 6}}),
    ],
)
def test_scaling_by_hand(tree: Tree, hosts: int, expected: Tree) -> None:
    """The third: shares 5.5 and 2.5, the tie to P; 6 of 11 hosts are 1.6 of 3 leaves; a and c hold one too many."""
    small = scaled(tree, hosts)
    assert sum(count for leaves in small.values() for count in leaves.values()) == hosts
    assert small == expected


def test_a_tree_does_not_grow() -> None:
    with pytest.raises(InputError, match="a tree of 2 hosts cannot be scaled to 120"):
        scaled({"P": {"a": 2}}, 120)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("host,ASW\nh,S\n", ":1: PSW: no such column; the header has host, ASW"),
        ("host,ASW,PSW\nh,S\n", ":2: 2 fields where the header has 3"),
    ],
)
def test_a_broken_topology_table_says_where(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        read_tree(tmp_path / "t.csv")


def test_only_rack_uplinks_are_oversubscribed_in_the_tree(tmp_path: Path) -> None:
    (tmp_path / "t.toml").write_text(to_toml({"P": {"a": 2}}))
    topology = read_topology(str(tmp_path / "t.toml"))
    assert [tier[0].oversubscription for tier in topology.links[:3]] == [0.0, 0.0, 1.0]


def test_the_papers_jobs_keep_their_models_and_compute_time(stand_in: Path, tmp_path: Path) -> None:
    made = prepare("paper-batch", 1, stand_in, tmp_path)
    assert column(made, "compute_s") == [158314.25, 2.5, 3600.0]
    assert [row["model"] for row in rows(made)] == ["MobileNetV3", "BERT", "VGG"]
    simulation, _ = assemble(Cell("paper-batch", "slow", 1).scenario(made, "fifo-backfill", {}))
    assert [job.model for job in simulation.jobs] == ["MobileNetV3", "BERT", "VGG"]
    assert simulation.jobs[1].duration_s == 2.5, "one GPU has nobody to talk to"
    assert simulation.jobs[2].duration_s > 3600.0


def test_scenarios_say_what_the_benchmark_says(tmp_path: Path) -> None:
    cell, made = Cell("venus80", "slow", 2), Prepared(tmp_path / "a.csv", "10x8x8")
    scenario = cell.scenario(made, "las", {"lease_s": "1800"})
    assert (scenario.network, scenario.seed, scenario.mix) == ("slow", 2, "benchmark")
    assert (scenario.restart_s, scenario.restart_per_gpu_s) == (0.0, 1.0)
    flat = cell.scenario(made, "las", {}, 62.0)
    assert (flat.restart_s, flat.restart_per_gpu_s) == (62.0, 0.0)


def test_a_row_says_what_the_benchmark_reports(tmp_path: Path) -> None:
    """Two GPUs, no waiting but for the last job: 1 GPU for 100 s, then 2 GPUs for 50 s, and none larger."""
    trace = tmp_path / "t.csv"
    trace.write_text("job_id,submit_s,gpus,compute_s,model\na,0,1,100,vgg16\nb,10,2,50,vgg16\n")
    scenario = Cell("venus80", "slow", 1).scenario(Prepared(trace, "1x2"), "fifo-backfill", {})
    record = execute(scenario)
    row = row_of(record)
    last_s = 90.0 + record.outcomes[1].duration_s
    sizes = ["jct_1_gpu_s", "jct_2_to_8_gpus_s", "jct_over_8_gpus_s"]
    tiers = ["starts_machine", "starts_network"]
    counts = ["skipped", "cpu_s", "unused", "notes"]
    named = [name for name in SUMMARY_KEYS if name != "tier_starts"]
    assert list(row) == ["policy", "seed", *named, *counts, *sizes, "short_slowdown_p99", *tiers]
    assert row["makespan_s"] == pytest.approx(10.0 + last_s)
    assert row["jct_mean_s"] == pytest.approx((100.0 + last_s) / 2)
    assert (row["jct_1_gpu_s"], row["jct_over_8_gpus_s"]) == (pytest.approx(100.0), None)
    assert row["jct_2_to_8_gpus_s"] == pytest.approx(last_s)
    assert row["comm_s"] == pytest.approx(row["comm_floor_s"])
    assert (row["jobs"], row["finished"], row["preemptions"], row["starts_machine"]) == (2, 2, 0, 2)


@pytest.mark.parametrize(
    ("name", "jobs", "longest_s"),
    [
        ("venus80", 10_796, 1_964_673.0),
        ("itp72", 15_802, 1_237_189.0),
        ("philly200", 18_792, 14 * DAY_S),
        ("batch32", 500, 2 * DAY_S),
        ("lingjun", 2_498, 1_237_860.0),
    ],
)
def test_the_real_traces(name: str, jobs: int, longest_s: float, shared: Path, tmp_path: Path) -> None:
    made = prepare(name, 1, shared, tmp_path)
    durations = column(made, "duration_s")
    assert (len(durations), max(durations)) == (jobs, longest_s)
    assert durations.count(0.0) == (2 if name == "philly200" else 0)
    assert durations.count(30.0) >= (241 if name == "lingjun" else 0)
    assert max(column(made, "gpus")) <= read_topology(made.cluster).total_gpus()


def test_the_real_batch_depends_on_the_seed(shared: Path, tmp_path: Path) -> None:
    drawn = [{row["job_id"] for row in rows(prepare("batch32", seed, shared, tmp_path))} for seed in (1, 2, 3)]
    assert [len(names) for names in drawn] == [500, 500, 500]
    assert all(len(a & b) < 250 for a, b in ((drawn[0], drawn[1]), (drawn[0], drawn[2]), (drawn[1], drawn[2])))
    assert min(column(prepare("batch32", 1, shared, tmp_path), "duration_s")) >= 1800


def test_the_real_lingjun_tree(shared: Path, tmp_path: Path) -> None:
    """847 hosts in 119 leaves of 3 PSWs (362, 306 and 179 hosts), in proportion."""
    topology = read_topology(prepare("lingjun", 1, shared, tmp_path).cluster)
    assert [len(names) for names in topology.names] == [120, 17, 3, 1]
    assert topology.total_gpus() == 960
    assert dict(zip(topology.names[2], (int(gpus) // 8 for gpus in topology.gpus[2]), strict=True)) == {
        "P10": 51, "P12": 43, "P8": 26,
    }  # fmt: skip
    assert list(topology.child_counts[2]) == [7, 6, 4]
    assert sorted(int(count) for count in topology.child_counts[1])[:4] == [5, 6, 6, 6]
    assert max(topology.child_counts[1]) == 8


@pytest.mark.parametrize(("name", "jobs"), [("paper-batch", 500), ("paper-poisson", 411)])
def test_the_real_papers_jobs_can_be_run(name: str, jobs: int, shared: Path, tmp_path: Path) -> None:
    made = prepare(name, 1, shared, tmp_path)
    simulation, trace = assemble(Cell(name, "normal", 1).scenario(made, "fifo-backfill", {}))
    assert (len(simulation.jobs), trace.skipped) == (jobs, 0)
    assert all(job.model for job in simulation.jobs)
