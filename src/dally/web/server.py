"""The API on a port, in a thread beside the daemon."""

from __future__ import annotations

import asyncio
import asyncio.constants
import gc
import signal
import socket
import ssl
import sys
import threading
import time
from functools import partial
from typing import Final

import uvicorn

from dally.errors import InputError
from dally.live.assembly import Service
from dally.live.config import Config
from dally.web.app import make_app
from dally.web.auth.access import Access
from dally.web.auth.first_token import make_first_token
from dally.web.auth.peers import is_loopback
from dally.web.auth.token_cache import TokenCache
from dally.web.protocol import Connections, LimitedProtocol
from dally.web.unix_socket import UnixSocket

STARTS_WITHIN_S: Final = 10.0
STOPS_WITHIN_S: Final = 5.0
HANDSHAKE_WITHIN_S: Final = 10.0  # of TLS
SWITCH_S: Final = 0.0005  # threads hand over after this: an answer must not wait for a cycle or a story to end


class ApiServer:
    """Answers from `start` until `stop`, by TCP and by a Unix socket. `first_token`: one that was made just now."""

    def __init__(self, service: Service) -> None:
        """InputError if it cannot listen there, or must not."""
        config = service.config
        host, port = config.address()
        _check_exposed(config, host)
        is_real = config.backend != "local"
        self.first_token = make_first_token(service.store, config.folder) if is_real else ""
        self.access = Access(TokenCache(service.store), config)
        if not is_loopback(host) and not self.access.tokens.known:
            raise InputError(
                f"--listen {config.listen}: no client could use it, as there is no token; "
                "make one with `dally token add NAME --role operator`"
            )
        self._app = make_app(service, self.access)
        connections = Connections()
        self._socket = _listen(host, port, config)
        self.url = _url(host, self._socket, config)
        try:
            self._servers = [uvicorn.Server(_uvicorn(config, self._app, connections))]
            self.local = UnixSocket(config)
        except InputError:
            self._socket.close()
            raise
        self._servers.append(uvicorn.Server(_uvicorn(Config(), self._app, connections)))
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="api", daemon=True)

    async def _serve(self) -> None:
        """Both in one loop: the application has things that belong to one."""
        ends = ([self._socket], [self.local.bound])
        await asyncio.gather(*(server.serve(end) for server, end in zip(self._servers, ends, strict=True)))

    def start(self) -> None:
        """Return once it answers."""
        sys.setswitchinterval(SWITCH_S)
        gc.collect()
        gc.freeze()  # what is loaded stays: going through it again and again would hold up everybody
        self._thread.start()
        until = time.monotonic() + STARTS_WITHIN_S
        while not self._started() and self._thread.is_alive() and time.monotonic() < until:
            time.sleep(0.01)
        if not self._started():
            raise InputError(f"{self.url}: the API did not start; the log says why")

    def _started(self) -> bool:
        return all(server.started for server in self._servers)

    def stop(self) -> None:
        """Finish what is being answered, but for streams, which would never end."""
        self._app.state.streams.close()
        for server in self._servers:
            server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(STOPS_WITHIN_S)
        self._socket.close()
        self.local.close()


class LocalServer:
    """An application for the readers of this machine."""

    def __init__(self, app: object, listen: str) -> None:
        """InputError if others could reach it there, or it cannot listen."""
        config = Config(listen=listen)
        host, port = config.address()
        if not is_loopback(host):
            raise InputError(
                f"--listen {listen}: others could read it there; give an address of this machine alone"
            )
        self._socket = _listen(host, port, config)
        self._socket.listen()  # who comes before it answers waits
        self._server = uvicorn.Server(_uvicorn(config, app, Connections()))
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), name="pages", daemon=True)
        self.url = _url(host, self._socket, config)

    def run(self) -> None:
        """Until SIGINT or SIGTERM, which are the way to end it."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: self.stop())
        gc.collect()
        gc.freeze()
        self.start()
        self._thread.join()

    def start(self) -> None:
        """Answer, in a thread beside."""
        self._thread.start()

    def stop(self) -> None:
        """Finish what is being answered."""
        self._server.should_exit = True


def _check_exposed(config: Config, host: str) -> None:
    """Tokens do not cross a network in the clear unless somebody has said so."""
    if not is_loopback(host) and not config.tls_certificate and not config.plain_http:
        raise InputError(
            f"--listen {config.listen}: tokens would cross the network in the clear; give --tls-certificate and "
            "--tls-key, or set plain_http = true in dally.toml if a proxy adds TLS"
        )


def _url(host: str, bound: socket.socket, config: Config) -> str:
    shown = f"[{host}]" if ":" in host else host
    scheme = "https" if config.tls_certificate else "http"
    return f"{scheme}://{shown}:{bound.getsockname()[1]}"


def _listen(host: str, port: int, config: Config) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        made = socket.socket(family, kind, protocol)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(address)
        except OSError:
            made.close()
            raise
    except OSError as error:
        hint = "; is another one running? --listen names another port" if error.errno == 98 else ""
        raise InputError(f"--listen {config.listen}: {error.strerror or error}{hint}") from None
    return made


def _uvicorn(config: Config, app: object, connections: Connections) -> uvicorn.Config:
    asyncio.constants.SSL_HANDSHAKE_TIMEOUT = HANDSHAKE_WITHIN_S  # a minute otherwise, and nobody counts those
    made = uvicorn.Config(
        app,  # type: ignore[arg-type]
        http=partial(LimitedProtocol, connections),  # type: ignore[arg-type]
        ws="none",
        proxy_headers=False,  # or any process of this machine could say that it is another client
        log_config=None,
        access_log=False,
        log_level="error",  # what clients do wrong fills no log
        server_header=False,
        lifespan="off",
        timeout_graceful_shutdown=2,
        ssl_certfile=config.tls_certificate or None,
        ssl_keyfile=config.tls_key or None,
    )
    try:
        made.load()
    except (OSError, ssl.SSLError) as error:
        files = f"--tls-certificate {config.tls_certificate}, --tls-key {config.tls_key}"
        raise InputError(f"{files}: cannot be used: {error.strerror or error}") from None
    return made
