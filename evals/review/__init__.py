"""Peer review: prompts and training rows, concerns read, cleaned, matched with human ones, scored, merged, reported.

No model lives here: whoever scores brings an encoder (`evals.review.match.Encoder`).
"""

from collections.abc import Mapping

DEMONSTRATION = (
    "A demonstration, not a reviewer: trained on thirty papers to show that everything runs, it invents and contradicts"
    " the paper."
)
"""What is said of the embedded reviewer wherever it is named."""
_EMBEDDED = "fcdde42a2ab16694b423f9dceddc67a0acceb0f50e2aa99130d46021c1583999"


def is_demonstration(stage: str, checksums: Mapping[str, str]) -> bool:
    """Return whether a stage of a chain with these checksums is the embedded reviewer."""
    return checksums.get(stage) == _EMBEDDED
