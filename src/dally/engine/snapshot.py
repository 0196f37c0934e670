"""Snapshots: everything there is of a run in one file, so that it can go on later as if it had never stopped."""

from __future__ import annotations

import hashlib
import io
import json
import pickle
from collections.abc import Collection
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TypeVar

from dally import __version__, is_compiled
from dally.engine.simulate import Simulation
from dally.engine.state import State
from dally.errors import InputError, at
from dally.input_file import read_bytes
from dally.job_spec import spec_from
from dally.pickles import BUILDERS
from dally.policies.base import Policy
from dally.policies.part import Part
from dally.policies.user_file import revive
from dally.whole_file import whole_file

MAGIC: Final = b"dally snapshot\n"
FORMAT: Final = 1
LONGEST_HEADER: Final = 4096
# Where the classes that may be in a snapshot come from. Reading a pickle can call whatever it names.
OURS: Final = ("model", "job_spec", "sizes", "heap", "cluster", "quotas", "health", "perf", "policies", "engine")
PLAIN: Final = {
    "builtins": {"bytearray", "complex", "frozenset", "range", "set", "slice"},
    "collections": {"Counter", "OrderedDict", "defaultdict", "deque"},
}

Kind = TypeVar("Kind", Simulation, State)


def save(run: Simulation | State, path: Path, note: dict[str, Any] | None = None) -> None:
    """Write all there is of the run, between two cycles; `note` is plain values (JSON) that `note_of` reads."""
    content = _dump(run)
    policy = (run.state if isinstance(run, Simulation) else run).policy
    header = {
        "format": FORMAT,
        "dally": __version__,
        "compiled": is_compiled(),
        "policy": f"{type(policy).__module__}:{type(policy).__qualname__}",
        "sha256": hashlib.sha256(content).hexdigest(),
        "note": note or {},
    }
    with whole_file(path) as file:
        file.write(MAGIC + json.dumps(header).encode() + b"\n" + content)


def load(path: Path, kind: type[Kind], admit: Collection[str] = ()) -> Kind:
    """The run that `save` wrote; `admit` names modules of the user's whose classes may be in it."""
    header, content = _read(path)
    try:
        run = _Unpickler(io.BytesIO(content), admit).load()
    except _NotAdmittedError as error:
        policy = header.get("policy")
        raise at(path, None, None, f"{error}; it was saved under the policy {policy}: name that one") from None
    except Exception as error:  # a pickle can fail in any way
        raise at(path, None, None, f"cannot be read back: {type(error).__name__}: {error}") from None
    if not isinstance(run, kind):
        raise at(path, None, None, f"holds a {type(run).__name__}, not a {kind.__name__}")
    return run


def note_of(path: Path) -> dict[str, Any]:
    """What was noted beside the run when it was saved."""
    note: dict[str, Any] = _read(path)[0]["note"]
    return note


def fork(run: Kind) -> Kind:
    """A second run that goes on from where this one is; what happens to one does not touch the other."""
    copy: Kind = pickle.loads(_dump(run))
    return copy


def resume(path: Path, policy: Policy | None = None, admit: Collection[str] = ()) -> Simulation:
    """The saved simulation, to go on under its own policy, or under another from here on."""
    simulation = load(path, Simulation, admit)
    if policy is not None:
        simulation.change_policy(policy)
    return simulation


def _dump(run: Simulation | State) -> bytes:
    try:
        return pickle.dumps(run, protocol=5)
    except (AttributeError, TypeError, pickle.PicklingError) as error:
        raise InputError(f"the run cannot be saved: {error}") from None


def _read(path: Path) -> tuple[dict[str, Any], bytes]:
    """The checked header, and the pickle."""
    raw = read_bytes(path)
    if not raw.startswith(MAGIC):
        raise at(path, None, None, "is no snapshot of Dally")
    end = raw.find(b"\n", len(MAGIC), len(MAGIC) + LONGEST_HEADER)
    try:
        header = json.loads(raw[len(MAGIC) : end])
        number = int(header["format"])
    except (ValueError, KeyError, TypeError):
        raise at(path, None, None, "is damaged: its header cannot be read") from None
    if number != FORMAT:
        raise at(path, None, "format", f"{number}: this Dally ({__version__}) reads format {FORMAT}")
    _check(path, header, raw[end + 1 :])
    return header, raw[end + 1 :]


def _check(path: Path, header: dict[str, Any], content: bytes) -> None:
    """Only the very code that saved a run knows how to go on with it."""
    if header.get("dally") != __version__:
        raise at(path, None, "dally", f"saved by version {header.get('dally')}; this is {__version__}")
    if header.get("compiled") != is_compiled():
        there, here = ("compiled", "not compiled") if header.get("compiled") else ("not compiled", "compiled")
        raise at(path, None, "compiled", f"saved by a Dally that is {there}; this one is {here}")
    if header.get("sha256") != hashlib.sha256(content).hexdigest() or not isinstance(header.get("note"), dict):
        raise at(path, None, None, "is damaged: its content is not what was written")


class _NotAdmittedError(Exception):
    """A snapshot names something that has no place in one."""


class _Unpickler(pickle.Unpickler):
    """Makes objects of our own classes and of plain ones only, and calls nothing else."""

    def __init__(self, file: io.BytesIO, admit: Collection[str]) -> None:
        super().__init__(file)
        self._admit = frozenset(admit)

    def find_class(self, module: str, name: str) -> Any:
        if name in PLAIN.get(module, ()) or module in self._admit:
            return super().find_class(module, name)
        for builder in (*BUILDERS, spec_from):
            if (module, name) == (builder.__module__, builder.__name__):
                return builder
        if (module, name) == (revive.__module__, revive.__name__):
            return self._revive
        top, _, rest = module.partition(".")
        if top == "dally" and rest.partition(".")[0] in OURS:
            kind = getattr(import_module(module), name, None)
            if isinstance(kind, type):
                return kind
        raise _NotAdmittedError(f"holds {module}.{name}, which is not admitted")

    def _revive(self, path: str, module: str, name: str) -> Part:
        """An object of a user's file, if that file is admitted: no other is loaded."""
        if module not in self._admit:
            raise _NotAdmittedError(f"holds {name} of {path}, which is not admitted")
        return revive(path, module, name)
