"""Who is at the other end of a connection, as the kernel says: no header and no token can change that."""

from __future__ import annotations

import socket
import struct
from asyncio import BaseTransport
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import Any, Final

# Asks the kernel which user has the other end of a TCP connection within this machine: sock_diag(7).
SOCK_DIAG: Final = 4  # NETLINK_SOCK_DIAG
BY_FAMILY: Final = 20
REQUEST: Final = 1
ANY: Final = 0xFFFFFFFF
UID_AT: Final = 16 + 4 + 48 + 12  # in the answer: after a header, four bytes, the addresses, and three numbers
ANSWERS_WITHIN_S: Final = 0.5


@dataclass(frozen=True)
class Peer:
    """The other end. `uid`: its user, where it is a process of this machine."""

    uid: int | None = None
    by_socket: bool = False  # by our Unix socket
    by_loopback: bool = False
    address: str = ""

    @property
    def client(self) -> str:
        """By what its connections and requests are counted: a user, or an address; of IPv6, a host's range."""
        if self.uid is not None:
            return f"uid {self.uid}"
        try:
            number = ip_address(self.address)
        except ValueError:
            return self.address
        if isinstance(number, IPv6Address) and number.ipv4_mapped is None:
            return f"{IPv6Address(int(number) >> 64 << 64)}/64"
        return self.address


def peer_of(transport: BaseTransport) -> Peer:
    """The peer of a new connection."""
    end = transport.get_extra_info("socket")
    if end is not None and end.family == socket.AF_UNIX:
        _, uid, _ = struct.unpack(
            "3i", end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        )
        return Peer(uid, by_socket=True)
    theirs, ours = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
    if not theirs:
        return Peer()
    if not is_loopback(theirs[0]):
        return Peer(address=theirs[0])
    return Peer(uid_of(theirs, ours), by_loopback=True, address=theirs[0])


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach that."""
    if host == "localhost":
        return True
    try:
        number = ip_address(host)
    except ValueError:
        return False
    return number.is_loopback or bool(getattr(number, "ipv4_mapped", None) and number.ipv4_mapped.is_loopback)  # type: ignore[union-attr]


def uid_of(end: Any, other: Any) -> int | None:
    """Which user has that end of a connection; None: the kernel does not say."""
    family = socket.AF_INET6 if ":" in end[0] else socket.AF_INET
    addresses = b"".join(ip_address(one[0]).packed.ljust(16, b"\0") for one in (end, other))
    body = struct.pack("=BBBxI", family, socket.IPPROTO_TCP, 0, ANY)
    body += struct.pack("!HH", end[1], other[1]) + addresses + struct.pack("=III", 0, ANY, ANY)
    request = struct.pack("=IHHII", 16 + len(body), BY_FAMILY, REQUEST, 0, 0) + body
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, SOCK_DIAG) as kernel:
            kernel.settimeout(ANSWERS_WITHIN_S)
            kernel.sendto(request, (0, 0))
            answer = kernel.recv(4096)
        (kind,) = struct.unpack_from("=H", answer, 4)
        if kind != BY_FAMILY:
            return None
        uid, inode = struct.unpack_from("=II", answer, UID_AT)
        return int(uid) if inode else None  # of a socket that was closed meanwhile, the kernel says 0, as of root's
    except (OSError, struct.error):
        return None
