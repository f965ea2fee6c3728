"""Under which host names a server answers that asks nobody who they are: a name that leads here by DNS rebinding is none."""

import ipaddress
import socket
from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.middleware.trustedhost import parse_host_header

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
EVERY_ADDRESS = ("0.0.0.0", "::", "")


class OwnHosts:
    """The host names of a server that listens on `bound`: this machine's, `bound` and those of `more`.

    One that listens on every address also answers under each address and under the machine's name. `more` takes names
    without a port, `*.lab.example` for all below one, and `*` for any.
    """

    def __init__(self, bound: str, more: Sequence[str] = ()) -> None:
        is_everywhere = bound in EVERY_ADDRESS
        machine = (socket.gethostname(), f"{socket.gethostname()}.local", socket.getfqdn()) if is_everywhere else ()
        self._takes_addresses = is_everywhere
        bound = f"[{bound}]" if ":" in bound else bound
        self._names = {name.lower() for name in (*LOOPBACK, bound, *machine, *more) if name}

    def rejected_host(self, headers: Headers) -> str | None:
        """Return the host that a request names if it is none of these ("" = none, or no host name); else None."""
        if "*" in self._names:
            return None
        parsed = parse_host_header(headers.get("host"))
        host = parsed.host.lower() if parsed else ""
        below = any(name.startswith("*.") and host.endswith(name[1:]) for name in self._names)
        is_own = host in self._names or below or (self._takes_addresses and _is_address(host))
        return None if host and is_own else headers.get("host", "")[:80]


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True
