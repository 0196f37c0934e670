"""A `dally serve` that a page of the documentation starts: it runs until the page ends."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

from dally.live.private_folder import user_name

USUAL = "http://127.0.0.1:8642"  # what pages show; the tests' servers have ports of their own
USUAL_VIEW = "http://127.0.0.1:8643"
ME = user_name(os.geteuid())
CLOCK = re.compile(r"\b(\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d\b( UTC)?")


def viewed(argv: list[str], folder: Path, env: dict[str, str]) -> str:
    """What `dally view` says, at the usual address; it must answer there, and end when interrupted."""
    viewing = subprocess.Popen(
        [*argv, "--listen", "127.0.0.1:0", "--no-open"], cwd=folder, env=env, stdout=subprocess.PIPE,
        encoding="utf-8",
    )  # fmt: skip
    try:
        assert viewing.stdout is not None
        said = "".join(next(viewing.stdout, "") for _ in range(3))
        found = re.search(r"(http://\S+)/", said)
        assert found, said
        with urlopen(f"{found[1]}/") as answer:
            assert answer.status == 200
        viewing.send_signal(signal.SIGINT)
        assert viewing.wait(30) == 0
    finally:
        viewing.kill()
        viewing.communicate()
    return said.replace(found[1], USUAL_VIEW)


class Background:
    """The server of one page, if it starts one. What it keeps is kept in the page's folder."""

    def __init__(self, folder: Path) -> None:
        self._process: subprocess.Popen[str] | None = None
        self.url = ""
        self.env = {"XDG_STATE_HOME": str(folder / "state")}

    def start(self, argv: list[str], folder: Path, env: dict[str, str]) -> str:
        """What it says before it is ready."""
        self._process = subprocess.Popen(
            [*argv, "--listen", "127.0.0.1:0"], cwd=folder, env=env | self.env, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, encoding="utf-8",
        )  # fmt: skip
        assert self._process.stdout is not None
        said = ""
        for line in self._process.stdout:
            said += line
            if line.startswith("Ctrl-C"):
                break
        found = re.search(r"(https?://\S+)/docs", said)
        assert found, said
        self.url = found[1]
        self.env["DALLY_SERVER"] = self.url
        return said

    def told(self, text: str) -> str:
        """The text as pages show it: at the usual address, and at no time of day."""
        if not self.url:
            return text
        named = re.sub(rf"\bby {re.escape(ME)}\b", "by alice", text)  # who runs the page
        return CLOCK.sub("(time)", named.replace(f" --server {self.url}", "").replace(self.url, USUAL))

    def settle(self) -> None:
        """Wait until no job is on its way from one state to another."""
        moving = True
        while self.url and moving:
            try:
                with urlopen(f"{self.url}/api/v1/jobs") as answer:
                    jobs = json.load(answer)["jobs"]
            except HTTPError:  # the page has made tokens
                return
            moving = any(job["state"] in ("starting", "stopping") for job in jobs)
            time.sleep(0.1 if moving else 0.0)

    def stop(self) -> None:
        """Stop the server and whatever jobs it has left."""
        if self._process is None:
            return
        for path in Path(self.env["XDG_STATE_HOME"]).glob("dally/jobs/*/pid"):
            try:
                os.killpg(int(path.read_text()), signal.SIGKILL)
            except (ProcessLookupError, ValueError, PermissionError):
                continue
        self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(30) == 0
        assert self._process.stdout is not None
        self._process.stdout.close()
