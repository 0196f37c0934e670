"""Prints the packages that pyproject.toml asks for, those for development included, one a line.

usage: python scripts/requirements.py [EXTRA]    (of all extras but `profile`, which brings torch; or of one)
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

APART = "profile"


def main() -> None:
    """Print them."""
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"]]
    for name in sys.argv[1:] or extras.keys() - {APART}:
        wanted += extras[name]
    print("\n".join(sorted(wanted)))


if __name__ == "__main__":
    main()
