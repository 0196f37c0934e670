"""All policies by name: ours, those of a user's file or process, and those that other distributions bring."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from dally.cluster.links import Network
from dally.cluster.topology import Topology
from dally.entry_points import code_digest, installed, load_all, the_one
from dally.errors import InputError, unknown
from dally.policies import combinations, paper_dally_variants, tiresias
from dally.policies.a_srpt import A_SRPT
from dally.policies.ada_srsf import ADA_SRSF
from dally.policies.arnold import ARNOLD
from dally.policies.as_coded import GANDIVA_AS_CODED, TIRESIAS_AS_CODED
from dally.policies.backfill import EASY
from dally.policies.base import Policy
from dally.policies.choices.model_file import LEARNED
from dally.policies.dally.declared import DALLY
from dally.policies.declaration import NamedPolicy, declared
from dally.policies.gandiva import GANDIVA
from dally.policies.gavel import GAVEL
from dally.policies.goodput.pollux import POLLUX
from dally.policies.goodput.sia import SIA
from dally.policies.here import find_here
from dally.policies.monkeytree import MONKEYTREE
from dally.policies.settings import settings_for
from dally.policies.slurm.slurm_backfill import SLURM_BACKFILL
from dally.policies.user_file import load_named, split_file

GROUP: Final = "dally.policies"  # of entry points
USUAL_POLICY: Final = "dally"  # where none is named

# In the order of `dally policies`.
DECLARED: Final = (
    combinations.FIFO,
    combinations.FIFO_BACKFILL,
    EASY,
    combinations.SJF,
    combinations.SRTF,
    combinations.SRSF,
    combinations.LAS,
    tiresias.TIRESIAS,
    tiresias.TIRESIAS_GITTINS,
    GANDIVA,
    combinations.THEMIS,
    GAVEL,
    POLLUX,
    SIA,
    SLURM_BACKFILL,
    combinations.SLURM_SWITCHES,
    combinations.KUEUE_PREFERRED,
    combinations.KUEUE_REQUIRED,
    combinations.LWF,
    ADA_SRSF,
    A_SRPT,
    MONKEYTREE,
    ARNOLD,
    DALLY,
    paper_dally_variants.DALLY_PAPER,
    paper_dally_variants.DALLY_PAPER_MANUAL,
    paper_dally_variants.DALLY_PAPER_NOWAIT,
    paper_dally_variants.DALLY_PAPER_CONSOLIDATED,
    TIRESIAS_AS_CODED,
    GANDIVA_AS_CODED,
    LEARNED,
)
POLICIES: Final[dict[str, NamedPolicy]] = {policy.name: policy for policy in DECLARED}


def find(name: str) -> NamedPolicy:
    """The policy of that name or of that `file.py:Class`, or an InputError that suggests the nearest name."""
    here = find_here(name)
    if here is not None:
        return here
    if name in POLICIES:
        return POLICIES[name]
    if policy_file(name):
        return declared(name, load_named(name))
    named = _installed(name)
    if named is None:
        raise unknown("policy", name, [*POLICIES, *installed(GROUP)])
    return named


def is_policy(name: str) -> bool:
    """Whether `find` would look for a policy under it; nothing is loaded."""
    return name in POLICIES or bool(policy_file(name)) or name in installed(GROUP)


def all_policies() -> tuple[dict[str, NamedPolicy], list[str]]:
    """Ours and those of other distributions by name, and what is wrong with those that cannot be used."""
    others, problems = load_all(GROUP, POLICIES, _installed)
    return {**POLICIES, **others}, problems


def _installed(name: str) -> NamedPolicy | None:
    entry = the_one(GROUP, name)
    if entry is None:
        return None
    try:
        return declared(name, entry.load())._replace(source=entry.distribution)
    except InputError as error:
        raise entry.refused(str(error)) from None


def build(name: str, settings: Mapping[str, str] | None = None) -> Policy:
    """A new policy of that name with these settings, as `--set` gives them."""
    return _build(find(name), settings or {})


def build_over_types(
    name: str, settings: Mapping[str, str], topology: Topology, network: Network | None, mixed: list[str]
) -> Policy | None:
    """A new policy that sees all types of GPU at once; None if that one is built for every type by itself."""
    named = find(name)
    if named.over_types is None:
        return None
    policy = named.over_types(settings_for(named.name, named.params, settings), topology, network, mixed)
    policy.registered_name = named.name
    return policy


def policy_of(policy: str | type[Policy] | Policy, settings: Mapping[str, object] | None = None) -> Policy:
    """A policy from its name, from its class, or as it is: an object of any class has its settings already."""
    if isinstance(policy, Policy):
        if settings:
            raise InputError(f"settings {', '.join(settings)}: are for a policy's name or class, not for an object")
        return policy
    named = find(policy) if isinstance(policy, str) else declared(policy.__name__, policy)
    return _build(named, {key: str(value) for key, value in (settings or {}).items()})


def _build(named: NamedPolicy, settings: Mapping[str, str]) -> Policy:
    policy = named.build(settings_for(named.name, named.params, settings))
    policy.registered_name = named.name
    return policy


def periods_s(name: str, settings: Mapping[str, str]) -> dict[str, float]:
    """The settings that say how often the policy decides anew, in seconds."""
    named = find(name)
    values = settings_for(named.name, named.params, settings)
    return {param.name: float(values[param.name]) for param in named.params if param.period}


def policy_file(name: str) -> str:
    """The file of a policy that is named `file.py:Class`; empty if it is named otherwise."""
    return split_file(name)[0]


def setting_files(name: str, settings: Mapping[str, str]) -> dict[str, str]:
    """The files that settings of a policy of ours name, by parameter."""
    row = POLICIES.get(name)
    return {key: settings[key] for key in row.files if settings.get(key)} if row is not None else {}


def installed_code(name: str) -> str:
    """What tells the code of a policy of another distribution, or of this process; empty for all others."""
    here = find_here(name)
    if here is not None:
        return here.source
    return "" if name in POLICIES or policy_file(name) else code_digest(GROUP, name)


@dataclass(frozen=True)
class Built:
    """A policy of that name, as often as it is called."""

    name: str
    settings: dict[str, str]

    def __call__(self) -> Policy:
        return build(self.name, self.settings)
