"""The process that measures: a question a line on its input, an answer a line on what was its output."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

from dally.errors import InputError
from dally.profiling.builtin import Task, builder, builtin_builder, find_builtin
from dally.profiling.measuring import StepRequest


def main() -> None:
    """Answer until the input ends. Whatever models print goes to stderr."""
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers:
        os.dup2(2, 1)
        sys.path.insert(0, os.getcwd())
        for line in sys.stdin:
            answers.write(json.dumps(answer(json.loads(line))) + "\n")
            answers.flush()


def answer(question: dict[str, Any]) -> dict[str, Any]:
    """What was measured, or what is wrong with the question, or what went wrong."""
    try:
        return {"measured": measure(question)}
    except InputError as error:
        return {"refused": str(error)}
    except Exception as error:  # of a model that anybody may have written
        traceback.print_exc()
        return {"failed": f"{type(error).__name__}: {error}"}


def measure(question: dict[str, Any]) -> Any:
    """The record of a step, or the times of all-reduces."""
    if "step" in question:
        return step(StepRequest(**question["step"]))
    return all_reduces(question["device"], question["processes"])


def step(request: StepRequest) -> dict[str, Any]:
    """The record of one model, batch and precision."""
    from dally.profiling.measure import Setting, measured, usable_device
    from dally.profiling.training_step import Timing

    timing = Timing(steps=request.steps, warmup=min(4, request.steps), ready_steps=min(5, request.steps))
    setting = Setting(request.batch, request.precision, request.optimizer, request.graph)
    return measured(request.name, build_of(request), setting, usable_device(request.device), timing)


def build_of(request: StepRequest) -> Callable[[int], Task]:
    """The function that builds the model for a batch size."""
    return builtin_builder(find_builtin(request.model)) if request.model else builder(request.module)


def all_reduces(device: str, processes: int) -> list[tuple[int, float]]:
    """All-reduce times: among all GPUs if there are several, among processes of a CPU if asked."""
    import torch

    from dally.profiling.all_reduce import all_reduce_times
    from dally.profiling.measure import usable_device

    used = usable_device(device)
    there = torch.cuda.device_count() if used == "cuda" else 0
    if used == "cuda" and processes > there:
        raise InputError(f"--processes {processes}: there are {there} GPUs")
    count = processes or there
    return all_reduce_times(used, count) if count > 1 else []


if __name__ == "__main__":
    main()
