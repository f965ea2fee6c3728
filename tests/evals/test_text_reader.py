"""The reader of free text, against tables: attacks, fair answers, real answers and the bank's own."""

import json
import random
from collections.abc import Sequence
from functools import cache

from pydantic import TypeAdapter

from evals.questions import DATASETS
from evals.schema import GroundTruth
from evals.verifiers.expected import Expected, expected
from evals.verifiers.text.amounts import read_text
from tests.frozen.verdicts import CASES, Stored, gold, sayings

TRUTH: TypeAdapter[GroundTruth] = TypeAdapter(GroundTruth)
ANSWERS = [json.loads(row) for row in (CASES / "text_answers.jsonl").read_text(encoding="utf-8").splitlines()]
"""Real answers, and what an earlier reader got wrong."""


def known(truth: dict[str, object]) -> Expected:
    return expected(TRUTH.validate_python(truth))


@cache
def table(name: str) -> tuple[Stored, ...]:
    return tuple(sayings(name))


def shown(rows: Sequence[tuple[str, str]], total: int) -> str:
    """Return failing rows as text, with their share."""
    lines = "\n".join(f"{where}: {text!r}" for where, text in rows)
    return f"{len(rows)} of {total} = {len(rows) / total:.1%}\n{lines}"


def surprising(rows: Sequence[Stored], is_right: bool) -> list[tuple[str, str]]:
    """Return the answers that are judged correct and should not be, or the other way round."""
    found = [(row, read_text(known(row.truth), row.prompt, row.completion).verdict) for row in rows]
    return [(row.where, row.completion) for row, verdict in found if (verdict == "correct") is not is_right]


def test_attacks_are_rarely_judged_correct_and_fair_answers_nearly_always() -> None:
    for name, is_right in (("text_attacks", False), ("text_fair", True)):
        wrong = surprising(rows := table(name), is_right)
        assert len(wrong) <= 0.04 * len(rows), shown(wrong, len(rows))


def test_real_answers_get_the_verdict_of_a_careful_reader() -> None:
    wrong = []
    for row in ANSWERS:
        verdict = read_text(known(row["truth"]), row["prompt"], row["answer"]).verdict
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
    claims = read_text(known(truth), "", text).claims
    told = [("up", True, "upregulated"), ("down", False, "down\u00adregulated")]
    assert [(claim.says, claim.is_denied, text[claim.start : claim.end]) for claim in claims] == told


def test_no_text_however_long_and_odd_breaks_the_reader() -> None:
    kinds = {row["truth"]["kind"]: row for row in ANSWERS}
    for piece in ("It is down. No. It is up. ", "up down not ", "12 34 ", ".", "\n", "> ", "a"):
        for row in kinds.values():
            assert read_text(known(row["truth"]), row["prompt"], piece * (2000 // len(piece))).verdict != "judged"
    draw = random.Random(0)
    words = [word for row in ANSWERS for word in row["answer"].split()]
    words += ["NES", "r =", "0.4", "\n", "- ", "?", "(", "≠"]
    rows = [(known(row["truth"]), row["prompt"]) for row in ANSWERS]
    for truth, question in rows * 10:
        text = " ".join(draw.choices(words, k=draw.randrange(40)))
        for claim in read_text(truth, question, text).claims:
            assert 0 <= claim.start < claim.end <= len(text)
