"""The models that can be measured by name: how each is built, at which batches, and what a batch counts."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, NamedTuple

from dally.errors import InputError, unknown

BOTH: Final = ("fp32", "amp")
PRECISIONS: Final = ("fp32", "amp", "bf16")


class Task(NamedTuple):
    """What is trained: a module, one batch for it, and the loss of the two."""

    model: Any
    batch: Any
    loss: Callable[[Any, Any], Any]


class Builtin(NamedTuple):
    """A model written here, or from a library's configuration without weights.

    `build` is `module:function` of this package, called with the batch size, and `aliases` other names in traces.
    """

    name: str
    kind: str
    build: str
    batches: tuple[int, ...]
    unit: str
    optimizer: str = "adamw"
    precisions: tuple[str, ...] = BOTH
    all_to_all_bytes: int = 0  # per sample, summed over the exchanges of an iteration
    all_to_all_gpus: int = 0  # that exchange with each other; 0: the whole gang
    tiny: bool = False  # for tests: not part of what is measured


def _image(name: str, module: str, *batches: int) -> Builtin:
    return Builtin(name, "vision", f"vision_models:{module}", batches, "images", "sgd")


def _text(
    name: str, build: str, batches: tuple[int, ...], tokens: str, precisions: tuple[str, ...] = BOTH
) -> Builtin:
    return Builtin(name, "language", build, batches, tokens, precisions=precisions)


# Mixture of experts: dispatch and combine, forward and backward, of 16 layers, 2 experts a token, 1,024 × 2 bytes.
_MOE_BYTES: Final = 4 * 16 * 2 * 2048 * 1024 * 2
_TABLE_BYTES: Final = 2 * 26 * 128 * 2  # vectors forward and their gradients backward, in 2 bytes

BUILTINS: Final = {
    builtin.name: builtin
    for builtin in (
        _image("alexnet", "alexnet", 512, 1024),
        _image("vgg16", "vgg16", 64, 256),
        _image("vgg19", "vgg19", 64, 256),
        _image("resnet18", "resnet18", 256, 1024),
        _image("resnet50", "resnet50", 128, 256),
        _image("resnet152", "resnet152", 64, 128),
        _image("mobilenet-v3-large", "mobilenet_v3_large", 256, 1024),
        _image("inception-v3", "inception_v3", 128, 256),
        _image("vit-b", "vit_b_16", 64, 256),
        _image("vit-l", "vit_l_16", 64, 128),
        _text("bert-base", "text_models:bert_base", (64, 128), "sequences of 384 tokens"),
        _text("bert-large", "text_models:bert_large", (32, 64), "sequences of 512 tokens"),
        _text("gpt2", "text_models:gpt2", (16, 32), "sequences of 1024 tokens"),
        _text("gpt2-medium", "text_models:gpt2_medium", (16, 32), "sequences of 1024 tokens"),
        _text("gpt2-xl", "text_models:gpt2_xl", (4, 8), "sequences of 1024 tokens"),
        _text("t5-base", "text_models:t5_base", (32, 64), "pairs of 512 and 114 tokens"),
        _text("llama-1b", "decoder:llama_1b", (2, 4), "sequences of 2048 tokens"),
        _text("llama2-7b", "decoder:llama_7b", (2, 4), "sequences of 2048 tokens", (*BOTH, "bf16")),
        Builtin(
            "moe-8x180m", "language", "decoder:mixture", (4, 8), "sequences of 2048 tokens",
            all_to_all_bytes=_MOE_BYTES, all_to_all_gpus=8,
        ),
        Builtin(
            "dlrm", "recommendation", "dlrm:dlrm", (65_536, 131_072), "samples", "sgd",
            all_to_all_bytes=_TABLE_BYTES,
        ),
        Builtin("tiny-mlp", "vision", "tiny_models:mlp", (8, 16), "images", "sgd", tiny=True),
        Builtin("tiny-decoder", "language", "tiny_models:decoder", (2, 4), "sequences of 64 tokens", tiny=True),
        Builtin("tiny-mixture", "language", "tiny_models:mixture", (2, 4), "sequences of 64 tokens", tiny=True),
        Builtin("tiny-dlrm", "recommendation", "tiny_models:dlrm", (16, 32), "samples", "sgd", tiny=True),
    )
}  # fmt: skip


def find_builtin(name: str) -> Builtin:
    """The model of that name, or an InputError that suggests the nearest."""
    if name not in BUILTINS:
        raise unknown("model to measure", name, BUILTINS)
    return BUILTINS[name]


def builder(where: str, package: str = "") -> Callable[[int], Task]:
    """The function at `module:function`, or an InputError that says what is wrong with it."""
    module_name, _, name = where.partition(":")
    if not module_name or not name:
        raise InputError(f"--module {where}: must be module:function, e.g. mine.models:build")
    try:
        module = import_module(f"{package}.{module_name}" if package else module_name)
    except ModuleNotFoundError as error:
        if error.name and not module_name.startswith(error.name):
            raise
        raise InputError(f"--module {where}: there is no module {module_name!r} to import") from None
    result = getattr(module, name, None)
    if not callable(result):
        raise InputError(f"--module {where}: {module_name} has no function {name!r}")
    return lambda batch: as_task(where, result(batch))


def as_task(where: str, made: Any) -> Task:
    """What a build function returned, or an InputError if that is not model, batch and loss."""
    if not isinstance(made, tuple) or len(made) != 3 or not callable(made[2]):
        raise InputError(
            f"--module {where}: must return (model, batch, loss), with loss(model, batch) a scalar; "
            f"it returned {type(made).__name__}"
        )
    return Task(*made)


def builtin_builder(builtin: Builtin) -> Callable[[int], Task]:
    """The function that builds it for a batch size."""
    return builder(builtin.build, "dally.profiling")
