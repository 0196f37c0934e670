"""What a job states beyond its GPUs, read from the texts of its JobSpec."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields, replace
from operator import attrgetter
from typing import Any, Final

from dally.errors import InputError
from dally.job_spec import JobSpec

# The fields that make a job's place depend on more than free GPUs. A partition does where the cluster has some.
CONSTRAINTS: Final = (
    "gpus_per_node", "nodes_min", "nodes_max", "cpus_per_gpu", "cpus_per_node", "memory_mb_per_gpu",
    "memory_mb_per_node", "resources_per_gpu", "resources_per_node", "licences", "exclusive", "features", "include",
    "exclude", "reservation",
)  # fmt: skip
_stated = attrgetter(*CONSTRAINTS)
_NOTHING: Final = tuple({each.name: each.default for each in fields(JobSpec)}[name] for name in CONSTRAINTS)
_TOKEN: Final = re.compile(r"\s*([&|()]|[^&|()\s\[\]*]+)\s*")

Features = frozenset[str]
Predicate = Callable[[Features], bool]


def is_constrained(spec: JobSpec) -> bool:
    """Whether the job asks for anything that free GPUs alone do not answer."""
    return bool(_stated(spec) != _NOTHING)


def without_constraints(spec: JobSpec) -> JobSpec:
    """The same, less what is asked only of a job that is ours to place."""
    unstated: dict[str, Any] = dict(zip(CONSTRAINTS, _NOTHING, strict=True))
    return replace(spec, **unstated) if is_constrained(spec) else spec


def amounts(field: str, text: str) -> dict[str, float]:
    """`rdma/hca=1,nic=0.5` as a table; InputError for anything else."""
    result: dict[str, float] = {}
    for part in text.split(",") if text.strip() else []:
        name, equals, value = part.strip().rpartition("=")
        try:
            count = float(value)
        except ValueError:
            count = -1.0
        if not equals or not name or not 0.0 <= count < 1e12 or name in result:
            raise InputError(f"{field}: {text!r}: must be names and amounts, each name once, as nic=1,fpga=2")
        result[name] = count
    return result


def feature_test(text: str) -> Predicate:
    """Whether a machine's features satisfy `a100&(ib|roce)`: from left to right, as in Slurm; InputError if bad."""
    tokens = _tokens(text)
    test, rest = _expression(text, tokens)
    if rest:
        raise _bad(text)
    return test


def _tokens(text: str) -> list[str]:
    tokens: list[str] = []
    place = 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise _bad(text)
        tokens.append(match[1])
        place = match.end()
    return tokens


def _expression(text: str, tokens: list[str]) -> tuple[Predicate, list[str]]:
    test, tokens = _term(text, tokens)
    while tokens and tokens[0] in "&|":
        operator = tokens[0]
        other, tokens = _term(text, tokens[1:])
        test = _both(test, other) if operator == "&" else _either(test, other)
    return test, tokens


def _term(text: str, tokens: list[str]) -> tuple[Predicate, list[str]]:
    if not tokens or tokens[0] in "&|)":
        raise _bad(text)
    if tokens[0] == "(":
        test, tokens = _expression(text, tokens[1:])
        if not tokens or tokens[0] != ")":
            raise _bad(text)
        return test, tokens[1:]
    name = tokens[0]
    return lambda features: name in features, tokens[1:]


def _both(one: Predicate, other: Predicate) -> Predicate:
    return lambda features: one(features) and other(features)


def _either(one: Predicate, other: Predicate) -> Predicate:
    return lambda features: one(features) or other(features)


def _bad(text: str) -> InputError:
    return InputError(f"features: {text!r}: must be names with & and | between them, and parentheses")
