"""Partitions from a record: which machines are whose, and when the record does not show it."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.calibration_sites import SITES, ask

from dally.cluster.topology import Machine, Topology
from dally.job_spec import JobSpec
from dally.metrics.wait_fit import RecordedJob, evidence_of
from dally.sweep.whatif.calibration import still_there
from dally.sweep.whatif.recorded_partitions import recorded_partitions
from dally.traces.rows import TraceRow

A = [Machine((), f"a{number}", 8, "A100") for number in range(3)]
V = [Machine((), f"v{number}", 8, "V100") for number in range(2)]


def topology() -> Topology:
    return Topology(["machine", "network"], [*A, *V])


def row(number: int, partition: str, nodes: str, gpus: int = 8) -> TraceRow:
    return TraceRow(number, f"j{number}", 0.0, JobSpec(gpus, partition=partition), 60.0, nodes=nodes)


def machines(rows: list[TraceRow]) -> dict[str, list[str]]:
    names = topology().names[0]
    return {
        one.name: sorted(names[number] for number in one.machines) for one in recorded_partitions(topology(), rows)
    }


def test_machines_are_those_on_which_jobs_ran() -> None:
    rows = [row(1, "big", "a[0-1]", 16), row(2, "old", "v0"), row(3, "old", "v1")]
    # No job ran on a2: it is an A100 as those of `big` are, and no other partition has any.
    assert machines(rows) == {"big": ["a0", "a1", "a2"], "old": ["v0", "v1"]}


def test_a_node_list_may_have_several_patterns() -> None:
    rows = [row(1, "big", "a[0-1],a2", 24), row(2, "old", "v0,v1", 16)]
    assert machines(rows) == {"big": ["a0", "a1", "a2"], "old": ["v0", "v1"]}


def test_an_idle_machine_belongs_where_its_neighbours_do() -> None:
    """Racks are of one partition each, and all GPUs are alike."""
    racks = Topology(
        ["machine", "rack", "network"],
        [Machine((f"rack{rack}",), f"{rack}n{place}", 8, "A100") for rack in "ab" for place in range(3)],
    )
    names = racks.names[0]
    rows = [row(1, "left", "an0"), row(2, "left", "an1"), row(3, "right", "bn0")]
    found = {one.name: sorted(names[number] for number in one.machines) for one in recorded_partitions(racks, rows)}
    assert found == {"left": ["an0", "an1", "an2"], "right": ["bn0", "bn1", "bn2"]}
    rows.append(row(4, "shared", "an1"))  # neighbours disagree: nothing is known of an2
    found = {one.name: sorted(names[number] for number in one.machines) for one in recorded_partitions(racks, rows)}
    assert found["left"] == ["an0", "an1"]


def test_a_record_that_does_not_show_them() -> None:
    assert machines([row(1, "big", "a0"), row(2, "big", "v0")]) == {}, "one partition is no partition"
    assert machines([row(1, "big", "a0"), row(2, "old", "")]) == {}, "half of the places are not known"
    assert (
        machines([row(1, "big", "a0"), *(row(n, "old", "v0") for n in range(2, 12)), row(12, "old", "", 40)]) == {}
    )


def test_a_part_of_a_record_begins_with_the_jobs_that_were_there() -> None:
    """Those that ran came at their starts, those that waited come at its first moment; others are left out."""

    def job(name: str, submit_s: float, wait_s: float, ran_s: float) -> TraceRow:
        return TraceRow(0, name, submit_s, JobSpec(8), ran_s, wait_s=wait_s)

    rows = [job("ended", 0.0, 0.0, 50.0), job("ran", 0.0, 10.0, 500.0), job("waited", 60.0, 90.0, 70.0)]
    assert [(row.job_id, row.submit_s, row.wait_s, row.stated) for row in still_there(rows, 100.0)] == [
        ("ran", 10.0, 0.0, 500.0),
        ("waited", 100.0, 50.0, 70.0),
    ]


def test_an_overlap_of_a_second_is_rounding() -> None:
    spec = JobSpec(8)
    jobs = [RecordedJob(0.0, 0.0, 100.0, spec), RecordedJob(0.0, 99.0, 200.0, spec)]
    assert evidence_of(jobs, 8).peak_gpus == 8
    jobs = [RecordedJob(0.0, 0.0, 100.0, spec), RecordedJob(0.0, 90.0, 200.0, spec)]
    assert evidence_of(jobs, 8).peak_gpus == 16


def test_a_site_of_three_partitions_is_replayed_as_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its settings are found from its record, and machines that are idle in the replay too are no objection."""
    [site] = [site for site in SITES if site.name == "three partitions"]
    values = ask(site, 1000, tmp_path / "site")
    assert values["calibration"]["policy"] == site.policy
    assert values["fit"]["whole"]["replayed_mean_s"] == pytest.approx(
        values["fit"]["whole"]["recorded_mean_s"], rel=0.1
    )
    assert (values["verdict"]["level"], values["verdict"]["reasons"]) == ("use", [])
    assert "kept in the partition that the record names" in "".join(values["notes"])
    assert "can be used" in capsys.readouterr().out


def test_a_record_of_a_larger_cluster_is_refused_for_that(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    [site] = [site for site in SITES if site.given]
    values = ask(site, 250, tmp_path / "site")
    assert values["verdict"]["level"] == "do not quote"
    assert values["verdict"]["reasons"][0].endswith(
        ("and the cluster given has 96", "does not have (a2n0, a2n1, a2n2, …)")
    )
    assert values["answer"].startswith("Roughly: dally would ")
    assert capsys.readouterr().out
