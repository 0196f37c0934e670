"""What goes wrong in a policy of the user's own file, told with the line of that file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from traceback import extract_tb

from dally.errors import InputError, PolicyError
from dally.policies.registry import policy_file


@contextmanager
def blamed(policy: str) -> Iterator[None]:
    """PolicyError, with the file and the line, for what a policy named `file.py:Class` raises."""
    try:
        yield
    except (InputError, PolicyError):
        raise
    except Exception as error:
        problem = _problem(policy_file(policy), error)
        if not problem:
            raise
        raise PolicyError(problem) from error


def _problem(file: str, error: Exception) -> str:
    """What the file did wrong; empty if the error is not of its making."""
    frames = extract_tb(error.__traceback__) if file else []
    own = [frame for frame in frames if os.path.realpath(frame.filename) == os.path.realpath(file)]
    what = f"{type(error).__name__}: {error}"
    if own:
        return f"{file}:{own[-1].lineno}: in {own[-1].name}: {what}"
    if frames and frames[-1].name in ("cycle", "check"):  # where the engine takes what `schedule` gives
        return f"{file}: schedule must give actions, Start, Preempt or Migrate, and nothing else: {what}"
    return ""
