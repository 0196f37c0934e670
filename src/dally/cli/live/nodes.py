"""`dally nodes`."""

from __future__ import annotations

from pathlib import Path

from dally.cli.live.server_client import AS_JSON, SERVER, TOKEN_FILE, Server, print_json
from dally.cli.output import print_table
from dally.cli.plain_text import plain

EXAMPLES = """Examples:

  dally nodes

  dally nodes --json
"""


def nodes(server: str = SERVER, token_file: Path = TOKEN_FILE, as_json: bool = AS_JSON) -> None:
    """List the machines, what is free on each, and who runs there."""
    found = Server(server, token_file).get("nodes")
    if as_json:
        print_json(found)
        return
    rows = [
        [
            plain(node["name"]),
            plain(" ".join(node["domains"])),
            plain(node["state"] + (f": {node['reason']}" if node["reason"] else "")),
            str(node["gpus"]),
            str(node["free"]),
            plain(", ".join(node["jobs"])),
        ]
        for node in found["nodes"]
    ]
    print_table(["machine", "in", "state", "GPUs", "free", "jobs"], rows)
