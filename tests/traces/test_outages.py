"""Outage files."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from benchmarks.fuzz import mutated

from dally.errors import InputError
from dally.traces.outages import read_outages

MACHINES = {"0": 0, "1": 1, "n0": 0, "n1": 1}


def test_reads_names_numbers_and_open_ends(tmp_path: Path) -> None:
    file = tmp_path / "o.csv"
    file.write_text("machine,fail_s,repair_s\nn1,10,20\n0,5,\n")
    assert read_outages(file, MACHINES) == [(1, 10.0, 20.0), (0, 5.0, float("inf"))]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "o.csv: is empty"),
        ("machine,fail_s\n", "o.csv:1: repair_s: no such column"),
        ("machine,fail_s,repair_s\nn7,1,2\n", "o.csv:2: machine: 'n7': the cluster has no such machine"),
        ("machine,fail_s,repair_s\nn0,5,5\n", "o.csv:2: repair_s: '5': must come after fail_s, '5'"),
        ("machine,fail_s,repair_s\nn0,x,5\n", "o.csv:2: fail_s: 'x' is not a number"),
        ("machine,fail_s,repair_s\nn0,1\n", "o.csv:2: 2 fields where the header has 3"),
    ],
)
def test_says_what_is_wrong(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "o.csv"
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        read_outages(file, MACHINES)
    assert message in str(caught.value)


def fault(node: str, day: float, kind: str) -> dict[str, object]:
    return {"node_id": node, "event_time": day, "event_type": f"fault_{kind}", "fault_type": {"Class": "GPU"}}


def test_faults_by_name_overlapping_open_and_empty(tmp_path: Path) -> None:
    file = tmp_path / "f.json"
    events = [fault("n0", 0.5, "start"), fault("n0", 1, "start"), fault("n1", 1, "start"), fault("n1", 1, "end")]
    events += [fault("n0", 1.5, "end"), fault("n0", 2, "end"), fault("n1", 3, "start")]
    file.write_text(json.dumps(events))
    assert read_outages(file, MACHINES) == [(0, 43200.0, 172800.0), (1, 259200.0, float("inf"))]


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([fault("n0", 1, "end")], "f.json:1: event_type: 'fault_end': no fault of 'n0' began before"),
        ([fault("n0", 2, "start"), fault("n0", 1, "end")], "f.json:1: event_type: 'fault_end': no fault of 'n0'"),
        ([fault("n0", -1, "start")], "f.json:1: event_time: '-1': must be a number, not negative"),
        ([fault("n0", 1, "?")], "f.json:1: event_type: 'fault_?': must be fault_start or fault_end"),
        ([fault("", 1, "start")], "f.json:1: node_id: missing"),
        ([7], "f.json:1: 7: must be an object with node_id, event_time, event_type"),
    ],
)
def test_says_what_is_wrong_with_faults(events: list[object], message: str, tmp_path: Path) -> None:
    file = tmp_path / "f.json"
    file.write_text(json.dumps(events))
    with pytest.raises(InputError) as caught:
        read_outages(file, MACHINES)
    assert message in str(caught.value)


def test_the_published_fault_trace_on_other_clusters(shared: Path) -> None:
    file = shared / "traces" / "infinitehbd_fault_trace.json.gz"
    names = {f"m{number}": number for number in range(121)}
    found = read_outages(file, names)
    assert found == read_outages(file, names)
    down_s = sum(repair_s - fail_s for _, fail_s, repair_s in found)
    assert down_s / (348.98 * 86400.0 * 121) == pytest.approx(0.023, abs=0.001)
    assert (len(found), len({machine for machine, _, _ in found})) == (191, 74)
    with pytest.raises(InputError, match="lists 400 servers and the cluster has 401 machines"):
        read_outages(file, {f"m{number}": number for number in range(401)})


def test_damage_of_any_kind(tmp_path: Path) -> None:
    file = tmp_path / "f.json"
    content = json.dumps([fault("n0", 0.5, "start"), fault("n0", 1, "end")], indent=1).encode()
    for case in range(300):
        file.write_bytes(mutated(Random(case), content))
        with suppress(InputError):
            assert all(0 <= fail_s < repair_s for _, fail_s, repair_s in read_outages(file, MACHINES))
