"""The reader of free text, against tables: attacks, fair answers, real answers and the bank's own."""

import json
import random
from collections.abc import Iterator
from pathlib import Path

from pydantic import TypeAdapter

from evals.questions import DATASETS, kmp_test, pathway_heldout
from evals.schema import Example, GroundTruth
from evals.verifiers.expected import expected
from evals.verifiers.text.amounts import read_text

CASES = Path(__file__).parent / "cases"
TRUTH: TypeAdapter[GroundTruth] = TypeAdapter(GroundTruth)


def sayings(name: str) -> Iterator[tuple[Example, str]]:
    """Return question and answer for every line of a table: "[id of a question]", then its answers, one a line."""
    by_id = {example.id: example for example in (*pathway_heldout(), *kmp_test())}
    example = None
    for line in (CASES / name).read_text(encoding="utf-8").splitlines():
        if line.startswith("[") and ((line.endswith("]") and "/" in line) or "] open: " in line):
            example = by_id[line[1:].partition("]")[0]]
        elif line and not line.startswith("#") and example is not None:
            yield example, line.encode().decode("unicode_escape")


def read(example: Example, text: str) -> str:
    """Return the verdict on a text that answers a question of the bank."""
    return read_text(expected(example.ground_truth), example.prompt, text).verdict


def answers() -> list[dict[str, str]]:
    """Return the rows of text_answers.jsonl: real answers, and what an earlier reader got wrong."""
    rows = (CASES / "text_answers.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(row) for row in rows]


def test_attacks_are_rarely_judged_correct() -> None:
    rows = list(sayings("text_attacks.txt"))
    passed = [(example.id, text) for example, text in rows if read(example, f"{text}\nConfidence: 90%") == "correct"]
    assert len(passed) <= 0.04 * len(rows), shown(passed, len(rows))


def test_fair_answers_are_nearly_always_correct() -> None:
    rows = list(sayings("text_fair.txt"))
    missed = [(example.id, text) for example, text in rows if read(example, f"{text}\nConfidence: 90%") != "correct"]
    assert len(missed) <= 0.04 * len(rows), shown(missed, len(rows))


def test_real_answers_get_the_verdict_of_a_careful_reader() -> None:
    wrong = []
    for row in answers():
        verdict = read_text(expected(TRUTH.validate_python(row["truth"])), row["prompt"], row["answer"]).verdict
        if verdict == "correct" if row["verdict"] == "!correct" else verdict != row["verdict"]:
            wrong.append((f"{verdict}, not {row['verdict']}", row["answer"]))
    assert not wrong, shown(wrong, len(answers()))


def test_the_banks_own_answers_are_correct_without_their_last_lines() -> None:
    names = ("pathways-heldout", "pathways-train", "missions-train", "kmp-train", "kmp-test", "hallmark-train")
    rows = [row for name in names for row in DATASETS[name]() if row.ground_truth.kind != "facts"]
    missed = []
    for example in rows:
        lines = example.answer.splitlines()
        text = "\n".join(line for line in lines if not line.startswith(("Answer:", "Confidence:")))
        if read(example, text) != "correct":
            missed.append((example.id, text))
    assert len(missed) <= 0.01 * len(rows), shown(missed, len(rows))


def test_a_claim_points_at_its_words() -> None:
    truth = {"kind": "direct", "tissue": "thymus", "pathway": "HALLMARK_HYPOXIA", "direction": "DOWN"}
    text = "**Hypoxia** is not upregulated; it  is down\u00adregulated."
    found = read_text(expected(TRUTH.validate_python(truth)), "", text)
    assert [(claim.says, claim.is_denied, text[claim.start : claim.end]) for claim in found.claims] == [
        ("up", True, "upregulated"),
        ("down", False, "down\u00adregulated"),
    ]


def test_a_long_and_odd_text_is_read() -> None:
    known = {row["truth"]["kind"]: row for row in answers()}
    for piece in ("It is down. No. It is up. ", "up down not ", "12 34 ", ".", "\n", "> ", "a"):
        for row in known.values():
            truth = expected(TRUTH.validate_python(row["truth"]))
            assert read_text(truth, row["prompt"], piece * (2000 // len(piece))).verdict != "judged"


def test_no_text_breaks_the_reader() -> None:
    draw = random.Random(0)
    words = [word for row in answers() for word in row["answer"].split()]
    words += ["NES", "r =", "0.4", "\n", "- ", "?", "(", "≠"]
    rows = [(expected(TRUTH.validate_python(row["truth"])), row["prompt"]) for row in answers()]
    for known, question in rows * 10:
        text = " ".join(draw.choices(words, k=draw.randrange(40)))
        for claim in read_text(known, question, text).claims:
            assert 0 <= claim.start < claim.end <= len(text)


def shown(rows: list[tuple[str, str]], total: int) -> str:
    """Return failing rows as text, with their share."""
    lines = "\n".join(f"{where}: {text!r}" for where, text in rows)
    return f"{len(rows)} of {total} = {len(rows) / total:.1%}\n{lines}"
