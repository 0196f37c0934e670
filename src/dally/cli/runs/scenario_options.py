"""The options of a scenario, said once for every command that makes runs, and the scenario that they describe."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import typer

from dally.cli.commands import Command, shared_options
from dally.cli.runs.batch import whole_numbers
from dally.cluster.spec import read_settings
from dally.errors import InputError
from dally.policies.registry import USUAL_POLICY
from dally.runs.going_on import saved_scenario
from dally.runs.scenario import Scenario, read_scenario
from dally.runs.world import merge


class Option(NamedTuple):
    """An option: its names, its help, the type of its value, and what goes without it."""

    flags: tuple[str, ...]
    help: str
    metavar: str | None = None
    kind: Any = str
    usual: str = ""  # instead of the field's default, where that says too little

    def described(self, default: object, usual: str, more: str) -> str:
        """The help text, what the command adds to it, and what holds if the option is not given."""
        text = f"{self.help} {more}".strip()
        shown = usual or self.usual or _shown(default)
        return f"{text}  [default: {shown}]" if shown else text


# By field of Scenario, in the order of help texts; `scenario` and `seeds` stand for several values of them.
OPTIONS: dict[str, Option] = {
    "trace": Option(
        ("--trace",),
        "Jobs: csv with job_id, submit_s, gpus, duration_s, or another format of docs/formats.md.",
        "FILE",
    ),
    "cluster": Option(
        ("--cluster", "--topology"),
        "RxMxG (racks x machines x GPUs, e.g. 4x16x8; MxG and PxRxMxG work too) or a topology file of "
        "docs/formats.md, such as topology.conf with gres.conf beside it.",
        "RxMxG|FILE",
    ),
    "policy": Option(("--policy",), "A name from `dally policies` or FILE.py:Class.", "NAME", usual=USUAL_POLICY),
    "settings": Option(("--set",), "Set a parameter of the policy.", "KEY=VALUE", list[str]),
    "scenario": Option(
        ("--scenario",), "Start from the scenario.toml that a run left; other options change it.", "FILE", Path
    ),
    "snapshot": Option(
        ("--from",),
        "Go on from where `dally simulate --snapshot` saved a run: --policy, --set and --until may be others.",
        "FILE",
    ),
    "seed": Option(("--seed",), "Seed of everything drawn at random.", "N", int),
    "seeds": Option(("--seeds",), "Several seeds: every run once with each.", "N,…", usual="that of --seed"),
    "network": Option(
        ("--network",),
        "How fast links are: fast, normal, slow, congested, a100-nvswitch-8x200g and others.",
        "NAME",
        usual="links of the cluster file, if it states any",
    ),
    "network_settings": Option(("--set-network",), "Override one value of the network.", "KEY=VALUE", list[str]),
    "congestion": Option(
        ("--congestion",), "Background load on every link above the machine: a share, or TIER=SHARE,…", "SHARE"
    ),
    "contention": Option(
        ("--contention",),
        "off: jobs that share links do not slow each other down.",
        "on|off",
    ),
    "network_at": Option(
        ("--network-at",),
        "From that moment on, links above the machine have this share of their bandwidth: 43200=0.5,129600=1.",
        "SECONDS=SHARE,…",
    ),
    "job_progress": Option(
        ("--job-progress",),
        "Jobs that say how long they take: share=0.8 of them, after=300 seconds of work, off by noise=0.1, and "
        "wrong=0.05 of them by factor=5 (docs/progress.md).",
        "KEY=VALUE,…",
    ),
    "sensitivity": Option(
        ("--sensitivity",),
        "What the policy knows of jobs' sensitivity to the network: their models (known), what their steps show "
        "(hidden), or all are taken for one model (docs/progress.md).",
        "known|hidden|MODEL",
    ),
    "health": Option(
        ("--health",),
        "What is slow or fails more: a csv of episodes, or stragglers=0.02 of the machines, factor=1.3 times "
        "slower for minutes=72, links=0.01 at link_share=0.5, lemons=3 (docs/health.md).",
        "FILE|KEY=VALUE,…",
    ),
    "elastic": Option(
        ("--elastic",),
        "Jobs that may run on other numbers of GPUs: share=0.5 of them, on min=0.5 to max=2 times what they ask "
        "for, in steps of step=0.25; resize_s: what a change takes instead of a restart (docs/elastic.md).",
        "KEY=VALUE,…",
    ),
    "mix": Option(("--mix",), "Models for jobs that name none: benchmark, uniform, lingjun, paper.", "NAME"),
    "gpu": Option(("--gpu",), "GPU type of the models' times.", "TYPE"),
    "profiles": Option(
        ("--profiles",), "Models of your own, in TOML; measured: those measured on an H200.", "FILE"
    ),
    "queues": Option(
        ("--queues",),
        "Queues of teams with their limits: queues.toml, Kueue, KAI or Slurm associations (docs/queues.md).",
        "FILE",
    ),
    "gpu_speeds": Option(
        ("--gpu-speeds",), "Speeds of GPU types against an A100, where profiles do not say.", "TYPE=SPEED,…"
    ),
    "past": Option(("--past",), "Earlier jobs, as a trace: predictors learn from them before the run.", "FILE"),
    "trace_format": Option(("--format",), "Format of the trace; auto: recognized by its content.", "NAME"),
    "strict": Option(
        ("--strict",), "Refuse a trace with rows that cannot be used, instead of counting them.", kind=bool
    ),
    "zone": Option(("--zone",), "Time zone of local times in the trace, as Asia/Shanghai.", "ZONE"),
    "durations": Option(
        ("--durations",),
        "What durations in the trace are: times alone at the closest placement (closest), or times at the recorded "
        "places, beside the jobs recorded there (recorded).",
        "closest|recorded",
    ),
    "skip_impossible": Option(
        ("--skip-impossible",), "Leave out, and count, jobs larger than the cluster.", kind=bool
    ),
    "until_s": Option(("--until",), "Stop the clock then, on the trace's own clock.", "SECONDS", float),
    "restart_s": Option(
        ("--restart-s",), "What a gang that lost its GPUs needs before it works again.", "SECONDS", float
    ),
    "restart_per_gpu_s": Option(("--restart-per-gpu-s",), "The same, per GPU of the gang.", "SECONDS", float),
    "checkpoint_every_s": Option(
        ("--checkpoint-every",),
        "Work between checkpoints: what a machine failure undoes.",
        "SECONDS",
        float,
        "it undoes nothing",
    ),
    "preempt": Option(
        ("--preempt",),
        "Which jobs may be preempted or moved: usual=yes|no|priced, after=15m, partition.NAME=…, account.NAME=… "
        "(docs/consent.md).",
        "KEY=VALUE",
        list[str],
        "all jobs, as the policy decides",
    ),
    "jitter": Option(
        ("--jitter",),
        "Number of a replication: restarts take up to 1 µs more or less, which shows what chance moves.",
        "N",
        int,
    ),
    "failures": Option(
        ("--failures",),
        "Machine outages: csv with machine, fail_s, repair_s; or InfiniteHBD's fault trace.",
        "FILE",
    ),
    "failure_rate": Option(("--failure-rate",), "Random failures per machine and day.", "RATE", float),
    "repair_s": Option(("--repair-s",), "Until a machine that failed at random is back.", "SECONDS", float),
}
# What the shell offers for a value; imported when it asks and not at every start.
COMPLETED: dict[str, Callable[[], Iterable[str]]] = {
    "policy": lambda: import_module("dally.policies.registry").POLICIES,
    "network": lambda: import_module("dally.cluster.presets").PRESETS,
    "mix": lambda: import_module("dally.traces.mixes").MIXES,
    "durations": lambda: import_module("dally.runs.scenario").DURATIONS,
    "contention": lambda: ("on", "off"),
    "sensitivity": lambda: import_module("dally.runs.scenario").SENSITIVITIES,
    "trace_format": lambda: ("auto", *import_module("dally.traces.formats").FORMATS),
}
DEFAULTS: dict[str, object] = {item.name: item.default for item in fields(Scenario)}


def option(name: str, usual: str = "", more: str = "", metavar: str = "", hidden: bool = False) -> Any:
    """The option called `name` above, for a signature; None or [] if it is not given.

    A command may say what else goes without it, add a sentence, and take values of another form.
    """
    declared = OPTIONS[name]
    return typer.Option(
        [] if declared.kind == list[str] else None,
        *declared.flags,
        help=declared.described(DEFAULTS.get(name), usual, more),
        metavar=metavar or declared.metavar,
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
        return {"set": "--set", "network": "--set-network"}.get(table, f"--{table}")
    return OPTIONS[name].flags[0]


def _shown(default: object) -> str:
    """A field's default for people; nothing where it says nothing."""
    if isinstance(default, bool) or default in ("", float("inf")):
        return ""
    if isinstance(default, float):
        return f"{default:g}"
    return str(default) if isinstance(default, (int, str)) else ""


@dataclass(frozen=True)
class ScenarioOptions:
    """What the command line states of a scenario."""

    values: dict[str, Any] = field(default_factory=dict)  # by field, set.KEY or network.KEY
    start: Path | None = None  # --scenario
    listed: str | None = None  # --seeds

    def with_trace(self, name: str) -> ScenarioOptions:
        """The same with that trace, which stands on the command line without its option; empty: none does."""
        if name and "trace" in self.values:
            raise InputError(f"{name} and {flag_of('trace')} {self.values['trace']}: give one of them")
        return replace(self, values={**self.values, "trace": name}) if name else self

    def scenario(self) -> Scenario:
        """The scenario of --scenario, or an empty one, with what is given in its place."""
        if "snapshot" in self.values:
            return with_values(saved_scenario(Path(self.values["snapshot"])), self.values)
        base = read_scenario(self.start) if self.start else Scenario(trace="", cluster="", policy=USUAL_POLICY)
        return with_values(base, self.values)

    def seeds(self, usual: Sequence[int]) -> list[int]:
        """Those of --seeds, or the one of --seed, or the usual ones."""
        if self.listed is not None:
            return whole_numbers("--seeds", self.listed)
        return [self.values["seed"]] if "seed" in self.values else list(usual)


def with_values(base: Scenario, values: Mapping[str, Any]) -> Scenario:
    """The scenario with these values; digests of files that it no longer reads are dropped."""
    chosen = merge(base, values)
    if not base.digests:
        return chosen  # its files are looked at when it is run
    named = chosen.files()
    return replace(chosen, digests={name: digest for name, digest in base.digests.items() if name in named})


def require(scenario: Scenario, command: str, *names: str) -> None:
    """InputError if one of these fields is empty."""
    for name in names:
        if not getattr(scenario, name):
            raise InputError(f"{flag_of(name)} is missing; see `dally {command} --help`")


def takes_scenario(
    without: Mapping[str, str] | None = None, usual: Mapping[str, str] | None = None
) -> Callable[[Command], Command]:
    """Give a command all options of a scenario in place of `options`.

    An option that the command declares itself is its own. `without` says why it has no use for others: to
    give one of those is an error that says so. `usual` says what goes without an option where that is special.
    """
    missing, usual = without or {}, usual or {}

    def use(command: Command, shared: dict[str, Any], own: dict[str, Any]) -> None:
        stated = {name: value for name, value in shared.items() if value not in (None, [])}
        for name in stated:
            if name in missing:
                raise InputError(f"{flag_of(name)}: {missing[name]}")
        command(options=stated_options(stated), **own)

    every = {
        name: (declared.kind, option(name, usual.get(name, ""), hidden=name in missing))
        for name, declared in OPTIONS.items()
    }
    return shared_options("options", every, use, first=True)


def stated_options(stated: Mapping[str, Any]) -> ScenarioOptions:
    """The options that were stated, checked against each other."""
    for one, other in (("seed", "seeds"), ("failures", "failure_rate")):
        if one in stated and other in stated:
            pair = f"{flag_of(one)} {stated[one]} and {flag_of(other)} {stated[other]}"
            raise InputError(f"{pair}: give one of them")
    if "snapshot" in stated and "scenario" in stated:
        raise InputError("--from and --scenario: give one of them; a snapshot has a scenario of its own")
    if "failures" in stated and "repair_s" in stated:
        raise InputError(f"--repair-s {stated['repair_s']:g}: the file of --failures says when machines are back")
    values = dict(stated)
    start, listed = values.pop("scenario", None), values.pop("seeds", None)
    for name, table in (("settings", "set"), ("network_settings", "network"), ("preempt", "preempt")):
        texts = values.pop(name, [])
        values |= {f"{table}.{key}": text for key, text in read_settings(flag_of(name), texts).items()}
    return ScenarioOptions(values, start, listed)
