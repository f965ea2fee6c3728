"""A Hub on this machine: enough of the Hub's protocol for the real clients, for rehearsals and tests.

    with LocalHub(Hub(folder)) as running: print(running.url)

It keeps repositories in a folder and is safe to restart. It checks how the protocol is used and what cards
say; that huggingface.co takes the same upload is not proven by it.
"""

from hub.local.app import LocalHub, serve
from hub.local.state import Hub, InjectedFault

__all__ = ["Hub", "InjectedFault", "LocalHub", "serve"]
