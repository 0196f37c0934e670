"""How commands query a `dally serve`: with the standard library alone, so that any install of Dally can."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode, urlsplit

import typer

from dally.cli.commands import Command, shared_options
from dally.cli.output import plain
from dally.errors import InputError
from dally.input_file import read_text

if TYPE_CHECKING:
    from urllib.request import OpenerDirector

USUAL_SERVER: Final = "http://127.0.0.1:8642"
WITHIN_S: Final = 30.0
MOST_BYTES: Final = 64 << 20  # of an answer
LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
PAGE: Final = 1000  # jobs asked for at once

# Options that all these commands have.
SERVER: Final = typer.Option(
    USUAL_SERVER, "--server", metavar="URL", envvar="DALLY_SERVER", help="Where `dally serve` answers."
)
TOKEN_FILE: Final = typer.Option(
    None, "--token-file", metavar="FILE", help="A file with the token.  [default: DALLY_TOKEN, if set]"
)
AS_JSON: Final = typer.Option(False, "--json", help="Print JSON instead of text.")


def queries_server(show: Callable[[Any], None]) -> Callable[[Command], Command]:
    """Give a command the options above in place of `server`; what it returns is printed by `show`, or as JSON."""

    def use(command: Command, shared: dict[str, Any], own: dict[str, Any]) -> None:
        result = command(server=Server(shared["server"], shared["token_file"]), **own)
        print_json(result) if shared["as_json"] else show(result)

    options = {"server": (str, SERVER), "token_file": (Path, TOKEN_FILE), "as_json": (bool, AS_JSON)}
    return shared_options("server", options, use)


class Server:
    """A server, and the token to show it."""

    def __init__(self, url: str, token_file: Path | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError(f"--server {plain(url)}: must be an address as {USUAL_SERVER}")
        self._url = url.rstrip("/")
        text = os.environ.get("DALLY_TOKEN", "") if token_file is None else read_text(token_file)
        self.token = text.strip()
        if not (self.token.isascii() and self.token.isprintable()):
            raise InputError(f"{token_file or 'DALLY_TOKEN'}: holds no token")
        self._opener = _opener(parts.hostname in LOOPBACK)

    def get(self, path: str, **query: Any) -> Any:
        """What the server answers to a question; None leaves a filter out."""
        return self._ask("GET", _with(path, query))

    def post(self, path: str, body: dict[str, Any]) -> Any:
        """What it answers to something new."""
        return self._ask("POST", path, json.dumps(body).encode())

    def delete(self, path: str, **query: Any) -> Any:
        """What it answers when something is to go."""
        return self._ask("DELETE", _with(path, query))

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
                return _parsed(self._url, answer.read(MOST_BYTES))
        except HTTPError as error:
            with error:
                raise self._refused(error.code, error.read(MOST_BYTES)) from None
        except OSError as error:
            why = getattr(error, "reason", error)
            hint = "start one with `dally serve`, or name one with --server"
            raise InputError(
                f"{self._url}: no server answers: {getattr(why, 'strerror', '') or why}; {hint}"
            ) from None
        except ValueError as error:  # not HTTP
            raise InputError(f"{self._url}: is not a Dally server: {error}") from None

    def _refused(self, status: int, content: bytes) -> InputError:
        try:
            detail = json.loads(content)["detail"]
        except (ValueError, TypeError, KeyError):
            detail = "Not Found"
        if detail == "Not Found":  # by whoever answers there, not by us: we say what
            return InputError(f"{self._url}: is not a Dally server: it answers {status}")
        hint = "; give one with --token-file or DALLY_TOKEN" if status == 401 else ""
        return InputError(f"{plain(str(detail))}{hint}")


def _with(path: str, query: dict[str, Any]) -> str:
    text = urlencode({name: value for name, value in query.items() if value is not None})
    return f"{path}?{text}" if text else path


def _opener(nearby: bool) -> OpenerDirector:
    """Follows nowhere, as the token is for that server alone; does not go round a proxy to this machine."""
    from urllib.request import HTTPRedirectHandler, ProxyHandler, build_opener

    class Stay(HTTPRedirectHandler):
        def redirect_request(self, *_: Any) -> None:
            return None

    return build_opener(Stay, *([ProxyHandler({})] if nearby else []))


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
