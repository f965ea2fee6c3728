"""What a model wrote about a paper is read as a person would read it: `cases/review_answers.yaml`, then any text."""

import gzip
import json
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from evals.review.clean import without_lead
from evals.review.parse import none_in, parse
from tests.bench._measure import seconds

FOLDER = Path(__file__).parents[1] / "cases"
CASES = yaml.safe_load((FOLDER / "review_answers.yaml").read_text(encoding="utf-8"))
OUTPUTS = FOLDER / "review_outputs.jsonl.gz"
TEXTS = [json.loads(each)["text"] for each in CASES["concerns"].values()]
A = CASES["concerns"]["A"]


def read(raw: str | None):
    for name, concern in CASES["concerns"].items():
        raw = raw and raw.replace(f"<{name}>", concern)
    return parse("a", raw)


def said(raw: str | None) -> list[str]:
    return [each.text for each in read(raw).concerns]


def test_every_concern_is_found_word_for_word() -> None:
    found = {row["case"]: (read(row["raw"]).status, said(row["raw"])) for row in CASES["read"]}
    assert found == {row["case"]: ("ok", TEXTS[: row["found"]]) for row in CASES["read"]}


def test_concerns_are_found_with_their_labels_in_the_forms_of_model_families() -> None:
    def told(row) -> tuple[str, list[list[str]]]:
        found = read(row["raw"])
        return found.status, [[each.text, each.category, each.severity] for each in found.concerns]

    found = {row["case"]: told(row) for row in CASES["forms"]}
    assert found == {row["case"]: (row.get("status", "ok"), row["said"]) for row in CASES["forms"]}


def test_titles_give_severity_and_numbered_points_within_points_are_concerns_of_their_own() -> None:
    told = {row["case"]: read(row["raw"]).concerns for row in CASES["titles"]}
    found = {case: [[each.severity, each.text[:24]] for each in concerns] for case, concerns in told.items()}
    assert found == {row["case"]: row["said"] for row in CASES["titles"]}


def test_a_bad_item_in_the_middle_costs_neither_itself_nor_what_follows() -> None:
    found = {row["case"]: said(row["raw"]) for row in CASES["middle"]}
    assert found == {row["case"]: [TEXTS[0], row["middle"], TEXTS[1]] for row in CASES["middle"]}


def test_the_status_tells_none_from_some_from_unreadable() -> None:
    found = {row["case"]: read(row["raw"]).status for row in CASES["status"]}
    assert found == {row["case"]: row["status"] for row in CASES["status"]}


def test_an_answer_that_stops_early_keeps_what_it_said_and_is_partial() -> None:
    for row in CASES["cut"]:
        found = read(row["raw"])
        assert (found.status, found.concerns[-1].text) == ("partial", row["last"]), row
        assert row["problem"] in found.problems, row


def test_a_number_or_severity_before_a_concern_is_taken_off_and_the_severity_kept() -> None:
    text = TEXTS[0]
    found = {row["lead"]: without_lead(row["lead"] + text) for row in CASES["leads"]}
    assert found == {row["lead"]: (text, row["severity"]) for row in CASES["leads"]}
    assert without_lead("**1. Small sample.** It is.") == ("**Small sample.** It is.", None)


def test_words_and_numbers_that_a_concern_is_about_stay() -> None:
    assert [without_lead(text) for text in CASES["no_leads"]] == [(text, None) for text in CASES["no_leads"]]


def test_the_label_of_a_concern_goes_before_the_severity_in_its_text() -> None:
    rows = [
        {"text": f"Major 1. {TEXTS[0]}", "category": "design_flaw", "severity": "minor"},
        {"text": f"Minor 2. {TEXTS[0]}", "category": "design_flaw"},
        {"text": "Major depressive disorder was not diagnosed.", "category": "other"},
    ]
    assert [each.severity for each in parse("a", json.dumps(rows)).concerns] == ["minor", "minor", "unknown"]


def test_a_text_of_null_is_no_concern_that_reads_none() -> None:
    found = read('[{"text": null, "severity": "minor"}, {"text": "None"}, <A>]')
    assert [concern.text for concern in found.concerns] == TEXTS[:1]
    assert found.problems == ("concern 1 has no text", "concern 2 has no text")


def test_labels_are_repaired_by_the_table_and_unknown_ones_are_marked() -> None:
    one = '{"text": "One is here.", "category": "Statoretical methodology", "severity": "CRITICAL"}'
    two = '{"text": "Two is here.", "category": "ethics", "severity": "minor"}'
    first, second = parse("a", f"[{one}, {two}]").concerns
    assert (first.category, first.severity) == ("statistical_methodology", "major")
    assert (second.category, second.severity) == ("unknown", "minor")
    problems = parse("a", '[{"text": "Two is here.", "category": "ethics", "severity": "minor"}]').problems
    assert problems == ("concern 1: unknown category 'ethics'",)


SAID = st.text(min_size=3, max_size=60).filter(
    lambda text: sum(map(str.isalpha, text)) > 2 and without_lead(text)[0] == text.strip()
)


@given(st.lists(SAID, min_size=1, max_size=6, unique_by=lambda text: text.strip()))
@example(["A\nuº"])
def test_valid_json_is_read_exactly(texts: list[str]) -> None:
    raw = json.dumps([{"text": text, "category": "other", "severity": "minor"} for text in texts])
    said = [text.strip() for text in texts if text.strip().lower() not in ("none", "null", "nan")]
    wanted = [text for text in said if not none_in(text)]  # such as a heading alone, INTRODUCTION
    assert [concern.text for concern in parse("a", raw).concerns] == wanted


@given(st.text(alphabet="[]{}\",:'`\\ntexcagory1 \n<>/", max_size=300))
def test_no_output_raises(raw: str) -> None:
    assert parse("a", raw).status in ("ok", "empty", "partial", "failed")


@pytest.mark.parametrize("part", ["[", '["', '{"text": ', "<think>", "[1,", '{"text": "a b c" '])
def test_hostile_outputs_are_answered_in_bounded_time(part: str) -> None:
    assert seconds(lambda: parse("a", part * 5_000)) < 5


@pytest.mark.parametrize("part", [slice(722), pytest.param(slice(722, None), marks=pytest.mark.slow)])
def test_nothing_is_lost_or_invented_in_2222_outputs_of_37_forms_and_500_damaged_ones(part: slice) -> None:
    """Outputs made with planted concerns, and what was read of each when none that a person would find was lost."""
    rows = [json.loads(line) for line in gzip.decompress(OUTPUTS.read_bytes()).splitlines()[part]]
    found = [[" ".join(each.text.split()) for each in parse("x", raw).concerns] for raw, _ in rows]
    assert len(rows) in (722, 2000)
    assert [(raw, said, now) for (raw, said), now in zip(rows, found, strict=True) if said != now] == []


def test_an_answer_that_is_cut_anywhere_says_nothing_but_what_stands_in_it() -> None:
    rows = [{"category": "other", "severity": "minor", "text": text} for text in (*TEXTS, "样本量太小，无法支持结论。")]
    debris = set()
    for raw in (
        json.dumps(rows),
        json.dumps(rows, indent=2, ensure_ascii=False),
        repr([dict(reversed(rows[0].items()))]),
    ):
        found = {each.text for end in range(len(raw)) for each in parse("a", raw[:end]).concerns}
        debris |= {each for each in found if not any(row["text"].startswith(each) for row in rows)}
    assert debris == set()
