"""Policies of a user's own file: `file.py:Class` becomes the class, in this process and in any worker."""

from __future__ import annotations

import hashlib
import re
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from dally.errors import InputError, at, unknown
from dally.input_file import read_bytes
from dally.policies.base import Policy
from dally.policies.part import Part

PREFIX = "dally_user_policy"


def split_file(name: str) -> tuple[str, str]:
    """`path/to/file.py:Class` as file and class; two empty texts if the name is no such thing."""
    match = re.fullmatch(r"([^:]+?\.py)(?::(.*))?", name)
    return (match[1], match[2] or "") if match else ("", "")


def load_named(name: str) -> Any:
    """What `file.py:Class` names; InputError that says in which line the file is wrong, or which classes it has."""
    path, class_name = split_file(name)
    module = load_file(path)
    if class_name and hasattr(module, class_name):
        return getattr(module, class_name)
    known = [key for key, value in vars(module).items() if _is_policy(value, module)]
    if not known:
        raise InputError(f"{path}: holds no policy: no subclass of dally.Policy")
    if not class_name:
        raise InputError(f"{path}: say which policy of it: {', '.join(f'{path}:{one}' for one in known)}")
    raise InputError(f"{path}: {unknown('class', class_name, known)}")


def _is_policy(value: object, module: ModuleType) -> bool:
    return isinstance(value, type) and issubclass(value, Policy) and value.__module__ == module.__name__


def load_file(path: str) -> ModuleType:
    """The file as a module, run once as long as it does not change.

    The module's name tells path and content, so that a file that was changed is another module, and so
    that objects of its classes find the same module again when they are unpickled.
    """
    source = read_bytes(Path(path))
    full_path = str(Path(path).resolve())
    digest = hashlib.sha256(f"{full_path}\0".encode() + source).hexdigest()
    stem = re.sub(r"\W", "_", Path(path).stem)
    name = f"{PREFIX}_{stem}_{digest[:8]}"
    if name in sys.modules:
        return sys.modules[name]
    module = ModuleType(name)
    module.__file__ = full_path
    sys.modules[name] = module  # before it runs: dataclasses look for it there
    try:
        exec(compile(source, full_path, "exec", dont_inherit=True), vars(module))
    except BaseException as error:
        del sys.modules[name]
        if not isinstance(error, Exception | SystemExit):
            raise
        raise _wrong(path, full_path, error) from None
    for value in list(vars(module).values()):
        if isinstance(value, type) and issubclass(value, Part) and value.__module__ == name:
            _make_picklable(value)
    return module


def _wrong(path: str, full_path: str, error: BaseException) -> InputError:
    """What went wrong in the file, and in which line of it."""
    if isinstance(error, SyntaxError) and error.filename == full_path:
        return at(path, error.lineno, None, f"{type(error).__name__}: {error.msg}")
    hint = "; a policy's file can import what is installed, but no files beside it"
    problem = f"{type(error).__name__}: {error}{hint if isinstance(error, ModuleNotFoundError) else ''}"
    return at(path, _line(error, full_path), None, problem)


def _line(error: BaseException, path: str) -> int | None:
    """The last line of the file that had a part in the error."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    return lines[-1] if lines else None


def _make_picklable(part: type[Part]) -> None:
    """Let its objects say from which file they are: a worker has never heard of the module."""
    if "__reduce__" not in vars(part) and "__reduce_ex__" not in vars(part):
        setattr(part, "__reduce__", _reduce)  # noqa: B010 - mypy takes it for a mistake


def _reduce(self: Part) -> tuple[Any, ...]:
    kind = type(self)
    file = sys.modules[kind.__module__].__file__
    return revive, (file, kind.__module__, kind.__qualname__), self.__getstate__()


def revive(path: str, module_name: str, qualname: str) -> Part:
    """An empty object of that class, of the same file with the same content."""
    module = sys.modules.get(module_name) or load_file(path)
    if module.__name__ != module_name:
        raise InputError(f"{path}: has changed since the policy was saved")
    kind: Any = module
    for name in qualname.split("."):
        kind = getattr(kind, name)
    empty: Part = kind.__new__(kind)
    return empty
