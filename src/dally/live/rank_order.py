"""A gang's machines in the order of its ranks: for large models, the assignment that their speed comes from."""

from __future__ import annotations

from dally.cluster.links import Network
from dally.live.backends.base import Placement
from dally.model import Allocation, Profile
from dally.perf.gang import gang_on
from dally.perf.llm.placed import Groups


def in_rank_order(placement: Placement, allocation: Allocation, network: Network, profile: Profile) -> Placement:
    """The placement with its machines as ranks come to them; as it is where the model states no groups.

    Ranks go machine by machine along a placement, so a machine comes where its first rank does.
    """
    groups = profile.groups
    if not isinstance(groups, Groups) or len(placement) < 2:
        return placement
    return {name: placement[name] for name in dict.fromkeys(rank_machines(groups, allocation, network))}


def rank_machines(groups: Groups, allocation: Allocation, network: Network) -> list[str]:
    """The machine of each rank."""
    placed = groups.placed(network, gang_on(network, allocation.machines, allocation.gpus))
    return [network.topology.names[0][int(placed.site.machines[place])] for place in placed.ranks.places]
