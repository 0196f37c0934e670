"""What a policy says of itself: its row of `dally policies`, its parameters, and how it is built."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature, signature
from typing import Any, Final, NamedTuple

from dally.cluster.links import Network
from dally.cluster.topology import Topology
from dally.errors import InputError
from dally.policies.base import Param, Policy
from dally.policies.settings import Settings

NOTHING: Final = "nothing"  # what a policy needs to know
DURATIONS: Final = "durations"
BEST_FIT: Final = "best fit"
KINDS: Final = (float, int, str, bool)  # of parameters


# Settings, the machines, their network, and the sets of types that jobs may mix.
OverTypes = Callable[[Settings, Topology, Network | None, list[str]], Policy]


class NamedPolicy(NamedTuple):
    """A row of `dally policies`."""

    name: str
    build: Callable[[Settings], Policy]
    order: str
    placement: str
    preemption: str
    needs: str
    paper: str
    params: tuple[Param, ...] = ()
    source: str = ""  # the distribution that brings it; empty: Dally itself
    files: tuple[str, ...] = ()  # parameters that name a file
    over_types: OverTypes | None = None  # builds it for a cluster of several types of GPU that it sees at once
    in_all: bool = True  # whether `--policies all` stands for it too


def declared(name: str, what: object) -> NamedPolicy:
    """The row of a Policy subclass, or of a declaration, under that name; InputError if it is neither."""
    if isinstance(what, NamedPolicy):
        return what._replace(name=name)
    if not isinstance(what, type) or not issubclass(what, Policy):
        raise InputError(f"{name}: is no subclass of dally.Policy")
    if what.schedule is Policy.schedule:
        raise InputError(f"{name}: has no method schedule(now, queue, cluster), which every policy must have")
    params = _params_of(name, what)
    about = (what.__doc__ or "").strip().partition("\n")[0]

    def build(settings: Settings) -> Policy:
        try:
            return what(**settings)
        except InputError:
            raise
        except Exception as error:
            raise InputError(f"{name}: its constructor failed: {type(error).__name__}: {error}") from None

    return NamedPolicy(name, build, about, "", "", "", "", params)


def _params_of(name: str, policy: type[Policy]) -> tuple[Param, ...]:
    """The parameters in PARAMS; without it, keywords of the constructor whose defaults are plain values."""
    takes = _constructor(policy)
    stated = getattr(policy, "PARAMS", None)
    if stated is None:
        params = [_param(item) for item in takes.parameters.values() if type(item.default) in KINDS]
    else:
        params = list(stated)
        if not all(isinstance(item, Param) and type(item.default) in KINDS for item in params):
            raise InputError(f"{name}: PARAMS must be dally.Param, each with a default")
    try:
        takes.bind(**{item.name: item.default for item in params})
    except TypeError as error:
        hint = "every parameter needs a default, and a place in __init__ if PARAMS names it"
        raise InputError(f"{name}: its constructor cannot be called: {error}; {hint}") from None
    return tuple(params)


def _constructor(policy: type[Policy]) -> Signature:
    """What calling the class takes, without self."""
    if policy.__init__ is object.__init__:
        return Signature()
    try:
        return signature(policy)
    except ValueError:  # the compiled constructor of a base, which states no defaults
        return Signature([Parameter("settings", Parameter.VAR_KEYWORD)])


def _param(item: Parameter) -> Param:
    """A keyword of the constructor as a parameter; any number is accepted, a float may be stated as 600."""
    default: Any = item.default
    if type(default) is int and item.annotation in (float, "float"):
        default = float(default)
    return Param(item.name, default, "", -float("inf"))
