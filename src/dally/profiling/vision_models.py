"""Image classifiers of torchvision, from their configurations: random weights, nothing fetched."""

from __future__ import annotations

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


def alexnet(batch: int) -> Task:
    """AlexNet."""
    return _task("alexnet", batch)


def vgg16(batch: int) -> Task:
    """VGG-16."""
    return _task("vgg16", batch)


def vgg19(batch: int) -> Task:
    """VGG-19."""
    return _task("vgg19", batch)


def resnet18(batch: int) -> Task:
    """ResNet-18."""
    return _task("resnet18", batch)


def resnet50(batch: int) -> Task:
    """ResNet-50."""
    return _task("resnet50", batch)


def resnet152(batch: int) -> Task:
    """ResNet-152."""
    return _task("resnet152", batch)


def mobilenet_v3_large(batch: int) -> Task:
    """MobileNetV3, the large one."""
    return _task("mobilenet_v3_large", batch)


def inception_v3(batch: int) -> Task:
    """Inception-v3 with its second head, on larger images."""
    return _task("inception_v3", batch, 299, init_weights=False)


def vit_b_16(batch: int) -> Task:
    """ViT-B/16."""
    return _task("vit_b_16", batch)


def vit_l_16(batch: int) -> Task:
    """ViT-L/16."""
    return _task("vit_l_16", batch)
