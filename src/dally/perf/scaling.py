"""A model's iteration on other numbers of GPUs than its job asks for: strong scaling at a fixed global batch.

Each GPU gets its part of the same global batch, so that convergence stays as it was: what it computes and hands
over of it shrinks as GPUs are added, and the gradients do not.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from dally.errors import InputError
from dally.model import Job, Profile

SIZED: Final = "\x1f"  # between a model and a size in the names of `sized`; in no model's own


def at_size(profile: Profile, requested: i64, gpus: i64) -> Profile:
    """The profile of so many GPUs with the global batch of `requested`; the given one is with their own."""
    if gpus == requested:
        return profile
    if profile.groups is not None:
        raise InputError(
            f"model {profile.name!r}: its layout is stated for one number of GPUs; it cannot be resized"
        )
    share = float(requested) / float(gpus)
    return Profile(
        overlap=profile.overlap,
        nbytes=profile.nbytes,
        forward_s=profile.forward_s * share,
        backward_s=profile.backward_s * share,
        last_bucket_bytes=profile.last_bucket_bytes,
        all_to_all_bytes=profile.all_to_all_bytes * share,
        name=profile.name,
        all_to_all_gpus=profile.all_to_all_gpus,
        tensor_parallel=profile.tensor_parallel,
        skew=profile.skew,
        stages=tuple([(count, size, first * share, last * share) for count, size, first, last in profile.stages]),
    )


def sized(model: str, job: Job, gpus: i64) -> str:
    """The model under another name where the job has, or would have, other GPUs than those it asks for."""
    return model if gpus == job.requested else f"{model}{SIZED}{int(job.requested)}"


def request_of(model: str, gpus: i64) -> tuple[str, int]:
    """The model itself, and the size that a job which trains it asks for; as `sized` names it."""
    name, _, requested = model.partition(SIZED)
    return name, int(requested or gpus)
