"""What Dally does not model and leaves to Slurm: one list, for the daemon and for job_submit.lua.

`dally slurm setup` writes the list into the plugin, so both leave the same jobs alone. A job is Dally's if it asks
for GPUs in Dally's partitions and no row here fits it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from dally.cluster.formats.hostlist import split_outside

GPU_FIELDS: Final = ("tres_per_job", "tres_per_node", "tres_per_task", "tres_per_socket")  # of both sides
UNSET: Final = (4294967294, 4294967295, 65534, 65535, -2)  # how Slurm writes that a number was not stated

# Exclusion.test
SET: Final = "set"  # text that is not empty, a number that is stated and not 0, true
STATED: Final = "stated"  # a number that is stated, 0 too
ONE_OF: Final = "one of"  # one of `values`
CONTAINS: Final = "contains"  # one of `values` is somewhere in the text
GRES: Final = "gres"  # by the resources that the job asks for: see `unmodelled_gres`
SHAPE: Final = "shape"  # by its GPUs and nodes: see `unmodelled_shape` of job_request.py, the daemon's alone

SHARED: Final = "shared"  # the name of a row: a partition can ask for it, too


@dataclass(frozen=True)
class Exclusion:
    """One thing that a job may ask for and that Dally does not model."""

    name: str
    option: str  # of sbatch
    submitted: str  # field of the job as job_submit.lua sees it; empty: it does not see it
    test: str
    shown: str  # field of `squeue --json`; empty: it does not show it
    reason: str
    values: tuple[str | int, ...] = ()  # as job_submit.lua sees them
    shown_values: tuple[str, ...] = ()  # as `squeue --json` writes them; none: as above


LEFT_ALONE: Final = (
    Exclusion("het", "sbatch A : B", "het_job_offset", STATED, "het_job_id", "is part of a heterogeneous job"),
    Exclusion("no-gpus", "--gres=gpu:0", "", GRES, "", "asks for 0 GPUs"),
    Exclusion("other-gres", "--gres=gpu:1,nic:1", "", GRES, "", "asks for other resources (gres) than GPUs"),
    Exclusion("gpu-types", "--gpus=a100:2,v100:1", "", GRES, "", "asks for GPUs of several types at once"),
    Exclusion("socket", "--gpus-per-socket", "tres_per_socket", SET, "tres_per_socket", "asks for GPUs by socket"),
    Exclusion(SHARED, "--oversubscribe, --exclusive=user", "shared", ONE_OF, "shared",
        "shares its nodes in a way that Dally does not model", (1, 2, 3),
        ("shared", "oversubscribe", "user", "mcs", "topo")),
    Exclusion("switches", "--switches", "req_switch", SET, "", "states how many switches it may span"),
    Exclusion("contiguous", "--contiguous", "contiguous", SET, "contiguous", "asks for contiguous nodes"),
    Exclusion("burst-buffer", "--bb", "burst_buffer", SET, "burst_buffer", "uses a burst buffer"),
    Exclusion("tmp", "--tmp", "pn_min_tmp_disk", SET, "minimum_tmp_disk_per_node", "asks for temporary disk space"),
    Exclusion("features", '--constraint="[a|b]"', "features", CONTAINS, "features",
        "asks for features by number or all of one kind", ("[", "*")),
    Exclusion("licence-choice", "--licenses='a|b'", "licenses", CONTAINS, "licenses",
        "asks for one licence of several", ("|",)),
    Exclusion("prefer", "--prefer", "prefer", SET, "", "prefers nodes by their features"),
    Exclusion("immediate", "srun --immediate, salloc --immediate", "immediate", SET, "",
        "is to start at once or not at all"),
    Exclusion("expand", "--dependency=expand", "dependency", CONTAINS, "dependency",
        "expands another job", ("expand",)),
    Exclusion("reboot", "--reboot", "reboot", SET, "reboot", "has its nodes rebooted first"),
    Exclusion("clusters", "--clusters", "clusters", SET, "federation_origin", "may run on another cluster"),
    Exclusion("cron", "scrontab", "cron_job", SET, "", "comes from scrontab"),
    Exclusion("core-spec", "--core-spec", "", SET, "core_spec", "reserves cores for the system"),
    Exclusion("uneven", "-N2 --gpus=5", "", SHAPE, "", "asks for GPUs that its nodes cannot share evenly"),
    Exclusion("nodelist", "-N4 -w n01,n02", "", SHAPE, "", "names fewer nodes than it asks for"),
)  # fmt: skip
BY_NAME: Final = {row.name: row for row in LEFT_ALONE}
OTHER_PARTITION: Final = "partition"
_NOTE = re.compile(r"(?:^|\s)dally-left:([\w-]+)")


class GresItem(NamedTuple):
    """One resource of a request: `gres:gpu:a100:4`."""

    name: str
    kind: str  # empty: any
    number: int


def gres_items(text: str) -> list[GresItem]:
    """Of `gres:gpu:4`, `gres/gpu:a100:4,gres/nic:1`; later versions of Slurm write `gres/gpu=4` too."""
    return [_item(part) for part in split_outside(text, "()") if part] if text else []


def _item(part: str) -> GresItem:
    plain = part.removeprefix("gres:").removeprefix("gres/").partition("(")[0].replace("=", ":")
    name, *rest = plain.split(":")
    count = int(rest.pop()) if rest and rest[-1].isdigit() else 1
    if len(rest) > 1:
        raise ValueError(f"{part}: must be a resource such as gres:gpu:a100:4")
    return GresItem(name, rest[0] if rest else "", count)


def left_alone(row: dict[str, Any]) -> str:
    """The name of the first row that fits a job of `squeue --json`; empty: Dally models it."""
    gres = unmodelled_gres(item for field in GPU_FIELDS for item in gres_items(str(row.get(field) or "")))
    for rule in LEFT_ALONE:
        if rule.test == GRES and rule.name == gres:
            return rule.name
        if rule.shown and _fits(rule, row.get(rule.shown)):
            return rule.name
    return ""


def unmodelled_gres(items: Iterable[GresItem]) -> str:
    """The name of the row of the test GRES that these resources fit; empty: none."""
    every = list(items)
    gpus = [item for item in every if item.name == "gpu"]
    if gpus and not any(item.number for item in gpus):
        return "no-gpus"
    if len(gpus) < len(every):
        return "other-gres"
    return "gpu-types" if len({item.kind for item in gpus if item.kind}) > 1 else ""


def why_left_alone(name: str) -> str:
    """The reason of a row for people."""
    if name == OTHER_PARTITION:
        return "may run in a partition that Dally does not schedule"
    return BY_NAME[name].reason if name in BY_NAME else f"is left to Slurm ({name})"


def left_note(admin_comment: str) -> str:
    """The name of the row by which job_submit.lua left the job alone; empty: it did not."""
    noted = _NOTE.search(admin_comment)
    return noted.group(1) if noted else ""


def _fits(rule: Exclusion, value: Any) -> bool:
    if isinstance(value, dict):  # a number as later versions write it
        value = value.get("number") if value.get("set") and not value.get("infinite") else None
    if rule.test in (SET, STATED):
        return bool(value) and value not in UNSET  # `squeue` writes 0 for what was not stated
    texts = [str(one) for one in value] if isinstance(value, list) else [str(value or "")]
    values = [str(one) for one in rule.shown_values or rule.values]
    if rule.test == ONE_OF:
        return any(text in values for text in texts)
    return any(one in text for one in values for text in texts)


def lua_rows() -> str:
    """The rows that job_submit.lua can see, as the rows of a table in Lua."""
    lines = []
    for row in LEFT_ALONE:
        if row.submitted:
            values = ", ".join(f'"{value}"' if isinstance(value, str) else str(value) for value in row.values)
            lines.append(f'  {{"{row.name}", "{row.submitted}", "{row.test}", {{{values}}}}},')
    return "\n" + "\n".join(lines) + "\n"
