"""How what mypyc compiles is pickled: `vec` as bytes, and classes that are made with arguments.

A compiled class calls `__init__` whenever an object of it is made, also by pickle. So each class says what a blank
object is made with; its attributes follow. Nothing of this runs unless something is pickled.
"""

from __future__ import annotations

import copyreg
from array import array
from typing import Any

from librt.vecs import vec
from mypy_extensions import i16, i32, i64, u8

VECS: dict[str, Any] = {"q": vec[i64], "i": vec[i32], "h": vec[i16], "B": vec[u8], "d": vec[float]}
BUILDERS: list[Any] = []  # the functions, other than classes, that a pickle of ours may call


def make_vec(code: str, raw: bytes) -> Any:
    """The vec of these bytes; `code` is the type of its items as the module `array` writes it."""
    return VECS[code](array(code, raw))


BUILDERS.append(make_vec)


def picklable(kind: type, *blank: object) -> None:
    """Objects of this class are unpickled by making one with the arguments `blank`, then setting its attributes."""

    def reduce(thing: Any) -> tuple[object, ...]:
        return (kind, blank, thing.__getstate__())

    copyreg.pickle(kind, reduce)  # type: ignore[arg-type]


def _pickle_vecs(code: str) -> None:
    def reduce(values: Any) -> tuple[object, ...]:
        return (make_vec, (code, array(code, values).tobytes()))

    copyreg.pickle(VECS[code], reduce)  # type: ignore[arg-type]


for _code in VECS:
    _pickle_vecs(_code)
