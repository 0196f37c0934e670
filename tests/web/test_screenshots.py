"""The README's pictures can be taken, and are the ones it shows."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT = Path(__file__).parents[2]


def size_of(picture: Path) -> tuple[int, ...]:
    return struct.unpack(">II", picture.read_bytes()[16:24])


def test_the_readme_shows_what_the_command_takes(browser: Browser, tmp_path: Path) -> None:
    script = ROOT / "scripts" / "screenshots.py"
    subprocess.run([sys.executable, str(script), str(tmp_path)], check=True, timeout=240)
    taken = sorted(tmp_path.iterdir())
    assert [size_of(picture) for picture in taken] == [(1280, 800)] * 2
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for picture in taken:
        assert f"docs/images/{picture.name}" in readme
        assert size_of(ROOT / "docs" / "images" / picture.name) == (1280, 800)
