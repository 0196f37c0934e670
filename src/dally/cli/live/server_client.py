"""How commands query a `dally serve`: with the standard library alone, so that any install of Dally can."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode, urlsplit

import typer

from dally.cli.commands import Command, shared_options
from dally.cli.output import plain
from dally.errors import InputError
from dally.input_file import read_text

if TYPE_CHECKING:
    import socket
    from urllib.request import OpenerDirector

USUAL_SERVER: Final = "http://127.0.0.1:8642"
WITHIN_S: Final = 30.0
CONNECTS_WITHIN_S: Final = 2.0
MOST_BYTES: Final = 64 << 20  # of an answer
LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
PAGE: Final = 1000  # jobs asked for at once

# Options that all these commands have.
SERVER: Final = typer.Option(
    None, "--server", metavar="URL", envvar="DALLY_SERVER", help="Where `dally serve` answers: http://HOST:PORT, "
    f"https://…, or unix:PATH of its socket.  [default: the socket of this machine's, else {USUAL_SERVER}]",
)  # fmt: skip
TOKEN_FILE: Final = typer.Option(
    None, "--token-file", metavar="FILE", help="A file with the token.  [default: DALLY_TOKEN, if set]"
)
AS_JSON: Final = typer.Option(False, "--json", help="Print JSON instead of text.")


def queries_server(show: Callable[[Any], None]) -> Callable[[Command], Command]:
    """Give a command the options above in place of `server`; what it returns is printed by `show`, or as JSON."""

    def use(command: Command, shared: dict[str, Any], own: dict[str, Any]) -> None:
        server = Server(shared["server"], shared["token_file"])
        result = command(server=server, **own)
        if result or not server.refusals:
            print_json(result) if shared["as_json"] else show(result)
        if server.refusals:
            raise InputError("; ".join(server.refusals))

    options = {"server": (str, SERVER), "token_file": (Path, TOKEN_FILE), "as_json": (bool, AS_JSON)}
    return shared_options("server", options, use)


class Server:
    """A server, and the token to show it."""

    def __init__(self, url: str | None, token_file: Path | None = None) -> None:
        self.refusals: list[str] = []  # of requests about several jobs or machines
        self._name = url = url or usual_server()
        parts = urlsplit(url)
        is_socket = parts.scheme == "unix" and parts.path.startswith("/") and not parts.netloc
        if not is_socket and (parts.scheme not in ("http", "https") or not parts.hostname):
            raise InputError(f"--server {plain(url)}: must be an address as {USUAL_SERVER}, or unix:/PATH")
        self._url = "http://localhost" if is_socket else url.rstrip("/")
        text = os.environ.get("DALLY_TOKEN", "") if token_file is None else read_text(token_file)
        self.token = text.strip()
        if not (self.token.isascii() and self.token.isprintable()):
            raise InputError(f"{token_file or 'DALLY_TOKEN'}: holds no token")
        self._opener = _opener(is_socket or parts.hostname in LOOPBACK, Path(parts.path) if is_socket else None)

    def get(self, path: str, **query: Any) -> Any:
        """What the server answers to a question; None leaves a filter out."""
        return self._ask("GET", _with(path, query))

    def post(self, path: str, body: dict[str, Any]) -> Any:
        """What it answers to something new."""
        return self._ask("POST", path, json.dumps(body).encode())

    def delete(self, path: str, **query: Any) -> Any:
        """What it answers when something is to go."""
        return self._ask("DELETE", _with(path, query))

    def each(self, names: Sequence[str], request: Callable[[str], Any]) -> list[Any]:
        """What it answers for each of several; one that is refused keeps none of the others from being asked."""
        results: list[Any] = []
        for name in names:
            try:
                results.append(request(name))
            except InputError as error:
                self.refusals.append(str(error))
        return results

    def jobs(self, most: int, **filters: str | None) -> dict[str, Any]:
        """Jobs of as many pages as it takes, and how many there are."""
        result: dict[str, Any] = self.get("jobs", limit=min(most, PAGE), **filters)
        while (count := len(result["jobs"])) < min(most, result["total"]):
            more = self.get("jobs", offset=count, limit=min(most - count, PAGE), **filters)["jobs"]
            if not more:
                break
            result["jobs"] += more
        return result

    def _ask(self, method: str, path: str, body: bytes | None = None) -> Any:
        from urllib.error import HTTPError
        from urllib.request import Request

        request = Request(f"{self._url}/api/v1/{path}", body, method=method)
        request.add_header("Accept", "application/json")
        if body is not None:
            request.add_header("Content-Type", "application/json")
        if self.token:
            request.add_header("Authorization", f"Bearer {self.token}")
        try:
            with self._opener.open(request, timeout=WITHIN_S) as answer:
                return _parsed(self._name, answer.read(MOST_BYTES))
        except HTTPError as error:
            with error:
                raise self._refused(error.code, error.read(MOST_BYTES)) from None
        except OSError as error:
            why = getattr(error, "reason", error)
            hint = "start one with `dally serve`, or name one with --server"
            raise InputError(
                f"{self._name}: no server answers: {getattr(why, 'strerror', '') or why}; {hint}"
            ) from None
        except ValueError as error:  # not HTTP
            raise InputError(f"{self._name}: is not a Dally server: {error}") from None

    def _refused(self, status: int, content: bytes) -> InputError:
        try:
            detail = json.loads(content)["detail"]
        except (ValueError, TypeError, KeyError):
            detail = "Not Found"
        if detail == "Not Found":  # by whoever answers there, not by us: we say what
            return InputError(f"{self._name}: is not a Dally server: it answers {status}")
        hint = "; give one with --token-file or DALLY_TOKEN" if status == 401 else ""
        return InputError(f"{plain(str(detail))}{hint}")


def _with(path: str, query: dict[str, Any]) -> str:
    text = urlencode({name: value for name, value in query.items() if value is not None})
    return f"{path}?{text}" if text else path


def _opener(nearby: bool, path: Path | None) -> OpenerDirector:
    """Follows nowhere, as the token is for that server alone; does not go round a proxy to this machine.

    `path`: of a Unix socket, to which all requests go.
    """
    from http.client import HTTPConnection
    from urllib.request import HTTPHandler, HTTPRedirectHandler, ProxyHandler, build_opener

    class NoRedirect(HTTPRedirectHandler):
        def redirect_request(self, *_: Any) -> None:
            return None

    class SocketConnection(HTTPConnection):
        def connect(self) -> None:
            assert path is not None
            self.sock = connected(path, WITHIN_S)

    class SocketHandler(HTTPHandler):
        def http_open(self, request: Any) -> Any:
            return self.do_open(SocketConnection, request)

    ways = ([ProxyHandler({})] if nearby else []) + ([] if path is None else [SocketHandler()])
    return build_opener(NoRedirect, *ways)


def connected(path: Path, within_s: float) -> socket.socket:
    """A connection to a Unix socket; through its folder's descriptor, as the names of sockets must be short."""
    import socket

    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        made.settimeout(within_s)
        made.connect(f"/proc/self/fd/{folder}/{path.name}")
    except OSError:
        made.close()
        raise
    finally:
        os.close(folder)
    return made


def usual_sockets() -> list[Path]:
    """Where a daemon of this user, or this machine's, has its socket. No other user can put one there."""
    home = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return [Path(home) / "dally" / "serve.sock", Path("/run/dally/serve.sock")]


def usual_server() -> str:
    """The first socket at which a daemon answers, or the usual port."""
    for path in usual_sockets():
        try:
            connected(path, CONNECTS_WITHIN_S).close()
        except OSError:
            continue
        return f"unix:{path}"
    return USUAL_SERVER


def _parsed(url: str, content: bytes) -> Any:
    try:
        return json.loads(content)
    except ValueError:
        raise InputError(f"{url}: is not a Dally server: its answer is not JSON") from None


def quoted(job: str) -> str:
    """A job's id as a part of a path."""
    from urllib.parse import quote

    if not job or job in (".", ".."):
        raise InputError(f"{job!r}: is not the id of a job")
    return quote(job, safe="")


def print_json(result: Any) -> None:
    """For scripts. What is not ASCII is escaped, terminal escapes among it."""
    typer.echo(json.dumps(result, indent=2))
