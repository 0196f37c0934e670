"""Prints the packages that pyproject.toml asks for, those for development included, one a line."""

from __future__ import annotations

import tomllib
from pathlib import Path


def main() -> None:
    """Print them."""
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"]]
    for extra in project["optional-dependencies"].values():
        wanted += extra
    print("\n".join(wanted))


if __name__ == "__main__":
    main()
