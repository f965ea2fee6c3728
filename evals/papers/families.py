"""Manuscript families: all versions of one paper, which belong on one side of a split.

Versions of one paper share most of their text and of their reviews. With one of them in training and
another in test, a program that only looks papers up seems to review them.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import get_args

from evals.io import sha256_of_text
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


def without_leaks(examples: Sequence[ReviewExample]) -> tuple[tuple[ReviewExample, ...], Counter[str]]:
    """Return examples whose families lie on one side each, and how many others are left out, by the reason.

    Test stays whole, train gives way to dev and test: a published test set is never changed, so figures stay
    comparable; what would leak into it goes.
    """
    nearest: dict[str, Split] = {}
    for split in get_args(Split):  # train, dev, test
        nearest |= {each.family: split for each in examples if (each.split or "train") == split}
    kept = tuple(each for each in examples if (each.split or "train") == nearest[each.family])
    leaks = (each for each in examples if (each.split or "train") != nearest[each.family])
    return kept, Counter(f"{each.split} has a version of the paper in {nearest[each.family]}" for each in leaks)


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
        ordered = sorted(families, key=lambda family: sha256_of_text(f"{seed}:{family}"))
        test, dev = (max(1, round(SHARES[name] * len(ordered))) for name in ("test", "dev"))
        for place, family in enumerate(ordered):
            splits[family] = "test" if place < test else "dev" if place < test + dev else "train"
    return tuple(each.model_copy(update={"split": splits[each.family]}) for each in rows)
