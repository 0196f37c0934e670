"""A recommendation model in the shape of DLRM (Naumov et al., 2019): tables, two stacks of layers, dot products."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits

from dally.profiling.builtin import Task

NUMBERS = 13  # dense features of a sample


def stack(*widths: int) -> nn.Sequential:
    """Linear layers with ReLU between them."""
    layers: list[Any] = []
    for into, out in pairwise(widths):
        layers += [nn.Linear(into, out), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class Dlrm(nn.Module):  # type: ignore[misc]
    """Tables lie one after the other in a single one, so that all lookups are one kernel."""

    def __init__(self, tables: int, rows: int, width: int, bottom: tuple[int, ...], top: tuple[int, ...]) -> None:
        super().__init__()
        self.vectors = nn.Embedding(tables * rows, width, sparse=True)
        self.vectors.weight.gradient_share = 0.0  # each GPU has some of the tables: their rows are exchanged
        self.bottom = stack(NUMBERS, *bottom, width)
        pairs = (tables + 1) * tables // 2
        self.top = stack(width + pairs, *top, 1)
        self.register_buffer("first_rows", torch.arange(tables) * rows)
        self.register_buffer("pairs", torch.tril_indices(tables + 1, tables + 1, -1))

    def forward(self, numbers: Any, rows: Any) -> Any:
        dense = self.bottom(numbers)
        vectors = self.vectors(rows + self.first_rows).to(dense.dtype)
        all_vectors = torch.cat((dense[:, None], vectors), dim=1)
        products = torch.bmm(all_vectors, all_vectors.transpose(1, 2))
        return self.top(torch.cat((dense, products[:, self.pairs[0], self.pairs[1]]), dim=1))


def _loss(model: Any, batch: Any) -> Any:
    numbers, rows, clicks = batch
    return binary_cross_entropy_with_logits(model(numbers, rows).flatten().float(), clicks)


def task_of(model: Any, tables: int, rows: int, batch: int) -> Task:
    """The model with a batch of random samples."""
    chosen = torch.randint(rows, (batch, tables))
    return Task(model, (torch.randn(batch, NUMBERS), chosen, torch.rand(batch).round()), _loss)


def dlrm(batch: int) -> Task:
    """26 tables of a million rows of 128: 13 GB that are looked up, 2 M parameters that are all-reduced."""
    model = Dlrm(26, 1_000_000, 128, (512, 256), (1024, 1024, 512, 256))
    return task_of(model, 26, 1_000_000, batch)
