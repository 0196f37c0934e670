"""Errors that are the caller's to mend, as opposed to bugs of ours."""

from __future__ import annotations


class InputError(Exception):
    """Bad input: the message names file, line, field and value; the command exits with code 2."""


class PolicyError(Exception):
    """A policy returned an action the cluster cannot carry out: a bug in the policy."""


def at(file: object, line: int | None, field: str | None, problem: str) -> InputError:
    """An InputError that reads `file:line: field: problem`, leaving out what is not known."""
    where = str(file) if line is None else f"{file}:{line}"
    return InputError(f"{where}: {problem}" if field is None else f"{where}: {field}: {problem}")
