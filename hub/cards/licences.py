"""Licences by the Hub's ids (`licences.yaml`), and what may be made of what: for oversights, no legal advice."""

from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path

import yaml

KNOWN = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
HUB_IDS = frozenset(each for group, ids in KNOWN.items() if group != "duties" for each in ids)


@dataclass(frozen=True)
class Source:
    """Something that a publication is made from; `licence` None = nobody has recorded one."""

    name: str
    licence: str | None


def suggested(base: Source, data: Iterable[Source]) -> str:
    """Return the licence that what is made from these can have: the base's, or "other".

    >>> suggested(Source("b", "apache-2.0"), [Source("d", "mit")])
    'apache-2.0'
    >>> suggested(Source("b", "apache-2.0"), [Source("d", None)])
    'other'
    """
    is_known = base.licence in HUB_IDS and base.licence not in KNOWN["others"]
    if base.licence and is_known and all(each.licence in KNOWN["permissive"] for each in data):
        return base.licence
    return "other"


def conflicts(licence: str, sources: Iterable[Source]) -> list[str]:
    """Return what speaks against giving something made from `sources` this licence, in sentences."""
    found = []
    for source in sources:
        theirs = source.licence
        start = f"{source.name} is under {theirs}, "
        if theirs in KNOWN["no_derivatives"]:
            found.append(start + "which allows no work made from it")
        elif licence in (theirs, "other"):
            continue
        elif theirs in KNOWN["own_terms"]:
            found.append(start + f"whose terms go over to what is made from it, so the licence cannot be {licence}")
        elif theirs in KNOWN["non_commercial"] and licence not in KNOWN["non_commercial"]:
            found.append(start + f"which allows no commercial use, and {licence} does")
        elif theirs in KNOWN["share_alike"]:
            found.append(start + f"which wants what is made from it under the same licence, not {licence}")
    return found


def licence_text(licence: str | None) -> str | None:
    """Return the text of Assay's own licence, the Apache License 2.0, for what is published under it; None for others."""
    return distribution("assay").read_text("licenses/LICENSE") if licence == "apache-2.0" else None


def unknown(sources: Iterable[Source]) -> list[str]:
    """Return the names of the sources whose licence nobody has recorded."""
    return [each.name for each in sources if each.licence in (None, "unknown")]


def duty(licence: str | None) -> str | None:
    """Return what a licence asks of those who pass on work made from it; None where we know none."""
    return next((words for start, words in KNOWN["duties"].items() if (licence or "").startswith(start)), None)
