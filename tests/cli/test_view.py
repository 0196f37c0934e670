"""`dally view`: serves a run's pages to this machine until it is interrupted, and says what it cannot show."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

from tests.cli.conftest import Run
from tests.report.folders import make_comparison

TRACE = "job_id,submit_s,gpus,duration_s\na,0,4,10\nb,1,8,5\nc,2,4,3\n"


def test_serves_a_run_until_interrupted(dally: Run, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(TRACE)
    assert dally("simulate", "t.csv", "--cluster", "1x1x8", "--out", "one", "--no-report").returncode == 0
    words = ["view", "one", "--listen", "127.0.0.1:0", "--json"]
    viewing = subprocess.Popen([sys.executable, "-m", "dally", *words], cwd=tmp_path, stdout=subprocess.PIPE)
    try:
        assert viewing.stdout is not None
        told = json.loads(viewing.stdout.readline())
        assert {**told, "url": ""} == {"url": "", "jobs": 3, "from_s": 0.0, "to_s": 15.0}
        with urlopen(f"{told['url']}map/state.json?at=4") as answer:
            assert json.load(answer)["counts"] == {
                "gpus": 8,
                "free": 0,
                "busy": 8,
                "running": 2,
                "waiting": 1,
                "held": 0,
            }
        with urlopen(told["url"]) as answer:
            assert "?at=1.0" in answer.url, "when most waited"
        viewing.send_signal(signal.SIGINT)
        assert viewing.wait(20) == 0
    finally:
        viewing.kill()
        viewing.communicate()


def test_says_what_it_cannot_show(dally: Run, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(TRACE)
    make_comparison(tmp_path / "both", str(tmp_path / "t.csv"), ("fifo", "las"), cluster="1x1x8")
    one = "both/runs/slow-fifo-s1"
    refused = {
        ("both",): f"both: holds a comparison; give one of its runs: {one}, both/runs/slow-las-s1",
        (".",): ".: holds neither summary.json",
        ("nowhere",): "nowhere: is not a folder",
        (one, "--listen", "0.0.0.0:80"): "--listen 0.0.0.0:80: others could read it there",
        (one, "--at", "-1"): "--at -1: must be a time in seconds, not negative",
    }
    for asked, problem in refused.items():
        done = dally("view", *asked)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"dally: {problem}"), done.stderr
