"""Whose topology file is it? The formats by name, and how each is known by its content."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

from dally.cluster.formats.from_machines import Imported, ImportOptions
from dally.cluster.formats.host_tables import LINGJUN_COLUMNS, read_lingjun, read_openb
from dally.cluster.formats.kubernetes import read_kubernetes
from dally.cluster.formats.node_gpus import GPU_COMMENT, sibling
from dally.cluster.formats.slurm_conf import read_slurm, read_slurm_yaml
from dally.cluster.formats.toml_file import parse_toml
from dally.cluster.formats.topograph import read_topograph
from dally.errors import InputError, unknown
from dally.input_file import read_text

Reader = Callable[[Path, str, ImportOptions], Imported]


def _read_toml(path: Path, text: str, options: ImportOptions) -> Imported:
    return Imported(parse_toml(path, text), {})


FORMATS: Final[dict[str, Reader]] = {
    "toml": _read_toml,
    "slurm": read_slurm,
    "slurm-yaml": read_slurm_yaml,
    "topograph": read_topograph,
    "kubernetes": read_kubernetes,
    "lingjun": read_lingjun,
    "openb": read_openb,
}
_WITHOUT_GPUS = ("slurm", "slurm-yaml", "topograph")  # their GPUs are counted in another file
OPTIONS: Final[dict[str, tuple[str, ...]]] = {  # the formats that an option is for
    "nodes": _WITHOUT_GPUS,
    "gres": _WITHOUT_GPUS,
    "gpus_per_node": (*_WITHOUT_GPUS, "lingjun"),
    "labels": ("kubernetes",),
    "preset": ("kubernetes",),
    "topology_name": ("slurm-yaml",),
    "all_nodes": (*_WITHOUT_GPUS, "kubernetes"),
}
_TOML = re.compile(r"^[ \t]*\[\[?[ \t]*(tiers|machines|domains)\b", re.MULTILINE)
_SLURM = re.compile(r"^[ \t]*(SwitchName|BlockName|BlockSizes|RingName)[ \t]*=", re.MULTILINE | re.IGNORECASE)
_YAML = re.compile(
    r"^(-[ \t]+|\[[ \t]*\{[ \t]*)\"?(topology|cluster_default|tree|block|flat|ring|torus3d)\"?[ \t]*:", re.MULTILINE
)
_KUBERNETES = re.compile(r"\"kind\"\s*:\s*\"(List|NodeList|Node)\"")


def import_file(path: Path, options: ImportOptions | None = None, form: str = "auto") -> Imported:
    """The topology in the file, in the format of that name or the one its content shows."""
    text = read_text(path, stdin=True)
    if form == "auto":
        form = detect(path, text)
    elif form not in FORMATS:
        raise unknown("format", form, ["auto", *FORMATS])
    options = options or ImportOptions()
    _check_options(path, form, options)
    return FORMATS[form](path, text, options)


def _check_options(path: Path, form: str, options: ImportOptions) -> None:
    """An InputError for an option that says nothing about this format."""
    default = ImportOptions()
    for name, option in OPTIONS.items():
        if form not in option and getattr(options, name) != getattr(default, name):
            flag = "--" + name.replace("_", "-")
            raise InputError(f"{path}: {flag} is for {', '.join(option)}; this file is {form}")


def detect(path: Path, text: str) -> str:
    """The name of the format, or an InputError."""
    start = text.lstrip()
    if start.startswith("{"):
        topograph = ('"instances"' in text or '"switches"' in text) and not _KUBERNETES.search(text)
        return "topograph" if topograph else "kubernetes"
    if _TOML.search(text):
        return "toml"
    if _YAML.search(text):
        return "slurm-yaml"
    if _SLURM.search(text):
        return "slurm"
    header = [name.strip() for name in start[:1000].split("\n", 1)[0].split(",")]
    if header[0] == LINGJUN_COLUMNS[0] or sum(name in header for name in LINGJUN_COLUMNS) > 1:
        return "lingjun"
    if {"sn", "gpu"} <= set(header):
        return "openb"
    if path.suffix == ".toml":
        return "toml"
    raise InputError(f"{path}: is not a topology file of a known format: {', '.join(FORMATS)}")


def files_of(path: Path) -> list[Path]:
    """The file, and the one beside it that counts its GPUs where it does not do so itself."""
    text = read_text(path)
    beside = (
        sibling(path) if detect(path, text) in _WITHOUT_GPUS and f"\n{GPU_COMMENT}" not in f"\n{text}" else None
    )
    return [path] + ([beside] if beside is not None else [])
