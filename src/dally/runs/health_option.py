"""What `--health` says: which machines and links are slow, which machines fail more, which racks go down."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from dally.cluster.links import Network
from dally.cluster.topology import Topology
from dally.engine.degradations import Degradations, ListedDegradations, RandomDegradations
from dally.engine.failures import Failures
from dally.engine.health_watch import HealthWatch, WatchSettings
from dally.engine.uneven_failures import LemonFailures, RackFailures, drawn_lemons
from dally.errors import InputError
from dally.perf.hidden_faults import HiddenFaults
from dally.runs.stated_numbers import read_numbers
from dally.traces.slow_episodes import read_degradations

OPTION: Final = "--health"
# By name: the usual value, the least and the largest.
VALUES: Final = {
    "stragglers": (0.0, 0.0, 0.9),
    "factor": (1.3, 1.0, 100.0),
    "links": (0.0, 0.0, 0.9),
    "link_share": (0.5, 0.001, 1.0),
    "minutes": (72.0, 0.1, 1e6),
    "lemons": (0.0, 0.0, 1e6),
    "lemon_share": (0.5, 0.0, 1.0),
    "racks": (0.0, 0.0, 1e3),
    "watch": (0.0, 0.0, 1.0),
    "act": (0.0, 0.0, 1.0),
    "most_out": (0.1, 0.0, 1.0),
    "noise": (0.05, 0.0, 1.0),
}
OF_WATCH: Final = ("watch", "act", "most_out", "noise", "lemons", "lemon_share", "racks")  # may stand beside a file


class HealthOption(NamedTuple):
    """A file of episodes, or what to draw; and who looks for them: docs/health.md."""

    path: str = ""
    values: dict[str, float] = {}  # noqa: RUF012 (never changed)

    def value(self, name: str) -> float:
        """The stated value, or the usual one."""
        return self.values.get(name, VALUES[name][0])

    def degradations(self, topology: Topology, network: Network | None, seed: int) -> Degradations | None:
        """When machines and links are slow; None: never."""
        machines = topology.machine_count()
        links = int(network.link_count()) if network is not None else 0
        if self.path:
            names = {network.link_name(link): link for link in range(links)} if network is not None else {}
            rows = read_degradations(Path(self.path), topology.machine_numbers(), names)
            return ListedDegradations(machines + links, rows)
        if self.value("links") and not links:
            raise InputError(f"{OPTION} links: the cluster states no links; give --network too")
        if not (self.value("stragglers") or self.value("links")):
            return None
        return RandomDegradations(
            machines, links, self.value("stragglers"), self.value("factor"), self.value("links"),
            1.0 / self.value("link_share"), 60.0 * self.value("minutes"), seed,
        )  # fmt: skip

    def watch(self, faults: HiddenFaults, seed: int, start_s: float) -> HealthWatch | None:
        """Who looks for what is slow; None: nobody does."""
        if not (self.value("watch") or self.value("act")):
            return None
        settings = WatchSettings(noise=self.value("noise"), act=self.value("act") > 0, most=self.value("most_out"))
        return HealthWatch(faults, settings, seed, start_s)

    def failures(self, topology: Topology, usual: Failures, rate: float, repair_s: float, seed: int) -> Failures:
        """The failures of machines; `rate` is what --failure-rate says."""
        lemons = int(self.value("lemons"))
        if lemons:
            if not rate:
                raise InputError(
                    f"{OPTION} lemons={lemons}: give --failure-rate too, of which they take their share"
                )
            if lemons >= topology.machine_count():
                raise InputError(f"{OPTION} lemons={lemons}: the cluster has {topology.machine_count()} machines")
            drawn = drawn_lemons(topology.machine_count(), lemons, seed)
            share = self.value("lemon_share")
            usual = LemonFailures(topology.machine_count(), drawn, share, rate, repair_s, seed)
        if self.value("racks"):
            racks = [int(rack) for rack in topology.parents[0]]
            usual = RackFailures(usual, racks, self.value("racks"), repair_s, seed)
        return usual


def read_health(text: str) -> HealthOption | None:
    """What the option states; None for an empty text: everything is sound."""
    if not text:
        return None
    path, _, rest = text.partition(",")
    if "=" in path:
        path, rest = "", text
    values = read_numbers(OPTION, rest, {name: (least, most) for name, (_, least, most) in VALUES.items()})
    if values.get("lemons", 0.0) % 1.0:
        raise InputError(f"{OPTION} lemons={values['lemons']:g}: must be a whole number of machines")
    for name in values:
        if path and name not in OF_WATCH:
            raise InputError(
                f"{OPTION} {text}: {name}: the file says what is slow; beside it: {', '.join(OF_WATCH)}"
            )
    return HealthOption(path, values)


def health_file(text: str) -> str:
    """The file that the option names; empty: none."""
    path = text.partition(",")[0]
    return "" if "=" in path else path
