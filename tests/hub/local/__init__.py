"""A double of the Hub on this machine: enough of its protocol for the real clients, for tests and rehearsals.

    with LocalHub(Hub(folder)) as running: print(running.url)

It refuses what huggingface.co is documented to refuse: front matter,
commits of more files than it advises, tokens that only
read or have no scope for what is asked, repositories without a resource group where one is demanded. It is no proof that huggingface.co takes the same upload.

Large files go by LFS, or by Xet into a folder that hf_xet stores to itself: its chunks, shards and hashes, not its servers.

Missing: git itself and what it refuses in names and sizes, uploads and listings in parts, Xet's servers and their tokens, duplicating, comparing, gated access on request, quotas and paid plans, Spaces that run,
buckets, discussions without changes, the viewer of data sets, web pages.
"""

from tests.hub.local.app import LocalHub
from tests.hub.local.state import Hub, InjectedFault

__all__ = ["Hub", "InjectedFault", "LocalHub"]
