"""Manuscript families: all versions of one paper, which belong on one side of a split.

Versions of one paper share most of their text and of their reviews. With one of them in training and
another in test, a program that only looks papers up seems to review them.
"""

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from evals.schema import ReviewExample, Split

VERSIONED = re.compile(
    r"(?P<stem>10\.12688/[a-z0-9]+\.\d+|10\.1101/[\d.]+\d|10\.21203/rs\.\d+\.rs-\d+|10\.7287/peerj\.preprints\.\d+)",
    re.I,
)
"""DOIs of publishers that number versions in the DOI: F1000, bioRxiv, Research Square, PeerJ preprints."""
ELIFE = re.compile(r"(?P<stem>10\.7554/elife\.\d+)", re.I)
SHARES = {"train": 0.7, "dev": 0.12, "test": 0.18}


def family_of(identity: str, doi: str) -> str:
    """Return what all versions of a manuscript have in common, in lower case.

    >>> family_of("f1000:10.12688/f1000research.27123.2", "10.12688/f1000research.27123.2")
    '10.12688/f1000research.27123'
    >>> family_of("elife:84798", "10.7554/eLife.84798.3")
    '10.7554/elife.84798'
    """
    name = (doi or identity.partition(":")[2] or identity).strip().lower()
    name = re.sub(r"^(?:https?://(?:dx\.)?doi\.org/|doi:)", "", name)
    match = ELIFE.match(name) or VERSIONED.match(name)
    if match:
        return re.sub(r"v\d+$", "", match["stem"])
    return re.sub(r"v\d+$", "", name) if name.startswith("10.") else name


@dataclass(frozen=True)
class SplitRepair:
    """Examples with their splits, and how many were left out because a version of them stands nearer the test."""

    examples: tuple[ReviewExample, ...]
    left_out: dict[str, int]


def without_leaks(examples: Sequence[ReviewExample]) -> SplitRepair:
    """Return examples whose families lie on one side each: test stays whole, train gives way to dev and test.

    A published test set is never changed, so figures stay comparable; what would leak into it goes.
    """
    nearest: dict[str, int] = {}
    order: tuple[Split, ...] = ("train", "dev", "test")
    for each in examples:
        place = order.index(each.split or "train")
        nearest[each.family] = max(place, nearest.get(each.family, 0))
    kept, left_out = [], dict[str, int]()
    for each in examples:
        wanted = order[nearest[each.family]]
        if (each.split or "train") == wanted:
            kept.append(each)
        else:
            reason = f"{each.split} has a version of the paper in {wanted}"
            left_out[reason] = left_out.get(reason, 0) + 1
    return SplitRepair(tuple(kept), left_out)


def split_by_family(examples: Iterable[ReviewExample], seed: int = 0) -> tuple[ReviewExample, ...]:
    """Return examples in their order, each with a split; whole families, and each source in its shares.

    The same families get the same split for the same seed.
    """
    rows = tuple(examples)
    by_source: dict[str, list[str]] = {}
    for each in rows:
        families = by_source.setdefault(each.source, [])
        if each.family not in families and not any(each.family in known for known in by_source.values()):
            families.append(each.family)
    splits: dict[str, Split] = {}
    for families in by_source.values():
        ordered = sorted(families, key=lambda family: _draw(family, seed))
        test, dev = (max(1, round(SHARES[name] * len(ordered))) for name in ("test", "dev"))
        for place, family in enumerate(ordered):
            splits[family] = "test" if place < test else "dev" if place < test + dev else "train"
    return tuple(each.model_copy(update={"split": splits[each.family]}) for each in rows)


def _draw(family: str, seed: int) -> str:
    """Return a number for a family that only its name and the seed decide."""
    return hashlib.sha256(f"{seed}:{family}".encode()).hexdigest()
