"""A large model on a placement: ranks assigned to GPUs, what its groups ask of links, and what stays exposed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from librt.vecs import vec
from mypy_extensions import i64

from dally.cluster.links import ALIGNED, SHUFFLED, Network
from dally.perf.costs import Cost
from dally.perf.gang import Gang
from dally.perf.iteration import Demand
from dally.perf.llm.group_rates import GroupRates
from dally.perf.llm.layout import SHARDED_WEIGHTS, Layout
from dally.perf.llm.rank_assignment import (
    KINDS,
    GangSite,
    Ranks,
    assign,
    crossing,
    group_size,
    in_machine_order,
    members,
    site_of,
)
from dally.perf.llm.slice_site import CROSSED_ON_TORUS, slice_site
from dally.perf.llm.step import HIDDEN_SHARE, LayoutModel, StepParts


class PlacedGroups(NamedTuple):
    """The ranks' assignment, the parts of the step, and the highest tier that each kind of group crosses."""

    site: GangSite
    ranks: Ranks
    parts: StepParts
    crossed: dict[str, str]  # by kind; kinds that stay in their machines are left out


class Groups:
    """A layout of a model, priced on any placement. What `Profile.groups` holds."""

    def __init__(self, model: LayoutModel, layout: Layout) -> None:
        self.model = model
        self.layout = layout

    def compute_s(self, rates: GroupRates | None = None) -> float:
        """Seconds of a step without communication, with its part of the bubble: the same on any placement."""
        parts = self.model.step(self.layout, rates)
        work_s = parts.products_s + parts.attention_s + parts.memory_s + parts.fixed_s
        slots = (self.layout.pp - 1) / self.layout.vpp
        return work_s * (1.0 + slots / self.layout.micro_batches) + parts.optimizer_s

    def placed(self, network: Network, gang: Gang) -> PlacedGroups:
        """The best assignment of ranks on that placement, with what it costs."""
        torus = network.torus
        site = site_of(network, gang) if torus is None else slice_site(network, torus, gang)
        layout = self.layout
        ranks = self._ranks(network, site)
        names = network.topology.tiers if torus is None else CROSSED_ON_TORUS
        crossed: dict[str, str] = {}
        for tier, domains in enumerate(site.domains):
            for kind in KINDS if names[tier] else ():
                if group_size(layout, kind) > 1:
                    crossed_here = crossing(members(layout, kind), domains[ranks.places], len(site.links[tier]))
                    if crossed_here is not None:
                        crossed[kind] = names[tier]
        return PlacedGroups(site, ranks, self.model.step(layout, ranks.rates), crossed)

    def _ranks(self, network: Network, site: GangSite) -> Ranks:
        layout = self.layout

        def step_s(rates: GroupRates) -> float:
            return self.model.step(layout, rates).total_s

        if network.ranks == ALIGNED:
            return assign(site, layout, step_s)
        return in_machine_order(site, layout, step_s, shuffled=network.ranks == SHUFFLED)

    def demand(self, network: Network, gang: Gang) -> Demand:
        """What the step asks of compute and links there."""
        placed = self.placed(network, gang)
        layout, rates = self.layout, placed.ranks.rates
        compute_s = self.compute_s(rates)
        gather_s = self.model.gather_s(layout, rates)
        first_s = self.model.first_s(layout, rates)
        data_s = gather_s * self.model.gathers(layout)
        late_s = self.model.late_s(layout, rates, *self.model.passes_s(layout, rates)) - first_s
        exposed_s = max(placed.parts.total_s - compute_s - late_s, 0.0)
        window_s = data_s - late_s if late_s > 0.0 else self._window_s(rates)
        window_s = min(window_s, compute_s)
        comm_s = data_s + exposed_s
        cost = self._cost(placed, comm_s)
        share = exposed_s / comm_s if comm_s > 0.0 else 0.0
        return Demand(compute_s - window_s, window_s, cost, share)

    def _window_s(self, rates: GroupRates) -> float:
        """Compute under which replicas' traffic may hide."""
        forward_s, backward_s = self.model.passes_s(self.layout, rates)
        if self.layout.zero >= SHARDED_WEIGHTS:
            return self.layout.micro_batches * (forward_s + backward_s)
        return HIDDEN_SHARE * (forward_s + backward_s)

    def _cost(self, placed: PlacedGroups, comm_s: float) -> Cost:
        """Seconds of each link that the groups cross, and the rest of the communication."""
        cost = Cost()
        cost.algorithm = "groups"
        links, seconds = self._link_seconds(placed)
        busiest = float(seconds.max()) if len(seconds) else 0.0
        if busiest > comm_s:  # most of it hides under products of the same layer
            seconds = seconds * (comm_s / busiest)
            busiest = comm_s
        cost.links = vec[i64]([int(link) for link in links])
        cost.seconds = vec[float]([float(value) for value in seconds])
        cost.fixed_s = comm_s - busiest
        return cost

    def _link_seconds(self, placed: PlacedGroups) -> tuple[list[int], np.ndarray]:
        site, layout = placed.site, self.layout
        ring_bytes = self.model.traffic(layout, placed.ranks.rates)
        links: list[int] = []
        seconds: list[float] = []
        for tier, domains in enumerate(site.domains):
            loads = np.zeros(len(site.links[tier]))
            for kind in KINDS:
                if group_size(layout, kind) == 1:
                    continue
                crossed_here = crossing(members(layout, kind), domains[placed.ranks.places], len(loads))
                if crossed_here is None:
                    continue
                if kind == "expert":
                    inside = np.bincount(domains, weights=site.gpus, minlength=len(loads))
                    loads += np.where(crossed_here.rings > 0, inside, 0.0) * ring_bytes[kind]
                else:
                    loads += crossed_here.rings * ring_bytes[kind]
            for place in np.flatnonzero(loads / site.link_rates[tier]):
                links.append(int(site.links[tier][place]))
                seconds.append(float(loads[place] / site.link_rates[tier][place]))
        order = np.argsort(links)
        return [links[place] for place in order], np.array([seconds[place] for place in order])
