"""Rows of the published review benchmark, as its split files or its data set on the Hub hold them.

Three shapes of row are read: the whole one of the split files (and of the Hub's default part), the one
for tasks (`article_id`, concerns of three fields), and the flat one (one concern per row). Letters of
editors and authors are dropped here: nothing behind this file ever sees them.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import ValidationError

from evals.articles.families import family_of
from evals.articles.jats import ARTICLE_TYPES
from evals.articles.markup import without_markup
from evals.schema import Reference, ReviewExample, Section, Split, TextOrigin
from evals.schema.reviews import HumanConcern

LETTERS = ("decision_letter_raw", "author_response_raw")
"""Never model input: they hold what a reviewer is to find."""
PASSED_ON = ("editorial_decision", "review_format", "has_author_response", "revision_round")
CONCERN_FIELDS = tuple(HumanConcern.model_fields)


@dataclass
class Reading:
    """What was read, and what was not: counts of concerns by the reason why they were left out."""

    format: Literal["split", "hub"]
    file: str = ""
    left_out: dict[str, int] = field(default_factory=dict)

    def count(self, reason: str) -> None:
        """Note that one more concern is left out."""
        self.left_out[reason] = self.left_out.get(reason, 0) + 1


def example_of(
    row: Mapping[str, Any], reading: Reading, split: Split | None = None
) -> ReviewExample:
    """Return a published row as an example; ValueError (pydantic's, or with a field) if it cannot be one.

    Sections keep the order and the names of the row, also where names are the same. A concern that has
    no text, or a label outside the benchmark's, is left out and counted in `reading`.
    """
    identity = str(row.get("id") or row.get("article_id") or "")
    doi = str(row.get("doi") or "")
    concerns = _concerns(identity, row.get("concerns") or (), reading)
    known = {name: row[name] for name in PASSED_ON if row.get(name) not in (None, "")}
    return ReviewExample(
        id=identity,
        source=str(row.get("source") or identity.partition(":")[0]),
        doi=doi,
        title=without_markup(str(row.get("title") or "")),
        abstract=without_markup(str(row.get("abstract") or "")),
        sections=tuple(_sections(row.get("paper_text_sections") or row.get("sections") or {})),
        references=tuple(_reference(each) for each in row.get("structured_references") or ()),
        subjects=tuple(
            each for each in row.get("subjects") or () if each.lower() not in ARTICLE_TYPES
        ),
        published_date=row.get("published_date") or None,
        origin=TextOrigin(format=reading.format, file=reading.file),
        family=family_of(identity, doi),
        split=split,
        concerns=tuple(concerns),
        **known,
    )


def from_flat(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return rows of one concern each as rows of one article each, in the order of first appearance."""
    articles: dict[str, dict[str, Any]] = {}
    for row in rows:
        article = {key: value for key, value in row.items() if key not in CONCERN_FIELDS}
        article["source"] = row.get("source")
        found = articles.setdefault(str(row.get("article_id")), {**article, "concerns": []})
        found["concerns"].append({key: row[key] for key in CONCERN_FIELDS if key in row})
    return list(articles.values())


def _concerns(article: str, found: Sequence[Any], reading: Reading) -> list[HumanConcern]:
    concerns: list[HumanConcern] = []
    for number, each in enumerate(found, start=1):
        if not isinstance(each, Mapping):
            reading.count("is no object")
            continue
        given = {key: each[key] for key in CONCERN_FIELDS if each.get(key) is not None}
        given["concern_text"] = clean_concern(
            str(each.get("concern_text") or each.get("text") or "")
        )
        given.setdefault("concern_id", f"{article}:C{number}")
        given.setdefault("reviewer_num", 1)
        try:
            concerns.append(HumanConcern.model_validate(given))
        except ValidationError as error:
            reading.count(f"{error.errors()[0]['loc'][0]} is not what the benchmark allows")
    return concerns


def clean_concern(text: str) -> str:
    """Return a concern's text trimmed, without spaces before line ends or more than one blank line."""
    return re.sub(r"\n{3,}", "\n\n", re.sub(r"[ \t]+\n", "\n", without_markup(text))).strip()


def _sections(found: Any) -> Iterable[Section]:
    """Give sections from a mapping, from pairs of names and texts, or from objects with both."""
    pairs = found.items() if isinstance(found, Mapping) else found
    for pair in pairs:
        if isinstance(pair, Mapping):
            name, text = (
                pair.get("name") or pair.get("title") or pair.get("key"),
                pair.get("text", pair.get("value")),
            )
        else:
            name, text = pair
        if text is not None and str(text).strip():
            yield Section(name=without_markup(str(name or "")), text=without_markup(str(text)))


def _reference(found: Any) -> Reference:
    if not isinstance(found, Mapping):
        return Reference(text=str(found))
    authors = found.get("authors") or ""
    named = authors if isinstance(authors, str) else ", ".join(map(str, authors))
    return Reference(
        authors=named,
        year=str(found.get("year") or ""),
        title=str(found.get("title") or ""),
        journal=str(found.get("journal") or ""),
    )
