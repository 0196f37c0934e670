"""JobSpec is frozen, although its own `__init__` fills it as quickly as a class that is not."""

from __future__ import annotations

import inspect
import pickle
from dataclasses import FrozenInstanceError, fields, replace

import pytest

from dally import job_spec
from dally.job_spec import JobSpec, spec_maker


def test_it_is_what_a_frozen_dataclass_is() -> None:
    spec = JobSpec(8, user="ada", limit_s=60.0)
    assert isinstance(spec, JobSpec)
    assert repr(spec).startswith("JobSpec(gpus=8, gpu_type='', ")
    assert (spec.gpus, spec.user, spec.limit_s, spec.group) == (8, "ada", 60.0, 1)
    assert spec == JobSpec(8, "", 1, user="ada", limit_s=60.0) != JobSpec(8)
    assert hash(spec) == hash(replace(spec))
    assert spec_maker("limit_s", "gpus", "user")(60.0, 8, "ada") == spec
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert list(inspect.signature(JobSpec).parameters) == [field.name for field in fields(JobSpec)]
    with pytest.raises(FrozenInstanceError):
        spec.gpus = 4  # type: ignore[misc]


def test_those_who_state_much_have_all_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_spec, "_MOST_SHAPES", 0)
    spec = JobSpec(qos="high", exclude="n1", gpus=2)
    assert (spec.qos, spec.exclude, spec.gpus, spec.group) == ("high", "n1", 2, 1)
    assert spec == JobSpec(2, exclude="n1", qos="high")
    assert pickle.loads(pickle.dumps(spec)) == spec


@pytest.mark.parametrize("facts", [{}, {"gpus": 1, "no_such_fact": 2}])
def test_wrong_fields_are_refused(facts: dict[str, int]) -> None:
    with pytest.raises(TypeError, match=r"JobSpec.__init__\(\)"):
        JobSpec(**facts)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="multiple values for argument 'gpu_type'"):
        JobSpec(1, "a100", gpu_type="h100")  # type: ignore[misc]
