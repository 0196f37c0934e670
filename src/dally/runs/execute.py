"""Carrying out a scenario. Every command, every worker and every Python caller comes through here."""

from __future__ import annotations

import gc
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter, process_time
from traceback import extract_tb
from typing import Any

from dally import is_compiled
from dally.engine.simulate import Simulation
from dally.errors import InputError, PolicyError
from dally.metrics.queue_summary import summarize_sharing
from dally.metrics.simulated import Simulated
from dally.metrics.summary import summarize
from dally.metrics.user_fairness import rho_by_user, summarize_users
from dally.policies.registry import policy_file
from dally.runs.assemble import assemble
from dally.runs.folder import check_inputs, prepare_folder, write_run
from dally.runs.going_on import Keep, keep
from dally.runs.scenario import Scenario
from dally.traces.reading import collector_off


def execute(
    scenario: Scenario,
    progress: Callable[[Simulation], None] | None = None,
    out: Path | None = None,
    stop: Keep | None = None,
) -> Simulated:
    """The record of the run, its summary included; with `out` it is also left in that folder.

    `progress` is called now and then. With `stop` the run is also saved on its way, to go on from there later.
    What is wrong with the input is said before anything is written.
    """
    began_s, cpu_began_s = perf_counter(), process_time()
    if gc.isenabled():
        gc.collect()  # what earlier runs left: all that this one makes lives to its end
    with collector_off():
        with blamed(scenario.policy):
            simulation, trace = assemble(scenario)
        if out:
            prepare_folder(out)
            check_inputs(out, scenario)
        with blamed(scenario.policy):
            if stop:
                simulation.go_on(min(stop.at_s, scenario.until_s), progress)
                keep(simulation, scenario, trace, stop)
            simulation.run(scenario.until_s, progress)
        record = Simulated(simulation, scenario, trace.skipped, trace.unused, trace.notes)
        rho = rho_by_user(record)
        record.summary = {
            "policy": scenario.policy,
            "seed": scenario.seed,
            **summarize(record),
            **summarize_sharing(record, rho),
            **summarize_users(record, rho),
            "skipped": record.skipped,
            "unused": record.unused,
            "notes": record.notes,
            **({"health": simulation.watch.result()} if simulation.watch.result() else {}),
            **({} if trace.epoch_s is None else {"epoch_s": trace.epoch_s}),
            **cost(began_s, cpu_began_s),
        }
        if out:
            write_run(out, record)
    return record


def cost(began_s: float, cpu_began_s: float = 0.0) -> dict[str, Any]:
    """Seconds since `perf_counter` and `process_time` said these, and the most memory the process held."""
    peak_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "wall_s": round(perf_counter() - began_s, 3),
        "cpu_s": round(process_time() - cpu_began_s, 3),
        "peak_rss_mb": round(peak_kb / 1024, 1),
        "compiled": is_compiled(),
    }


@contextmanager
def blamed(policy: str) -> Iterator[None]:
    """PolicyError, with the file and the line, for what a policy named `file.py:Class` raises."""
    try:
        yield
    except (InputError, PolicyError):
        raise
    except Exception as error:
        problem = _problem(policy_file(policy), error)
        if not problem:
            raise
        raise PolicyError(problem) from error


RANKS = ("put", "_enqueue", "rerank")  # where the queue takes a rank: compiled code has no frame for `put`


def _problem(file: str, error: Exception) -> str:
    """What the file did wrong; empty if the error is not of its making."""
    frames = extract_tb(error.__traceback__) if file else []
    own = [frame for frame in frames if os.path.realpath(frame.filename) == os.path.realpath(file)]
    what = f"{type(error).__name__}: {error}"
    if own:
        return f"{file}:{own[-1].lineno}: in {own[-1].name}: {what}"
    if frames and frames[-1].name in ("cycle", "check"):  # where the engine takes what `schedule` gives
        return f"{file}: schedule must give actions, Start, Preempt or Migrate, and nothing else: {what}"
    if frames and isinstance(error, TypeError) and frames[-1].name in RANKS:
        return f"{file}: key(job, now) and tie(job) of its order must return one number each: {what}"
    return ""
