"""`dally shadow`."""

from __future__ import annotations

from pathlib import Path

import typer

from dally.cli.commands import examples
from dally.cli.runs.scenario_options import flag_of
from dally.errors import InputError
from dally.runs.world import WorldConfig
from dally.whole_file import write_whole

DAY_S = 86400.0


@examples(
    "dally shadow --days 7", "dally shadow --store sqlite:////var/lib/dally/dally.db --days 1 --out yesterday"
)
def shadow(
    folder: Path = typer.Option(
        None, metavar="DIR", help="Where the daemon keeps its state.  [default: ~/.local/state/dally]"
    ),
    store: str = typer.Option(None, metavar="URL", help="Its database.  [default: SQLite in --folder]"),
    days: float = typer.Option(1.0, metavar="N", help="Jobs that ended in the last N days."),
    out: Path = typer.Option(Path("shadow"), metavar="DIR", help="Leave the report and the jobs as a trace there."),
    as_json: bool = typer.Option(False, "--json", help="Print whatif.json instead of tables."),
) -> None:  # fmt: skip
    """Report what Dally would have done with the jobs that the daemon has observed, as `dally whatif` does."""
    from dally.extras import need

    need("sqlalchemy", "shadow")
    from dally.cli.main import exit_code

    if not 0.0 < days < float("inf"):
        raise InputError(f"--days {days:g}: must be more than 0 and finite")
    parts = _question(folder, store, days, out)
    code = exit_code([*parts, "--json"] if as_json else parts)
    if code:
        raise typer.Exit(int(code))


def _question(folder: Path | None, address: str | None, days: float, out: Path) -> list[str]:
    """The jobs and the cluster as files, and the question to ask of them."""
    from dally.live.assembly import CLUSTER, SETUP
    from dally.live.config import Config, Setup, usual_folder
    from dally.live.cycle import LATEST
    from dally.live.history.recorded_trace import history_csv
    from dally.live.store import open_store

    config = Config(folder=folder or usual_folder(), store=address or "")
    if not config.store and not config.has_store():
        raise InputError(f"--folder {config.folder}: no daemon has stored anything there")
    opened = open_store(config.store_address())
    try:
        cluster, setup, latest_s = (opened.fact(name) for name in (CLUSTER, SETUP, LATEST))
        if cluster is None or latest_s is None:
            raise InputError(f"{config.store_address()}: no daemon has stored anything there")
        text = history_csv(opened, latest_s - days * DAY_S, latest_s + 1.0)
    finally:
        opened.close()
    out.mkdir(parents=True, exist_ok=True)
    write_whole(out / "jobs.csv", text.encode())
    write_whole(out / "cluster.toml", cluster.encode())
    parts = ["whatif", "--trace", str(out / "jobs.csv"), "--topology", str(out / "cluster.toml")]
    return [*parts, "--out", str(out / "answer"), "--skip-impossible", *options_of(Setup(**setup))]


def options_of(setup: WorldConfig) -> list[str]:
    """The daemon's set-up on the new side; what is true of the cluster whoever schedules it, on both."""
    usual = WorldConfig().world_values()
    parts = ["--policy", setup.policy]
    for name, value in setup.world_values().items():
        if isinstance(value, dict):
            parts += [token for key, text in value.items() for token in (flag_of(name), f"{key}={text}")]
        elif name == "queues" and value:
            parts += ["--new-queues", value]
        elif name != "policy" and value != usual[name]:
            parts += [flag_of(name), str(value)]
    return parts
