"""Texts of jobs that are alike, and what jobs whose texts are alike teach of each other."""

from __future__ import annotations

import pickle

import pytest

from dally.job_spec import JobSpec
from dally.model import Job
from dally.perf.alike import MOST_TEXTS, TextIndex, terms_of
from dally.perf.model_weights import TEXT, ModelWeights


def job(index: int, user: str, name: str, command_line: str = "", gpus: int = 8) -> Job:
    return Job(
        index, str(index), 0.0, gpus, 3600.0,
        spec=JobSpec(gpus, user=user, name=name, command_line=command_line),
    )  # fmt: skip


def taught() -> ModelWeights:
    """Of three models the first slows down most: BERT is like it, ResNet like the last; eight jobs of each."""
    weights = ModelWeights(3)
    for place in range(16):
        of_bert = place % 2 == 0
        name = f"bert-squad-run{place}" if of_bert else f"imagenet_{place}"
        command = "python train.py --model bert-large" if of_bert else "python main.py --arch resnet50"
        one = job(place, f"u{place}", name, command)
        slowdowns = [1.6, 1.2, 1.0]
        ln_slowdowns = [0.0, 0.0, 0.0]
        weights.measure(one, 0.0, ln_slowdowns)
        apart = 0.5 if of_bert else 0.0
        weights.measure(one, apart, [slowdown - 1.1 for slowdown in slowdowns])
        weights.forget(one)
    return weights


def test_terms_are_words_and_their_parts() -> None:
    assert terms_of("trainBert_large --arch=ResNet50 0123 v2") == [
        "trainbert", "train", "bert", "large", "arch", "resnet50", "resnet", "res", "net", "v2",
    ]  # fmt: skip
    assert terms_of("x" * 40) == []


def test_rare_terms_count_for_more() -> None:
    index = TextIndex()
    for place in range(20):
        index.add(f"python train.py --data set{chr(97 + place)}")
    index.add("sh bert.sh")
    assert [row.text for row in index.nearest("python go.py bert", 1)] == ["sh bert.sh"]
    same = index.nearest("sh bert.sh", 1)[0]
    assert same.similarity == pytest.approx(1.0)
    assert index.nearest("nothing of it", 5) == []


def test_oldest_texts_go() -> None:
    index = TextIndex()
    for place in range(MOST_TEXTS + 10):
        index.add(f"job w{place}x")
    assert len(index) == MOST_TEXTS
    assert index.nearest("w3x", 1) == []
    assert index.nearest(f"w{MOST_TEXTS}x job", 1)[0].similarity == pytest.approx(1.0)


def test_new_job_starts_from_those_with_like_texts() -> None:
    weights = taught()
    bert = weights.of(job(100, "new", "finetune", "python run.py --model bert-base"))
    resnet = weights.of(job(101, "other", "resnet_test", "python main.py --arch resnet18"))
    unlike = weights.of(job(102, "third", "zzz"))
    assert bert[0] > unlike[0] + 0.15
    assert resnet[0] < unlike[0] - 0.15


def test_what_is_kept_has_a_bound() -> None:
    weights = ModelWeights(2)
    for place in range(MOST_TEXTS + 50):
        one = job(place, "ana", f"w{place}x", gpus=8)
        weights.measure(one, 0.5, [0.5, 0.1])
        weights.measure(one, 0.0, [0.0, 0.1])
        if place > 60:
            weights.forget(job(place - 60, "ana", f"w{place - 60}x"))
    assert len(weights.saved()["classes"]) < 2 * MOST_TEXTS + 100  # each name is a class, too
    taught = sum(seen.total for name, seen in weights.classes.items() if name == "8")
    assert weights.classes[""].total == pytest.approx(taught) == pytest.approx(weights.learnt)
    assert sum(name.startswith(TEXT) for name in weights.saved()["classes"]) == MOST_TEXTS


def test_kept_and_pickled_texts_are_found_again() -> None:
    weights = taught()
    other = ModelWeights(3)
    other.restore(weights.saved())
    copied = pickle.loads(pickle.dumps(weights))
    one = job(100, "new", "bert")
    assert other.of(one) == pytest.approx(weights.of(one), abs=1e-3)
    assert copied.of(one) == weights.of(one)
