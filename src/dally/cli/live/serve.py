"""`dally serve`."""

from __future__ import annotations

import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from dally.cli.commands import examples
from dally.cli.runs.scenario_options import option
from dally.cluster.spec import read_settings
from dally.runs.world import merge, setting_values


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
    folder: Path = typer.Option(
        None, metavar="DIR", help="Where the daemon keeps its state.  [default: ~/.local/state/dally]"
    ),
    store: str = typer.Option(None, metavar="URL", help="The database.  [default: SQLite in --folder]"),
    listen: str = typer.Option(None, metavar="HOST:PORT", help="Where the API answers.  [default: 127.0.0.1:8642]"),
    tls_certificate: str = typer.Option(None, metavar="FILE", help="Serve HTTPS with this certificate."),
    tls_key: str = typer.Option(None, metavar="FILE", help="And this key."),
    partitions: list[str] = typer.Option([], "--partition", metavar="NAME", help="Of Slurm, to look after."),
    backend_settings: list[str] = typer.Option(
        [], "--set-backend", metavar="NAME=VALUE", help="An option of the Kubernetes backend: docs/kubernetes.md."
    ),
    speed: float = typer.Option(
        None, metavar="N", help="Let the local cluster's clock run so many times as fast.  [default: 1]"
    ),
    dry_run: bool = typer.Option(False, "--dry-run", help="Decide and log, and touch nothing."),
    json_logs: bool = typer.Option(False, "--json-logs", help="Log JSON, a line per entry."),
) -> None:  # fmt: skip
    """Schedule a real cluster: decide who starts where and when, and answer what people ask."""
    from dally.extras import need

    for package in ("alembic", "fastapi", "uvicorn", "structlog"):
        need(package, "serve")
    from dally.live.backends.registry import BACKENDS
    from dally.live.config import Config, read_config

    options: dict[str, Any] = {
        "backend": backend, "cluster": cluster, "folder": folder, "store": store, "listen": listen,
        "tls_certificate": tls_certificate, "tls_key": tls_key, "partitions": tuple(partitions), "speed": speed,
        "dry_run": dry_run,
    }  # fmt: skip
    scheduling: dict[str, Any] = {
        "network": network, "policy": policy, "queues": queues,
        **setting_values(read_settings("--set", settings), read_settings("--set-network", network_settings)),
    }  # fmt: skip
    base = read_config(config) if config is not None else Config()
    table = "kubernetes" if (backend or base.backend) in BACKENDS else "backend_settings"
    options[table] = {**getattr(base, table), **read_settings("--set-backend", backend_settings)}
    chosen = replace(
        base,
        **{name: value for name, value in options.items() if value},
        setup=merge(base.setup, {name: value for name, value in scheduling.items() if value}),
    )
    run(chosen.checked(), json_logs)


def run(config: Any, json_logs: bool) -> None:
    """Until SIGTERM or SIGINT; jobs run on."""
    from dally.live.assembly import Service
    from dally.live.logs import prepare
    from dally.web.server import ApiServer

    prepare(json_logs)
    service = Service(config)
    try:
        server = ApiServer(service)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: service.daemon.stop())
        if config.dry_run:
            from dally.live.history.daily import DailyReport

            service.daemon.watchers.append(DailyReport(config, service.clock))
        service.outlook.begin()
        server.start()
        typer.echo(start_message(service, server))
        sys.stdout.flush()
        try:
            service.daemon.run()
        finally:
            server.stop()
    finally:
        service.close()


def start_message(service: Any, server: Any) -> str:
    """What is scheduled here, where it answers, and what to try."""
    from dally.live.config import USUAL_LISTEN
    from dally.runs.team_setup import idle_quotas

    config, topology = service.config, service.topology
    where = "dry run, nothing is touched" if config.dry_run else f"policy {config.setup.policy}"
    elsewhere = "" if config.listen == USUAL_LISTEN else f" --server {server.url}"
    access = "open to everybody on this machine; `dally token add` makes it ask for tokens"
    size = f"{topology.total_gpus()} GPUs on {topology.machine_count()} machines"
    lines = [
        f"Scheduling {size} ({config.backend}, {where}).",
        f"State:   {config.folder}",
        f"Pages:   {server.url}/",
        f"API:     {server.url}/docs",
        f"Access:  {access if server.tokens.open else 'by token'}",
    ]
    lines += [f"Mind:    jobs {what}" for what in idle_quotas(config.setup.queues, [], topology)]
    if config.backend == "local":
        lines.append(f"Try:     dally submit --gpus 8{elsewhere} -- sleep 60")
    lines.append(
        f"         dally queue{elsewhere}" if config.backend == "local" else f"Try:     dally queue{elsewhere}"
    )
    return "\n".join([*lines, "Ctrl-C stops the scheduler; jobs run on."])
