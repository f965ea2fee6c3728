"""Licences by the ids that the Hub knows, and what may be made of what.

This is a check for oversights, no legal advice: it knows what common licences ask of work that is
made from them, and says so where a card promises more than they allow.
"""

from collections.abc import Iterable
from dataclasses import dataclass

PERMISSIVE = frozenset(
    [
        "apache-2.0",
        "mit",
        "bsd",
        "bsd-2-clause",
        "bsd-3-clause",
        "bsd-3-clause-clear",
        "isc",
        "ncsa",
        "unlicense",
        "wtfpl",
        "zlib",
        "postgresql",
        "bsl-1.0",
        "afl-3.0",
        "artistic-2.0",
        "ecl-2.0",
        "ms-pl",
        "cc0-1.0",
        "pddl",
        "odc-by",
        "cc-by-2.0",
        "cc-by-2.5",
        "cc-by-3.0",
        "cc-by-4.0",
        "cdla-permissive-1.0",
        "cdla-permissive-2.0",
        "etalab-2.0",
        "openmdw-1.0",
    ]
)
SHARE_ALIKE = frozenset(
    [
        "cc-by-sa-3.0",
        "cc-by-sa-4.0",
        "gpl",
        "gpl-2.0",
        "gpl-3.0",
        "agpl-3.0",
        "lgpl",
        "lgpl-2.1",
        "lgpl-3.0",
        "mpl-2.0",
        "odbl",
        "gfdl",
        "osl-3.0",
        "eupl-1.1",
        "eupl-1.2",
        "epl-1.0",
        "epl-2.0",
        "cdla-sharing-1.0",
        "lgpl-lr",
    ]
)
NON_COMMERCIAL = frozenset(
    [
        "cc-by-nc-2.0",
        "cc-by-nc-3.0",
        "cc-by-nc-4.0",
        "cc-by-nc-sa-2.0",
        "cc-by-nc-sa-3.0",
        "cc-by-nc-sa-4.0",
        "intel-research",
        "h-research",
        "apple-amlr",
        "fair-noncommercial-research-license",
        "deepfloyd-if-license",
    ]
)
NO_DERIVATIVES = frozenset(["cc-by-nd-4.0", "cc-by-nc-nd-3.0", "cc-by-nc-nd-4.0"])
OWN_TERMS = frozenset(
    [
        "llama2",
        "llama3",
        "llama3.1",
        "llama3.2",
        "llama3.3",
        "llama4",
        "gemma",
        "grok2-community",
        "openrail",
        "openrail++",
        "bigscience-openrail-m",
        "creativeml-openrail-m",
        "bigcode-openrail-m",
        "bigscience-bloom-rail-1.0",
    ]
)
"""Licences whose terms go over to whatever is made from the model."""
OTHERS = frozenset(["c-uda", "cc", "lppl-1.3c", "apple-ascl", "ofl-1.1", "unknown", "other"])
HUB_IDS = PERMISSIVE | SHARE_ALIKE | NON_COMMERCIAL | NO_DERIVATIVES | OWN_TERMS | OTHERS
DUTIES = {
    "llama": "say “Built with Llama”, keep the licence with the model, follow its use policy",
    "gemma": "pass on the Gemma terms of use and its prohibited uses",
    "openrail": "pass on the use restrictions of the licence",
    "cc-by": "name the author of the data",
    "apache": "keep the notices and say what was changed",
    "mit": "keep the copyright notice",
}
"""What a licence whose id starts so asks of those who pass work on."""


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
    known = [each.licence for each in data]
    if base.licence is None or base.licence not in HUB_IDS - OTHERS:
        return "other"
    if all(licence in PERMISSIVE for licence in known):
        return base.licence
    return "other"


def conflicts(licence: str, sources: Iterable[Source]) -> list[str]:
    """Return what speaks against giving something made from `sources` this licence, in sentences."""
    found = []
    for source in sources:
        theirs = source.licence
        if theirs in NO_DERIVATIVES:
            found.append(f"{source.name} is under {theirs}, which allows no work made from it")
        elif licence in (theirs, "other"):
            continue
        elif theirs in OWN_TERMS:
            found.append(
                f"{source.name} is under {theirs}, whose terms go over to what is made from it, so the"
                f" licence cannot be {licence}"
            )
        elif theirs in NON_COMMERCIAL and licence not in NON_COMMERCIAL:
            found.append(f"{source.name} is under {theirs}, which allows no commercial use, and {licence} does")
        elif theirs in SHARE_ALIKE:
            found.append(
                f"{source.name} is under {theirs}, which wants what is made from it under the same"
                f" licence, not {licence}"
            )
    return found


def unknown(sources: Iterable[Source]) -> list[str]:
    """Return the names of the sources whose licence nobody has recorded."""
    return [each.name for each in sources if each.licence in (None, "unknown")]


def duty(licence: str | None) -> str | None:
    """Return what a licence asks of those who pass on work made from it; None where we know none."""
    text = licence or ""
    return next((words for start, words in DUTIES.items() if text.startswith(start)), None)
