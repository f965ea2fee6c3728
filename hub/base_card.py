"""The card of a base that is published with a chain: what it is a copy of, and how it came about."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from evals.schema import BaseIdentity
from evals.schema.publishing import BaseOrigin
from hub.cards import filled_in
from hub.licences import duty
from hub.parcel import Part

TEMPLATE = Path(__file__).parent / "templates" / "base.md"


@dataclass(frozen=True)
class BaseCard:
    """What the card is made from: where it goes, where it comes from, its identity, what is uploaded."""

    repo: str
    tag: str
    origin: BaseOrigin
    identity: BaseIdentity
    files: Mapping[str, Part]


def base_card(card: BaseCard) -> str:
    """Return README.md: front matter and body."""
    body = filled_in(
        TEMPLATE,
        card=card,
        origin=card.origin,
        packed=card.origin.packed,
        name=card.repo.split("/")[-1],
        duty=duty(card.origin.licence),
        files=sorted((path, part.size, part.sha256) for path, part in card.files.items()),
    )
    return f"---\n{_front_matter(card)}---\n\n{body}"


def _front_matter(card: BaseCard) -> str:
    """Return the YAML between the dashes. To the Hub, one unpacked from a quantised model is quantised."""
    data: dict[str, Any] = {"license": card.origin.licence or "other"}
    if card.origin.licence is None:
        data["license_name"] = "not-recorded"
    data["language"] = ["en"]
    if card.origin.original is not None:
        data["base_model"] = card.origin.original
        if card.origin.packed:
            data["base_model_relation"] = "quantized"
    data |= {
        "library_name": "transformers",
        "pipeline_tag": "text-generation",
        "tags": ["base-copy", "assay", *(["unpacked"] if card.origin.packed else [])],
    }
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=100)
