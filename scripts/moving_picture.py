"""Takes the README's moving picture: a simulated day of the dashboard's map, as an animated PNG.

usage: python scripts/moving_picture.py [FILE]

The run is that of screenshots.py; the frames are Chromium's own pictures, put into one file without a change.
"""

from __future__ import annotations

import struct
import sys
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from screenshots import CHROMIUM, IMAGES, busiest, simulated  # type: ignore[import-not-found]  # beside this file

from dally.web.replay.replay_app import ReplayScene, replay_app
from dally.web.server import LocalServer

SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
WIDTH, HEIGHT = 1120, 780
FRAMES: Final = 16
BETWEEN_S: Final = 3600.0  # of the run, from frame to frame
SHOWN_MS: Final = 450


def main() -> None:
    """Take the frames from the busiest moment on, and write them."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES / "replay.png"
    with tempfile.TemporaryDirectory() as temporary:
        scene = ReplayScene(simulated(Path(temporary)), "256 GPUs")
        server = LocalServer(replay_app(scene), "127.0.0.1:0")
        server.start()
        try:
            frames = list(taken(server.url, busiest(scene)[0]))
        finally:
            server.stop()
    path.write_bytes(animated(frames))
    print(f"{path}: {len(frames)} frames, {path.stat().st_size // 1000:,} kB")


def taken(url: str, begin_s: float) -> Iterator[bytes]:
    """Pictures of the map, an hour of the run apart."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, reduced_motion="reduce")
        for frame in range(FRAMES):
            page.goto(f"{url}/?at={begin_s + frame * BETWEEN_S}")
            while not page.evaluate("window.dally?.replay?.settled"):
                page.wait_for_timeout(50)
            page.wait_for_timeout(300)
            yield page.screenshot()
        browser.close()


def chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The kinds and contents of a PNG's chunks."""
    at = len(SIGNATURE)
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        yield png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        at += 12 + length


def chunk(kind: bytes, content: bytes) -> bytes:
    """One chunk, with its length and checksum."""
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def animated(frames: Sequence[bytes], shown_ms: int = SHOWN_MS) -> bytes:
    """An animated PNG that repeats for ever; viewers that know none show the first frame."""
    headers = [dict(chunks(frame))[b"IHDR"] for frame in frames]
    assert len(set(headers)) == 1, "all frames have one size and format"
    width, height = struct.unpack(">II", headers[0][:8])
    result = [SIGNATURE, chunk(b"IHDR", headers[0]), chunk(b"acTL", struct.pack(">II", len(frames), 0))]
    number = 0
    for place, frame in enumerate(frames):
        control = struct.pack(">IIIIIHHBB", number, width, height, 0, 0, shown_ms, 1000, 0, 0)
        result.append(chunk(b"fcTL", control))
        number += 1
        for content in (content for kind, content in chunks(frame) if kind == b"IDAT"):
            if place == 0:
                result.append(chunk(b"IDAT", content))
            else:
                result.append(chunk(b"fdAT", struct.pack(">I", number) + content))
                number += 1
    return b"".join([*result, chunk(b"IEND", b"")])


if __name__ == "__main__":
    main()
