"""A host of its own for one command: its name, its /run and its network, with one way out that can be cut.

usage: unshare --uts --mount --net python -m benchmarks.own_host SOCKET PORT HOST COMMAND...

In the new namespaces, 127.0.0.1:PORT leads to SOCKET, where an `uplink` outside goes on to the same port there. The
command's group of processes is that of its host: what stops or kills the group does so to both.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

CHUNK: Final = 65536
COMMAND: Final = ("unshare", "--uts", "--mount", "--net", sys.executable, "-m", "benchmarks.own_host")


class Relay:
    """Takes connections from one side on to the other, both ways, until it is cut."""

    def __init__(self, listening: socket.socket, connect: Callable[[], socket.socket]) -> None:
        self._listening, self._connect = listening, connect
        self._open: set[socket.socket] = set()
        self._ended: set[socket.socket] = set()  # that nothing more comes from
        self._lock = threading.Lock()
        self._cut = False
        threading.Thread(target=self._run, daemon=True).start()

    def cut(self, is_cut: bool) -> None:
        """Nothing passes from now on, or everything does; what is under way ends."""
        self._cut = is_cut
        for one in list(self._open) if is_cut else ():
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Take no more."""
        self._listening.close()
        self.cut(True)

    def _run(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            try:
                if self._cut:
                    raise OSError
                far = self._connect()
            except OSError:
                near.close()
                continue
            self._open |= {near, far}
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self._pass_on, args=(one, other), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while part := source.recv(CHUNK):
                target.sendall(part)
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)
        with self._lock:
            self._ended.add(source)
            if target not in self._ended:
                return  # the other direction is still to end
            for one in (source, target):
                self._ended.discard(one)
                self._open.discard(one)
                one.close()


def uplink(path: Path, port: int) -> Relay:
    """Outside: from that socket of a host to the port here."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(path))
    listening.listen(64)
    return Relay(listening, lambda: socket.create_connection(("127.0.0.1", port), 10.0))


def downlink(path: str, port: int) -> Relay:
    """Inside: from the port of the host to that socket."""
    listening = socket.create_server(("127.0.0.1", port), backlog=64)

    def connect() -> socket.socket:
        result = socket.socket(socket.AF_UNIX)
        result.connect(path)
        return result

    return Relay(listening, connect)


def main() -> None:
    path, port, host, *words = sys.argv[1:]
    socket.sethostname(host)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run"], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    # Names are not looked up, not even 127.0.0.1, where no interface has an address that is not the loopback's.
    subprocess.run(["ip", "address", "add", "192.0.2.1/32", "dev", "lo"], check=True)
    downlink(path, int(port))
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it is for the command
    sys.exit(subprocess.run(words, check=False, restore_signals=True).returncode)


if __name__ == "__main__":
    main()
