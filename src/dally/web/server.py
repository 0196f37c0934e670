"""The API on a port, in a thread beside the daemon."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
import ssl
import sys
import threading
import time
from ipaddress import ip_address
from typing import Final

import uvicorn
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from dally.errors import InputError
from dally.live.assembly import Service
from dally.live.config import Config
from dally.web.app import make_app
from dally.web.auth.middleware import READ_WITHIN_S
from dally.web.auth.token_cache import TokenCache

STARTS_WITHIN_S: Final = 10.0
STOPS_WITHIN_S: Final = 5.0
MOST_AT_ONCE: Final = 500  # connections
SWITCH_S: Final = 0.0005  # threads hand over after this: an answer must not wait for a cycle or a story to end


class ApiServer:
    """Answers from `start` until `stop`."""

    def __init__(self, service: Service) -> None:
        """InputError if it cannot listen there, or must not."""
        config = service.config
        host, port = config.address()
        self.tokens = TokenCache(service.store, is_loopback(host))
        if not is_loopback(host) and not self.tokens.known:
            raise InputError(
                f"--listen {config.listen}: anybody could ask there, and there is no token yet; "
                "make one with `dally token add NAME --role operator`"
            )
        self._socket = _listen(host, port, config)
        self._app = make_app(service, self.tokens)
        self._server = uvicorn.Server(_uvicorn(config, self._app))
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), name="api", daemon=True)
        self.url = _url(host, self._socket, config)

    def start(self) -> None:
        """Return once it answers."""
        sys.setswitchinterval(SWITCH_S)
        gc.collect()
        gc.freeze()  # what is loaded stays: going through it again and again would hold up everybody
        self._thread.start()
        until = time.monotonic() + STARTS_WITHIN_S
        while not self._server.started and self._thread.is_alive() and time.monotonic() < until:
            time.sleep(0.01)
        if not self._server.started:
            raise InputError(f"{self.url}: the API did not start; the log says why")

    def stop(self) -> None:
        """Finish what is being answered, but for streams, which would never end."""
        self._app.state.streams.close()
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(STOPS_WITHIN_S)
        self._socket.close()


class Prompt(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """Lets go of who connects and asks for nothing: there is room for so many."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self.loop.call_later(READ_WITHIN_S, self._let_go)

    def _let_go(self) -> None:
        if self.cycle is None:
            self.transport.close()


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
        self._server = uvicorn.Server(_uvicorn(config, app))
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


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach that."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


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


def _uvicorn(config: Config, app: object) -> uvicorn.Config:
    made = uvicorn.Config(
        app,  # type: ignore[arg-type]
        http=Prompt,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="off",
        limit_concurrency=MOST_AT_ONCE,
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
