"""Whose quota file is it? The formats by name, and how each is known by its content."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

from dally.errors import InputError, unknown
from dally.input_file import read_text
from dally.quotas import slurm
from dally.quotas.kai import read_kai
from dally.quotas.kueue import read_kueue
from dally.quotas.toml_file import parse_queues
from dally.quotas.tree import QueueTree

FORMATS: Final[dict[str, Callable[[Path, str], QueueTree]]] = {
    "toml": parse_queues,
    "kueue": read_kueue,
    "kai": read_kai,
    "slurm": slurm.read_slurm_shares,
}
_KIND = r"^[ \t-]*\"?kind\"?[ \t]*:[ \t]*\"?{}\b"
_KUEUE: Final = re.compile(_KIND.format("(ClusterQueue|Cohort)(List)?"), re.MULTILINE)
_KAI: Final = re.compile(_KIND.format("Queue(List)?"), re.MULTILINE)
_TOML: Final = re.compile(r"^[ \t]*(\[[ \t]*)?(queues|accounts)\b", re.MULTILINE)


def read_quotas(path: Path, form: str = "auto") -> QueueTree:
    """The tree of queues in the file, in the format of that name or the one its content shows."""
    text = read_text(path, stdin=True)
    if form != "auto" and form not in FORMATS:
        raise unknown("format", form, ["auto", *FORMATS])
    return FORMATS[detect(path, text) if form == "auto" else form](path, text)


def detect(path: Path, text: str) -> str:
    """The name of the format, or an InputError."""
    if slurm.looks_like(text):
        return "slurm"
    if _KUEUE.search(text):
        return "kueue"
    if _KAI.search(text):
        return "kai"
    if _TOML.search(text) or path.suffix == ".toml":
        return "toml"
    raise InputError(
        f"{path}: is not a file of queues: expected queues.toml, ClusterQueues of Kueue, Queues of KAI, "
        "or what sacctmgr show assoc -P or show qos -P prints"
    )
