"""The README's pictures can be taken, and are the ones it shows."""

from __future__ import annotations

import struct
import subprocess
import sys
import zlib
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


def test_the_moving_picture_is_one_that_viewers_read() -> None:
    """Each frame of it, taken out, is a picture of its own; the numbers of its parts have no gap."""
    picture = (ROOT / "docs" / "images" / "replay.png").read_bytes()
    assert "docs/images/replay.png" in (ROOT / "README.md").read_text(encoding="utf-8")
    at, kinds, numbers = 8, [], []
    while at < len(picture):
        (length,) = struct.unpack(">I", picture[at : at + 4])
        kind, content = picture[at + 4 : at + 8], picture[at + 8 : at + 8 + length]
        (checksum,) = struct.unpack(">I", picture[at + 8 + length : at + 12 + length])
        assert checksum == zlib.crc32(kind + content)
        kinds.append(kind)
        if kind == b"acTL":
            frames = struct.unpack(">II", content)[0]
        if kind in (b"fcTL", b"fdAT"):
            numbers.append(struct.unpack(">I", content[:4])[0])
        at += 12 + length
    assert kinds.count(b"fcTL") == frames >= 10
    assert numbers == list(range(len(numbers)))
    assert (kinds[0], kinds[-1]) == (b"IHDR", b"IEND")
    assert len(picture) < 2_000_000
