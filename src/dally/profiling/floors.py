"""The arithmetic and the bytes that a step cannot do without: what its time is compared with."""

from __future__ import annotations

from typing import Any

from dally.profiling.training_step import Training


def step_flops(training: Training) -> int:
    """Floating-point operations of the products and convolutions of one forward and backward pass."""
    from torch.utils.flop_counter import FlopCounterMode

    counter: Any = FlopCounterMode(display=False)
    with counter:
        training.step()
    return int(counter.get_total_flops())


def step_bytes(training: Training) -> int:
    """Bytes of weights read in both passes and gradients written; activations are left out, so it is a floor.

    Of a table that is looked up, nothing is counted: how many rows a batch touches depends on the batch.
    """
    total = 0
    for _, weight in training.parameters():
        if weight.grad is not None and not weight.grad.is_sparse:
            total += 3 * weight.numel() * weight.element_size()
    return total
