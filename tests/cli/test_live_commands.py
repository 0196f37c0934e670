"""Commands that ask a running `dally serve`, against a real one: its own process, port and folder."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import pytest

import dally
from dally.cli.live.server_client import Server
from dally.cli.main import exit_code
from dally.live.private_folder import user_name
from tests.waiting import wait_for

SOURCE = str(Path(dally.__file__).parents[1])

ME = user_name(os.geteuid())


class Served:
    """A server that a test started."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, "-m", "dally", "serve", "--folder", str(folder), "--listen", "127.0.0.1:0", *options],
            env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.said = ""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said += line
            if line.startswith("Ctrl-C"):
                break
        found = re.search(r"(https?://\S+)/docs", self.said)
        self.url = found[1] if found else ""

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(20)
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()
        return code


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DALLY_")}
    return kept | {"PYTHONPATH": SOURCE, "PYTHONIOENCODING": "utf-8"} | more


class Done(NamedTuple):
    """What came of a command."""

    returncode: int
    stdout: str
    stderr: str


def run(*words: str, **more: str) -> Done:
    """Run a command in this process: a dozen of them would take half a minute in their own."""
    out, err = io.StringIO(), io.StringIO()
    with mock.patch.dict(os.environ, environment(**more), clear=True), redirect_stdout(out), redirect_stderr(err):
        code = exit_code(words)
    return Done(int(code or 0), out.getvalue(), err.getvalue())


def refused(*words: str) -> str:
    """What a `dally serve` that cannot begin says."""
    done = subprocess.run(
        [sys.executable, "-m", "dally", "serve", *words],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    return done.stderr


def told(served: Served, name: str, *words: str) -> Any:
    """What a command prints as JSON."""
    done = run(name, "--json", "--server", served.url, *words)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    (folder / "dally.toml").write_text("allow_root_jobs = true\n")  # tests may run as root
    config = ("--config", str(folder / "dally.toml"))
    one = Served(folder / "state", *config, "--cluster", "2x2x8", "--network", "slow")
    assert one.url, one.said
    yield one
    if one.process.poll() is None:
        one.stop()


def state_of(served: Served, job: str) -> str:
    found: str = Server(served.url).get(f"jobs/{job}")["state"]
    return found


def test_it_says_what_to_try(served: Served) -> None:
    assert "Scheduling 32 GPUs on 4 machines (local, policy dally)." in served.said
    assert f"dally submit --gpus 8 --server {served.url} -- sleep 60" in served.said
    assert "Access:  you may do everything, other users of this machine may read;" in served.said


def test_advice_before_a_submission(served: Served, tmp_path: Path) -> None:
    script = tmp_path / "train.sh"
    script.write_text("#SBATCH -J never-before --gpus=16\n")
    done = run("advise", str(script), "--server", served.url)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("No earlier job of this user or size has ended")
    assert told(served, "advise", str(script))["alike"] == 0
    large = ("--gpus", "16", "--expected", "60", "--model", "gpt2-xl")
    done = run("submit", *large, "--preview", "--server", served.url)
    assert done.returncode == 0, done.stderr
    assert "Slowdown of gpt2-xl on 16 GPUs: 1.00 in one " in done.stdout


def test_from_submission_to_cancellation(served: Served) -> None:
    one = told(served, "submit", "--gpus", "24", "--name", "big", "--", "sleep", "60")["job_id"]
    to_submit = ("--gpus", "16", "--expected", "60", "--user", "ann", "--model", "gpt9", "--server", served.url)
    submitted = run("submit", *to_submit)
    assert submitted.stdout == f"Submitted job {int(one) + 1}.\n"
    assert "model 'gpt9' has no profile: the job is scheduled as a resnet50" in submitted.stderr
    two = str(int(one) + 1)
    wait_for(lambda: state_of(served, one) == "running")
    text = run("queue", "--server", served.url).stdout
    assert re.search(rf"1 +{two} +ann +16 +waiting .*first in the queue; it needs 16 GPUs and 8 are free", text)
    assert re.search(rf"{one} +big +\S+ +24 +running .*\(network\)", text)
    assert [job["job_id"] for job in told(served, "queue", "--state", "waiting")["jobs"]] == [two]
    story = run("explain", two, "--server", served.url).stdout
    assert "submitted: 16 GPUs" in story
    assert "Waits now: first in the queue; it needs 16 GPUs and 8 are free." in story
    assert told(served, "explain", two)["job"]["user"] == "ann"
    assert sum(node["free"] for node in told(served, "nodes")["nodes"]) == 8
    assert "rack1-m1" in run("nodes", "--server", served.url).stdout
    assert list(told(served, "slots", "--gpus", "8")["slots"].values()) == [1, 1, 1]
    assert "across the network     1" in run("slots", "--gpus", "8", "--server", served.url).stdout
    assert told(served, "timers")["holding"] == []
    assert run("timers", "--server", served.url).returncode == 0
    reason = ("--why", "rack 3", "--server", served.url)
    assert run("priority", two, *reason).stdout == f"Job {two}: put first in the queue by {ME}: rack 3.\n"
    assert run("priority", two, "--back", *reason).stdout.startswith(
        f"Job {two}: put back in its place in the queue by"
    )
    assert run("hold", two, *reason).stdout == f"Job {two}: put on hold by {ME}: rack 3.\n"
    wait_for(lambda: state_of(served, two) == "held")
    assert told(served, "release", two, "--why", "done")[0]["text"] == f"taken off hold by {ME}: done"
    assert "any place from now on" in run("timers", "--job", two, "--for", "0", *reason).stdout
    assert "gangs of 16 GPUs set to delay" in run("timers", "--gpus", "16", "--for", "60", *reason).stdout
    assert run("drain", "rack1-m1", *reason).stdout == f"rack1-m1: drained by {ME}: rack 3.\n"
    wait_for(lambda: "draining: rack 3" in run("nodes", "--server", served.url).stdout)
    assert run("resume", "rack1-m1", *reason).returncode == 0
    assert "put on hold" in run("actions", "--job", two, "--server", served.url).stdout
    assert told(served, "actions", "--machine", "rack1-m1")["total"] == 2
    done = run("cancel", two, "nope", one, "--server", served.url)  # one that cannot be keeps none from it
    assert done.stdout == f"Job {two}: cancel requested.\nJob {one}: cancel requested.\n"
    assert (done.returncode, done.stderr) == (2, "dally: job 'nope': there is no such job\n")
    wait_for(lambda: state_of(served, one) == state_of(served, two) == "cancelled")
    assert run("queue", "--server", served.url).stdout == "No jobs.\n"
    assert "cancelled" in run("explain", one, "--server", served.url).stdout


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["queue", "--server", "http://127.0.0.1:9"], "http://127.0.0.1:9: no server answers: Connection refused"),
        (["queue", "--server", "file:///etc/passwd"], "--server file:///etc/passwd: must be an address as http://"),
        (["explain", "nobody"], "job 'nobody': there is no such job"),
        (["explain", "--waiting"], "of the running scheduler, give a job"),
        (["cancel", "..", "nope"], "'..': is not the id of a job; job 'nope': there is no such job"),
        (["cancel", ".."], "'..': is not the id of a job"),
        (["hold", "nobody"], "job 'nobody': there is no such job"),
        (["drain", "nowhere", "--why", "x"], "machine 'nowhere': there is no such machine"),
        (["timers", "--for", "5"], "--job, --gpus: give one of them, with --for"),
        (["timers", "--gpus", "8", "--for", "x"], "--for x: must be seconds, or policy"),
        (["queue", "--state", "lost"], "state: Input should be 'waiting', 'held'"),
        (["submit", "--gpus", "33", "--expected", "1"], "gpus: 33: the cluster has 32"),
        (["submit", "--gpus", "1"], "give a command after `--`"),
        (["submit", "-g", "1", "--expected", "1", "--name", "\x1b[2J"], "name: must not hold control characters"),
        (["nodes", "--token-file", "/nowhere"], "/nowhere: cannot be read"),
    ],
)  # fmt: skip
def test_errors_in_one_line(served: Served, words: list[str], problem: str) -> None:
    done = run(*words, DALLY_SERVER=served.url)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"dally: {problem}")
    assert len(done.stderr.splitlines()) == 1


def test_a_second_daemon_is_refused(served: Served) -> None:
    said = refused("--folder", str(served.folder), "--listen", "127.0.0.1:0")
    assert f"another `dally serve` (process {served.process.pid}) schedules this local cluster already" in said


def test_a_port_in_use(served: Served, tmp_path: Path) -> None:
    port = served.url.rpartition(":")[2]
    said = refused("--folder", str(tmp_path), "--listen", f"127.0.0.1:{port}")
    assert "Address already in use; is another one running? --listen names another port" in said


def test_tokens_close_it_while_it_runs(served: Served, tmp_path: Path) -> None:
    folder = ("--folder", str(served.folder))
    secret = tmp_path / "token"
    secret.write_text(run("token", "add", "ann", "--role", "user", "--user", "ann", *folder).stdout)
    wait_for(lambda: run("queue", "--server", served.url).returncode == 2)
    done = run("queue", "--server", served.url)
    assert done.stderr.endswith("Bearer …; give one with --token-file or DALLY_TOKEN\n")
    assert run("queue", "--server", served.url, "--token-file", str(secret)).stdout == "No jobs.\n"
    known = {"DALLY_SERVER": served.url, "DALLY_TOKEN": secret.read_text()}
    assert json.loads(run("submit", "-g", "1", "--expected", "60", "--json", **known).stdout)["job_id"]
    found = json.loads(run("queue", "--json", **known).stdout)
    assert [one["user"] for one in found["jobs"]] == ["ann"]
    assert "ann    user   ann" in run("token", "list", *folder).stdout
    assert "is not a Dally server: it answers 404" in run("queue", "--server", f"{served.url}/x", **known).stderr
    elsewhere = run("token", "list", "--folder", str(tmp_path / "elsewhere"))
    assert "no daemon has stored anything there" in elsewhere.stderr
    assert not (tmp_path / "elsewhere").exists()
    assert run("token", "remove", "ann", *folder).stdout == "Removed ann.\n"
    assert run("token", "list", *folder).stdout == "No tokens.\n"
    time.sleep(2.5)  # the server has read of it
    assert (
        "this needs a token" in run("queue", "--server", served.url).stderr
    )  # removing the last one opens nothing


def test_it_stops_when_told_to_and_jobs_run_on(served: Served) -> None:
    served.url = f"unix:{served.folder}/serve.sock"
    job = told(served, "submit", "--gpus", "8", "--", "sleep", "60")["job_id"]
    wait_for(lambda: state_of(served, job) == "running")
    assert served.stop() == 0
    again = Served(served.folder, "--cluster", "2x2x8")
    again.url = served.url
    try:
        wait_for(lambda: state_of(again, job) == "running")
        ids = [one["job_id"] for one in told(again, "queue")["jobs"]]
        assert run("cancel", *ids, "--server", again.url).returncode == 0
        wait_for(lambda: state_of(again, job) == "cancelled")
    finally:
        assert again.stop() == 0


def test_https(tmp_path: Path) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key),
         "-out", str(certificate)],
        check=True, capture_output=True,
    )  # fmt: skip
    files = ("--tls-certificate", str(certificate), "--tls-key", str(key))
    one = Served(tmp_path / "state", *files)
    try:
        assert one.url.startswith("https://")
        assert run("queue", "--server", one.url, SSL_CERT_FILE=str(certificate)).stdout == "No jobs.\n"
        assert "certificate verify failed" in run("queue", "--server", one.url).stderr
    finally:
        one.stop()
    said = refused("--folder", str(tmp_path / "other"), "--listen", "127.0.0.1:0", *files[:3], str(certificate))
    assert f"--tls-key {certificate}: cannot be used" in said
