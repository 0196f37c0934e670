"""Grids, random searches, and the names of what varies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dally.errors import InputError
from dally.sweep.plan import Plan, Range, convert, draw, full_name, read_plan, read_range

JOBS = "job_id,submit_s,gpus,duration_s\na,0,4,10\n"
BASE = '[base]\ntrace = "t.csv"\ncluster = "1x8"\n'


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "t.csv").write_text(JOBS)
    return tmp_path


def plan_of(folder: Path, text: str) -> Plan:
    (folder / "p.toml").write_text(text)
    return read_plan(folder / "p.toml")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("policy", "policy"), ("restart_s", "restart_s"), ("set.lease_s", "set.lease_s"),
        ("lease_s", "set.lease_s"),
        ("network.nic_gbps", "network.nic_gbps"), ("network", "network"),
    ],
)  # fmt: skip
def test_names(name: str, expected: str) -> None:
    assert full_name(name) == expected


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("polcy", "did you mean 'policy'"),
        ("network.nic_gps", "did you mean 'nic_gbps'"),
        ("digests", "unknown parameter"),
        ("settings", "unknown parameter"),
    ],
)
def test_unknown_names_are_refused(name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        full_name(name)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("seed", "3", 3), ("seed", 3, 3), ("restart_s", "62", 62.0), ("restart_s", 62, 62.0),
        ("skip_impossible", "on", True), ("skip_impossible", True, True), ("set.lease_s", 600, "600"),
        ("set.lease_s", 600.0, "600"), ("set.lease_s", 0.5, "0.5"), ("set.tuner", False, "off"),
        ("policy", "las", "las"),
    ],
)  # fmt: skip
def test_values_become_what_the_parameter_takes(name: str, value: Any, expected: Any) -> None:
    found = convert(name, value)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("name", "value"), [("seed", "x"), ("seed", 1.5), ("seed", True), ("restart_s", "1s"), ("policy", ["a"])]
)
def test_values_of_another_type_are_refused(name: str, value: Any) -> None:
    with pytest.raises(InputError, match=name):
        convert(name, value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("600:7200", Range(600, 7200)),
        ("1e2:1e4:log", Range(100, 10000, log=True)),
        ("1:8:int", Range(1, 8, whole=True)),
        ("1:64:log:int", Range(1, 64, log=True, whole=True)),
        ("-1:1", Range(-1, 1)),
        ("las", None),
        ("a:b", None),
        ("1:2:lin", None),
        ("dir:1/x.csv", None),
    ],
)
def test_ranges(text: str, expected: Range | None) -> None:
    assert read_range("x", text) == expected


@pytest.mark.parametrize("text", ["2:1", "1:1", "0:1:log", "1.5:3:int"])
def test_bad_ranges_are_refused(text: str) -> None:
    with pytest.raises(InputError, match=text):
        read_range("x", text)


def test_draws_fill_the_range_and_depend_on_nothing_else() -> None:
    whole = [draw(1, "n", number, Range(1, 4, whole=True)) for number in range(200)]
    assert sorted(set(whole)) == [1, 2, 3, 4]
    logs = [draw(1, "n", number, Range(1, 10000, log=True)) for number in range(400)]
    assert all(1 <= value <= 10000 for value in logs)
    assert 0.4 < sum(value < 100 for value in logs) / 400 < 0.6, "half of a logarithmic range lies below its root"
    assert [draw(1, "n", number, Range(1, 4, whole=True)) for number in range(100)] == whole[:100]
    assert [draw(2, "n", number, Range(1, 4, whole=True)) for number in range(200)] != whole
    assert {draw(1, "n", number, ["a", "b"]) for number in range(50)} == {"a", "b"}


def test_a_file_is_every_combination_times_the_samples(here: Path) -> None:
    plan = plan_of(
        here,
        BASE + '[grid]\npolicy = ["las", "dally-paper"]\nseed = [1, 2]\nnetwork.nic_gbps = [5, 10.5]\n'
        '[random]\nsamples = 3\nseed = 7\nset.lease_s = "60:600:log"\n',
    )
    runs = plan.runs()
    assert len(runs) == 2 * 2 * 2 * 3
    assert len({run.key for run in runs}) == 24
    assert list(runs[0].labels) == ["policy", "seed", "network.nic_gbps", "set.lease_s"]
    assert [run.labels["policy"] for run in runs] == ["las"] * 12 + ["dally-paper"] * 12
    assert runs[3].scenario.network_settings == {"nic_gbps": "10.5"}
    leases = [run.labels["set.lease_s"] for run in runs]
    assert leases == leases[:3] * 8, "the same samples everywhere, so that they compare"
    assert float(runs[1].scenario.settings["lease_s"]) == leases[1]
    assert runs[0].scenario.trace == str(here / "t.csv"), "beside the plan"
    plan.samples = 5
    assert [run.labels["set.lease_s"] for run in plan.runs()][:3] == leases[:3], "more samples keep the first ones"


def test_flags(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(here)
    plan = Plan(samples=2)
    plan.fix("trace", "t.csv")
    plan.vary("cluster=1x8,2x8")
    plan.vary("policy=dally-paper")
    plan.vary("floors=6,12;0")
    plan.vary("lease_s=60:600")
    assert plan.grid == {"cluster": ["1x8", "2x8"], "policy": ["dally-paper"], "set.floors": ["6,12", "0"]}
    assert len(plan.runs()) == 2 * 1 * 2 * 2
    plan.vary("lease_s=60,60,90")
    assert (plan.grid["set.lease_s"], plan.random) == (["60", "90"], {})


def test_a_file_of_the_plans_folder_names_a_policy(here: Path) -> None:
    (here / "mine.py").write_text("from dally.policies.backfill import EasyBackfill\nclass Mine(EasyBackfill):\n"
        "    def __init__(self, x: int = 1): pass\n")  # fmt: skip
    plan = plan_of(here, BASE + '[grid]\npolicy = ["mine.py:Mine"]\nset.x = [1, 2]\n')
    runs = plan.runs()
    assert [(run.scenario.policy, run.scenario.settings) for run in runs] == [
        (f"{here}/mine.py:Mine", {"x": "1"}),
        (f"{here}/mine.py:Mine", {"x": "2"}),
    ]
    assert f"{here}/mine.py" in runs[0].scenario.digests


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[bas]\n", "p.toml:1: bas: unknown; a sweep has"),
        ("base = 1\n", "p.toml:1: base: unknown"),
        ("[base\n", "p.toml:1: "),
        ('[base]\ncluster = "1x8"\n', "trace is missing"),
        ('[base]\ntrace = "t.csv"\n', "cluster is missing"),
        (BASE + "seed = 1.5\n", "p.toml:4: seed: 1.5: must be of type int"),
        (BASE + "[grid]\nsed = [1]\n", "p.toml:5: unknown parameter 'sed'"),
        (BASE + "[grid]\nseed = []\n", "p.toml:5: seed: the list is empty"),
        (BASE + '[grid]\npolicy = ["fifi"]\n', "did you mean 'fifo'"),
        (BASE + '[grid]\nnetwork = ["slwo"]\n', "did you mean 'slow'"),
        (BASE + "[grid]\nset.lease_s = [5]\n", "has no parameter 'lease_s'"),
        (BASE + '[grid]\npolicy = ["las"]\nset.leas_s = [5]\n', "did you mean 'lease_s'"),
        (BASE + '[grid]\npolicy = ["no.py:Mine"]\n', "no.py: cannot be read"),
        (BASE + '[random]\nrestart_s = "0:60"\n', "say how many samples"),
        (BASE + "[random]\nsamples = 2\nrestart_s = 5\n", "p.toml:6: restart_s: 5: must be"),
        (BASE + "[random]\nsamples = 1.5\n", "p.toml:5: random.samples: 1.5"),
        (BASE.replace("t.csv", "no.csv"), "no.csv: cannot be read"),
    ],
)
def test_bad_plans_say_what_is_wrong(text: str, message: str, here: Path) -> None:
    with pytest.raises(InputError) as raised:
        plan_of(here, text).runs()
    assert message in str(raised.value)
