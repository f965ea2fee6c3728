"""The readers of free text, against tables: attacks, fair and real answers, the bank's own; confidences in any form."""

import json
import random
from collections.abc import Sequence
from functools import cache, partial
from itertools import product
from typing import get_args

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from evals.questions import DATASETS
from evals.schema import GroundTruth
from evals.verifiers import verify_answer
from evals.verifiers.expected import Expected, Outcome, expected_answer
from evals.verifiers.text.free_text import read_free_text
from evals.wording import read_confidence, statements
from tests.bench._measure import seconds
from tests.evals.reports import TABLES
from tests.frozen.verdicts import CASES, Stored, gold, sayings

TRUTH: TypeAdapter[GroundTruth] = TypeAdapter(GroundTruth)
ANSWERS = [json.loads(row) for row in (CASES / "text_answers.jsonl").read_text(encoding="utf-8").splitlines()]
"""Real answers, and what an earlier reader got wrong."""


def known(truth: dict[str, object]) -> Expected:
    return expected_answer(TRUTH.validate_python(truth))


@cache
def table(name: str) -> tuple[Stored, ...]:
    return tuple(sayings(name))


def shown(rows: Sequence[tuple[str, str]], total: int) -> str:
    """Return failing rows as text, with their share."""
    lines = "\n".join(f"{where}: {text!r}" for where, text in rows)
    return f"{len(rows)} of {total} = {len(rows) / total:.1%}\n{lines}"


def surprising(rows: Sequence[Stored], is_right: bool) -> list[tuple[str, str]]:
    """Return the answers that are judged correct and should not be, or the other way round."""
    found = [(row, read_free_text(known(row.truth), row.prompt, row.completion).verdict) for row in rows]
    return [(row.where, row.completion) for row, verdict in found if (verdict == "correct") is not is_right]


def test_attacks_are_rarely_judged_correct_and_fair_answers_nearly_always() -> None:
    for name, is_right in (("text_attacks", False), ("text_fair", True)):
        wrong = surprising(rows := table(name), is_right)
        assert len(wrong) <= 0.04 * len(rows), shown(wrong, len(rows))


def test_symbols_replies_in_other_words_and_what_is_said_of_other_things_are_read_right() -> None:
    wrong = []
    for group in yaml.safe_load((CASES / "other_words.yaml").read_text(encoding="utf-8")):
        truth = TRUTH.validate_python(group["truth"])
        for wanted, text in ((verdict, text) for verdict in get_args(Outcome) for text in group.get(verdict, ())):
            found = verify_answer(truth, group["question"], text)
            wrong += [] if found.verdict == wanted else [(found.verdict, wanted, text)]
    assert wrong == []


def test_prose_beside_a_yes_or_no_is_read_as_a_careful_reader_takes_it() -> None:
    wrong = []
    for group in yaml.safe_load((CASES / "yes_no.yaml").read_text(encoding="utf-8")):
        for says, text in ((key, each) for key in ("yes", "no", "neither") for each in group.get(key, ())):
            truth = TRUTH.validate_python({"kind": "choice", "value": "yes", "options": ["yes", "no"]})
            found = verify_answer(truth, group["question"], text)
            heard = {"yes": "yes", "no": "no"}.get(found.answer or "", "neither")
            wrong += [] if heard == says else [(heard, says, text)]
    assert wrong == []


def test_real_answers_get_the_verdict_of_a_careful_reader() -> None:
    wrong = []
    for row in ANSWERS:
        verdict = read_free_text(known(row["truth"]), row["prompt"], row["answer"]).verdict
        if verdict == "correct" if row["verdict"] == "!correct" else verdict != row["verdict"]:
            wrong.append((f"{verdict}, not {row['verdict']}", row["answer"]))
    assert not wrong, shown(wrong, len(ANSWERS))


def test_the_banks_own_answers_are_correct_without_their_last_lines() -> None:
    names = DATASETS.keys() - {"kmp-rewordings", "missions-parted-train"}
    rows = [row for row in gold() if row.where.split()[0] in names and row.truth["kind"] != "facts"]
    rows = [row._replace(completion="\n".join(row.completion.splitlines()[:-2])) for row in rows]
    missed = surprising(rows, is_right=True)
    assert len(missed) <= 0.01 * len(rows), shown(missed, len(rows))


def test_a_claim_points_at_its_words() -> None:
    truth = {"kind": "direct", "tissue": "thymus", "pathway": "HALLMARK_HYPOXIA", "direction": "DOWN"}
    text = "**Hypoxia** is not upregulated; it  is down\u00adregulated."
    claims = read_free_text(known(truth), "", text).claims
    told = [("up", True, "upregulated"), ("down", False, "down\u00adregulated")]
    assert [(claim.says, claim.is_denied, text[claim.start : claim.end]) for claim in claims] == told


def test_no_text_however_long_and_odd_breaks_the_reader() -> None:
    kinds = {row["truth"]["kind"]: row for row in ANSWERS}
    for piece in ("It is down. No. It is up. ", "up down not ", "12 34 ", ".", "\n", "> ", "a"):
        for row in kinds.values():
            assert read_free_text(known(row["truth"]), row["prompt"], piece * (2000 // len(piece))).verdict != "judged"
    draw = random.Random(0)
    words = [word for row in ANSWERS for word in row["answer"].split()]
    words += ["NES", "r =", "0.4", "\n", "- ", "?", "(", "≠"]
    rows = [(known(row["truth"]), row["prompt"]) for row in ANSWERS]
    for truth, question in rows * 10:
        text = " ".join(draw.choices(words, k=draw.randrange(40)))
        for claim in read_free_text(truth, question, text).claims:
            assert 0 <= claim.start < claim.end <= len(text)


# ---- the confidence that an answer states: `cases/confidence.yaml` ----------------------------

STATEMENTS = yaml.safe_load((CASES / "confidence.yaml").read_text(encoding="utf-8"))
STATED = [(text, value) for value, texts in STATEMENTS["stated"].items() for text in texts]
FORMS, PIECES, LONG = (
    TABLES[f"confidence: {name}"] for name in ("forms of a statement", "pieces of any text", "pieces of long texts")
)


def test_every_stated_confidence_is_read_alone_and_within_a_longer_answer() -> None:
    around = "Adipogenesis falls in 3 of 3 missions (NES -2.1, padj 0.01).\n\n{}\n\nThat is all."
    forms = [(form.format(n=n, share=f"{n / 100:.2f}"), n / 100) for form, n in product(FORMS, range(101))]
    asked = [*STATED, *((around.format(text), value) for text, value in STATED), *forms]
    found = [(text, value, read_confidence(text)) for text, value in asked]
    wrong = [row for row in found if (row[2].status, row[2].value) != ("stated", pytest.approx(row[1], abs=1e-4))]
    assert not wrong, "\n".join(map(str, wrong))


def test_a_confidence_is_never_guessed_and_an_impossible_or_contradictory_one_has_no_value() -> None:
    texts = {name: each for name, each in STATEMENTS.items() if name != "stated"}
    found = {name: [(text, read_confidence(text)) for text in each] for name, each in texts.items()}
    nothing = {"status": "missing", "value": None, "quote": None}
    wrong = [row for row in found["missing"] if row[1].model_dump() != nothing]
    wrong += [(text, it) for text, it in found["invalid"] if (it.status, it.value) != ("invalid", None) or not it.quote]
    assert not wrong, "\n".join(map(str, wrong))


def test_the_quote_is_what_the_answer_says() -> None:
    assert read_confidence("Down. **Confidence:** 80%, I think.").quote == "Confidence:** 80%"


@settings(max_examples=100)
@given(st.lists(st.sampled_from(PIECES), max_size=14), st.sampled_from(("", " ")))
def test_any_text_has_a_confidence_in_range_or_none(pieces: list[str], blank: str) -> None:
    text = blank.join(pieces)
    found = read_confidence(text)
    assert (found.value is not None) == (found.status == "stated")
    assert found.value is None or 0.0 <= found.value <= 1.0
    assert (found.quote is not None and found.quote in text) == (found.status != "missing")


def test_the_time_to_look_for_a_confidence_grows_with_the_length_only() -> None:
    slow = []
    for piece in LONG:
        statements(piece)
        pages = [piece * (n // len(piece)) for n in (2_000, 16_000)]
        short, long = (min(seconds(partial(statements, page)) for _ in range(2)) for page in pages)
        slow += [] if long < 8 * 3 * short + 0.01 else [(piece, short, long)]
    assert not slow
