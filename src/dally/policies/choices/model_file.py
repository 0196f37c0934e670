"""A learned policy as a file of plain numbers: which decisions, and the weights that score them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from dally.errors import InputError
from dally.input_file import read_text
from dally.parsed_text import parse_json
from dally.policies.base import Param, Policy
from dally.policies.choices.base import Choices
from dally.policies.choices.choosing_policy import ChoosingPolicy
from dally.policies.choices.inspect_choices import InspectChoices
from dally.policies.choices.inspecting_policy import InspectingPolicy
from dally.policies.choices.order_choices import OrderChoices
from dally.policies.choices.place_choices import PlaceChoices
from dally.policies.choices.scorer import Layer, Scorer
from dally.policies.choices.tune_choices import TuneChoices
from dally.policies.choices.tuning_policy import TuningPolicy
from dally.policies.declaration import NOTHING, NamedPolicy
from dally.policies.settings import Settings

FORMAT: Final = "dally-choices-1"
KINDS: Final[dict[str, type[Any]]] = {
    "order": OrderChoices,
    "place": PlaceChoices,
    "inspect": InspectChoices,
    "tune": TuneChoices,
}
MOST_NUMBERS: Final = 1_000_000


def make_choices(kind: str, options: dict[str, Any]) -> Choices:
    """The decisions of that kind; InputError for what they cannot be made with.

    Policies among the options (`base`, `candidates`) are pairs of a name and settings.
    """
    if kind not in KINDS:
        raise InputError(f"decisions {kind!r}: must be one of {', '.join(KINDS)}")
    try:
        choices: Choices = KINDS[kind](**_with_policies(options))
    except TypeError as error:
        raise InputError(f"options of {kind} decisions: {error}") from None
    return choices


def _with_policies(options: dict[str, Any]) -> dict[str, Any]:
    """The same, with policies for what names them."""
    result = {key: value for key, value in options.items() if key != "seed"}
    if "base" in result:
        result["base"] = _built("base", result["base"])()
    if "candidates" in result:
        pairs = result["candidates"]
        if not isinstance(pairs, list):
            raise InputError("candidates: must be a list of pairs of a name and settings")
        result["candidates"] = [_built(f"candidates[{place}]", pair) for place, pair in enumerate(pairs)]
    return result


def _built(where: str, pair: Any) -> Callable[[], Policy]:
    """What builds the policy, whose settings have been tried."""
    from dally.policies.registry import Built  # which imports this module

    if not isinstance(pair, (list, tuple)) or len(pair) != 2 or not isinstance(pair[1], dict):
        raise InputError(f"{where}: must be a name and settings, not {pair!r}")
    name = str(pair[0])
    if name == "learned":
        raise InputError(f"{where}: must not be a learned policy itself")
    made = Built(name, {str(key): str(value) for key, value in pair[1].items()})
    made()
    return made


def choosing_policy(choices: Choices, scorer: Scorer, options: dict[str, Any]) -> Policy:
    """The policy that decides by those scores."""
    if isinstance(choices, TuneChoices):
        seed = options.get("seed", -1)
        if type(seed) is not int:
            raise InputError(f"seed {seed!r}: must be a whole number")
        return TuningPolicy(choices, scorer, seed)
    if isinstance(choices, InspectChoices):
        return InspectingPolicy(choices, scorer)
    return ChoosingPolicy(choices, scorer)


def model_text(kind: str, options: dict[str, Any], layers: list[tuple[Any, Any]], about: dict[str, Any]) -> str:
    """The file's text; layers are (weights, biases), weights by output."""
    stated = [
        {"weights": [[float(one) for one in row] for row in weights], "biases": [float(one) for one in biases]}
        for weights, biases in layers
    ]
    columns = list(make_choices(kind, options).columns)
    content = {
        "format": FORMAT, "decisions": kind, "options": options, "columns": columns, "about": about,
        "layers": stated,
    }  # fmt: skip
    return json.dumps(content, indent=1) + "\n"


def read_model(path: Path) -> Policy:
    """The policy of that file; InputError that names what is wrong in it."""
    content = parse_json(path, read_text(path))
    if content.get("format") != FORMAT:
        raise InputError(f"{path}: format: must be {FORMAT!r}, as `dally train` writes it")
    options = content.get("options")
    if not isinstance(options, dict):
        raise InputError(f"{path}: options: must be a table")
    try:
        choices = make_choices(str(content.get("decisions")), options)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    if content.get("columns") != list(choices.columns):
        raise InputError(f"{path}: columns: are not those of this version: {', '.join(choices.columns)}")
    scorer = Scorer(_layers(path, content.get("layers"), int(choices.width)))
    return choosing_policy(choices, scorer, options)


def _layers(path: Path, stated: Any, inputs: int) -> list[Layer]:
    """The layers, each as wide as the one before says."""
    if not isinstance(stated, list) or not stated:
        raise InputError(f"{path}: layers: must be a list of one or more")
    layers = []
    for number, row in enumerate(stated):
        where = f"{path}: layers[{number}]"
        weights: Any = row.get("weights") if isinstance(row, dict) else None
        biases: Any = row.get("biases") if isinstance(row, dict) else None
        if not _numbers(biases) or not isinstance(weights, list) or len(weights) != len(biases):
            raise InputError(f"{where}: must have biases, and as many rows of weights")
        if not all(_numbers(one) and len(one) == inputs for one in weights):
            raise InputError(f"{where}: weights: must be rows of {inputs} finite numbers")
        layers.append(Layer([[float(one) for one in line] for line in weights], [float(one) for one in biases]))
        inputs = len(biases)
    if inputs != 1:
        raise InputError(f"{path}: layers: the last must have one output, not {inputs}")
    return layers


def _numbers(values: Any) -> bool:
    """Whether these are finite numbers, one at least and not too many."""
    return (
        isinstance(values, list)
        and 0 < len(values) < MOST_NUMBERS
        and all(type(one) in (int, float) and -1e30 < one < 1e30 for one in values)
    )


def untrained(choices: Choices, options: dict[str, Any]) -> Policy:
    """The policy that nobody trained: the longest wait of what fits, the closest place, the base's own way."""
    order = "place" if "place" in choices.columns else "farther"
    if isinstance(choices, TuneChoices):
        order = "is_1"  # the first candidate
    weights = [-1.0 if name == order else -10.0 if name == "decline" else 0.0 for name in choices.columns]
    return choosing_policy(choices, Scorer([Layer([weights], [0.0])]), options)


def _learned(settings: Settings) -> Policy:
    return read_model(Path(settings["model"])) if settings["model"] else untrained(OrderChoices(), {})


LEARNED: Final = NamedPolicy(
    "learned", _learned, "as its model scores", "as its model scores", "if its model preempts", NOTHING, "ours",
    (Param("model", "", "a policy.json of `dally train`; without one, the first job that fits"),),
    files=("model",), in_all=False,
)  # fmt: skip
