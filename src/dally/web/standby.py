"""Answers probes while a daemon waits to lead, or for its cluster: it lives, and is not ready."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from dally.live.config import Config

ANSWERS: Final = {"/healthz": (200, {"status": "alive"})}
NOT_READY: Final = (503, {"detail": "this daemon does not lead yet"})
SILENT_S: Final = 5.0  # a client that says nothing for so long is let go


class _Probe(BaseHTTPRequestHandler):
    timeout = SILENT_S

    def do_GET(self) -> None:
        """Whatever is asked for, nothing of the cluster is told."""
        code, body = ANSWERS.get(self.path.partition("?")[0], NOT_READY)
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Probes fill no log."""


@contextmanager
def answering_probes(config: Config) -> Iterator[None]:
    """For the length of the block, at the address of the API; one that cannot be had is reported by the API."""
    host, port = config.address()
    try:
        server = ThreadingHTTPServer((host, port), _Probe) if port and config.backend != "local" else None
        if server is not None and config.tls_certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(config.tls_certificate, config.tls_key or None)
            server.socket = context.wrap_socket(server.socket, server_side=True)
    except OSError:
        server = None
    if server is None:
        yield
        return
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), name="probes", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
