"""Image classifiers of torchvision, from their configurations: random weights, nothing fetched."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from dally.profiling.builtin import Task

CLASSES = 1000


def _task(name: str, batch: int, side: int = 224, **settings: Any) -> Task:
    from torchvision import models

    model = getattr(models, name)(weights=None, **settings).to(memory_format=torch.channels_last)
    images = torch.randn(batch, 3, side, side).contiguous(memory_format=torch.channels_last)
    return Task(model, (images, torch.randint(CLASSES, (batch,))), _loss)


def _loss(model: Any, batch: Any) -> Any:
    images, labels = batch
    made = model(images)
    if not isinstance(made, torch.Tensor):  # Inception's second head counts too
        return cross_entropy(made.logits, labels) + 0.4 * cross_entropy(made.aux_logits, labels)
    return cross_entropy(made, labels)


# Each builds the model for a batch size.
alexnet = partial(_task, "alexnet")
vgg16 = partial(_task, "vgg16")
vgg19 = partial(_task, "vgg19")
resnet18 = partial(_task, "resnet18")
resnet50 = partial(_task, "resnet50")
resnet152 = partial(_task, "resnet152")
mobilenet_v3_large = partial(_task, "mobilenet_v3_large")
inception_v3 = partial(_task, "inception_v3", side=299, init_weights=False)  # larger images, two heads
vit_b_16 = partial(_task, "vit_b_16")
vit_l_16 = partial(_task, "vit_l_16")
