"""`dally serve`."""

from __future__ import annotations

import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import typer

from dally.cli.commands import examples
from dally.cli.runs.scenario_options import flag_of, option
from dally.cluster.spec import read_settings
from dally.runs.world import merge, setting_values

SOCKET: Final = typer.Option(
    None, metavar="PATH", help="The Unix socket for users of this machine.  [default: /run/dally/serve.sock "
    "as root on a real cluster or under systemd, else serve.sock in --folder]",
)  # fmt: skip


@examples(
    "dally serve",
    "dally serve --cluster 8x16x8 --network slow --speed 60",
    "dally serve --backend slurm --dry-run",
    "dally serve --backend kubernetes --set-backend preset=nvidia",
    "dally serve --config /etc/dally/dally.toml",
)
def serve(
    config: Path = typer.Option(None, metavar="FILE", help="dally.toml; options come first."),
    backend: str = typer.Option(
        None, metavar="NAME", help="local (processes of this machine), slurm or kubernetes.  [default: local]"
    ),
    cluster: str = option("cluster", "what the backend says of itself; local: 4x4x8"),
    network: str = option("network"),
    network_settings: list[str] = option("network_settings"),
    policy: str = option("policy"),
    settings: list[str] = option("settings"),
    queues: str = option("queues"),
    preempt: list[str] = option("preempt", "usual=priced and after=15m"),
    folder: Path = typer.Option(
        None, metavar="DIR", help="Where the daemon keeps its state.  [default: ~/.local/state/dally]"
    ),
    store: str = typer.Option(None, metavar="URL", help="The database.  [default: SQLite in --folder]"),
    listen: str = typer.Option(None, metavar="HOST:PORT", help="Where the API answers.  [default: 127.0.0.1:8642]"),
    socket: str = SOCKET,
    tls_certificate: str = typer.Option(None, metavar="FILE", help="Serve HTTPS with this certificate."),
    tls_key: str = typer.Option(None, metavar="FILE", help="And this key."),
    partitions: list[str] = typer.Option([], "--partition", metavar="NAME", help="A Slurm partition to schedule."),
    backend_settings: list[str] = typer.Option(
        [], "--set-backend", metavar="NAME=VALUE", help="An option of the Kubernetes backend: docs/kubernetes.md."
    ),
    speed: float = typer.Option(
        None, metavar="N", help="Run the local cluster's clock this many times faster.  [default: 1]"
    ),
    dry_run: bool = typer.Option(False, "--dry-run", help="Decide and log, and touch nothing."),
    i_am_alone: bool = typer.Option(False, "--i-am-alone", help="Do without Slurm's lease: no other host has one."),
    json_logs: bool = typer.Option(False, "--json-logs", help="Log JSON, a line per entry."),
) -> None:  # fmt: skip
    """Schedule a real cluster: decide which job starts where and when, and serve the API and the dashboard."""
    from dally.extras import need

    for package in ("alembic", "fastapi", "uvicorn", "structlog"):
        need(package, "serve")
    from dally.live.backends.registry import BACKENDS
    from dally.live.config import Config, read_config
    from dally.live.private_folder import check_unwritable

    options: dict[str, Any] = {
        "backend": backend, "cluster": cluster, "folder": folder, "store": store, "listen": listen,
        "socket": socket, "tls_certificate": tls_certificate, "tls_key": tls_key, "speed": speed,
        "partitions": tuple(partitions), "dry_run": dry_run, "i_am_alone": i_am_alone,
    }  # fmt: skip
    scheduling: dict[str, Any] = {
        "network": network, "policy": policy, "queues": queues,
        **table_values(settings=settings, network_settings=network_settings, preempt=preempt),
    }  # fmt: skip
    base = read_config(config) if config is not None else Config()
    table = "kubernetes" if (backend or base.backend) in BACKENDS else "backend_settings"
    options[table] = {**getattr(base, table), **read_settings("--set-backend", backend_settings)}
    chosen = replace(
        base,
        **{name: value for name, value in options.items() if value},
        setup=merge(base.setup, {name: value for name, value in scheduling.items() if value}),
    )
    if config is not None and chosen.backend != "local":
        check_unwritable(config, f"--config {config}")
    run(chosen.checked(), json_logs)


def table_values(**tables: list[str]) -> dict[str, str]:
    """KEY=VALUE texts of options by field, under the names that `merge` takes."""
    return setting_values(*(read_settings(flag_of(name), texts) for name, texts in tables.items()))


def run(config: Any, json_logs: bool) -> None:
    """Until SIGTERM or SIGINT; jobs run on."""
    from dally.live.assembly import Service
    from dally.live.logs import prepare
    from dally.web.server import ApiServer
    from dally.web.standby import answering_probes

    prepare(json_logs)
    with answering_probes(config):
        service = Service(config)
    try:
        server = ApiServer(service)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: service.daemon.stop())
        if config.dry_run:
            from dally.live.history.recorded_trace import DailyReport

            service.daemon.watchers.append(DailyReport(config, service.clock))
        service.outlook.begin()
        server.start()
        if json_logs:
            _log_start(service, server)
        else:
            typer.echo(start_message(service, server))
            sys.stdout.flush()
        try:
            service.daemon.run()
        finally:
            server.stop()
    finally:
        service.close()


def _log_start(service: Any, server: Any) -> None:
    """The same for machines."""
    import structlog

    config, topology = service.config, service.topology
    structlog.get_logger("dally").info(
        "serving", backend=config.backend, policy=config.setup.policy, dry_run=config.dry_run, url=server.url,
        gpus=topology.total_gpus(), machines=topology.machine_count(), folder=str(config.folder),
        socket=str(server.local.path),
    )  # fmt: skip


def start_message(service: Any, server: Any) -> str:
    """What is scheduled here, where it answers, who may ask, and what to try."""
    from dally.runs.team_setup import idle_quotas

    config, topology = service.config, service.topology
    where = "dry run, nothing is touched" if config.dry_run else f"policy {config.setup.policy}"
    elsewhere = _server_option(config, server)
    size = f"{topology.total_gpus()} GPUs on {topology.machine_count()} machines"
    lines = [
        f"Scheduling {size} ({config.backend}, {where}).",
        f"State:   {config.folder}",
        f"Pages:   {server.url}/",
        f"API:     {server.url}/docs",
        f"Socket:  {server.local.path}",
        *access_lines(server.access),
    ]
    if config.speed != 1.0:
        lines.insert(1, f"Clock:   runs {config.speed:g} times as fast as this machine's (--speed)")
    if server.first_token:
        lines.append(_first_token_line(config.folder, server.first_token))
    if server.local.note:
        lines.append(f"Mind:    {server.local.note}")
    lines += [f"Mind:    jobs {what}" for what in idle_quotas(config.setup.queues, [], topology)]
    if config.backend == "local":
        lines.append(f"Try:     dally submit --gpus 8{elsewhere} -- sleep 60")
    lines.append(
        f"         dally queue{elsewhere}" if config.backend == "local" else f"Try:     dally queue{elsewhere}"
    )
    return "\n".join([*lines, "Ctrl-C stops the scheduler; jobs run on."])


def access_lines(access: Any) -> list[str]:
    """Who may do what without a token."""
    if access.owner_is_known:
        others = "other users of this machine may read" if access.reading_is_open else "all others need a token"
        return [f"Access:  you may do everything, {others}; `dally token add` makes it ask for tokens"]
    reading = "; pages are readable on this machine" if access.reading_is_open else ""
    return [
        f"Access:  by token{reading}",
        "         by the socket: users act on their own jobs, operators on all, without a token",
    ]


def _first_token_line(folder: Path, token: str) -> str:
    """The token for a person who looks; what is not a terminal may be a log that others read."""
    from dally.live.private_folder import TOKEN

    if sys.stdout.isatty():
        return f"Token:   {token} (an operator's; shown once, and stored in {folder / TOKEN})"
    return f"Token:   an operator's is in {folder / TOKEN}"


def _server_option(config: Any, server: Any) -> str:
    """What commands need to find this server."""
    from dally.cli.live.server_client import usual_sockets
    from dally.live.config import USUAL_LISTEN

    if server.local.path in usual_sockets() or (config.backend == "local" and config.listen == USUAL_LISTEN):
        return ""
    return f" --server {server.url if config.backend == 'local' else f'unix:{server.local.path}'}"
