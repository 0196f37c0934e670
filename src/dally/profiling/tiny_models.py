"""Small models of every kind, measured in seconds on a CPU: for tests, and to try things out."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from dally.profiling import decoder as decoders
from dally.profiling import dlrm as recommendation
from dally.profiling.builtin import Task


def _loss(model: Any, batch: Any) -> Any:
    return cross_entropy(model(batch[0]), batch[1])


def mlp(batch: int) -> Task:
    """Four layers of 1,024: 3.2 M parameters, 13 MB of gradients."""
    model = recommendation.stack(1024, 1024, 1024, 1024, 10)
    return Task(model, (torch.randn(batch, 1024), torch.randint(10, (batch,))), _loss)


# Two layers of 64, and the same with four experts.
decoder = partial(decoders.task_of, decoders.DecoderShape(2, 64, 4, 2, 128, 256, 64, recompute=True))
mixture = partial(decoders.task_of, decoders.DecoderShape(2, 64, 4, 4, 128, 256, 64, experts=4))


def dlrm(batch: int) -> Task:
    """Four tables of 100 rows of 8."""
    return recommendation.task_of(recommendation.Dlrm(4, 100, 8, (16,), (16, 8)), 4, 100, batch)
