"""What `dally serve` is told: options, over dally.toml, over defaults."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields
from pathlib import Path

from dally.cluster.topology import Topology
from dally.errors import InputError
from dally.input_file import read_text
from dally.live.backends.registry import check_name
from dally.live.gpu_utilization import read_utilization
from dally.live.health_settings import read_settings
from dally.live.machine_signals import read_signals
from dally.live.private_folder import STORE, own_folder
from dally.perf.measured_model import learning
from dally.policies.choices.tuning_policy import NOT_BY_ITSELF, TuningPolicy
from dally.runs.world import World, WorldConfig
from dally.toml import TomlFile

USUAL_LISTEN = "127.0.0.1:8642"
MOST_RETRIES = 100
READING = ("auto", "always", "never")
USUAL_CONSENT = {"usual": "priced", "after": "15m"}  # docs/consent.md


@dataclass
class Setup(WorldConfig):
    """How a daemon's cluster is scheduled."""

    usual_model: str = "resnet50"  # stands in where a job names no model: the commonest and a mild one

    def __post_init__(self) -> None:
        """Jobs of real users: what is not stated of their consent is the careful way."""
        self.preempt = USUAL_CONSENT | self.preempt

    def world(self, topology: Topology) -> World:
        """What it schedules with; InputError if the model that stands in is none: no job could do without."""
        world = World(self, topology)
        if isinstance(world.built(), TuningPolicy):
            raise InputError(f"policy {self.policy}: {NOT_BY_ITSELF}")
        if world.network is not None:
            try:
                world.profiles(self.usual_model, 1)
            except InputError as error:
                raise InputError(f"gpu and usual_model: {error}") from None
            world.speed = learning(world.speed, world.stand_ins())
        return world


@dataclass(frozen=True)
class Config:
    """One daemon: which cluster, scheduled how, kept where, reached where."""

    backend: str = "local"
    cluster: str = ""  # RxMxG or a topology file; empty: what the backend says of itself
    folder: Path = field(default_factory=lambda: usual_folder())
    store: str = ""  # an address of a database; empty: SQLite in `folder`
    listen: str = USUAL_LISTEN
    socket: str = ""  # for users of this machine; empty: see web/unix_socket.py
    operators: tuple[str, ...] = ()  # users, and @groups, who may do everything by the socket; root always may
    open_reading: str = "auto"  # without a token, on this machine: until the first is made, always, never
    allow_root_jobs: bool = False  # submit jobs that run as root
    plain_http: bool = False  # listen beyond this machine without TLS: a proxy adds it
    tls_certificate: str = ""
    tls_key: str = ""
    requests_per_s: float = 200.0  # of one client, or one token
    speed: float = 1.0  # of the clock: 60 makes a minute of a second
    dry_run: bool = False
    i_am_alone: bool = False  # no daemon of another host schedules this cluster: there need be no lease
    partitions: tuple[str, ...] = ()  # of Slurm, to look after; none: all
    kubernetes: dict[str, str] = field(default_factory=dict)  # options of that backend
    backend_settings: dict[str, str] = field(default_factory=dict)  # of one that another distribution brings
    retries: int = 0  # of a job whose GPU or collective exchange failed; 0: failed jobs are left alone
    health: dict[str, str] = field(default_factory=dict)  # what is done about slow machines: docs/health.md
    health_signals: dict[str, str] = field(default_factory=dict)  # queries that speak against machines, by name
    prometheus: dict[str, str] = field(default_factory=dict)  # which says how busy GPUs are: docs/dashboard.md
    setup: Setup = field(default_factory=Setup)

    def checked(self) -> Config:
        """The same, if it makes sense."""
        check_name(self.backend)
        if not 0.0 < self.speed < float("inf"):
            raise InputError(f"--speed {self.speed:g}: must be more than 0 and finite")
        if self.speed != 1.0 and self.backend != "local":
            raise InputError(f"--speed {self.speed:g}: only the local backend's clock can run faster")
        self.address()
        read_settings(self.health)
        read_utilization(self.prometheus)
        read_signals(self.health_signals, self.prometheus.get("url", ""))
        if not 0.0 < self.requests_per_s < float("inf"):
            raise InputError(f"requests_per_s: {self.requests_per_s:g}: must be more than 0 and finite")
        if not 0 <= self.retries <= MOST_RETRIES:
            raise InputError(f"retries: {self.retries}: must be 0 to {MOST_RETRIES}")
        self.setup.check_costs(lambda name: f"{name}:")
        if self.open_reading not in READING:
            raise InputError(f"open_reading: {self.open_reading!r}: must be one of {', '.join(READING)}")
        if bool(self.tls_certificate) != bool(self.tls_key):
            raise InputError("--tls-certificate and --tls-key: give both, or none")
        return self

    def address(self) -> tuple[str, int]:
        """Host and port to listen on."""
        host, _, port = self.listen.rpartition(":")
        if not host or not port.isdigit() or int(port) > 65535:
            raise InputError(f"--listen {self.listen}: must be HOST:PORT, as {USUAL_LISTEN}")
        return host.strip("[]"), int(port)

    def make_folder(self) -> None:
        """Where state is kept is there, from now on, and other users can neither write nor read it."""
        own_folder(self.folder, f"--folder {self.folder}")

    def has_store(self) -> bool:
        """Whether a daemon has kept its store in the folder."""
        return (self.folder / STORE).exists()

    def store_address(self) -> str:
        """The database."""
        return self.store or f"sqlite:///{self.folder / STORE}"


def usual_folder() -> Path:
    """Where state is kept that nobody said where to keep."""
    home = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return Path(home) / "dally"


def read_config(path: Path) -> Config:
    """The configuration in a file: fields of Config and of Setup side by side, settings in tables."""
    plain = {item.name: getattr(Config(), item.name) for item in fields(Config) if item.name != "setup"}
    scheduling = {item.name: getattr(Setup(), item.name) for item in fields(Setup)}
    values = TomlFile(path, read_text(path)).fields(plain | scheduling)
    setup = Setup(**{name: value for name, value in values.items() if name in scheduling})
    return Config(**{name: value for name, value in values.items() if name in plain}, setup=setup)
