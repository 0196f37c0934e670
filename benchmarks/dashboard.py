"""The dashboard under load: many event streams at once, and pages of a large cluster in a real browser.

usage: python -m benchmarks.dashboard [--machines 1000] [--jobs 5000] [--streams 100] [--seconds 60]

The cluster is in memory (racks of 25 machines of 8 GPUs), the daemon, store and server are the real ones, and
cycles go on at their usual pace. Streams are read by a process of its own; pages by Chromium, in its own processes
too.
"""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.command_line import options, silence_log
from benchmarks.serve import Cluster, fill, percentiles
from dally.live.assembly import Service
from dally.live.config import Config, Setup
from dally.testing.fake_backend import FakeClock
from dally.web.server import ApiServer

RACK = 25
LONG_S = 900.0  # a job's mean work: some start and end in every cycle
PAGES = ("/", "/queue", "/queue?tab=running")
CHROMIUM = "/usr/bin/chromium"


class Cycles:
    """When each cycle came about, of a clock that all processes share, and its CPU seconds."""

    def __init__(self, service: Service) -> None:
        self.at_s: dict[int, float] = {}
        self.cpu_s: list[float] = []
        self._service = service
        service.daemon.watchers.insert(0, self._on_cycle)

    def _on_cycle(self, _turn: Any, cpu_s: float) -> None:
        self.at_s[self._service.daemon.status.cycle] = time.monotonic()
        self.cpu_s.append(cpu_s)


@contextmanager
def served(machines: int, jobs: int) -> Iterator[tuple[Service, ApiServer, Cycles]]:
    """A busy cluster with a page, turning."""
    with tempfile.TemporaryDirectory() as folder:
        backend = Cluster(max(1, machines // RACK), min(machines, RACK), 8)
        setup = Setup("dally", network="slow")
        config = Config(folder=Path(folder), listen="127.0.0.1:0", setup=setup, requests_per_s=10_000.0)
        service = Service(config, backend)
        service.clock = FakeClock(backend)
        chance = random.Random(4)
        fill(backend, jobs, chance, LONG_S)
        cycles = Cycles(service)
        server = ApiServer(service)
        server.start()

        def refill(_turn: Any, _cpu_s: float) -> None:
            ended = [job_id for job_id, job in backend.jobs.items() if job.state == "finished"]
            fill(backend, len(ended), chance, LONG_S)
            for job_id in ended:
                backend.forget(job_id)

        service.daemon.watchers.append(refill)
        for _ in range(40):  # until some jobs end in every cycle
            backend.now_s += LONG_S / 20
            service.daemon.run_cycle()
        backend.live = True
        daemon = threading.Thread(target=service.daemon.run)
        daemon.start()
        try:
            yield service, server, cycles
        finally:
            service.daemon.stop()
            daemon.join()
            server.stop()
            service.close()


# Streams.


async def listen(url: str, streams: int, seconds: float) -> list[dict[int, float]]:
    """When each cycle's message came, by stream."""
    host, _, port = url.rpartition("/")[2].partition(":")

    async def one() -> dict[int, float]:
        reader, writer = await asyncio.open_connection(host, int(port), limit=1 << 24)
        writer.write(f"GET /events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
        came: dict[int, float] = {}
        until = time.monotonic() + seconds
        while (left_s := until - time.monotonic()) > 0.0:
            try:
                async with asyncio.timeout(left_s):
                    line = await reader.readline()
            except TimeoutError:
                break
            assert line, "the server ended a stream"
            if line.startswith(b"data: ") and b'"after"' in line[:60]:
                came[json.loads(line[6:])["cycle"]] = time.monotonic()
        writer.close()
        return came

    return await asyncio.gather(*(one() for _ in range(streams)))


def measure_streams(machines: int, jobs: int, streams: int, seconds: float) -> None:
    with served(machines, jobs) as (service, server, cycles):
        time.sleep(3.0)
        words = [sys.executable, "-m", "benchmarks.dashboard", "--listen", server.url]
        began, cpu_s, first = time.monotonic(), time.process_time(), len(cycles.cpu_s)
        words += ["--streams", str(streams), "--seconds", str(seconds)]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        cpu_s, took_s = time.process_time() - cpu_s, time.monotonic() - began
        of_turns_s = sum(cycles.cpu_s[first:])
        status = service.daemon.status
    came: list[dict[int, float]] = [
        {int(cycle): at for cycle, at in row.items()} for row in json.loads(done.stdout)
    ]
    delays = [at - cycles.at_s[cycle] for row in came for cycle, at in row.items()]
    whole = max((set(row) for row in came), key=len)
    missed = sum(len(whole) - len(row) for row in came)
    gaps = [later - earlier for row in came for earlier, later in pairwise(row.values())]
    print(f"{streams} streams for {seconds:g} s, {len(status.nodes)} machines, {len(status.jobs)} jobs:")
    print(f"  messages a stream        {len(whole)}, missed in all {missed}")
    print(f"  after the cycle           {percentiles(delays)}")
    print(f"  longest silence          {max(gaps):.2f} s")
    print(f"  CPU of the server        {cpu_s / took_s:.2f} cores, of which cycles {of_turns_s / took_s:.2f}")


# Pages.


def measure_pages(machines: int, jobs: int, cycles: int) -> None:
    from playwright.sync_api import sync_playwright

    with served(machines, jobs) as (service, server, _), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        for path in PAGES:
            page = browser.new_context(viewport={"width": 1400, "height": 900}).new_page()
            devtools = page.context.new_cdp_session(page)
            devtools.send("Performance.enable")
            page.goto(server.url + path)
            until(page, "window.dally && window.dally.link === 'live'")
            paint_ms = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
            ready_ms = page.evaluate("performance.now()")
            page.wait_for_timeout(1500)
            before, cycle = _script_s(devtools), page.evaluate("dally.cycle")
            until(page, f"dally.cycle >= {cycle + cycles}")
            script_ms = 1000 * (_script_s(devtools) - before) / (page.evaluate("dally.cycle") - cycle)
            print(
                f"{path:22} first paint {paint_ms:5.0f} ms, live {ready_ms:5.0f} ms, script of an update "
                f"{script_ms:5.1f} ms ({len(service.daemon.status.nodes)} machines, "
                f"{len(service.daemon.status.jobs)} jobs)"
            )
            page.context.close()
        browser.close()


def until(page: Any, holds: str) -> None:
    """Wait until an expression holds; Playwright's own way is an eval, which our pages do not allow."""
    give_up = time.monotonic() + 120.0
    while not page.evaluate(holds):
        assert time.monotonic() < give_up, holds
        page.wait_for_timeout(50)


def _script_s(devtools: Any) -> float:
    found = {one["name"]: one["value"] for one in devtools.send("Performance.getMetrics")["metrics"]}
    return float(found["ScriptDuration"])


def main() -> None:
    # cycles: of each page; listen: be the readers of the streams of that server
    given = options(__doc__, machines=1000, jobs=5000, streams=100, seconds=60.0, cycles=20, listen="")
    if given.listen:
        print(json.dumps(asyncio.run(listen(given.listen, given.streams, given.seconds))))
        return
    silence_log()
    if given.cycles:
        measure_pages(given.machines, given.jobs, given.cycles)
    if given.seconds:
        measure_streams(given.machines, given.jobs, given.streams, given.seconds)


if __name__ == "__main__":
    main()
