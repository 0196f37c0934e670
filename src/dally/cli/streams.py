"""Standard output and error as they may be: closed, full, a pipe that nobody reads any more, or plain ASCII."""

from __future__ import annotations

import io
import os
import signal
import sys
from codecs import lookup
from typing import cast

from dally.errors import InputError


class OutputLostError(Exception):
    """Standard output takes no more; `reader_left`: as whoever read it has seen enough, which is no error."""

    def __init__(self, error: OSError) -> None:
        super().__init__(f"stdout: cannot be written: {error.strerror or error}")
        self.reader_left = isinstance(error, BrokenPipeError)


class _Stdout(io.TextIOWrapper):
    """Says that it was standard output which failed: an OSError of its own could come from any file."""

    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except OSError as error:
            raise OutputLostError(error) from None

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            raise OutputLostError(error) from None


def prepare() -> None:
    """Make both streams fit for what is printed.

    The C locale says ASCII and means nothing by it: UTF-8, as Python itself has it (PEP 540). Characters that
    another encoding does not have become `?`.
    """
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - until the end
    if sys.stdout is None:
        raise InputError("stdout: is closed; `> /dev/null` throws away what is printed")
    old = cast(io.TextIOWrapper, sys.stdout)
    encoding, buffered = _encoding(old), old.line_buffering
    sys.stdout = _Stdout(old.detach(), encoding, "replace", line_buffering=buffered)
    errors = cast(io.TextIOWrapper, sys.stderr)
    errors.reconfigure(encoding=_encoding(errors), errors="replace")


def _encoding(stream: io.TextIOWrapper) -> str:
    return "utf-8" if lookup(stream.encoding).name == "ascii" else stream.encoding


def give_up(lost: OutputLostError) -> int:
    """Print no more, and say why unless the reader left; the exit code."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is still buffered goes nowhere when Python ends
    if lost.reader_left:
        return 128 + signal.SIGPIPE
    print(f"dally: {lost}", file=sys.stderr)
    return 2
