"""A proxy before a Kubernetes API server that fails in the ways in which networks and busy servers fail."""

from __future__ import annotations

import json
import random
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import urllib3
import yaml

OWN: Final = ("host", "connection", "content-length")  # headers of one hop
WRITES: Final = ("409 before", "429 before", "500 before", "503 after", "lost answer", "reset", "slow")
READS: Final = ("429 before", "503 before", "lost answer", "reset", "slow")
WATCHES: Final = ("410 before", "410 event", "cut", "silent", "reset", "503 before")
SLOW_S: Final = (0.5, 3.0)
SILENT_S: Final = (4.0, 12.0)


class FaultyProxy:
    """Listens on loopback without TLS. While `rate` is above 0, that share of the requests goes wrong."""

    exchange: type[Exchange]

    def __init__(self, config: str, seed: int) -> None:
        text = yaml.safe_load(Path(config).read_text())
        server = text["clusters"][0]["cluster"]
        self.upstream: str = server["server"]
        self.pool = urllib3.PoolManager(num_pools=4, maxsize=64, ca_certs=server["certificate-authority"])
        self.rate = 0.0
        self.counts: Counter[str] = Counter()
        self._chance = random.Random(seed)
        self._lock = threading.Lock()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (self.exchange,), {"proxy": self}))
        self._http.daemon_threads = True
        server["server"] = f"http://127.0.0.1:{self._http.server_address[1]}"
        del server["certificate-authority"]
        self.config = Path(config).with_name("proxy.yaml")
        self.config.write_text(yaml.safe_dump(text))
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    def fault(self, method: str, watch: bool) -> str:
        """What goes wrong with the next request of that kind; empty: nothing."""
        kinds = WATCHES if watch else READS if method == "GET" else WRITES
        with self._lock:
            share = min(0.5, self.rate * 5.0) if watch else self.rate  # a watch is one request for a minute
            if self._chance.random() >= share:
                return ""
            result = self._chance.choice(kinds)
            self.counts[f"{'watch' if watch else 'read' if method == 'GET' else 'write'} {result}"] += 1
            return result

    def between(self, least: float, most: float) -> float:
        """A number between these."""
        with self._lock:
            return self._chance.uniform(least, most)

    def close(self) -> None:
        """No more requests."""
        self._http.shutdown()
        self._http.server_close()


class Exchange(BaseHTTPRequestHandler):
    """One connection of a client."""

    protocol_version = "HTTP/1.1"
    proxy: FaultyProxy

    def log_message(self, *_: Any) -> None:
        """Not a word."""

    def handle(self) -> None:
        """Until either side is gone: daemons are killed too."""
        with suppress(OSError):
            super().handle()

    def finish(self) -> None:
        """The same."""
        with suppress(OSError):
            super().finish()

    def do_GET(self) -> None:
        """As every other method."""
        watch = "watch=1" in self.path
        fault = self.proxy.fault(self.command, watch)
        length = int(self.headers.get("content-length") or 0)
        body = self.rfile.read(length) if length else None
        try:
            self._exchange(fault, body, watch)
        except (urllib3.exceptions.HTTPError, OSError):
            self._reset()

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815

    def _exchange(self, fault: str, body: bytes | None, watch: bool) -> None:
        if fault == "reset":
            self._reset()
            return
        if fault.endswith("before"):
            self._refuse(int(fault.split()[0]))
            return
        if fault == "slow":
            time.sleep(self.proxy.between(*SLOW_S))
        headers = {name: value for name, value in self.headers.items() if name.lower() not in OWN}
        body = self.request_body(body, headers)
        answer = self.proxy.pool.request(
            self.command, self.proxy.upstream + self.path, body=body, headers=headers, preload_content=not watch,
            retries=False, timeout=120.0,
        )  # fmt: skip
        if fault == "lost answer":
            self._reset()
        elif fault == "503 after":
            self._refuse(503)
        elif watch and answer.status < 300:
            self._stream(answer, fault)
        else:
            self._answer(answer.status, self.answer_body(answer.data))

    def request_body(self, body: bytes | None, headers: dict[str, str]) -> bytes | None:
        """What the server behind is asked."""
        return body

    def answer_body(self, data: bytes) -> bytes:
        """What it answers, for the client."""
        return data

    def parts(self, answer: Any) -> Iterator[bytes]:
        """What a watch tells, as it comes."""
        result: Iterator[bytes] = answer.stream(65536)
        return result

    def _stream(self, answer: Any, fault: str) -> None:
        """Events as they come, until the fault."""
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        until_s = time.monotonic() + self.proxy.between(0.5, 6.0)
        try:
            for part in self.parts(answer):
                if fault and time.monotonic() > until_s:
                    break
                self._chunk(part)
            else:
                self._chunk(b"")
                return
        finally:
            answer.close()
        if fault == "silent":
            time.sleep(self.proxy.between(*SILENT_S))
        if fault == "410 event":
            gone = {"kind": "Status", "code": 410, "message": "too old resource version", "reason": "Expired"}
            self._chunk(json.dumps({"type": "ERROR", "object": gone}).encode() + b"\n")
            self._chunk(b"")
        else:
            self._reset()

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def _refuse(self, code: int) -> None:
        status = {"kind": "Status", "status": "Failure", "code": code, "message": "a fault of the proxy"}
        self._answer(code, json.dumps(status).encode())

    def _answer(self, code: int, data: bytes) -> None:
        self.send_response(code)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _reset(self) -> None:
        """RST, not FIN."""
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()


FaultyProxy.exchange = Exchange
