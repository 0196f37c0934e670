"""Puts a daemon together from its configuration."""

from __future__ import annotations

import hashlib
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from dally.cluster.formats.writers import to_toml
from dally.cluster.spec import read_topology
from dally.errors import InputError
from dally.live.acts import Acts
from dally.live.backends.base import Backend, BackendError, BackendOptions, ClusterClaim, Elects, HasQueues, Leases
from dally.live.backends.registry import open_backend
from dally.live.config import Config
from dally.live.cycle import LATEST, Scheduler
from dally.live.daemon import Daemon
from dally.live.failed_jobs import FailedJobs
from dally.live.forecast.job_forecast import start_text
from dally.live.forecast.outlook import Outlook
from dally.live.forecast.whatif.what_ifs import WhatIfs
from dally.live.health_settings import read_settings
from dally.live.history.past_runs import PastRuns
from dally.live.history.trend_sampler import TrendSampler
from dally.live.lemon_list import LemonList
from dally.live.lock import ClusterLock, lock_folder
from dally.live.machine_health import MachineHealth
from dally.live.machine_signals import MachineSignals, read_signals
from dally.live.private_folder import LOCK
from dally.live.store import Store, open_store
from dally.live.wall_clock import WallClock

# Facts of the store.
ORIGIN = "origin_s"  # when the clock showed 0, in seconds since 1970
CLUSTER = "cluster"  # the topology as TOML
SETUP = "setup"  # the fields of Setup

if TYPE_CHECKING:
    from dally.cluster.topology import Topology


class Service:
    """A daemon with everything it needs; closing it lets another one have the cluster."""

    def __init__(self, config: Config, backend: Backend | None = None) -> None:
        """`backend`: instead of the one that the configuration names."""
        self.config = config
        config.make_folder()
        self.backend = backend or open_backend(config.backend, _options(config))
        self._claims = _claims(config, self.backend)
        try:
            if not config.dry_run:
                self.backend.begin_term()
            self.topology = _topology(config, self.backend)
            self._stated = config
            self.config = config = _with_queues(config, self.backend)
            config.setup.world(self.topology).state()  # says what is wrong before anything is kept or told
        except (InputError, BackendError):
            self._release()
            raise
        self.store = open_store(config.store_address())
        self.clock = _clock(self.store, config.speed)
        self._publish_setup()
        self.daemon = Daemon(self.backend, self._begin)
        self.outlook = Outlook(self.store, self.daemon)
        self.past = PastRuns(self.store)
        self.trends = TrendSampler(self.store, self.daemon, lambda: self.topology)
        self.whatifs = WhatIfs(config, self.daemon, lambda: self.clock, lambda: self.topology)
        prometheus = config.prometheus.get("url", "")
        self.health = MachineHealth(
            read_settings(config.health), self.daemon, Acts(self),
            MachineSignals(read_signals(config.health_signals, prometheus), prometheus), LemonList(self.store),
        )  # fmt: skip
        self.failed_jobs = FailedJobs(config.retries, self.store, self.daemon, Acts(self))
        self._generation = self.backend.generation
        self.daemon.expected_start = lambda job_id: start_text(self.outlook.queue.get(job_id), self.clock)

    def _begin(self) -> Scheduler:
        """A scheduler that goes on from what the store knows."""
        config = self.config
        generation = self.backend.generation
        if self._generation != generation and not config.cluster:
            self.topology = (
                self.backend.topology()
            )  # if it cannot be had, the cycle fails and the next one asks again
            self.config = config = _with_queues(self._stated, self.backend)
            self._publish_setup()
            self._generation = generation
        return Scheduler(self.backend, self.topology, config.setup, self.store, self.clock, config.dry_run)

    def _publish_setup(self) -> None:
        """What is scheduled and how, for those who read the store without a daemon."""
        with self.store.transaction() as connection:
            self.store.keep(connection, CLUSTER, to_toml(self.topology))
            self.store.keep(connection, SETUP, asdict(self.config.setup))

    def close(self) -> None:
        """Let go of everything."""
        self.health.close()
        self.whatifs.close()
        self.outlook.close()
        self.backend.close()
        self.store.close()
        self._release()

    def _release(self) -> None:
        for claim in self._claims:
            claim.release()


def _options(config: Config) -> BackendOptions:
    """What the backend is opened with: its own table of dally.toml, and what the command says of Slurm."""
    settings = config.kubernetes if config.backend == "kubernetes" else config.backend_settings
    if config.partitions:
        settings = {**settings, "partitions": ",".join(config.partitions)}
    return BackendOptions(config.folder, config.cluster, config.speed, settings, config.dry_run)


def _topology(config: Config, backend: Backend) -> Topology:
    if config.cluster:
        return read_topology(config.cluster)
    try:
        return backend.topology()
    except BackendError as error:
        raise InputError(f"--backend {config.backend}: {error}") from None


def _with_queues(config: Config, backend: Backend) -> Config:
    """With the queues that the cluster itself states, if it does."""
    if not isinstance(backend, HasQueues):
        return config
    path = backend.queues()
    if path and config.setup.queues:
        raise InputError(f"--queues {config.setup.queues}: the cluster's own queues are in use: give one of both")
    path = path or ("" if config.setup.queues else backend.usual_queues())
    return replace(config, setup=replace(config.setup, queues=path)) if path else config


def _claims(config: Config, backend: Backend) -> list[ClusterClaim]:
    """The cluster for us alone. A dry run only looks: it may run beside a daemon, in another folder."""
    try:
        if isinstance(backend, Elects) and not config.dry_run:
            return [backend.claim()]
        path = _lock_path(config, backend)
    except BackendError as error:
        raise InputError(f"--backend {config.backend}: {error}") from None
    what = "watches" if config.dry_run else "schedules"
    claims: list[ClusterClaim] = [ClusterLock(path, f"{what} this {config.backend} cluster")]
    try:
        claims.append(ClusterLock(config.folder / LOCK, "keeps its state in this folder"))
        if isinstance(backend, Leases) and not (config.dry_run or config.i_am_alone):
            claims.append(backend.take_lease(path.with_suffix(".term")))
    except (InputError, BackendError) as error:
        for claim in claims:
            claim.release()
        raise InputError(str(error)) from None
    return claims


def _lock_path(config: Config, backend: Backend) -> Path:
    """One file per cluster for all daemons of this user on this host, wherever their stores are."""
    digest = hashlib.sha256(backend.identity().encode()).hexdigest()[:16]
    return lock_folder(config.folder) / f"{backend.name}-{digest}{'-dry-run' if config.dry_run else ''}.lock"


def _clock(store: Store, speed: float) -> WallClock:
    """Goes on where the last daemon's stopped, at whatever speed."""
    origin_s, latest_s = store.fact(ORIGIN), store.fact(LATEST) or 0.0
    if origin_s is None:
        origin_s = time.time()
        with store.transaction() as connection:
            store.keep(connection, ORIGIN, origin_s)
    if speed != 1.0:  # time that nobody saw pass does not count, or a night off would be weeks
        origin_s = time.time() - latest_s / speed
    return WallClock(origin_s, speed, latest_s)
