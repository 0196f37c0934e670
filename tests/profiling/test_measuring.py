"""Measurements in a process of their own, with stand-ins for it that need no torch: they answer, fail and die."""

from __future__ import annotations

import sys
from pathlib import Path
from time import perf_counter, sleep

import pytest

from dally.errors import InputError
from dally.profiling import child
from dally.profiling.measuring import MAX_ISA, Measuring, MeasuringError, StepRequest, ending

REQUEST = StepRequest("tiny-mlp", "tiny-mlp", "", 4, "amp", "sgd", "cpu", 3, False)
WHAT = "tiny-mlp: batch 4, amp"


def standing_in(body: str) -> Measuring:
    """A process that does `body` with each `question`."""
    text = (
        "import json, os, signal, sys, time\n"
        "def say(**told): print(json.dumps(told), flush=True)\n"
        "isa = os.environ.get('ONEDNN_MAX_CPU_ISA', '')\n"
        f"for question in map(json.loads, sys.stdin):\n    {body}\n"
    )
    return Measuring((sys.executable, "-c", text))


@pytest.fixture(autouse=True)
def no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(MAX_ISA, raising=False)


def test_one_process_answers_all_questions() -> None:
    with standing_in("say(measured=dict(pid=os.getpid(), isa=isa, question=question))") as measuring:
        first, second = measuring.record(REQUEST), measuring.record(REQUEST)
    assert (first["pid"], first["isa"]) == (second["pid"], "")
    assert StepRequest(**first["question"]["step"]) == REQUEST


def test_all_reduces_are_asked_of_it() -> None:
    with standing_in("say(measured=[[1024, question['processes']], [2048, 0.5]])") as measuring:
        assert measuring.all_reduces("cpu", 2) == [(1024, 2), (2048, 0.5)]


@pytest.mark.parametrize("works", ["AVX512_CORE_BF16", "AVX2"])
def test_instructions_that_are_announced_and_not_there(works: str, capfd: pytest.CaptureFixture[str]) -> None:
    body = f"isa == {works!r} or os.kill(os.getpid(), signal.SIGILL); say(measured=dict(isa=isa))"
    with standing_in(body) as measuring:
        assert measuring.record(REQUEST) == {"isa": works}
        assert f"{WHAT}: was killed by SIGILL; again with {MAX_ISA}={works}" in capfd.readouterr().err
        assert measuring.record(REQUEST) == {"isa": works}
    assert capfd.readouterr().err == "", "what works is found once"


def test_a_limit_of_the_users_own_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MAX_ISA, "SSE41")
    with standing_in("say(measured=dict(isa=isa))") as measuring:
        assert measuring.record(REQUEST) == {"isa": "SSE41"}


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("os.kill(os.getpid(), signal.SIGILL)", "was killed by SIGILL"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "was killed by SIGSEGV"),
        ("os.kill(os.getpid(), signal.SIGKILL)", r"was killed by SIGKILL \(no memory left\?\)"),
        ("os.close(1); time.sleep(0.2); sys.exit(3)", "ended with exit code 3"),
    ],
)
def test_a_process_that_dies_is_named(body: str, problem: str) -> None:
    with (
        standing_in(body) as measuring,
        pytest.raises(MeasuringError, match=f"{WHAT}: the process that measures {problem}"),
    ):
        measuring.record(REQUEST)


def test_a_process_that_does_not_even_begin() -> None:
    with Measuring((sys.executable, "-c", "raise SystemExit(7)")) as measuring:
        with pytest.raises(MeasuringError, match="ended with exit code 7"):
            measuring.record(REQUEST)
        with pytest.raises(MeasuringError, match="all-reduces: the process that measures ended with exit code 7"):
            measuring.all_reduces("cpu", 2)


def test_what_it_refuses_and_what_fails() -> None:
    with (
        standing_in("say(refused='--device cuda: no GPU')") as measuring,
        pytest.raises(InputError, match="no GPU"),
    ):
        measuring.record(REQUEST)
    with (
        standing_in("say(failed='RuntimeError: no memory')") as measuring,
        pytest.raises(MeasuringError, match=f"{WHAT}: RuntimeError: no memory"),
    ):
        measuring.record(REQUEST)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:  # it is gone
        return False


def test_nothing_is_left_behind() -> None:
    """Not even what it began itself, and nobody waits for it."""
    body = "p = os.fork(); p and say(measured=dict(one=os.getpid(), two=p)); time.sleep(600)"
    with standing_in(body) as measuring:
        pids = measuring.record(REQUEST)
        begun_s = perf_counter()
    assert perf_counter() - begun_s < 60
    while any(map(is_alive, pids.values())):  # one that was killed may still have to be told
        assert perf_counter() - begun_s < 60
        sleep(0.01)


def test_how_processes_end() -> None:
    assert (ending(0), ending(-11)) == ("ended with exit code 0", "was killed by SIGSEGV")


def test_the_child_does_not_die(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(_: object) -> None:
        raise InputError("--device tpu: must be auto, cuda or cpu")

    def fail(_: object) -> None:
        raise ZeroDivisionError("of the model")

    for measure, told in (
        (lambda question: [question], {"measured": [{"device": "cpu"}]}),
        (refuse, {"refused": "--device tpu: must be auto, cuda or cpu"}),
        (fail, {"failed": "ZeroDivisionError: of the model"}),
    ):
        monkeypatch.setattr(child, "measure", measure)
        assert child.answer({"device": "cpu"}) == told
    assert "Traceback" in capsys.readouterr().err, "a model's author wants to know where"


def test_the_child_itself_whatever_models_print(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A torch that is none lies in the folder where it is begun: imports come from there, as for models."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "torch.py").write_text("print('torch says hello')\nraise RuntimeError('no torch at all')\n")
    with Measuring() as measuring, pytest.raises(MeasuringError, match=f"{WHAT}: RuntimeError: no torch at all"):
        measuring.record(REQUEST)
