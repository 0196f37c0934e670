"""What a scenario takes on the command line, said once for every command that makes runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import typer

from dally.policies.registry import USUAL_POLICY
from dally.runs.scenario import Scenario

WORKED_OUT = ("digests",)  # fields that no option sets: they follow from the files


class Taken(NamedTuple):
    """An option: its names, its help, the type of its value, and what goes without it."""

    flags: tuple[str, ...]
    help: str
    metavar: str | None = None
    kind: Any = str
    usual: str = ""  # instead of the field's default, where that says too little

    def described(self, default: object, usual: str, more: str) -> str:
        """The help text, what the command adds to it, and what holds if the option is not given."""
        text = f"{self.help} {more}".strip()
        said = usual or self.usual or _shown(default)
        return f"{text}  [default: {said}]" if said else text


# By field of Scenario, in the order of help texts; `scenario` and `seeds` stand for several values of them.
OPTIONS: dict[str, Taken] = {
    "trace": Taken(
        ("--trace",),
        "Jobs: csv with job_id, submit_s, gpus, duration_s, or another format of docs/formats.md.",
        "FILE",
    ),
    "cluster": Taken(
        ("--cluster", "--topology"),
        "RxMxG (racks x machines x GPUs, e.g. 4x16x8; MxG and PxRxMxG work too) or a topology file of "
        "docs/formats.md, such as topology.conf with gres.conf beside it.",
        "RxMxG|FILE",
    ),
    "policy": Taken(("--policy",), "A name from `dally policies` or FILE.py:Class.", "NAME", usual=USUAL_POLICY),
    "settings": Taken(("--set",), "Set a parameter of the policy.", "KEY=VALUE", list[str]),
    "scenario": Taken(
        ("--scenario",), "Start from the scenario.toml that a run left; other options change it.", "FILE", Path
    ),
    "snapshot": Taken(
        ("--from",),
        "Go on from where `dally simulate --snapshot` saved a run: --policy, --set and --until may be others.",
        "FILE",
    ),
    "seed": Taken(("--seed",), "Seed of everything drawn at random.", "N", int),
    "seeds": Taken(("--seeds",), "Several seeds: every run once with each.", "N,…", usual="that of --seed"),
    "network": Taken(
        ("--network",),
        "How fast links are: fast, normal, slow, congested, a100-nvswitch-8x200g and others.",
        "NAME",
        usual="links of the cluster file, if it states any",
    ),
    "network_settings": Taken(("--set-network",), "Override one value of the network.", "KEY=VALUE", list[str]),
    "congestion": Taken(
        ("--congestion",), "Background load on every link above the machine: a share, or TIER=SHARE,…", "SHARE"
    ),
    "network_at": Taken(
        ("--network-at",),
        "From that moment on, links above the machine have this share of their bandwidth: 43200=0.5,129600=1.",
        "SECONDS=SHARE,…",
    ),
    "mix": Taken(("--mix",), "Models for jobs that name none: benchmark, uniform, lingjun, paper.", "NAME"),
    "gpu": Taken(("--gpu",), "GPU type of the models' times.", "TYPE"),
    "profiles": Taken(("--profiles",), "Models of your own, in TOML; measured: those measured on an H200.", "FILE"),
    "queues": Taken(
        ("--queues",),
        "Teams and what they are due: queues.toml, Kueue, KAI or Slurm associations (docs/queues.md).",
        "FILE",
    ),
    "gpu_speeds": Taken(
        ("--gpu-speeds",), "Speeds of GPU types against an A100, where profiles do not say.", "TYPE=SPEED,…"
    ),
    "past": Taken(("--past",), "Earlier jobs, as a trace: predictors learn from them before the run.", "FILE"),
    "trace_format": Taken(("--format",), "Format of the trace; auto: told by its content.", "NAME"),
    "strict": Taken(
        ("--strict",), "Refuse a trace with rows that cannot be used, instead of counting them.", kind=bool
    ),
    "zone": Taken(("--zone",), "Time zone of local times in the trace, as Asia/Shanghai.", "ZONE"),
    "durations": Taken(
        ("--durations",),
        "What durations in the trace are: times at the closest placement, alone (closest), or times where and "
        "beside whom the trace says that jobs ran (recorded).",
        "closest|recorded",
    ),
    "skip_impossible": Taken(
        ("--skip-impossible",), "Leave out, and count, jobs larger than the cluster.", kind=bool
    ),
    "until_s": Taken(("--until",), "Stop the clock then, on the trace's own clock.", "SECONDS", float),
    "restart_s": Taken(
        ("--restart-s",), "What a gang that lost its GPUs needs before it works again.", "SECONDS", float
    ),
    "restart_per_gpu_s": Taken(("--restart-per-gpu-s",), "The same, per GPU of the gang.", "SECONDS", float),
    "checkpoint_every_s": Taken(
        ("--checkpoint-every",),
        "Work between checkpoints: what a machine failure undoes.",
        "SECONDS",
        float,
        "it undoes nothing",
    ),
    "jitter": Taken(
        ("--jitter",),
        "Number of a replication: restarts take up to 1 µs more or less, which shows what chance moves.",
        "N",
        int,
    ),
    "failures": Taken(
        ("--failures",),
        "Machine outages: csv with machine, fail_s, repair_s; or InfiniteHBD's fault trace.",
        "FILE",
    ),
    "failure_rate": Taken(("--failure-rate",), "Random failures per machine and day.", "RATE", float),
    "repair_s": Taken(("--repair-s",), "Until a machine that failed at random is back.", "SECONDS", float),
}
# What the shell offers for a value; imported when it asks and not at every start.
COMPLETED: dict[str, Callable[[], Iterable[str]]] = {
    "policy": lambda: import_module("dally.policies.registry").POLICIES,
    "network": lambda: import_module("dally.cluster.presets").PRESETS,
    "mix": lambda: import_module("dally.traces.mixes").MIXES,
    "durations": lambda: import_module("dally.runs.scenario").DURATIONS,
    "trace_format": lambda: ("auto", *import_module("dally.traces.formats").FORMATS),
}
DEFAULTS: dict[str, object] = {item.name: item.default for item in fields(Scenario)}


def option(name: str, usual: str = "", more: str = "", metavar: str = "", hidden: bool = False) -> Any:
    """The option called `name` above, for a signature; None or [] if it is not given.

    A command may say what else goes without it, add a sentence, and take values of another form.
    """
    taken = OPTIONS[name]
    return typer.Option(
        [] if taken.kind == list[str] else None,
        *taken.flags,
        help=taken.described(DEFAULTS.get(name), usual, more),
        metavar=metavar or taken.metavar,
        hidden=hidden,
        autocompletion=_completion(name),
    )


def _completion(name: str) -> Callable[[str], list[str]] | None:
    """What the shell offers for a value that is one of a few names; several may be separated by commas."""
    if name not in COMPLETED:
        return None

    def offered(begun: str) -> list[str]:
        before, comma, last = begun.rpartition(",")
        return [f"{before}{comma}{known}" for known in COMPLETED[name]() if known.startswith(last)]

    return offered


def flag_of(name: str) -> str:
    """The option that sets a field, a parameter `set.KEY` of the policy or `network.KEY` of the network."""
    table, dot, _ = name.partition(".")
    if dot:
        return "--set" if table == "set" else "--set-network"
    return OPTIONS[name].flags[0]


def _shown(default: object) -> str:
    """A field's default for people; nothing where it says nothing."""
    if isinstance(default, bool) or default in ("", float("inf")):
        return ""
    if isinstance(default, float):
        return f"{default:g}"
    return str(default) if isinstance(default, (int, str)) else ""
