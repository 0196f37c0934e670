"""For training scripts: `dally.report(step, total)`, and callbacks that call it. Needs nothing else installed."""

from __future__ import annotations

import os
import time
from typing import Any, Final

from dally.progress.report_file import JOB_VARIABLE, MOST_STEPS, PRINTED, VARIABLE, Report, line_of, write_report

EVERY_S: Final = 1.0  # between two writings: a step may take a millisecond
PRINT_EVERY_S: Final = 10.0  # the same of lines, which are there for ever
RANKS: Final = (
    "RANK",
    "SLURM_PROCID",
    "OMPI_COMM_WORLD_RANK",
    "PMI_RANK",
)  # the first of several processes reports
_written: dict[str, float] = {}  # by file: when, on the monotonic clock


def report(step: int, total: int | None = None) -> bool:
    """Say that so many steps of the whole run are done; whether it was written.

    The variable DALLY_PROGRESS names the file; with -, a line is printed. Nothing is written outside of a job of
    Dally's, by processes of a rank above 0, more than once a second (a line: in ten) before the end, or where that
    fails: training goes on.
    """
    step, total = _whole("step", step), None if total is None else _whole("total", total)
    if total == 0:
        raise ValueError("total: 0: must be at least 1")
    path = os.environ.get(VARIABLE, "")
    if not path or any(os.environ.get(name, "0") not in ("", "0") for name in RANKS):
        return False
    now = time.monotonic()
    every_s = PRINT_EVERY_S if path == PRINTED else EVERY_S
    if path in _written and now - _written[path] < every_s and step != total:
        return False
    _written[path] = now
    try:
        if path == PRINTED:
            print(line_of(step, total), flush=True)
        else:
            write_report(path, Report(step, total, time.time(), os.environ.get(JOB_VARIABLE, "")))
    except (OSError, ValueError):  # ValueError: of a closed stream
        return False
    return True


def _whole(name: str, value: Any) -> int:
    """The whole number, of whatever type: frameworks count in numpy's and torch's."""
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name}: {value!r}: must be a whole number") from None
    if not 0 <= number <= MOST_STEPS:
        raise ValueError(f"{name}: {value!r}: must be a number of steps")
    return number


def trainer_callback() -> Any:
    """A callback for the Trainer of Hugging Face: `Trainer(…, callbacks=[trainer_callback()])`."""
    from transformers import TrainerCallback

    class ReportToDally(TrainerCallback):  # type: ignore[misc]
        """Reports the global step after each."""

        def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            if getattr(state, "is_world_process_zero", True):
                report(state.global_step, state.max_steps if state.max_steps > 0 else None)

    return ReportToDally()


def lightning_callback() -> Any:
    """A callback for Lightning: `Trainer(…, callbacks=[lightning_callback()])`."""
    try:
        from lightning.pytorch import Callback
    except ModuleNotFoundError:
        from pytorch_lightning import Callback

    class ReportLightningToDally(Callback):  # type: ignore[misc]
        """Reports the global step after each batch."""

        def on_train_batch_end(self, trainer: Any, *others: Any, **named: Any) -> None:
            batches = trainer.estimated_stepping_batches
            known = 0 < batches < float("inf")
            if getattr(trainer, "is_global_zero", True):
                report(trainer.global_step, int(batches) if known else None)

    return ReportLightningToDally()


def keras_callback() -> Any:
    """A callback for Keras: `model.fit(…, callbacks=[keras_callback()])`."""
    from keras.callbacks import Callback

    class ReportKerasToDally(Callback):  # type: ignore[misc]
        """Reports batches done, of all epochs."""

        def on_train_begin(self, logs: Any = None) -> None:
            self._epoch = 0

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self._epoch = epoch

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            steps, epochs = self.params.get("steps"), self.params.get("epochs")
            if not steps:
                report(batch + 1) if self._epoch == 0 else None
                return
            report(self._epoch * steps + batch + 1, steps * epochs if epochs else None)

    return ReportKerasToDally()
