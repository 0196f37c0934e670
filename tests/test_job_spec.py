"""JobSpec is frozen, although its own `__init__` fills it as quickly as a class that is not."""

from __future__ import annotations

import inspect
import pickle
from dataclasses import FrozenInstanceError, fields, replace

import pytest

from dally.job_spec import JobSpec


def test_it_is_what_a_frozen_dataclass_is() -> None:
    spec = JobSpec(8, user="ada", limit_s=60.0)
    assert type(spec) is JobSpec
    assert (spec.gpus, spec.user, spec.limit_s, spec.group) == (8, "ada", 60.0, 1)
    assert spec == JobSpec(8, "", 1, user="ada", limit_s=60.0) != JobSpec(8)
    assert hash(spec) == hash(replace(spec))
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert list(inspect.signature(JobSpec).parameters) == [field.name for field in fields(JobSpec)]
    with pytest.raises(FrozenInstanceError):
        spec.gpus = 4  # type: ignore[misc]


@pytest.mark.parametrize("facts", [{}, {"gpus": 1, "no_such_fact": 2}])
def test_wrong_fields_are_refused(facts: dict[str, int]) -> None:
    with pytest.raises(TypeError, match=r"JobSpec.__init__\(\)"):
        JobSpec(**facts)  # type: ignore[arg-type]
