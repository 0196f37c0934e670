"""The live scheduler under load: answers of its API while cycles go on, CPU of a cycle, memory over many cycles.

usage: python -m benchmarks.serve [--jobs 2000] [--rate 100] [--seconds 60] [--cycles 10000]

The cluster is in memory (128 machines of 8 GPUs, 16 racks), the daemon, store and API are the real ones. Clients
run in a process of their own and ask at fixed times, whether or not earlier answers have come.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.command_line import options, silence_log
from dally.job_spec import JobSpec
from dally.live.assembly import Service
from dally.live.backends.base import Submission
from dally.live.config import Config, Setup
from dally.testing.fake_backend import FakeBackend, FakeClock
from dally.web.server import ApiServer

# What clients ask for, and how often of two hundred.
ASKED = (
    ("jobs?limit=100&offset={page}", 80), ("jobs/{job}", 50), ("status", 20), ("nodes", 20), ("slots?gpus=64", 20),
    ("timers", 9), ("jobs/{job}/explanation", 1),
)  # fmt: skip
CONNECTIONS = 8


class Cluster(FakeBackend):
    """A cluster in memory whose clock is the wall's, or the benchmark's."""

    live = False

    def identity(self) -> str:
        return f"benchmark {os.getpid()}"

    def wait(self, timeout_s: float) -> None:
        if self.live:
            time.sleep(timeout_s)
            self.now_s += timeout_s


def open_service(folder: Path, policy: str) -> tuple[Service, Cluster]:
    backend = Cluster(16, 8, 8)
    config = Config(folder=folder, listen="127.0.0.1:0", setup=Setup(policy, network="slow"), requests_per_s=1000.0)
    service = Service(config, backend)
    service.clock = FakeClock(backend)
    return service, backend


def fill(backend: FakeBackend, jobs: int, chance: random.Random, seconds: float) -> None:
    for _ in range(jobs):
        gpus = chance.choice((1, 2, 4, 8, 8, 16, 16, 32, 64))
        backend.submit(Submission(JobSpec(gpus, user=f"u{gpus}", duration_s=chance.uniform(0.2, 1.8) * seconds)))


def percentiles(values: list[float]) -> str:
    ranked = sorted(values)
    picked = [ranked[min(len(ranked) - 1, int(len(ranked) * share))] for share in (0.5, 0.95, 0.99)]
    return "p50 {:.1f}, p95 {:.1f}, p99 {:.1f}, most {:.1f} ms".format(
        *(1000 * one for one in (*picked, ranked[-1]))
    )


@contextmanager
def filled(
    jobs: int, policy: str, seed: int, seconds: float
) -> Iterator[tuple[Service, Cluster, random.Random, list[float]]]:
    """A service on a cluster with that many jobs, the draws that follow, and what its cycles will have taken."""
    with tempfile.TemporaryDirectory() as folder:
        service, backend = open_service(Path(folder), policy)
        chance = random.Random(seed)
        fill(backend, jobs, chance, seconds)
        took: list[float] = []
        service.daemon.watchers.append(lambda _, cpu_s: took.append(cpu_s))
        yield service, backend, chance, took


# Clients.


async def ask(url: str, rate: float, seconds: float) -> dict[str, list[float]]:
    """Seconds from when a request was due until its answer was read, by what was asked for."""
    host, _, port = url.rpartition("/")[2].partition(":")
    chance = random.Random(1)
    idle: asyncio.Queue[Any] = asyncio.Queue()
    for _ in range(CONNECTIONS):
        idle.put_nowait(await asyncio.open_connection(host, int(port), limit=1 << 24))
    took: dict[str, list[float]] = {}

    async def one(kind: str, due: float) -> None:
        path = kind.format(page=100 * chance.randrange(20), job=chance.randrange(1, 2000))
        reader, writer = await idle.get()
        writer.write(f"GET /api/v1/{path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length"))
        await reader.readexactly(int(length.split(b":")[1]))
        assert head.split()[1] in (b"200", b"404"), head
        took.setdefault(kind.partition("?")[0], []).append(time.perf_counter() - due)
        idle.put_nowait((reader, writer))

    kinds, weights = [kind for kind, _ in ASKED], [weight for _, weight in ASKED]
    began = time.perf_counter()
    under_way = []
    for number in range(int(rate * seconds)):
        due = began + number / rate
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        under_way.append(asyncio.create_task(one(chance.choices(kinds, weights)[0], due)))
    await asyncio.gather(*under_way)
    return took


def api(jobs: int, rate: float, seconds: float, policy: str) -> None:
    with filled(jobs, policy, 2, 7200.0) as (service, backend, chance, cycles):
        server = ApiServer(service)
        server.start()
        service.daemon.run_cycle()
        while (waiting := sum(line.place is not None for line in service.daemon.status.jobs)) < jobs:
            fill(backend, jobs - waiting, chance, 7200.0)
            service.daemon.run_cycle()
        backend.live = True
        daemon = threading.Thread(target=service.daemon.run)
        daemon.start()
        time.sleep(5.0)
        words = [sys.executable, "-m", "benchmarks.serve", "--ask", server.url, "--rate", str(rate)]
        done = subprocess.run([*words, "--seconds", str(seconds)], capture_output=True, text=True, check=True)
        service.daemon.stop()
        daemon.join()
        server.stop()
        service.close()
    took: dict[str, list[float]] = json.loads(done.stdout)
    everything = [one for row in took.values() for one in row]
    print(f"{len(everything)} requests, {rate:g} a second, {waiting} jobs waiting, {len(cycles)} cycles ({policy})")
    for name, row in [("all", everything), *sorted(took.items())]:
        print(f"  {name:24} {len(row):6}  {percentiles(row)}")
    print(f"  CPU of a cycle            {len(cycles):6}  {percentiles(cycles[3:])}")


def memory(jobs: int, cycles: int, policy: str) -> None:
    """Jobs come and go at the pace at which they end, so that the queue stays as long as it is."""
    with filled(jobs, policy, 3, 1200.0) as (service, backend, chance, took):
        for number in range(cycles + 1):
            backend.now_s += 1.0
            service.daemon.run_cycle()
            ended = [job_id for job_id, job in backend.jobs.items() if job.state == "finished"]
            fill(backend, len(ended), chance, 1200.0)
            for job_id in ended:
                backend.forget(job_id)
            if number % (cycles // 5) == 0:
                gc.collect()
                with open("/proc/self/statm") as file:
                    resident = int(file.read().split()[1]) * resource.getpagesize() >> 20
                print(f"  cycle {number:6}: {resident} MB, {len(service.daemon.status.jobs)} jobs", flush=True)
        service.daemon.stop()
        service.close()
    print(f"  CPU of a cycle            {len(took):6}  {percentiles(took[3:])}")


def main() -> None:
    # ask: be the clients of that server
    given = options(__doc__, jobs=2000, rate=100.0, seconds=60.0, cycles=10_000, policy="dally", ask="")
    if given.ask:
        print(json.dumps(asyncio.run(ask(given.ask, given.rate, given.seconds))))
        return
    silence_log()
    if given.seconds:
        api(given.jobs, given.rate, given.seconds, given.policy)
    if given.cycles:
        print(f"{given.cycles} cycles of a second, {given.jobs} jobs ({given.policy})")
        memory(given.jobs, given.cycles, given.policy)


if __name__ == "__main__":
    main()
