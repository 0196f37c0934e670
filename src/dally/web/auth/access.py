"""Who may ask without a token, and as whom: by the user at the other end of the connection."""

from __future__ import annotations

import grp
import os
import pwd

from dally.errors import InputError
from dally.live.config import Config
from dally.live.private_folder import user_name
from dally.web.auth.peers import Peer
from dally.web.auth.token_cache import TokenCache
from dally.web.auth.tokens import OPERATOR, USER, VIEWER, Caller


class Access:
    """Decides who asks.

    By the Unix socket, users of this machine act as themselves: on their own jobs, operators on all. By TCP, a
    token says who asks. Without one, a process of this machine may read, and on the local cluster the daemon's own
    user may do everything; both only until the operator makes a token, and not again when the last one is removed.
    """

    def __init__(self, tokens: TokenCache, config: Config) -> None:
        self.tokens = tokens
        self._is_local = config.backend == "local"
        self._reading = config.open_reading
        self._operators = operator_uids(config.operators)

    @property
    def reading_is_open(self) -> bool:
        """Whether users of this machine may read without a token, and see the jobs of all."""
        return self._reading == "always" or (self._reading == "auto" and not self.tokens.needed)

    @property
    def owner_is_known(self) -> bool:
        """Whether the daemon's own user needs no token on loopback."""
        return self._is_local and not self.tokens.needed

    def stale(self, text: str | None) -> bool:
        """Whether to `read` before `caller` is asked."""
        return self.tokens.stale(text)

    def read(self) -> None:
        """Read the tokens anew."""
        self.tokens.read()

    def caller(self, text: str | None, peer: Peer) -> Caller | None:
        """Who asks; None: nobody we know."""
        if text is not None:
            return self.tokens.caller(text)
        if peer.by_socket and peer.uid is not None:
            return self._user(peer.uid)
        if not peer.by_loopback:
            return None
        if self.owner_is_known and peer.uid == os.geteuid():
            return self._user(peer.uid)
        return Caller("", VIEWER) if self.reading_is_open else None

    def _user(self, uid: int) -> Caller:
        name = user_name(uid)
        if uid in self._operators:
            return Caller(name, OPERATOR, name, uid=uid)
        return Caller(name, USER, name, self.reading_is_open, uid)


def operator_uids(names: tuple[str, ...]) -> frozenset[int]:
    """Of root, the daemon's own user, and the named users and @groups; InputError for a name that is none."""
    result = {0, os.geteuid()}
    for name in names:
        try:
            if name.startswith("@"):
                group = grp.getgrnam(name[1:])
                result |= {pwd.getpwnam(member).pw_uid for member in group.gr_mem}
            else:
                result.add(pwd.getpwnam(name).pw_uid)
        except KeyError:
            kind = "group" if name.startswith("@") else "user"
            raise InputError(f"operators: {name!r}: there is no such {kind} on this machine") from None
    return frozenset(result)
