"""Errors that are the caller's to mend, as opposed to bugs of ours."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

LONGEST: Final = 400  # characters of a problem: a damaged file may hold a line of megabytes


class InputError(Exception):
    """Bad input: the message names file, line, field and value; the command exits with code 2."""


class InputWarning(UserWarning):
    """Input that is taken as it is, and is probably meant otherwise."""


class PolicyError(Exception):
    """A policy returned an action the cluster cannot carry out: a bug in the policy."""


class Interrupted(Exception):  # noqa: N818 - nothing went wrong
    """Ctrl-C in a command that keeps what is finished: the message says what that is; exit code 130."""


def one_line(text: str, longest: int) -> str:
    """The text as one line of about so many characters, its middle left out if need be."""
    text = " ".join(text.splitlines())
    return text if len(text) <= longest else f"{text[: longest // 2]} … {text[-longest // 2 :]}"


def at(file: object, line: int | None, field: str | None, problem: str) -> InputError:
    """An InputError that reads `file:line: field: problem`, leaving out what is not known."""
    where = str(file) if line is None else f"{file}:{line}"
    problem = one_line(problem, LONGEST)
    return InputError(f"{where}: {problem}" if field is None else f"{where}: {field}: {problem}")


def warn_input(file: object, line: int | None, field: str, problem: str) -> None:
    """An InputWarning that reads as the error of `at` does; the command line shows each once."""
    import warnings

    warnings.warn(str(at(file, line, field, problem)), InputWarning, stacklevel=2)


def unknown(what: str, name: str, known: Collection[str]) -> InputError:
    """An InputError for a name that is not known: it suggests the nearest one, or lists them all."""
    from difflib import get_close_matches

    near = get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
    return InputError(f"unknown {what} {name!r}; {hint}")
