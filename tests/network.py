"""The guard that keeps tests on this machine: only loopback addresses and local sockets connect.

It also remembers every attempt, so code that swallows the error is still found out.
"""

import ipaddress
import socket
from collections.abc import Callable
from typing import Any

OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "HF_EVALUATE_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "GRADIO_ANALYTICS_ENABLED": "False",
    "TOKENIZERS_PARALLELISM": "false",
    "NO_PROXY": "127.0.0.1,localhost,::1",
    "no_proxy": "127.0.0.1,localhost,::1",
}
"""Read by every process that a test starts, and by the libraries when they are imported: by a conftest below, before `pytest_configure`."""

LOCAL_NAMES = {"", "localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback"}


class OutsideNetworkError(OSError):
    """A test tried to reach a machine other than this one."""

    def __init__(self, host: str) -> None:
        super().__init__(
            f"a test tried to reach {host!r}, but tests may only talk to 127.0.0.1, ::1 and"
            " localhost: use a local fake, or mark the test `network`"
        )


def is_local(host: object) -> bool:
    """Return whether `host` is this machine; None and the wildcard addresses are (binding).

    >>> is_local("127.0.0.1"), is_local("::1"), is_local("example.org"), is_local("10.0.0.1")
    (True, True, False, False)
    """
    if host is None:
        return True
    name = host.decode("ascii", "replace") if isinstance(host, bytes) else str(host)
    if name.lower() in LOCAL_NAMES:
        return True
    try:
        address = ipaddress.ip_address(name.split("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None) or address
    return mapped.is_loopback or mapped.is_unspecified


class NetworkGuard:
    """Replaces the ways out of `socket`; `attempts` lists the hosts that were refused."""

    def __init__(self) -> None:
        self.attempts: list[str] = []
        self.lifted = False
        self._originals: list[tuple[object, str, Any]] = []

    def install(self) -> None:
        """Guard connections, datagrams and name look-ups until `remove`."""
        for name in ("connect", "connect_ex"):
            self._guard(socket.socket, name, lambda args: _host_of(args[1]))
        self._guard(socket.socket, "sendto", lambda args: _host_of(args[-1]))
        for name in ("getaddrinfo", "gethostbyname", "gethostbyname_ex"):
            self._guard(socket, name, lambda args: args[0] if args else None)

    def remove(self) -> None:
        """Put everything back."""
        while self._originals:
            owner, name, original = self._originals.pop()
            setattr(owner, name, original)

    def _guard(self, owner: object, name: str, host_of: Callable[[tuple], object]) -> None:
        original = getattr(owner, name)

        def guarded(*args: Any, **options: Any) -> Any:
            self._check(host_of(args) if args else options.get("host"))
            return original(*args, **options)

        self._originals.append((owner, name, original))
        setattr(owner, name, guarded)

    def _check(self, host: object) -> None:
        if self.lifted or is_local(host):
            return
        self.attempts.append(str(host))
        raise OutsideNetworkError(str(host))


def _host_of(address: object) -> object:
    """Return the host of a socket address; a path (a local socket) has none."""
    return address[0] if isinstance(address, tuple) else None
