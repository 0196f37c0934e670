"""Tensor sizes of the catalogue's models in order of definition, from which its computed figures come.

Each list is written from the published architecture and its sum is checked against the published number
of parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

FIRST_BUCKET_BYTES = 1 << 20  # torch.distributed._DEFAULT_FIRST_BUCKET_BYTES
BUCKET_BYTES = 25 << 20  # DistributedDataParallel(bucket_cap_mb=25)


def last_bucket_bytes(tensors: list[int], bytes_each: int) -> int:
    """Bytes of the bucket that PyTorch's DDP reduces last.

    Gradients become ready in reverse order of definition; a bucket is closed by the tensor that fills it.
    """
    cap, size = FIRST_BUCKET_BYTES, 0
    last = 0
    for count in reversed(tensors):
        size += count * bytes_each
        last = size
        if size >= cap:
            cap, size = BUCKET_BYTES, 0
    return last


def skew(tensors: list[int]) -> float:
    """Largest tensor ÷ all of them."""
    return max(tensors) / sum(tensors)


def _linear(into: int, out: int) -> list[int]:
    return [into * out, out]


def _conv_bn(into: int, out: int, height: int, width: int = 0, groups: int = 1) -> list[int]:
    return [into // groups * out * height * (width or height), out, out]


def alexnet() -> list[int]:
    convs = [(3, 64, 11), (64, 192, 5), (192, 384, 3), (384, 256, 3), (256, 256, 3)]
    tensors = [size for into, out, side in convs for size in (into * out * side * side, out)]
    return tensors + _linear(9216, 4096) + _linear(4096, 4096) + _linear(4096, 1000)


def vgg16() -> list[int]:
    widths = [3, 64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512]
    tensors = [size for into, out in pairwise(widths) for size in (into * out * 9, out)]
    return tensors + _linear(25088, 4096) + _linear(4096, 4096) + _linear(4096, 1000)


def resnet18() -> list[int]:
    tensors, into = _conv_bn(3, 64, 7), 64
    for out in (64, 128, 256, 512):
        for block in range(2):
            tensors += _conv_bn(into, out, 3) + _conv_bn(out, out, 3)
            if block == 0 and into != out:
                tensors += _conv_bn(into, out, 1)
            into = out
    return tensors + _linear(512, 1000)


def resnet50() -> list[int]:
    tensors, into = _conv_bn(3, 64, 7), 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            tensors += _conv_bn(into, width, 1) + _conv_bn(width, width, 3) + _conv_bn(width, 4 * width, 1)
            if block == 0:
                tensors += _conv_bn(into, 4 * width, 1)
            into = 4 * width
    return tensors + _linear(2048, 1000)


def mobilenet_v2() -> list[int]:
    tensors, into = _conv_bn(3, 32, 3), 32
    stages = ((1, 16, 1), (6, 24, 2), (6, 32, 3), (6, 64, 4), (6, 96, 3), (6, 160, 3), (6, 320, 1))
    for expand, out, blocks in stages:
        for _ in range(blocks):
            hidden = into * expand
            if expand > 1:
                tensors += _conv_bn(into, hidden, 1)
            tensors += _conv_bn(hidden, hidden, 3, groups=hidden) + _conv_bn(hidden, out, 1)
            into = out
    return tensors + _conv_bn(320, 1280, 1) + _linear(1280, 1000)


MOBILENET_V3_LARGE = (  # kernel, expanded width, output width, squeeze width (0: none)
    (3, 16, 16, 0), (3, 64, 24, 0), (3, 72, 24, 0), (5, 72, 40, 24), (5, 120, 40, 32), (5, 120, 40, 32),
    (3, 240, 80, 0), (3, 200, 80, 0), (3, 184, 80, 0), (3, 184, 80, 0), (3, 480, 112, 120),
    (3, 672, 112, 168), (5, 672, 160, 168), (5, 960, 160, 240), (5, 960, 160, 240),
)  # fmt: skip
MOBILENET_V3_SMALL = (
    (3, 16, 16, 8), (3, 72, 24, 0), (3, 88, 24, 0), (5, 96, 40, 24), (5, 240, 40, 64), (5, 240, 40, 64),
    (5, 120, 48, 32), (5, 144, 48, 40), (5, 288, 96, 72), (5, 576, 96, 144), (5, 576, 96, 144),
)  # fmt: skip


def _mobilenet_v3(blocks: tuple[tuple[int, int, int, int], ...], head: int) -> list[int]:
    tensors, into = _conv_bn(3, 16, 3), 16
    for side, hidden, out, squeeze in blocks:
        if hidden != into:
            tensors += _conv_bn(into, hidden, 1)
        tensors += _conv_bn(hidden, hidden, side, groups=hidden)
        if squeeze:
            tensors += _linear(hidden, squeeze) + _linear(squeeze, hidden)
        tensors += _conv_bn(hidden, out, 1)
        into = out
    return tensors + _conv_bn(into, 6 * into, 1) + _linear(6 * into, head) + _linear(head, 1000)


def mobilenet_v3_large() -> list[int]:
    return _mobilenet_v3(MOBILENET_V3_LARGE, 1280)


def mobilenet_v3_small() -> list[int]:
    return _mobilenet_v3(MOBILENET_V3_SMALL, 1024)


def densenet121() -> list[int]:
    tensors, width = _conv_bn(3, 64, 7), 64
    for stage, layers in enumerate((6, 12, 24, 16)):
        for _ in range(layers):
            tensors += [width, width, width * 128, 128, 128, 128 * 32 * 9]
            width += 32
        tensors += [width, width]
        if stage < 3:
            tensors.append(width * (width // 2))
            width //= 2
    return tensors + _linear(1024, 1000)


def inception_v3() -> list[int]:
    tensors: list[int] = []

    def conv(into: int, out: int, height: int, width: int = 0) -> None:
        tensors.extend(_conv_bn(into, out, height, width))

    def chain(into: int, *steps: tuple[int, int, int]) -> None:
        for out, height, width in steps:
            conv(into, out, height, width)
            into = out

    def branches_e(into: int) -> None:
        conv(into, 320, 1)
        conv(into, 384, 1)
        conv(384, 384, 1, 3)
        conv(384, 384, 3, 1)
        conv(into, 448, 1)
        conv(448, 384, 3)
        conv(384, 384, 1, 3)
        conv(384, 384, 3, 1)
        conv(into, 192, 1)

    chain(3, (32, 3, 3), (32, 3, 3), (64, 3, 3), (80, 1, 1), (192, 3, 3))
    for into, pool in ((192, 32), (256, 64), (288, 64)):
        conv(into, 64, 1)
        chain(into, (48, 1, 1), (64, 5, 5))
        chain(into, (64, 1, 1), (96, 3, 3), (96, 3, 3))
        conv(into, pool, 1)
    conv(288, 384, 3)
    chain(288, (64, 1, 1), (96, 3, 3), (96, 3, 3))
    for mid in (128, 160, 160, 192):
        conv(768, 192, 1)
        chain(768, (mid, 1, 1), (mid, 1, 7), (192, 7, 1))
        chain(768, (mid, 1, 1), (mid, 7, 1), (mid, 1, 7), (mid, 7, 1), (192, 1, 7))
        conv(768, 192, 1)
    chain(768, (128, 1, 1), (768, 5, 5))  # the auxiliary classifier
    tensors.extend(_linear(768, 1000))
    chain(768, (192, 1, 1), (320, 3, 3))
    chain(768, (192, 1, 1), (192, 1, 7), (192, 7, 1), (192, 3, 3))
    branches_e(1280)
    branches_e(2048)
    return tensors + _linear(2048, 1000)


def _encoder_layer(width: int, inner: int) -> list[int]:
    attention = _linear(width, 3 * width) + _linear(width, width)
    return [width, width, *attention, width, width, *_linear(width, inner), *_linear(inner, width)]


def vit_l() -> list[int]:
    width = 1024
    tensors = [width, *_linear(3 * 16 * 16, width), 197 * width]
    for _ in range(24):
        tensors += _encoder_layer(width, 4096)
    return [*tensors, width, width, *_linear(width, 1000)]


def bert(width: int, layers: int) -> list[int]:
    tensors = [30522 * width, 512 * width, 2 * width, width, width]
    for _ in range(layers):
        for _ in range(4):
            tensors += _linear(width, width)
        tensors += [width, width, *_linear(width, 4 * width), *_linear(4 * width, width), width, width]
    return tensors + _linear(width, width)


def gpt2(width: int, layers: int) -> list[int]:
    tensors = [50257 * width, 1024 * width]
    for _ in range(layers):
        tensors += _encoder_layer(width, 4 * width)
    return [*tensors, width, width]


def translation(width: int, inner: int) -> list[int]:
    """Vaswani et al. 2017: six encoder and six decoder layers over one table of 37,000 tokens."""
    tensors = [37000 * width]
    for _ in range(6):
        tensors += _encoder_layer(width, inner)
    for _ in range(6):
        tensors += _encoder_layer(width, inner)
        tensors += [width, width, *_linear(width, 3 * width), *_linear(width, width)]
    return tensors


def gnmt() -> list[int]:
    def lstm(into: int) -> list[int]:
        return [4 * 1024 * into, 4 * 1024 * 1024, 4 * 1024, 4 * 1024]

    encoder = lstm(1024) + lstm(1024) + lstm(2048) + lstm(1024) + lstm(1024)
    attention = [1024 * 1024, 1024 * 1024, 1024, 1024, 1]
    decoder = lstm(1024) + attention + lstm(2048) * 3 + _linear(1024, 32320)
    return [32320 * 1024, *encoder, *decoder]


def t5_large() -> list[int]:
    width, inner = 1024, 4096
    attention = [width * width] * 4
    tensors = [32128 * width]
    for block in range(24):
        tensors += [*attention, *([32 * 16] if block == 0 else []), width, width * inner, width * inner, width]
    tensors.append(width)
    for block in range(24):
        tensors += [*attention, *([32 * 16] if block == 0 else []), width]
        tensors += [*attention, width, width * inner, width * inner, width]
    return [*tensors, width]


def llama(width: int, layers: int, inner: int, keys: int) -> list[int]:
    tensors = [32000 * width]
    for _ in range(layers):
        tensors += [width * width, width * keys, width * keys, width * width]
        tensors += [width * inner] * 3 + [width, width]
    return [*tensors, width, 32000 * width]


def mixtral() -> list[int]:
    width = 4096
    tensors = [32000 * width]
    for _ in range(32):
        tensors += [width * width, width * 1024, width * 1024, width * width, width * 8]
        tensors += [width * 14336] * (3 * 8) + [width, width]
    return [*tensors, width, 32000 * width]


def mpt(width: int, layers: int) -> list[int]:
    """mosaicml/llm-foundry: learned positions for 2,048 tokens, no biases, tied embeddings."""
    tensors = [50368 * width, 2048 * width]
    for _ in range(layers):
        tensors += [width, 3 * width * width, width * width, width, 4 * width * width, 4 * width * width]
    return [*tensors, width]


def dlrm_dense() -> list[int]:
    """The two perceptrons: the tables lie on one GPU each and are never all-reduced."""
    bottom = [13, 512, 256, 128]
    top = [479, 1024, 1024, 512, 256, 1]
    return [size for sizes in (bottom, top) for into, out in pairwise(sizes) for size in _linear(into, out)]


ARCHITECTURES: dict[str, Callable[[], list[int]]] = {
    "alexnet": alexnet,
    "vgg16": vgg16,
    "resnet18": resnet18,
    "resnet50": resnet50,
    "inception-v3": inception_v3,
    "mobilenet-v2": mobilenet_v2,
    "mobilenet-v3-large": mobilenet_v3_large,
    "mobilenet-v3-small": mobilenet_v3_small,
    "densenet121": densenet121,
    "vit-l": vit_l,
    "bert-base": lambda: bert(768, 12),
    "bert-large": lambda: bert(1024, 24),
    "transformer-base": lambda: translation(512, 2048),
    "transformer-big": lambda: translation(1024, 4096),
    "gnmt": gnmt,
    "gpt2": lambda: gpt2(768, 12),
    "gpt2-xl": lambda: gpt2(1600, 48),
    "t5-large": t5_large,
    "gpt-3b": lambda: mpt(2560, 32),
    "gpt-7b": lambda: mpt(4096, 32),
    "gpt-13b": lambda: mpt(5120, 40),
    "llama2-7b": lambda: llama(4096, 32, 11008, 4096),
    "llama2-13b": lambda: llama(5120, 40, 13824, 5120),
    "llama-30b": lambda: llama(6656, 60, 17920, 6656),
    "llama-65b": lambda: llama(8192, 80, 22016, 8192),
    "llama2-70b": lambda: llama(8192, 80, 28672, 1024),
    "mixtral-8x7b": mixtral,
    "dlrm": dlrm_dense,
}
