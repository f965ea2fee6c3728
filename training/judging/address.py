"""Where a judge or a reviewer is asked, and by what key: on this machine unless somebody says otherwise."""

import ipaddress
import os
from collections.abc import Mapping
from urllib.parse import urlsplit

from evals.errors import BadConfig

LOCAL_NAMES = ("localhost", "ip6-localhost")


def checked_address(base_url: str, *, allow_remote: bool) -> str:
    """Return the address without a slash at its end; BadConfig if it is none, or not on this machine.

    A remote host needs `allow_remote`: the questions, evidence and answers are sent to it.
    """
    parts = urlsplit(base_url.strip())
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadConfig(
            f"the server's address is {_public(base_url)!r}; it takes one such as http://127.0.0.1:8000/v1."
        )
    if parts.username or parts.password or parts.query or parts.fragment:
        raise BadConfig(
            "the server's address holds a user, a password or a query; give the address alone, and name"
            " the variable that holds the key with judge_key_env (--key-env)."
        )
    if not (is_local(parts.hostname) or allow_remote):
        raise BadConfig(
            f"the server at {parts.hostname} is not on this machine, and everything it is to read (questions,"
            " evidence, answers, papers) would be sent there; set judge_allow_remote (--allow-remote) if that"
            " is meant."
        )
    return base_url.strip().rstrip("/")


def is_local(host: str) -> bool:
    """Return whether a host name or address is this machine's own.

    >>> is_local("localhost"), is_local("127.0.0.1"), is_local("10.0.0.1"), is_local("a.localhost.org")
    (True, True, False, False)
    """
    if host.lower() in LOCAL_NAMES:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def key_of(
    variable: str, base_url: str, environment: Mapping[str, str] | None = None
) -> str | None:
    """Return the key that an environment variable holds; None if no variable is named.

    BadConfig if it is not set, or if a key would go to another machine without encryption. The key
    itself is in no message.
    """
    if not variable:
        return None
    key = (os.environ if environment is None else environment).get(variable, "").strip()
    if not key:
        raise BadConfig(
            f"the variable {variable} that is to hold the server's key (judge_key_env, --key-env) is not set;"
            " export it, or name none for a server without a key."
        )
    parts = urlsplit(base_url)
    if parts.scheme == "http" and not is_local(parts.hostname or ""):
        raise BadConfig(
            f"a key would be sent to {parts.hostname} without encryption; use an https address."
        )
    return key


def _public(address: str) -> str:
    """Return an address as a message may show it: without what stands before an @."""
    return address.rpartition("@")[2][:80]
