"""What the daemon must not forget: SQLite by default, any database by its address."""

from dally.live.store.database import Store, open_store

__all__ = ["Store", "open_store"]
