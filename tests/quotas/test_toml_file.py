"""queues.toml: read, refused with the place, written and read back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dally.errors import InputError
from dally.job_spec import JobSpec
from dally.model import INFINITY, Job
from dally.quotas.toml_file import parse_queues, to_toml
from dally.quotas.tree import Budget, Makes, QueueNode, QueueTree, Quota, with_parents

EXAMPLE = """\
[queues.research]
guarantee = {A100 = 32, V100 = 8}   # of each type
limit = 64                          # of all together

[queues."research/nlp"]
guarantee = {A100 = 24}
lend_limit = {A100 = 8}
weight = 2
half_life = "36h"
min_runtime = 90
budget = {gpu_hours = 5000, window = "30d"}
match = {account = ["nlp", "speech"], user = "ada"}

[queues."research/vision"]
priority = 10
hold = true

[queues.rest]
default = true
"""
FILE = Path("queues.toml")


def job(**facts: str) -> Job:
    return Job(0, "j", 0.0, 1, 10.0, spec=JobSpec(1, **facts))  # type: ignore[arg-type]


def same(one: QueueTree, other: QueueTree) -> bool:
    def facts(tree: QueueTree) -> list[dict[str, object]]:
        return [{**vars(node), "line": None} for node in tree.nodes.values()]

    return facts(one) == facts(other)


def test_every_key(tmp_path: Path) -> None:
    file = tmp_path / "queues.toml"
    file.write_text(EXAMPLE)
    tree = parse_queues(file, file.read_text())
    assert list(tree.nodes) == ["research", "research/nlp", "research/vision", "rest"]
    assert tree.nodes["research"].quotas == {"A100": Quota(32.0), "V100": Quota(8.0), "": Quota(limit=64.0)}
    assert tree.nodes["research/nlp"] == QueueNode(
        "research/nlp",
        {"A100": Quota(24.0, INFINITY, 8.0)},
        2.0,
        0.0,
        36 * 3600.0,
        90.0,
        Budget(5000.0, 30 * 86400.0),
        False,
        {"account": ("nlp", "speech"), "user": ("ada",)},
        5,
    )
    assert tree.nodes["research/vision"].hold
    assert tree.nodes["research/vision"].priority == 10.0
    assert tree.queue_of(job(account="speech")) == "research/nlp"
    assert tree.queue_of(job(user="ada", account="other")) == "research/nlp"
    assert tree.queue_of(job(queue="research/vision", account="nlp")) == "research/vision"
    assert tree.queue_of(job(user="bob")) == "rest"


def test_reads_back_what_it_wrote() -> None:
    tree = parse_queues(FILE, EXAMPLE)
    assert same(parse_queues(FILE, to_toml(tree)), tree)
    assert to_toml(parse_queues(FILE, to_toml(tree))) == to_toml(tree)


def test_parents_nobody_wrote_are_made() -> None:
    tree = parse_queues(FILE, '[queues."a/b/c"]\nweight = 3\n[queues.d]\n[queues."a/e"]\n')
    assert list(tree.nodes) == ["a", "a/b", "a/b/c", "d", "a/e"]
    assert tree.nodes["a/b"].weight == 1.0
    assert tree.leaves() == ["a/b/c", "d", "a/e"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[teams.a]\n", "queues.toml:1: teams: unknown; known: queues, accounts"),
        ("\n[queues.a]\nwieght = 2\n", "queues.toml:3: a: wieght: 2: unknown; known: guarantee, limit,"),
        ("[queues.a]\nguarantee = -1\n", "queues.toml:2: a: guarantee: -1: must not be negative"),
        ("[queues.a]\nlimit = {A100 = 'x'}\n", "queues.toml:2: a: limit.A100: 'x': must be a number"),
        ("[queues.a.limit]\nA100 = -2\n", "queues.toml:2: a: limit.A100: -2: must not be negative"),
        ("[queues.a]\nguarantee = inf\n", "queues.toml:2: a: guarantee: inf: must be a number"),
        ("[queues.a]\nweight = 0\n", "queues.toml:2: a: weight: 0: must be more than 0"),
        ("[queues.a]\nhalf_life = 0\n", "queues.toml:2: a: half_life: 0: must be more than 0"),
        ("[queues.a]\nhalf_life = '7y'\n", "queues.toml:2: a: half_life: '7y': must be seconds, or a number with"),
        ("[queues.a]\nbudget = {gpu_hours = 5}\n", "queues.toml:2: a: budget: {'gpu_hours': 5}: must be like"),
        ("[queues.a]\nhold = 1\n", "queues.toml:2: a: hold: 1: must be true or false"),
        ("[queues.a]\nmatch = {team = 'x'}\n", "queues.toml:2: a: match.team: 'x': unknown; known: queue, account"),
        ("[queues.a]\nmatch = {user = []}\n", "queues.toml:2: a: match.user: []: must be a text"),
        ("[queues.a]\n[queues.'b//c']\n", "queues.toml:2: queues.b//c: 'b//c': must be names with /"),
        ("queues = 3\n", "queues.toml:1: queues: 3: must be a table"),
        ("", "queues.toml: queues: give a table for every queue"),
        ("[accounts]\nmake = 'team'\n", "queues.toml:2: accounts.make: 'team': must be one of queue, account"),
        ("[accounts]\nmake = 'user'\nmatch = 3\n", "queues.toml:3: accounts.match: 3: unknown; known: guarantee"),
        ("[queues.a]\nguarantee = 8\nlimit = 4\n", "queues.toml:1: a: limit: 4: below the guarantee of 8"),
        (
            "[queues.a]\nguarantee = 8\n[queues.'a/b']\nguarantee = 5\n[queues.'a/c']\nguarantee = 4\n",
            "queues.toml:1: a: guarantee: its queues are guaranteed 9 together, above the guarantee of 8",
        ),
        (
            "[queues.a]\nlimit = 8\n[queues.'a/b']\nguarantee = {A100 = 9}\n",
            "queues.toml:1: a: guarantee: its queues are guaranteed 9 together, above the limit of 8",
        ),
        (
            "[queues.a]\nmatch = {user = 'u'}\n[queues.b]\nmatch = {user = 'u'}\n",
            "queues.toml:3: b: match.user: 'u': 'a' (line 1) claims that too",
        ),
        (
            "[queues.a]\ndefault = true\n[queues.b]\ndefault = true\n",
            "queues.toml:3: b: default: true: 'a' (line 1) claims that too",
        ),
        (
            "[queues.a]\nmatch = {user = 'u'}\n[queues.'a/b']\n",
            "queues.toml:1: a: match: user 'u': jobs cannot be here: 'a/b' is below",
        ),
    ],
)
def test_refused_with_the_place(text: str, said: str) -> None:
    with pytest.raises(InputError) as error:
        parse_queues(FILE, text)
    assert str(error.value).startswith(said)


def test_a_queue_for_every_account() -> None:
    jobs = [job(account=name) for name in ("b", "a", "b", "", "x/y", "x-y")]
    tree = QueueTree([], makes=Makes("account", QueueNode("all", weight=2.0)))
    assert [tree.queue_of(each) for each in jobs] == [""] * 6, "nobody has come yet"
    assert [tree.leaf_for(each) for each in jobs] == ["all/b", "all/a", "all/b", "", "all/x-y", "all/x-y-2"]
    assert list(tree.nodes) == ["all", "all/b", "all/a", "all/x-y", "all/x-y-2"]
    assert (tree.nodes["all/a"].weight, tree.nodes["all"].weight) == (2.0, 1.0)
    assert [tree.queue_of(each) for each in jobs] == [tree.leaf_for(each) for each in jobs]


def test_accounts_are_made_of_what_no_queue_claims() -> None:
    tree = parse_queues(
        FILE, '[accounts]\nmake = "user"\nunder = "people"\nlimit = 4\n[queues.a]\nmatch = {user = "x"}\n'
    )
    assert "make" in to_toml(tree)
    assert to_toml(parse_queues(FILE, to_toml(tree))) == to_toml(tree)
    assert [tree.leaf_for(job(user=name)) for name in "xy"] == ["a", "people/y"]
    assert list(tree.nodes) == ["a", "people", "people/y"]
    assert tree.nodes["people/y"].quotas == {"": Quota(limit=4.0)}


def test_a_queue_below_which_others_are_made_holds_no_jobs() -> None:
    tree = parse_queues(FILE, '[accounts]\nmake = "user"\nunder = "people"\n[queues.people]\nlimit = 8\n')
    named = job(user="")
    named.spec = replace(named.spec, queue="people")
    assert tree.leaf_for(named) == ""
    above = parse_queues(FILE, '[accounts]\nmake = "account/user"\n[queues.nlp]\nmatch = {account = "x"}\n')
    stranger = job(user="ada", account="nlp")
    assert above.leaf_for(stranger) == "nlp-ada", "nlp claims jobs of its own"


AMOUNT = st.integers(0, 5).map(float) | st.floats(0.0, 1e6)
QUOTA = st.builds(lambda guarantee, more, lend: Quota(guarantee, guarantee + more, lend), AMOUNT, AMOUNT, AMOUNT)
NAME = st.text(min_size=1, max_size=5).filter(lambda text: text.strip() == text and "/" not in text and text != "*")
NODE = st.builds(
    QueueNode,
    st.lists(NAME, min_size=1, max_size=3).map("/".join),
    st.dictionaries(st.just("") | NAME, QUOTA, max_size=2),
    st.floats(1e-6, 1e6),
    st.floats(-1e6, 1e6),
    st.floats(1e-3, 1e8) | st.just(86400.0),
    st.floats(0.0, 1e8) | st.just(600.0),
    st.none() | st.builds(Budget, AMOUNT, st.floats(1.0, 1e9)),
    st.booleans(),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(NODE, max_size=4, unique_by=lambda node: node.path).filter(bool))
def test_any_tree_reads_back(nodes: list[QueueNode]) -> None:
    whole = with_parents(nodes)
    for node in whole:  # children's guarantees may be above their parents' here: leaves alone have quotas
        if any(other.parent.startswith(node.path) for other in whole):
            node.quotas.clear()
    tree = QueueTree(whole)
    assert same(parse_queues(FILE, to_toml(tree)), tree)
