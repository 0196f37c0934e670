"""How many GPUs the nodes of a Slurm cluster have, and which: `scontrol show node`, gres.conf, slurm.conf."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from dally.cluster.formats.from_machines import Imported, ImportOptions, LeftOut, assemble
from dally.cluster.formats.hostlist import expand_list, split_outside
from dally.cluster.formats.slurm_lines import HostLists, settings_of, whole_number
from dally.cluster.formats.switch_tree import Hung
from dally.cluster.topology import Machine
from dally.errors import InputError, at
from dally.input_file import read_text, shown

SIBLINGS = ("nodes.txt", "gres.conf", "slurm.conf")  # looked for beside a topology file, in this order
GPU_COMMENT = "#GPUs "  # how our own topology.conf says it: a comment to Slurm
HOW = (
    "give --nodes FILE (output of scontrol show node), --gres FILE (gres.conf or slurm.conf) or --gpus-per-node N "
    f"to `dally topology import`, or put {', '.join(SIBLINGS[:-1])} or {SIBLINGS[-1]} beside the file"
)
OUT_OF_SERVICE = {
    "DOWN", "DRAIN", "DRAINED", "DRAINING", "ERROR", "FAIL", "FAILING", "FUTURE", "INVAL", "NOT_RESPONDING",
    "UNKNOWN",
}  # fmt: skip
_NODE = re.compile(r"^[ \t]*NodeName=(\S+)", re.MULTILINE)
_FIELD = re.compile(r"(?<!\S)(Gres|CfgTRES|State)=(\S*)")
_GRES = re.compile(r"gpu(?::[^:,()]+)*?(?::([0-9]{1,9}))?(?:\([^)]*\))?", re.IGNORECASE)


class GpuCounts(NamedTuple):
    """GPUs by node, those of a node that is not listed (None: not known), who is out of service, types of GPU."""

    of: dict[str, int]
    otherwise: int | None
    down: dict[str, str]  # state by node
    types: dict[str, str]  # by node, where stated
    type_otherwise: str = ""  # of a node that is not listed


def find_counts(path: Path, text: str, options: ImportOptions) -> GpuCounts:
    """What the options, the file itself or a file beside it say, the first that says anything."""
    result = GpuCounts({}, None, {}, {})
    if options.nodes is not None:
        result = read_scontrol(options.nodes, read_text(options.nodes, stdin=True))
    elif options.gres is not None:
        result = read_config(options.gres, read_text(options.gres, stdin=True))
    elif options.gpus_per_node is None:
        stated = [
            line.removeprefix(GPU_COMMENT) if line.startswith(GPU_COMMENT) else "" for line in text.split("\n")
        ]
        if any(stated):
            result = read_config(path, "\n".join(stated))
        else:
            beside = sibling(path)
            if beside is not None:
                read = read_scontrol if beside.name == SIBLINGS[0] else read_config
                result = read(beside, read_text(beside))
    if options.gpus_per_node is not None:
        result = result._replace(otherwise=options.gpus_per_node)
    return result


def sibling(path: Path) -> Path | None:
    """The file beside this one that counts GPUs, if there is one."""
    for name in SIBLINGS:
        beside = path.with_name(name)
        if beside != path and beside.is_file():
            return beside
    return None


def attach(
    path: Path, hung: Hung, counts: GpuCounts, options: ImportOptions, tiers: list[str] | None = None
) -> Imported:
    """The topology of these nodes with their GPUs."""
    if not hung:
        raise at(path, None, None, "no nodes in it")
    if not counts.of and counts.otherwise is None:
        raise at(path, None, None, f"nothing says how many GPUs its nodes have; {HOW}")
    left_out: LeftOut = {}
    machines: list[Machine] = []
    for above, name in hung:
        gpus = counts.of.get(name, counts.otherwise)
        if gpus is None:
            left_out.setdefault("without a GPU count", []).append(name)
        elif gpus and name in counts.down and not options.all_nodes:
            left_out.setdefault("out of service", []).append(name)
        else:
            machines.append(Machine(above, name, gpus, counts.types.get(name, counts.type_otherwise)))
    in_tree = {name for _, name in hung}
    outside = [name for name, gpus in counts.of.items() if gpus and name not in in_tree]
    if outside:
        left_out["not in the tree"] = outside
    return assemble(path, machines, left_out, options, tiers)


def read_scontrol(path: Path, text: str) -> GpuCounts:
    """The output of `scontrol show node`, with or without -o."""
    starts = list(_NODE.finditer(text))
    if not starts:
        raise at(path, None, None, "no NodeName= at the start of a line; expected the output of scontrol show node")
    of: dict[str, int] = {}
    down: dict[str, str] = {}
    types: dict[str, str] = {}
    ends = [match.start() for match in starts[1:]] + [len(text)]
    for match, end in zip(starts, ends, strict=True):
        name = match.group(1)
        fields = dict(_FIELD.findall(text, match.end(), end))
        try:
            of[name] = gres_gpus(fields.get("Gres", "")) or tres_gpus(fields.get("CfgTRES", ""))
        except ValueError as error:
            raise at(path, text.count("\n", 0, match.start()) + 1, name, str(error)) from None
        types[name] = gres_type(fields.get("Gres", "")) or _tres_type(fields.get("CfgTRES", ""))
        state = fields.get("State", "")
        if {flag.strip("*~#!%$@^-").upper() for flag in state.split("+")} & OUT_OF_SERVICE:
            down[name] = state
    return GpuCounts(of, None, down, types)


def read_config(path: Path, text: str) -> GpuCounts:
    """gres.conf (lines with Name=gpu) or slurm.conf (NodeName lines with Gres=)."""
    of: dict[str, int] = {}
    types: dict[str, str] = {}
    otherwise: int | None = None
    type_otherwise = default = ""
    lists = HostLists(path)
    for line, values, _ in settings_of(text):
        try:
            if values.get("name", "").lower() == "gpu":
                gpus, gpu_type = _devices(values), values.get("type", "")
            elif "nodename" in values and "name" not in values and "autodetect" not in values:
                if values["nodename"].upper() == "DEFAULT":
                    default = values.get("gres", default)
                    continue
                gpus, gpu_type = gres_gpus(values.get("gres", default)), gres_type(values.get("gres", default))
            else:
                continue
        except ValueError as error:
            raise at(path, line, None, str(error)) from None
        if gpus is None:
            continue
        if "nodename" not in values:
            otherwise = (otherwise or 0) + gpus
            type_otherwise = _both(type_otherwise, gpu_type)
            continue
        for name in lists.names(line, "NodeName", values["nodename"]):
            of[name] = of.get(name, 0) + gpus
            types[name] = _both(types.get(name, ""), gpu_type)
    if not any(of.values()) and not otherwise:
        raise InputError(f"{path}: counts no GPUs (AutoDetect leaves that to the nodes); {HOW}")
    return GpuCounts(of, otherwise, {}, types, type_otherwise)


def _devices(values: dict[str, str]) -> int | None:
    """The GPUs of a line of gres.conf; None: it does not say."""
    if "count" in values:
        return whole_number(values["count"])
    for key in ("file", "multiplefiles"):
        if key in values:
            try:
                return len(expand_list(values[key]))
            except ValueError as error:
                raise ValueError(f"{key.capitalize()}: {shown(values[key])}: {error}") from None
    return None


def gres_gpus(text: str) -> int:
    """GPUs of `gpu:a100:8(S:0-1),nic:2`; a device without a count is one."""
    gpus = 0
    for item in split_outside(text, "()"):
        if item.split(":")[0].split("(")[0].lower() != "gpu":
            continue
        match = _GRES.fullmatch(item)
        if match is None:
            raise ValueError(f"Gres: {shown(item)}: must be like gpu:8 or gpu:a100:8")
        gpus += int(match.group(1) or 1)
    return gpus


def gres_type(text: str) -> str:
    """The type of GPU of `gpu:a100:8(S:0-1),nic:2`; several with + between them; empty where none is stated."""
    result = ""
    for item in split_outside(text, "()"):
        kind, *parts = item.split("(")[0].split(":")
        if kind.lower() == "gpu" and parts and not parts[0].isdigit():
            result = _both(result, parts[0])
    return result


def _tres_type(text: str) -> str:
    """The type of `gres/gpu=8,gres/gpu:a100=8`."""
    return "+".join(re.findall(r"(?:^|,)gres/gpu:([^=,]+)=", text))


def _both(one: str, other: str) -> str:
    """A machine with GPUs of two types is of a type of its own."""
    return "+".join(dict.fromkeys(filter(None, (*one.split("+"), other))))


def tres_gpus(text: str) -> int:
    """GPUs of `cpu=64,mem=1T,gres/gpu=8,gres/gpu:a100=8`: the total, or the sum over types where it is missing."""
    items = dict(item.split("=", 1) for item in text.split(",") if "=" in item)
    if "gres/gpu" in items:
        return whole_number(items["gres/gpu"])
    return sum(whole_number(count) for name, count in items.items() if name.startswith("gres/gpu:"))
