"""A tool's rows without blanks, repeats and what is over the cap; nothing goes without a trace.

The order is: labels repaired, blanks out, repeats out (the first is kept), the first `cap` kept. Two
concerns repeat one another if their texts are equal but for case and runs of blanks.
"""

from typing import Any, NamedTuple

from evals.review.labels import category_of, plain_label, severity_of
from evals.schema.record import Record
from evals.schema.reviews import (
    CATEGORIES,
    SEVERITIES,
    UNKNOWN,
    PredictionRow,
    Removal,
    RemovedConcern,
    RepairedLabel,
    WrittenConcern,
)


class Cleaning(NamedTuple):
    """How rows are cleaned; `cap` None keeps any number."""

    dedup: bool = True
    cap: int | None = None


class CleanedRow(Record):
    """A row after cleaning, in the form it had, with what was removed and which labels changed."""

    row: PredictionRow
    removed: tuple[RemovedConcern, ...]
    repaired: tuple[RepairedLabel, ...]
    unknown_labels: int

    def document(self, cleaning: Cleaning) -> dict[str, object]:
        """Return the row as it goes into a file: the fields it had, and what cleaning did."""
        return {
            **self.row.model_dump(mode="json", exclude_none=True),
            "removed": [each.model_dump(mode="json") for each in self.removed],
            "repaired": [each.model_dump(mode="json") for each in self.repaired],
            "postprocess": {
                "dedup_exact": cleaning.dedup,
                "cap": cleaning.cap,
                "removed": len(self.removed),
                "categories_fixed": sum(each.field == "category" for each in self.repaired),
                "unknown_labels": self.unknown_labels,
            },
        }


def written(row: PredictionRow) -> list[WrittenConcern]:
    """Return the concerns of a row with what labels they have; strings have none.

    Where a row says its concerns twice, the labelled ones are read.
    """
    if row.structured_concerns is not None:
        return list(row.structured_concerns)
    return [WrittenConcern(text=each) if isinstance(each, str) else each for each in row.concerns]


def key_of(text: str) -> str:
    """Return what repeats share: case and runs of blanks do not count.

    key_of(" No  Control ")  ->  "no control"
    """
    return " ".join(text.split()).lower()


def clean(row: PredictionRow, cleaning: Cleaning) -> CleanedRow:
    """Return a row cleaned; concerns keep their order and their form (string or object)."""
    repaired: list[RepairedLabel] = []
    concerns = [_repaired(index, each, repaired) for index, each in enumerate(written(row))]
    kept: list[int] = []
    removed: list[RemovedConcern] = []
    first: dict[str, int] = {}
    for index, each in enumerate(concerns):
        key = key_of(each.text or "")
        reason: Removal | None = None
        if not key:
            reason = "blank"
        elif cleaning.dedup and key in first:
            reason = "duplicate"
        elif cleaning.cap is not None and len(kept) >= cleaning.cap:
            reason = "cap"
        if reason is None:
            kept.append(index)
        else:
            twin = first[key] if reason == "duplicate" else None
            labels = each.model_dump(include={"category", "severity"})
            removed.append(RemovedConcern(**labels, text=each.text or "", index=index, reason=reason, kept=twin))
        first.setdefault(key, index)
    labelled = tuple(concerns[index] for index in kept)
    if row.structured_concerns is not None:
        texts = tuple(each.text or "" for each in labelled)
        update: dict[str, Any] = {"concerns": texts, "structured_concerns": labelled}
    else:
        as_given = (row.concerns[index] if isinstance(row.concerns[index], str) else concerns[index] for index in kept)
        update = {"concerns": tuple(as_given)}
    labels = [(each.category, CATEGORIES) for each in labelled] + [(each.severity, SEVERITIES) for each in labelled]
    return CleanedRow(
        row=row.model_copy(update=update),
        removed=tuple(removed),
        repaired=tuple(each for each in repaired if each.index in set(kept)),
        unknown_labels=sum(
            label is not None and plain_label(label) not in (*known, UNKNOWN) for label, known in labels
        ),
    )


def _repaired(index: int, given: WrittenConcern, notes: list[RepairedLabel]) -> WrittenConcern:
    """Return a concern with the labels that are meant; labels nobody knows stay as written."""
    update: dict[str, str] = {}
    for name, label in (("category", category_of(given.category)), ("severity", severity_of(given.severity))):
        before = getattr(given, name)
        if label not in (UNKNOWN, before):
            notes.append(
                RepairedLabel.model_validate({"index": index, "field": name, "before": before, "after": label})
            )
            update[name] = label
    return given.model_copy(update=update) if update else given
