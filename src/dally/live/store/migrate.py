"""Brings a database to the present tables."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Engine


def migrate(engine: Engine) -> None:
    """Run the migrations that the database lacks, all of them or none."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).with_name("migrations")))
    with engine.begin() as connection:
        if engine.dialect.name == "sqlite":  # or each table would be there at once, and a daemon killed in between
            connection.exec_driver_sql("BEGIN")  # would leave some that the next one cannot make
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
