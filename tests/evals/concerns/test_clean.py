"""Cleaning takes out what is said twice or over the cap, keeps the rest as it was, and says so."""

from evals.review.clean import Cleaning, clean
from evals.schema.reviews import PredictionRow

LABELLED = {"text": "A b c.", "category": "Interpret", "severity": "major", "page": 3}
CASES = [
    (("A b.", " a  B. ", "C."), Cleaning(), ["A b.", "C."], [(1, "duplicate", 0)]),
    (("A b.", "a b."), Cleaning(dedup=False), ["A b.", "a b."], []),
    (("A.", " ", "B."), Cleaning(), ["A.", "B."], [(1, "blank", None)]),
    (("A.", "B.", "C."), Cleaning(cap=2), ["A.", "B."], [(2, "cap", None)]),
    (("A.", "a.", "B."), Cleaning(cap=2), ["A.", "B."], [(1, "duplicate", 0)]),
    (("A.", "B."), Cleaning(cap=2, caps={"elife": 1}), ["A."], [(1, "cap", None)]),
    ((), Cleaning(cap=20), [], []),
]


def row(*concerns: object, **more: object) -> PredictionRow:
    return PredictionRow.model_validate({"article_id": "elife:1", "concerns": concerns, **more})


def test_what_goes_and_why_is_shown() -> None:
    for given, cleaning, kept, removed in CASES:
        found = clean(row(*given), cleaning)
        assert list(found.row.concerns) == kept
        assert [(each.index, each.reason, each.kept) for each in found.removed] == removed


def test_objects_stay_objects_with_their_own_fields_and_a_repaired_label() -> None:
    document = clean(row("First.", LABELLED, raw_output="x"), Cleaning()).document(Cleaning())
    assert document["concerns"] == ["First.", LABELLED | {"category": "interpretation"}]
    assert document["raw_output"] == "x"
    assert document["repaired"] == [{"index": 1, "field": "category", "before": "Interpret", "after": "interpretation"}]


def test_a_label_nobody_knows_stays_as_written_and_is_counted() -> None:
    found = clean(row({"text": "A b.", "category": "ethics", "severity": "minor"}), Cleaning())
    assert found.row.concerns[0].category == "ethics"
    assert found.unknown_labels == 1


def test_plain_and_labelled_lists_of_a_published_row_stay_in_step() -> None:
    both = [{"text": text, "category": "other", "severity": "minor"} for text in ("A.", "A.", "B.")]
    document = clean(row("A.", "A.", "B.", structured_concerns=both), Cleaning()).document(Cleaning())
    assert document["concerns"] == ["A.", "B."]
    assert document["structured_concerns"] == [both[0], both[2]]
