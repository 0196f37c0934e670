"""What benchmarks have in common as commands."""

from __future__ import annotations

import argparse
import os
from contextlib import redirect_stderr
from typing import Any

from dally.live.logs import prepare


def options(about: str | None, **defaults: Any) -> argparse.Namespace:
    """The options of the command line: one for each default, of its type."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawTextHelpFormatter)
    for name, default in defaults.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default)
    return parser.parse_args()


def silence_log() -> None:
    """No line of a daemon's log, until the end."""
    with redirect_stderr(open(os.devnull, "w")):
        prepare(as_json=True)
