"""How the weights of a model are known: by one checksum, also where they lie in several files."""

import hashlib
from collections.abc import Mapping


def weights_identity(checksums: Mapping[str, str]) -> str:
    """Return the checksum of weights from those of their files (SHA-256, by file name).

    Of one file it is that file's; of several it is over their names and checksums, in the order of names.

    >>> weights_identity({"model.safetensors": "ab12"})
    'ab12'
    """
    if len(checksums) == 1:
        return next(iter(checksums.values()))
    lines = "".join(f"{name} {sha256}\n" for name, sha256 in sorted(checksums.items()))
    return hashlib.sha256(lines.encode("utf-8")).hexdigest()
