"""The catalogue against what was published, and how profiles are found and scaled."""

from __future__ import annotations

import csv
import gzip
import math
import re
from pathlib import Path
from typing import Any

import pytest

from dally.errors import InputError
from dally.perf.catalogue import Model, read_catalogue
from dally.perf.profiles import SHIPPED, find_model, find_profile, load_profiles, shipped
from tests.perf.architectures import ARCHITECTURES, last_bucket_bytes, skew

ROOT = Path(__file__).parents[2]
SHARED = next((path for path in (ROOT / "shared", ROOT.parent / "shared") if path.is_dir()), ROOT / "shared")
FACTS = SHARED / "reference" / "model_facts.csv.gz"
TRACES = SHARED / "traces"
BENCHMARK = ("MobileNet", "ResNet-50", "AlexNet", "Transformer", "VGG-16", "ViT-L", "BERT-large", "GPT-2 XL")
PARTLY_REPLICATED = {"mixtral-8x7b", "dlrm"}  # not all of their parameters are all-reduced by one GPU


def facts(kind: str) -> list[dict[str, str]]:
    if not FACTS.exists():
        pytest.skip("the reference measurements are not here")
    with gzip.open(FACTS, "rt", encoding="utf-8") as file:
        return [row for row in csv.DictReader(file) if row["kind"] == kind]


def sourced() -> list[tuple[str, str, str]]:
    """(model, figure, source) of the whole catalogue."""
    found = [
        (model.name, field, source)
        for model in shipped().models.values()
        for field, source in model.sources.items()
    ]
    found += [(model.name, "compute", row.source) for model in shipped().models.values() for row in model.compute]
    return found + [(gpu.name, "speed", gpu.source) for gpu in shipped().gpus.values()]


def test_the_catalogue_reaches_from_alexnet_to_70_billion() -> None:
    models = shipped().models.values()
    assert len(models) >= 18
    assert min(model.params for model in models) < 5e6
    assert max(model.params for model in models) > 65e9
    assert any(model.all_to_all_bytes_per_sample for model in models)


@pytest.mark.parametrize("name", BENCHMARK)
def test_the_benchmarks_models_are_there(name: str) -> None:
    assert find_profile(name).compute_s > 0


@pytest.mark.parametrize("name", list(shipped().models))
@pytest.mark.parametrize("gpu", ["v100", "a100", "h100", "h200"])
def test_every_model_has_a_profile_on_the_usual_gpus(name: str, gpu: str) -> None:
    profile = find_profile(name, gpu)
    assert profile.backward_s >= profile.forward_s > 0
    assert 0 < profile.last_bucket_bytes <= profile.all_reduce_bytes <= profile.gradient_bytes


def test_faster_gpus_are_faster() -> None:
    for name in shipped().models:
        times = [find_profile(name, gpu).compute_s for gpu in ("v100", "a100", "h100")]
        assert times == sorted(times, reverse=True), name


def test_every_figure_names_its_source() -> None:
    for name, field, source in sourced():
        assert len(source) >= 15, (name, field)
        told = source.removeprefix("estimate: ").removeprefix("computed: ")
        assert len(told) >= 15, (name, field)
    for model in shipped().models.values():
        assert {"params", "gradient_bytes", "last_bucket_bytes", "skew", "batch"} <= set(model.sources)
        assert bool(model.all_to_all_bytes_per_sample) == ("all_to_all" in model.sources)
        assert (model.tensor_parallel * model.pipeline_parallel > 1) == ("parallelism" in model.sources)


@pytest.mark.parametrize("name", sorted(set(shipped().models) - PARTLY_REPLICATED))
def test_gradient_bytes_follow_from_parameters(name: str) -> None:
    model = shipped().models[name]
    assert model.gradient_bytes == {"fp32": 4 * model.params, "fp16": 2 * model.params}


@pytest.mark.parametrize("name", list(ARCHITECTURES))
def test_computed_figures_follow_from_the_architecture(name: str) -> None:
    model, tensors = shipped().models[name], ARCHITECTURES[name]()
    if name != "dlrm":
        assert model.params == pytest.approx(sum(tensors), rel=0.05)
        assert model.skew == pytest.approx(skew(tensors), abs=1e-4)
    assert model.last_bucket_bytes == {
        "fp32": last_bucket_bytes(tensors, 4),
        "fp16": last_bucket_bytes(tensors, 2),
    }


def test_vision_architectures_match_to_the_parameter() -> None:
    vision = [model for model in shipped().models.values() if model.kind == "vision"]
    assert len(vision) == 10
    for model in vision:
        assert sum(ARCHITECTURES[model.name]()) == model.params


def test_mixtral_and_dlrm_all_reduce_what_they_replicate() -> None:
    experts = 32 * 8 * 3 * 4096 * 14336
    mixtral = shipped().models["mixtral-8x7b"]
    assert mixtral.gradient_bytes["fp16"] == 2 * (mixtral.params - experts + experts // 8)
    assert shipped().models["dlrm"].gradient_bytes["fp32"] == 4 * sum(ARCHITECTURES["dlrm"]())


def test_parameters_equal_the_published_ones() -> None:
    spelled = {"ViT_L_16": "vit-l", "T5-Large": "t5-large"}
    compared = 0
    for row in facts("params"):
        try:
            model = find_model(spelled.get(row["model"], row["model"]))
        except InputError:
            continue
        if model.name not in ("t5-large", "bert-base") or row["model"] in ("T5-Large", "BERT-base"):
            assert model.params == int(row["params"]), row["model"]
            assert model.gradient_bytes["fp32"] == int(row["grad_bytes_fp32"]), row["model"]
            compared += 1
    assert compared >= 14


def test_skew_is_near_what_tiresias_lists() -> None:
    for row in facts("tensor_skew"):
        if row["model"] in ("alexnet", "vgg16", "resnet50", "inception3"):
            assert find_model(row["model"]).skew == pytest.approx(float(row["ratio"]), abs=0.05)


@pytest.mark.parametrize(
    ("name", "gpu", "precision", "batch", "kind", "cited", "share"),
    [
        ("bert-base", "a100", "amp", 320, "compute", ("bert_base_squad", "A100 80GB SXM4", "fp16", "1"), 1.0),
        (
            "bert-base",
            "v100",
            "amp",
            48,
            "compute",
            ("bert_base_squad", "LambdaCloud V100 16GB", "fp16", "1"),
            1.0,
        ),
        ("bert-base", "h100", "amp", 320, "compute", ("bert_base_squad", "H100 80GB SXM5", "fp16", "1"), 1.0),
        ("bert-base", "a100", "fp32", 172, "compute", ("bert_base_squad", "A100 80GB SXM4", "fp32", "1"), 1.0),
        (
            "bert-large",
            "v100",
            "amp",
            8192,
            "compute",
            ("BERT-large pretrain", "V100-32GB DGX-1", "AMP", "1"),
            1.0,
        ),
        ("dlrm", "a100", "amp", 65536, "compute", ("DLRM small", "A100-80GB", "AMP", "1"), 1.0),
        ("dlrm", "v100", "amp", 65536, "compute", ("DLRM small", "V100-32GB", "AMP", "1"), 1.0),
        (
            "transformer-big",
            "a100",
            "amp",
            10240,
            "scaling",
            ("Transformer (big, translation)", "A100", "AMP", "1"),
            1.0,
        ),
        ("gpt-7b", "h100", "bf16", 6, "scaling", ("MPT/Llama-like 7b", "h100_80gb", "amp_bf16", "8"), 1.0),
        ("gpt-7b", "a100", "bf16", 6, "scaling", ("MPT/Llama-like 7b", "a100_80gb", "amp_bf16", "8"), 1 / 2),
        ("gpt-13b", "a100", "bf16", 2, "scaling", ("MPT/Llama-like 13b", "a100_80gb", "amp_bf16", "8"), 1 / 3),
        (
            "llama2-70b",
            "h100",
            "bf16",
            8,
            "scaling",
            ("MPT/Llama-like 70b", "h100_80gb", "amp_bf16", "64"),
            1.0634 / 4,
        ),
    ],
)
def test_times_equal_the_cited_row(
    name: str, gpu: str, precision: str, batch: int, kind: str, cited: tuple[str, str, str, str], share: float
) -> None:
    """Within 1 %: sources round."""
    rows = [row for row in facts(kind) if (row["model"], row["gpu"], row["precision"], row["n_gpus"]) == cited]
    assert len(rows) == 1
    expected = float(rows[0]["iter_ms"]) / 1e3 * share
    assert find_profile(name, gpu, batch, precision).compute_s == pytest.approx(expected, rel=0.01)


def test_resnet50_matches_its_published_throughput() -> None:
    alike = ("ResNet50 v1.5", "1", "AMP")
    cited = [row for row in facts("scaling") if (row["model"], row["n_gpus"], row["precision"]) == alike]
    rows = {row["gpu"]: row for row in cited}
    for gpu, row in (("a100", rows["A100-80GB DGX A100"]), ("v100", rows["V100-16GB DGX-1"])):
        profile = find_profile("resnet50", gpu)
        assert profile.batch / profile.compute_s == pytest.approx(float(row["throughput"]), rel=0.001)


def test_speeds_of_gpus_follow_from_the_cited_rows() -> None:
    rows = {
        (row["model"], row["gpu"], row["precision"]): float(row["throughput"])
        for row in facts("compute")
        if row["source"].startswith("lambdal/") and row["n_gpus"] == "1"
    }
    measured = {
        "vision": ("resnet50", "ssd"),
        "language": ("bert_base_squad", "bert_large_squad", "gnmt", "transformerxlbase", "transformerxllarge"),
        "recommendation": ("ncf",),
    }
    for gpu, label in (("v100", "LambdaCloud V100 16GB"), ("h100", "H100 80GB SXM5")):
        for kind, models in measured.items():
            for arithmetic, precision in (("amp", "fp16"), ("fp32", "fp32")):
                ratios = [rows[m, label, precision] / rows[m, "A100 80GB SXM4", precision] for m in models]
                mean = math.prod(ratios) ** (1 / len(ratios))
                assert shipped().gpus[gpu].speed[kind][arithmetic] == pytest.approx(mean, abs=1e-4)


@pytest.mark.parametrize("file", ["paper_batch500.csv", "paper_poisson_week.csv", "lingjun_model_gpu_mix.csv"])
def test_names_in_traces_are_known(file: str) -> None:
    if not (TRACES / file).exists():
        pytest.skip("the traces are not here")
    with (TRACES / file).open(encoding="utf-8") as lines:
        names = {row["model"] for row in csv.DictReader(lines)}
    assert names
    for name in names:
        find_model(name)


@pytest.mark.parametrize(
    ("spelled", "name"),
    [
        ("ResNet-50", "resnet50"), ("RESNET_50", "resnet50"), ("MobileNetV3", "mobilenet-v3-large"),
        ("inception3", "inception-v3"), ("VGG", "vgg16"), ("BERT", "bert-base"), ("gpt2-XL", "gpt2-xl"),
        ("ViT-L/16", "vit-l"), ("llama_30b", "llama-30b"), ("Llama-2-70B", "llama2-70b"),
    ],
)  # fmt: skip
def test_names_are_found_however_spelled(spelled: str, name: str) -> None:
    assert find_model(spelled).name == name


def test_other_batches_are_scaled_in_proportion_and_called_estimates() -> None:
    measured, half = find_profile("resnet50"), find_profile("resnet50", batch=128)
    assert half.compute_s == pytest.approx(measured.compute_s / 2)
    assert half.gradient_bytes == measured.gradient_bytes
    assert not measured.sources["compute"].startswith("estimate:")
    assert half.sources["compute"].startswith("estimate: scaled from a batch of 256; ")


def test_other_gpus_are_scaled_by_their_speed_and_called_estimates() -> None:
    a100, h100 = find_profile("vit-l", "a100"), find_profile("vit-l", "H100")
    assert a100.compute_s / h100.compute_s == pytest.approx(1.6803)
    assert h100.sources["compute"].startswith("estimate: rtx3090 × 0.2935; ")


def test_forward_and_backward_are_kept_apart_where_published() -> None:
    profile = find_profile("vgg16", "v100", 16, "fp16")
    assert (profile.forward_s, profile.backward_s) == pytest.approx((0.0126, 0.0462))
    assert find_profile("resnet50").forward_s == pytest.approx(find_profile("resnet50").compute_s / 3)


@pytest.mark.parametrize(("precision", "bytes_each"), [("fp32", 4), ("amp", 4), ("fp16", 2), ("bf16", 2)])
def test_precision_sets_what_travels(precision: str, bytes_each: int) -> None:
    profile = find_profile("resnet50", precision=precision)
    assert profile.precision == precision
    assert profile.gradient_bytes == bytes_each * profile.params


def test_all_to_all_grows_with_the_batch() -> None:
    assert find_profile("dlrm", batch=8192).all_to_all_bytes == 8192 * 2 * 26 * 128 * 2
    assert find_profile("resnet50").all_to_all_bytes == 0


def test_a_large_model_is_split_over_its_replica() -> None:
    profile = find_profile("llama2-70b")
    assert (profile.tensor_parallel, profile.pipeline_parallel, profile.replica_gpus) == (8, 4, 32)
    assert profile.all_reduce_bytes == profile.gradient_bytes // 32


@pytest.mark.parametrize(
    ("gpus", "degrees"),
    [(64, (8, 4)), (32, (8, 4)), (16, (8, 2)), (12, (4, 1)), (8, (8, 1)), (6, (2, 1)), (1, (1, 1))],
)
def test_degrees_divide_the_gang(gpus: int, degrees: tuple[int, int]) -> None:
    profile = find_profile("llama2-70b").on(gpus)
    assert (profile.tensor_parallel, profile.pipeline_parallel) == degrees
    assert gpus % profile.replica_gpus == 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"name": "resnet5"}, "unknown model 'resnet5'; did you mean 'resnet50'?"),
        ({"name": "?"}, "unknown model '?'; known: alexnet, vgg16,"),
        ({"name": "vit-l", "gpu": "a10"}, "unknown GPU type 'a10'; did you mean 'a100'?"),
        ({"name": "vit-l", "precision": "fp32"}, "model 'vit-l' has no times in fp32; it has amp"),
        ({"name": "vit-l", "precision": "fp8"}, "precision 'fp8': must be one of fp32, amp, fp16, bf16"),
        ({"name": "vit-l", "batch": 0}, "batch 0: must be at least 1"),
        (
            {"name": "bert-large", "gpu": "rtx3090"},
            "no time of 'bert-large' on 'rtx3090', and no speed for language in amp",
        ),
    ],
)
def test_what_is_not_there_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        find_profile(**given)


ABOUT_THE_MODEL = ("params", "skew", "last_bucket", "kind", "compute", "parallelism", "aliases")
EXAMPLE = re.findall(r"```toml\n(.*?)```", (ROOT / "docs" / "models.md").read_text(encoding="utf-8"), re.DOTALL)[0]


def written(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_documented_example_works(tmp_path: Path) -> None:
    catalogue = load_profiles(written(tmp_path, EXAMPLE))
    profile = find_profile("Ranker", catalogue=catalogue)
    assert (profile.name, profile.forward_s, profile.backward_s) == ("our-ranker", 0.055, 0.105)
    assert profile.all_reduce_bytes == 400_000_000
    assert find_profile("ranker", "our-gpu", catalogue=catalogue).forward_s == pytest.approx(0.055 / 0.8)
    assert find_profile("resnet50", catalogue=catalogue) == find_profile("resnet50")


def test_ones_own_model_replaces_the_shipped_one(tmp_path: Path) -> None:
    catalogue = load_profiles(written(tmp_path, EXAMPLE.replace("our-ranker", "ResNet-50")))
    assert find_model("resnet50", catalogue).params == 400_000_000
    assert "resnet50" not in catalogue.models
    assert find_model("vgg16", catalogue) is shipped().models["vgg16"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("value = 400_000_000", "value = -1", "params.value: -1: must be a whole number, at least 1"),
        ("value = 400_000_000, ", "", "params.value: missing: must be a whole number"),
        (', source = "our model card"', "", "params.source: missing: must be text"),
        ('source = "measured on one A100-80GB, 2024-05-02"', "", "compute[0]: source: missing: must be text"),
        ("value = 0.08", "value = 1.5", "skew.value: 1.5: must be at most 1"),
        ("value = 0.08", "value = nan", "skew.value: nan: must be a number greater than 0"),
        (
            "fp32 = 125_000_000",
            "fp32 = 2_000_000_000",
            "last_bucket_bytes.fp32: 2000000000: must not exceed gradient_bytes",
        ),
        (
            'kind = "language"',
            'kind = "audio"',
            "kind: 'audio': must be one of vision, language, recommendation",
        ),
        (
            'precision = "bf16"',
            'precision = "fp8"',
            "compute[0]: precision: 'fp8': must be one of fp32, amp, fp16, bf16",
        ),
        ("forward_s = 0.055", "iteration_s = 0.16", "compute[0]: iteration_s: 0.16: give either this or"),
        ("forward_s = 0.055", "forward = 0.055", "compute[0]: forward: 0.055: unknown; known: gpu,"),
        ("tensor = 2", "tensor = true", "parallelism.tensor: True: must be a whole number, at least 1"),
        ('aliases = ["ranker"]', 'aliases = "ranker"', "aliases: 'ranker': must be a list of names"),
        ('name = "our-ranker"', 'name = "-"', "-: name: '-': must hold a letter or a digit"),
        ("skew = {", "skew = 3 # {", "skew: 3: must be a table such as"),
        ("[[models.compute]]", "[[models.computes]]", "computes: "),
        ("[[models]]", "[models]", "models: write each as a [[models]] table"),
        ("[[gpus]]", "[[gpu]]", "gpu: unknown; known: gpus, models"),
        ("amp = 0.8", "amp = 0", "our-gpu: language.amp: 0: must be a number greater than 0"),
        ("[[models]]", "[[models", "Expected ']]' at the end of an array declaration"),
    ],
)
def test_broken_entries_are_refused_by_file_model_field_and_value(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    assert old in EXAMPLE
    path = written(
        tmp_path, EXAMPLE.replace(old, new, 1) if old != "[[models]]" else _without_compute(EXAMPLE, old, new)
    )
    with pytest.raises(InputError) as caught:
        read_catalogue(path)
    assert str(caught.value).startswith(f"{path}:")
    assert message in str(caught.value)
    assert "our-ranker" in str(caught.value) or not message.startswith(ABOUT_THE_MODEL)


def _without_compute(text: str, old: str, new: str) -> str:
    return re.sub(r"\[\[models\.compute\]\].*?(?=\[\[gpus)", "", text, flags=re.DOTALL).replace(old, new, 1)


def test_no_compute_and_two_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=re.escape("our-ranker: compute: missing: give one or more [[models.compute]]")
    ):
        read_catalogue(written(tmp_path, _without_compute(EXAMPLE, "", "")))
    twice = EXAMPLE + EXAMPLE.split("[[gpus]]")[0]
    with pytest.raises(InputError, match="name 'our-ranker': is taken already by 'our-ranker'"):
        read_catalogue(written(tmp_path, twice))


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_catalogue(tmp_path / "none.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(InputError, match="UTF-8"):
        read_catalogue(tmp_path / "bytes.toml")


def test_the_shipped_file_is_read_once_and_plainly_named() -> None:
    assert shipped() is shipped()
    assert SHIPPED.suffix == ".toml"
    for name, model in shipped().models.items():
        assert isinstance(model, Model)
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name)
