"""Every field of a scenario has an option, and every command that makes runs has it or says why not."""

from __future__ import annotations

import json
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from dally.cli.main import app
from dally.cli.runs.scenario_options import OPTIONS, ScenarioOptions, stated_options, takes_scenario
from dally.errors import InputError
from dally.runs.scenario import Scenario

TRACE = "job_id,submit_s,gpus,duration_s\na,0,4,1000\nb,1,8,500\n"
FIELDS = [item.name for item in fields(Scenario) if item.name != "digests"]
COMMANDS: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]
CELLS = {
    "contention",
    "gpu",
    "profiles",
    "until_s",
    "checkpoint_every_s",
    "failure_rate",
    "repair_s",
    "seed",
    "seeds",
}
# Fields that a command does not take, each for the reason that its module states.
LEFT_OUT = {
    "simulate": {"seeds"},
    "compare": {"policy", "settings", "jitter"},
    "sweep": {"snapshot"},
    "whatif": {"snapshot"},
    "benchmark": set(OPTIONS) - CELLS,
    "reproduce": set(OPTIONS) - {"seed", "seeds"},
}


def test_every_field_has_an_option_and_every_option_sets_something() -> None:
    assert set(OPTIONS) == {*FIELDS, "scenario", "seeds"}


def test_each_help_text_states_the_default_of_the_field() -> None:
    shown = {param.name: param.help for param in COMMANDS["simulate"].params}
    for item in fields(Scenario):
        if item.default in (MISSING, "", False, float("inf")) or item.name == "checkpoint_every_s":
            continue
        value = f"{item.default:g}" if isinstance(item.default, float) else item.default
        assert shown[item.name].endswith(f"  [default: {value}]"), item.name


@pytest.mark.parametrize("command", LEFT_OUT)
def test_a_command_has_all_options_of_a_scenario_but_those_listed(command: str) -> None:
    params = [param for param in COMMANDS[command].params if not getattr(param, "hidden", False)]
    here = {flag for param in params for flag in param.opts}
    for name, taken in OPTIONS.items():
        assert (name not in LEFT_OUT[command]) == here.issuperset(taken.flags), name


@pytest.mark.parametrize("command", [name for name, left_out in LEFT_OUT.items() if left_out])
def test_who_gives_one_of_those_listed_is_told_why(command: str) -> None:
    for name in LEFT_OUT[command]:
        taken = OPTIONS[name]
        value = {bool: [], list[str]: ["a=1"]}.get(taken.kind, ["1"])
        needed = ["--out", "o"] if command == "sweep" else []
        done = CliRunner().invoke(app, [command, taken.flags[0], *value, *needed])
        assert isinstance(done.exception, InputError), name
        reason = str(done.exception).removeprefix(f"{taken.flags[0]}: ")
        assert str(done.exception) == f"{taken.flags[0]}: {reason}"
        assert len(reason) > 20


@pytest.mark.parametrize("command", ["simulate", "compare", "sweep", "whatif"])
def test_help_texts_are_the_same_everywhere(command: str) -> None:
    own = {"compare": ("trace", "network"), "whatif": ("policy", "settings", "network")}.get(command, ())
    usual = {param.name: param.help for param in COMMANDS["sweep"].params}
    here = {param.name: param.help for param in COMMANDS[command].params}
    for name in OPTIONS:
        if name not in own:
            assert here[name] == usual[name]
        elif name in ("trace", "network"):
            assert here[name].startswith(OPTIONS[name].help)


def test_what_is_given_reaches_the_scenario() -> None:
    found: list[ScenarioOptions] = []

    @takes_scenario(without={"mix": "there are no models here"})
    def command(options: ScenarioOptions, top: int = 3) -> None:
        found.append(options)
        assert top == 5

    small = typer.Typer()
    small.command()(command)
    arguments = [
        "--until",
        "9",
        "--set",
        "lease_s=60",
        "--policy",
        "las",
        "--set-network",
        "nic_gbps=5",
        "--strict",
    ]
    done = CliRunner().invoke(small, [*arguments, "--cluster", "1x8", "--trace", "t.csv", "--top", "5"])
    assert done.exit_code == 0, done.output
    assert found[0].scenario() == Scenario(
        trace="t.csv", cluster="1x8", policy="las", settings={"lease_s": "60"}, until_s=9.0, strict=True,
        network_settings={"nic_gbps": "5"},
    )  # fmt: skip


def test_another_policy_leaves_the_settings_of_a_scenario_behind(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(TRACE)
    written = Scenario(str(tmp_path / "t.csv"), "1x8", "las", {"lease_s": "60"}, until_s=9.0)
    (tmp_path / "s.toml").write_text(written.to_toml())
    kept = ScenarioOptions({"seed": 3}, tmp_path / "s.toml").scenario()
    assert (kept.policy, kept.settings, kept.until_s, kept.seed) == ("las", {"lease_s": "60"}, 9.0, 3)
    assert list(kept.digests) == [str(tmp_path / "t.csv")]
    (tmp_path / "u.csv").write_text(TRACE)
    other = ScenarioOptions({"policy": "srtf", "trace": str(tmp_path / "u.csv")}, tmp_path / "s.toml").scenario()
    assert (other.policy, other.settings, other.until_s, other.digests) == ("srtf", {}, 9.0, {})


def test_seeds() -> None:
    assert ScenarioOptions().seeds([1, 2]) == [1, 2]
    assert ScenarioOptions({"seed": 4}).seeds([1, 2]) == [4]
    assert ScenarioOptions(listed="5,6,5").seeds([1]) == [5, 6]


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        ({"seed": 1, "seeds": "2,3"}, "--seed 1 and --seeds 2,3: give one of them"),
        ({"failures": "f.csv", "failure_rate": 0.5}, "--failures f.csv and --failure-rate 0.5: give one of them"),
        (
            {"failures": "f.csv", "repair_s": 60.0},
            "--repair-s 60: the file of --failures says when machines are back",
        ),
        ({"settings": ["a"]}, "--set a: must be KEY=VALUE"),
        ({"network_settings": ["=1"]}, "--set-network =1: must be KEY=VALUE"),
    ],
)
def test_options_at_odds_are_refused(stated: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as refused:
        stated_options(stated)
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["simulate", "--trace", "t.csv", "--cluster", "1x8", "--report"], "--report: say where with --out DIR"),
        (["compare", "--trace", "t.csv", "--cluster", "1x8", "--report"], "--report: say where with --out DIR"),
        (["compare", "--workloads", "venus80", "--cluster", "1x8"], "--cluster: workloads of --workloads bring"),
        (["compare", "--workloads", "venus80", "--format", "csv"], "--format: workloads of --workloads bring"),
        (["compare", "--trace", "t.csv", "--cluster", "1x8", "--address", "a:1"], "give --engine ray too"),
        (["sweep", "--network", "slow", "--vary", "network=fast,slow"], "--network and --vary network: give one"),
        (["sweep", "--set", "lease_s=1", "--vary", "lease_s=1,2"], "--set and --vary set.lease_s: give one"),
        (["sweep", "--seeds", "1,2", "--vary", "seed=1"], "--seeds and --vary seed: give one of them"),
        (["sweep", "--seeds", "1,x"], "--seeds 1,x: must be whole numbers"),
        (["sweep", "--vary", "seed=1,2", "--samples", "3"], "--samples 3: nothing is drawn at random"),
        (["whatif", "--trace", "t.csv"], "--cluster is missing"),
        (["whatif", "--trace", "t.csv", "--cluster", "1x8", "--network", "none", "--set-network", "nic_gbps=1"],
         "--network none and --set-network: give one of them"),
    ],
)  # fmt: skip
def test_so_are_those_of_one_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text(TRACE)
    out = ["--out", "o"] if arguments[0] == "sweep" else []
    done = CliRunner().invoke(app, [*arguments, *out])
    assert isinstance(done.exception, InputError), done.output
    assert message in str(done.exception)
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


@pytest.mark.parametrize("command", ["compare", "sweep", "whatif"])
def test_options_that_only_simulate_had_change_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """Alone on 8 GPUs, a runs 0-1000. The outage 100-200 undoes all of it: it is done at 200 + 4 + 1000, later than
    the clock goes."""
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("job_id,submit_s,gpus,duration_s\na,0,4,1000\nc,0,4,50\n")
    Path("down.csv").write_text("machine,fail_s,repair_s\nrack0-m0,100,200\n")
    options = ["--trace", "t.csv", "--cluster", "1x1x8", "--failures", "down.csv", "--checkpoint-every", "9999"]
    own = {
        "compare": ["--policies", "fifo"],
        "sweep": ["--policy", "fifo", "--out", "o"],
        "whatif": ["--current", "fifo", "--policy", "las", "--network", "none"],
    }[command]
    finished: list[int] = []
    for until in ("1100", "1300"):
        done = CliRunner().invoke(app, [command, *options, *own, "--until", until, "--seed", "2", "--json"])
        assert done.exit_code == 0, done.output
        found = json.loads(done.stdout)
        finished.append(
            2 - found["unfinished"]
            if command == "whatif"
            else found.get("results", found.get("rows"))[0]["finished"]
        )
    assert finished == [1, 2]


def test_a_sweep_over_seeds_from_a_scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text(TRACE)
    Path("s.toml").write_text(Scenario("t.csv", "1x1x8", "las", {"lease_s": "60"}, until_s=600.0).to_toml())
    Path("plan.toml").write_text('[grid]\npolicy = ["las", "fifo"]\nuntil_s = [1, 2]\n')
    arguments = ["sweep", "plan.toml", "--scenario", "s.toml", "--seeds", "1,2", "--until", "700", "--out", "o"]
    done = CliRunner().invoke(app, [*arguments, "--json"])
    assert done.exit_code == 0, done.output
    rows = json.loads(done.stdout)["rows"]
    assert [(row["policy"], row["seed"]) for row in rows] == [("las", 1), ("las", 2), ("fifo", 1), ("fifo", 2)]
