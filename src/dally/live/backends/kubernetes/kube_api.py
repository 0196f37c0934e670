"""Raw JSON calls to an API server, over the connection pool, TLS and credentials of the official client.

Its typed models cost CPU, differ between majors and refuse some true answers, such as that of a binding.
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from dally.errors import InputError, one_line
from dally.live.backends.base import BackendError
from dally.live.backends.kubernetes.token_file import TokenFile

Entry = dict[str, Any]
MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
TIMEOUT_S: Final = 15.0
LONGEST_COMPLAINT: Final = 300  # characters
TOKEN_FOR_S: Final = 1.0
PAUSE_S: Final = 0.2  # before a call that failed is tried again
UNKNOWN_USER: Final = 401
FORBIDDEN: Final = 403
_RIGHTS: Final = re.compile(r'User "[^"]*" cannot ')  # how the server says that a user may not do something
LATER: Final = frozenset((429, 500, 502, 503, 504))  # the server may take the same later


class RefusedError(BackendError):
    """The server answered, and not with what was asked for."""

    def __init__(self, what: str, code: int, status: Entry) -> None:
        self.code = code
        self.status = status
        record = status.get("message") or status.get("reason") or "no reason given"
        super().__init__(one_line(f"{what}: {code}: {record}", LONGEST_COMPLAINT))

    @property
    def is_final(self) -> bool:
        """Whether the same will be refused again. A server that has just begun does not know rights yet."""
        if self.code != FORBIDDEN:
            return self.code not in (*LATER, UNKNOWN_USER)
        message = str(self.status.get("message") or "")
        return ("is forbidden: " in message and not _RIGHTS.search(message)) or "admission webhook" in message


class KubeApi:
    """One API server as one user; any number of threads may call."""

    def __init__(self, kubeconfig: str = "", context: str = "", pool: int = 16) -> None:
        """`kubeconfig`: its path; empty: the service account of this pod, or the user's usual file."""
        import kubernetes.client
        import kubernetes.config
        from kubernetes.config.config_exception import ConfigException

        loading: Any = kubernetes.config
        settings = kubernetes.client.Configuration()
        try:
            if kubeconfig or context or not _inside_a_pod():
                loading.load_kube_config(kubeconfig or None, context=context or None, client_configuration=settings)
            else:
                loading.load_incluster_config(client_configuration=settings)
        except (ConfigException, OSError) as error:
            raise InputError(f"--backend kubernetes: {one_line(str(error), LONGEST_COMPLAINT)}") from None
        settings.connection_pool_maxsize = pool
        self._settings = settings
        self._token_file = TokenFile(_user_token_file(kubeconfig, context))
        self._known_token = -float("inf"), ""  # until when it is taken for the present one
        self._http = kubernetes.client.ApiClient(settings).rest_client.pool_manager
        self._streams: dict[Any, str] = {}  # watches that stand, with their paths
        self.host: str = settings.host.rstrip("/")

    def call(
        self, method: str, path: str, body: Any = None, kind: str = "application/json", stream: bool = False,
        timeout_s: float = TIMEOUT_S, **query: Any,
    ) -> Any:  # fmt: skip
        """The answer's JSON, or the open answer itself; RefusedError, or BackendError if there is none."""
        from urllib3.exceptions import HTTPError

        url = self.host + path + ("?" + urlencode(query) if query else "")
        what = f"{method} {path}"
        headers = {"accept": "application/json", "content-type": kind, "user-agent": "dally"}
        authorization = self._authorization()
        if authorization:
            headers["authorization"] = authorization
        data = None if body is None else json.dumps(body).encode()
        try:
            answer = self._http.request(
                method,
                url,
                body=data,
                headers=headers,
                preload_content=not stream,
                timeout=timeout_s,
                retries=False,
            )
            if answer.status < 300 and stream:
                return answer
            result = json.loads(answer.data or b"{}")
        except ValueError:
            result = None
        except (HTTPError, OSError) as error:
            raise BackendError(one_line(f"{what}: {error}", LONGEST_COMPLAINT)) from None
        if stream:
            answer.close()
        if answer.status >= 300 or not isinstance(result, dict):
            no_object = {"message": "the answer is no JSON object"}
            raise RefusedError(what, answer.status, result if isinstance(result, dict) else no_object)
        return result

    def _authorization(self) -> str:
        """The header; empty: there is none. The client's own way is a fifth of a call's CPU: asked once a s."""
        renewed = self._token_file.read()
        if renewed:
            return f"Bearer {renewed}"
        until_s, known = self._known_token
        if time.monotonic() >= until_s:
            token: Any = self._settings.auth_settings().get("BearerToken")  # may be a new one each time
            known = "" if token is None else str(token["value"])
            self._known_token = time.monotonic() + TOKEN_FOR_S, known
        return known

    def text(self, path: str, most_bytes: int, timeout_s: float, **query: Any) -> bytes:
        """The beginning of an answer that is no JSON."""
        from urllib3.exceptions import HTTPError

        answer = self.call("GET", path, stream=True, timeout_s=timeout_s, **query)
        try:
            return bytes(answer.read(most_bytes))
        except (HTTPError, OSError) as error:
            raise BackendError(one_line(f"GET {path}: {error}", LONGEST_COMPLAINT)) from None
        finally:
            answer.close()

    def get(self, path: str, **query: Any) -> Entry:
        """One object, or a list."""
        result: Entry = self.call("GET", path, **query)
        return result

    def post(self, path: str, body: Entry) -> Entry:
        """Make an object."""
        result: Entry = self.call("POST", path, body)
        return result

    def put(self, path: str, body: Entry) -> Entry:
        """Replace an object."""
        result: Entry = self.call("PUT", path, body)
        return result

    def patch(self, path: str, body: Any, kind: str = MERGE) -> Entry:
        """Change an object."""
        result: Entry = self.call("PATCH", path, body, kind)
        return result

    def delete(self, path: str, body: Entry | None = None) -> None:
        """Remove an object; one that is gone is no error."""
        try:
            self.call("DELETE", path, body)
        except RefusedError as refused:
            if refused.code != 404:
                raise

    def insist(
        self, method: str, path: str, body: Any, within_s: float, kind: str = "application/json",
        left_s: Callable[[], float] = lambda: TIMEOUT_S,
    ) -> Entry:  # fmt: skip
        """The same as `call`, tried again for that long if the server is busy or does not answer.

        `left_s` is asked immediately before each request for the seconds that it may take, and may refuse it.
        """
        until_s = time.monotonic() + within_s
        while True:
            limit_s = min(max(1.0, until_s - time.monotonic()), left_s())
            try:
                result: Entry = self.call(method, path, body, kind, timeout_s=limit_s)
                return result
            except RefusedError as refused:
                if refused.is_final or refused.code == UNKNOWN_USER or time.monotonic() + PAUSE_S > until_s:
                    raise
            except BackendError:
                if time.monotonic() + PAUSE_S > until_s:
                    raise
            time.sleep(PAUSE_S)

    def watch(self, path: str, version: str, seconds: int, stop: threading.Event, **query: Any) -> Iterator[Entry]:
        """Events of one watch, which stands when this returns; bookmarks are among them."""
        answer = self.call(
            "GET", path, stream=True, timeout_s=seconds + 10.0, watch="1", resourceVersion=version,
            allowWatchBookmarks="true", timeoutSeconds=seconds, **query,
        )  # fmt: skip
        self._streams[answer] = path
        return self._events(answer, path, stop)

    def _events(self, answer: Any, path: str, stop: threading.Event) -> Iterator[Entry]:
        """Until the server ends it; RefusedError(410): what came after that version is no longer known."""
        from urllib3.exceptions import HTTPError

        rest = b""
        try:
            for chunk in answer.stream(65536, decode_content=True):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    event: Entry = json.loads(line)
                    if event["type"] == "ERROR":
                        raise RefusedError(f"watch {path}", int(event["object"].get("code") or 0), event["object"])
                    yield event
                if stop.is_set():
                    return
        except (HTTPError, OSError, ValueError) as error:
            raise BackendError(one_line(f"watch {path}: {error}", LONGEST_COMPLAINT)) from None
        finally:
            self._streams.pop(answer, None)
            answer.close()

    def end_watches(self, path: str = "") -> None:
        """Those of that path, or all."""
        for answer, of in list(self._streams.items()):
            if path in ("", of):
                with suppress(Exception):  # it may be over in this very moment
                    answer.shutdown()

    def close(self) -> None:
        """End the watches, and let go of all connections."""
        self.end_watches()
        self._http.clear()


def _user_token_file(kubeconfig: str, context: str) -> str:
    """Where the kubeconfig's user has its token, if in a file: the official client reads that once."""
    import kubernetes.config.kube_config

    loading: Any = kubernetes.config.kube_config
    if not (kubeconfig or context) and _inside_a_pod():
        return ""  # the official client reads the service account's again
    try:
        config = loading.KubeConfigMerger(kubeconfig or loading.KUBE_CONFIG_DEFAULT_LOCATION).config
        name = context or config["current-context"]
        user = config["contexts"].get_with_name(name)["context"]["user"]
        user_entry = config["users"].get_with_name(user)["user"]
        path = user_entry.value.get("tokenFile") or ""
    except Exception:  # of a shape that the official client has taken: then there is no such file
        return ""
    return str(Path(user_entry.path or ".").parent / path) if path else ""  # beside the kubeconfig


def _inside_a_pod() -> bool:
    return "KUBERNETES_SERVICE_HOST" in os.environ and "KUBECONFIG" not in os.environ
