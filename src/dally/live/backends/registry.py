"""Backends by name: ours, and those that other distributions bring as entry points."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from dally.cluster.spec import read_topology
from dally.entry_points import installed, the_one
from dally.errors import InputError, unknown
from dally.extras import need
from dally.live.backends.base import Backend, BackendOptions

GROUP: Final = "dally.backends"  # each names a callable that takes BackendOptions
ALIASES: Final = {
    "k8s": "kubernetes",
    "kube": "kubernetes",
    "kueue": "kubernetes",
    "openshift": "kubernetes",
    "sbatch": "slurm",
    "slurmctld": "slurm",
    "process": "local",
    "test": "local",
    "fake": "local",
}  # fmt: skip - what people call them; none is close enough to be taken for a slip
USUAL_CLUSTER: Final = "4x4x8"  # of the local backend


def _local(options: BackendOptions) -> Backend:
    from dally.live.backends.local import LocalBackend

    return LocalBackend(options.folder, read_topology(options.cluster or USUAL_CLUSTER), options.speed)


def _slurm(options: BackendOptions) -> Backend:
    from dally.live.backends.slurm import SlurmBackend

    partitions = [name for name in options.settings.get("partitions", "").split(",") if name]
    return SlurmBackend(partitions, simulate_hold=options.dry_run)


def _kubernetes(options: BackendOptions) -> Backend:
    need("kubernetes", "--backend kubernetes")
    from dally.live.backends.kubernetes import KubernetesBackend, read_options

    return KubernetesBackend(read_options(dict(options.settings)), options.folder)


BACKENDS: Final[dict[str, Callable[[BackendOptions], Backend]]] = {
    "local": _local, "slurm": _slurm, "kubernetes": _kubernetes,
}  # fmt: skip


def check_name(name: str) -> None:
    """InputError if there is no backend of that name; nothing is loaded."""
    if name not in BACKENDS and name not in installed(GROUP):
        meant = ALIASES.get(name.lower())
        if meant:
            raise InputError(f"unknown backend {name!r}; did you mean {meant!r}?")
        raise unknown("backend", name, [*BACKENDS, *installed(GROUP)])


def open_backend(name: str, options: BackendOptions) -> Backend:
    """The backend of that name."""
    if name in BACKENDS:
        return BACKENDS[name](options)
    check_name(name)
    result = the_one(GROUP, name)
    assert result is not None  # as was checked
    backend = result.load()(options)
    if not isinstance(backend, Backend):
        raise result.refused(f"makes a {type(backend).__name__}, not a Backend")
    return backend
