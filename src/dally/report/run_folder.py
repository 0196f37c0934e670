"""The folder a run leaves behind. Files appear whole or not at all."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dally.engine.simulate import Simulation
from dally.errors import InputError
from dally.metrics.slot_samples import slots_frame
from dally.metrics.tables import decisions_frame, events_frame, jobs_csv


def prepare_folder(folder: Path) -> None:
    """Make the folder, and find out now rather than after the run whether it can be written."""
    probe = _temporary(folder / "probe")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise InputError(f"{folder}: cannot be written: {error.strerror}") from None


def write_run(folder: Path, simulation: Simulation, summary: dict[str, Any], scenario: str) -> None:
    """Write all files under temporary names, then rename them; Ctrl-C waits for the renaming."""
    parquet = {"events": events_frame, "decisions": decisions_frame, "slots": slots_frame}
    names = ("jobs.csv", *(f"{name}.parquet" for name in parquet), "scenario.toml", "summary.json")
    temporary = {name: _temporary(folder / name) for name in names}
    try:
        _write(temporary["jobs.csv"], jobs_csv(simulation))
        for name, frame in parquet.items():
            frame(simulation).write_parquet(temporary[f"{name}.parquet"])
        _write(temporary["scenario.toml"], [scenario])
        _write(temporary["summary.json"], [json.dumps(summary, indent=2), "\n"])
        held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            for name in names:
                os.replace(temporary[name], folder / name)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, held)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written: {error.strerror or error}") from None
    finally:
        for path in temporary.values():
            path.unlink(missing_ok=True)


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.tmp")


def _write(path: Path, pieces: Iterable[str]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        file.writelines(pieces)
