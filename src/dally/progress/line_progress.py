"""What one line of a log says of a job's progress."""

from __future__ import annotations

from typing import NamedTuple


class LineProgress(NamedTuple):
    """Steps, epochs and seconds per step as a line prints them; None: the line does not say."""

    step: int | None = None
    total: int | None = None  # steps, of the run or of the epoch, whichever the line counts
    epoch: float | None = None  # from 0 or from 1, as the framework counts
    epochs: int | None = None
    s_per_step: float | None = None

    def is_known(self) -> bool:
        """Whether any of it is known."""
        return any(value is not None for value in self)

    def described(self) -> str:
        """In a few words: epoch 2/10, step 30/400, 0.25 s per step."""
        parts = [
            f"{name} {value:.10g}{'' if last is None else f'/{last}'}"
            for name, value, last in (("epoch", self.epoch, self.epochs), ("step", self.step, self.total))
            if value is not None
        ]
        parts += [f"{self.total} steps"] if self.step is None and self.total is not None else []
        parts += [f"{self.epochs} epochs"] if self.epoch is None and self.epochs is not None else []
        parts += [] if self.s_per_step is None else [f"{self.s_per_step:.4g} s per step"]
        return ", ".join(parts)
