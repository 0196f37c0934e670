"""A daemon that waits to lead answers probes."""

from __future__ import annotations

import socket

import httpx

from dally.live.config import Config
from dally.web.standby import answering_probes


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_it_lives_and_is_not_ready() -> None:
    address = f"127.0.0.1:{free_port()}"
    config = Config("kubernetes", listen=address)
    for _ in range(2):  # the port is free again at once
        with answering_probes(config), httpx.Client(base_url=f"http://{address}", trust_env=False) as client:
            codes = {path: client.get(path).status_code for path in ("/healthz", "/readyz", "/jobs")}
            assert codes == {"/healthz": 200, "/readyz": 503, "/jobs": 503}


def test_an_address_that_is_taken_is_left_to_the_api() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with answering_probes(Config("kubernetes", listen=f"127.0.0.1:{taken.getsockname()[1]}")):
            pass
