"""What a judge and the readers of free text read in an answer; how far readers agree with labels. No model, no network."""

import json
import random
from collections.abc import Sequence
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import get_args

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

import evals
from evals.errors import BadConfig, LabError
from evals.io import read_rows
from evals.questions import DATASETS
from evals.readers import (
    GivenAnswer,
    LabelRow,
    Reading,
    ReadRequest,
    check_way,
    compare_readers,
    judge_answers,
    judge_question,
    problem_of,
    verdict_of,
    with_texts,
)
from evals.schema import (
    CANNOT_BE_TOLD,
    AbstainTruth,
    ChoiceTruth,
    DirectTruth,
    FactsTruth,
    GroundTruth,
    RubricItem,
    RubricTruth,
)
from evals.stats.intervals import wilson
from evals.verifiers import verify_answer, verify_prepared
from evals.verifiers.expected import Expected, Outcome, expected_answer
from evals.verifiers.text.free_text import read_free_text
from evals.wording import read_confidence, statements
from tests.bench._measure import seconds
from tests.evals.reports import TABLES
from tests.frozen.verdicts import CASES, Stored, gold, sayings

ASKED = "How does adipogenesis respond in the thymus of mice flown in space?"
JUDGED = yaml.safe_load((Path(__file__).parent / "cases" / "judged.yaml").read_text(encoding="utf-8"))
TRUTHS = {name: TypeAdapter(GroundTruth).validate_python(truth) for name, truth in JUDGED["truths"].items()}
DOWN, SPLIT, ENZYME, BODY = (TRUTHS[name] for name in ("down", "split", "enzyme", "body"))


def test_a_reading_gets_the_verdict_that_its_answer_line_would_get():
    wrong = []
    for name, answer, *expected in JUDGED["readings"]:
        truth = TRUTHS[name]
        got = verdict_of(GivenAnswer(truth, ASKED, "some words"), Reading(answer))
        same = [got.verdict, got.answer] == expected and got.read_by == "judge"
        if answer != "none" and not answer.startswith("both"):
            line = verify_prepared(truth, ASKED, f"Answer: {answer}", read="answer")
            same = same and (got.verdict, got.answer, got.scores) == (line.verdict, line.answer, line.scores)
        wrong += [] if same else [(truth.kind, answer, got.verdict, got.answer)]
    assert wrong == []


def test_a_judge_is_shown_options_that_do_not_depend_on_the_truth():
    truths = (DOWN, DOWN.model_copy(update={"direction": "UP"}), SPLIT, AbstainTruth())
    assert len({judge_question(truth, ASKED, "It falls.") for truth in truths}) == 1
    (first, second) = (judge_question(ENZYME.model_copy(update={"value": v}), "Which class?", "x") for v in ENZYME.options[:2])  # fmt: skip
    assert first == second
    assert first.options == (*ENZYME.options, CANNOT_BE_TOLD)
    numbers = (judge_question(BODY.model_copy(update={"value": v}), "How warm?", "x") for v in (1.0, 2.0))
    assert len(set(numbers)) == 1


CLOSED = ReadRequest(ASKED, "x", "up / down / cannot be told", ("up", "down", CANNOT_BE_TOLD))
OPEN = ReadRequest("Which tissue?", "x", "a name")


def test_a_reading_outside_the_options_does_not_stand():
    fine = ("up", "Up", "upregulated", "none", "both: up; down", "up / down / cannot be told")
    bad = ("both: up", "both: up; sideways", "up / down", "it depends", " ")
    assert [answer for answer in fine if problem_of(CLOSED, answer)] == []
    assert [answer for answer in bad if not problem_of(CLOSED, answer)] == []
    assert [bool(problem_of(OPEN, answer)) for answer in ("the thymus", "none", "")] == [False, False, True]


def test_a_confidence_that_the_answer_does_not_state_does_not_count():
    rows = JUDGED["confidences"]
    got = [verdict_of(GivenAnswer(DOWN, ASKED, text), Reading("down", read)).confidence for text, read, *_ in rows]
    assert [[each.value, each.status] for each in got] == [row[2:] for row in rows]


def test_a_false_figure_costs_v2_as_it_does_in_an_answer_that_is_read_as_text():
    missions = {"RR-6": {"nes": -3.05, "padj": 0.001}}
    truth = DirectTruth.model_validate({**DOWN.model_dump(), "missions": missions})
    got = verdict_of(GivenAnswer(truth, ASKED, "Down in RR-1 and RR-6."), Reading("down"))
    assert (got.verdict, got.scores["V1"], got.scores["V2"]) == ("correct", 1.0, 0.0)


RUBRIC = RubricTruth(items=(RubricItem(title="way", weight=3.0), RubricItem(title="tissue")))


def test_a_rubric_earns_the_share_of_the_weight_that_is_met():
    shares = {(1.0, 1.0): 1.0, (1.0, 0.5): 1.0, (1.0, 0.0): 0.75, (0.4, 1.0): 0.25, (0.0, 0.0): 0.0}
    for scores, share in shares.items():
        got = verdict_of(GivenAnswer(RUBRIC, "Why?", "It falls. Confidence: 90%"), Reading(scores=scores))
        v4 = 1 - (0.9 - (share == 1)) ** 2
        assert got.verdict == ("correct" if share == 1 else "incorrect") and got.read_by == "judge"
        assert (got.scores["V1"], got.scores["V3"]) == (share, None)
        assert got.scores["V4"] == pytest.approx(v4)
        assert got.reward == pytest.approx((0.29 * share + 0.13 * v4) / 0.42)


def test_a_rubric_without_a_judge_has_no_reward_and_facts_are_a_rubric_for_a_judge():
    assert verify_prepared(RUBRIC, "Why?", "It falls.").reward is None
    facts = FactsTruth(facts=("It falls.", "In thymus."))
    assert [item.title for item in judge_question(facts, "Why?", "x").items] == list(facts.facts)
    got = verdict_of(GivenAnswer(facts, "Why?", "x"), Reading(scores=(1.0, 0.0)))
    assert (got.scores["V1"], got.reason) == (0.5, "1 of 2 items met; not met: In thymus.")


def test_empty_answers_are_no_claim_without_asking_and_equal_ones_are_asked_about_once():
    asked: list[ReadRequest] = []

    def read(tasks: Sequence[ReadRequest]) -> list[Reading]:
        asked.extend(tasks)
        return [Reading("down")] * len(tasks)

    answers = [GivenAnswer(DOWN, ASKED, text) for text in ("", "It falls.", "<think>It falls.", "It falls.")]
    got = judge_answers([*answers, GivenAnswer(RUBRIC, "Why?", " ")], read)
    assert [each.verdict for each in got] == ["no_claim", "correct", "no_claim", "correct", "no_claim"]
    assert {each.read_by for each in got} == {"judge"}
    assert (len(asked), got[-1].reward) == (1, 0.0)
    assert judge_answers([], read) == []


# ---- agreement with labels --------------------------------------------------------------------

LABELS = Path(evals.__file__).parent / "labels"
CODON = ChoiceTruth(value="Leu", options=("Phe", "Leu", "Ser"))


def row(place: int, line: str | None, label: object, **more: object) -> LabelRow:
    text = f"So it is.\nAnswer: {line}\nConfidence: 90%" if line else "I would not know."
    given = {"id": str(place), "prompt": f"Question {place // 2}?", "completion": text, "label": label}
    return LabelRow.model_validate({**given, "ground_truth": CODON, **more})


ROWS = [row(place, *told) for place, told in enumerate(JUDGED["labelled"])]


def test_agreement_is_counted_with_either_of_several_labels_right_and_unread_answers_apart() -> None:
    (found,) = compare_readers(ROWS, ["answer"], draws=500).readers
    assert (found.n, found.n_unread) == (6, 1)
    assert found.correct.value == pytest.approx(5 / 6)
    assert found.verdicts.value == pytest.approx(4 / 6)
    assert found.correct.low is not None and found.correct.low < 5 / 6 < (found.correct.high or 0)
    assert found.confusion["incorrect"] == {"correct": 1, "incorrect": 2, "contradictory": 0, "no_claim": 0}
    assert found.confusion["no_claim"]["incorrect"] == 1
    misread = [(one.id, one.labels, one.verdict) for one in found.misread]
    assert misread == [("1", ("incorrect",), "correct"), ("5", ("no_claim",), "incorrect")]
    assert found.by_kind["choice"].model_dump() == {"n": 6, "correct": 5, "verdicts": 4}


def test_full_agreement_has_wilsons_interval_over_questions_and_nothing_read_has_none() -> None:
    (found,) = compare_readers(ROWS[2:5], ["answer"]).readers
    assert (found.verdicts.low, found.verdicts.high) == pytest.approx(wilson(2, 2))
    (nothing,) = compare_readers(ROWS[6:], ["answer"]).readers
    assert (nothing.n, nothing.correct.value, nothing.n_unread) == (0, None, 1)


def test_a_judge_is_held_against_the_labels_like_any_reader() -> None:
    def says_leu(tasks: Sequence[ReadRequest]) -> list[Reading]:
        return [Reading("Leu")] * len(tasks)

    (found,) = compare_readers(ROWS, ["judge"], says_leu, draws=100).readers
    assert (found.n, found.verdicts.value) == (7, pytest.approx(1 / 7))
    with pytest.raises(BadConfig, match="none is named"):
        compare_readers(ROWS, ["judge"])
    with pytest.raises(BadConfig, match="'ear'; choose one of auto, answer, text, judge"):
        check_way("ear")


def test_two_labellers_are_compared_by_kappa_on_what_each_named_first() -> None:
    pairs = [("correct", "correct"), ("incorrect", "no_claim"), (["no_claim", "incorrect"], "no_claim")] * 4
    rows = [row(place, "Leu", "correct", labelled_twice=pair) for place, pair in enumerate(pairs)]
    found = compare_readers([*rows, row(99, "Leu", "correct")], ["answer"], draws=100).labellers
    assert found["percent_agreement"].value == pytest.approx(2 / 3)
    by_chance = (1 * 1 + 1 * 2) / 9
    assert found["cohen_kappa"].value == pytest.approx((2 / 3 - by_chance) / (1 - by_chance))
    assert found["cohen_kappa"].n == 12
    assert compare_readers(ROWS, ["answer"], draws=10).labellers == {}


def test_texts_are_read_from_the_files_of_others_and_what_is_not_there_is_named(tmp_path: Path) -> None:
    answers = {"answers": {"Phi-2": [{"question": "Which?", "response": "Answer: Leu"}]}}
    (tmp_path / "theirs.json").write_text(json.dumps(answers), encoding="utf-8")
    given = {"id": "a", "ground_truth": CODON, "label": "correct", "file": "theirs.json"}
    there = LabelRow.model_validate({**given, "at": ["answers", "Phi-2", 0]})
    (found,) = with_texts([there], tmp_path)
    assert (found.prompt, found.completion) == ("Which?", "Answer: Leu")
    with pytest.raises(LabError, match=r"--texts FOLDER"):
        with_texts([there], None)
    with pytest.raises(LabError, match="cannot read"):
        with_texts([there], tmp_path / "elsewhere")
    with pytest.raises(LabError, match=r"theirs.json holds nothing at \['answers', 'Phi-2', 7\].*'a'"):
        with_texts([LabelRow.model_validate({**given, "at": ["answers", "Phi-2", 7]})], tmp_path)


def test_the_label_sets_that_ship_are_split_by_question_and_say_what_their_page_says() -> None:
    names = [LABELS / f"{name}.jsonl" for name in ("dev", "test", "biorlhf")]
    dev, test, theirs = (read_rows(name, LabelRow, key=lambda each: each.id) for name in names)
    questions = [{each.question_id for each in rows} for rows in (dev, test, theirs)]
    assert not questions[0] & questions[1]
    assert not {each.id for each in dev} & {each.id for each in test}
    page = (LABELS / "README.md").read_text(encoding="utf-8")
    for name, rows, asked in zip(("dev", "test", "biorlhf"), (dev, test, theirs), questions, strict=True):
        assert f"| `{name}.jsonl` | {len(rows)} | {len(asked)} |" in page
    assert all(each.completion is not None and each.split == "dev" for each in dev)
    assert all(each.completion is not None and each.split == "test" for each in test)
    assert all(each.completion is None and each.file and each.at for each in theirs)
    kappa = compare_readers([*dev, *test], []).labellers["cohen_kappa"]
    assert f"{kappa.value:.2f}".removeprefix("0") in page and f"{kappa.n} answers" in page


AGREEMENT = {"dev": (0.996, 0.979), "written": (1.0, 0.976), "styles": (1.0, 0.996), "heldout": (0.967, 0.918)}
"""Share of the answers on which readers agree with the labels: correct or not, four verdicts. Those of `heldout` are what to expect of
answers that nobody has looked at: no reader is developed on it, so its answers are never printed."""


def test_readers_agree_with_the_labels_as_often_as_the_page_says() -> None:
    page = (LABELS / "README.md").read_text(encoding="utf-8")
    for name, figures in AGREEMENT.items():
        rows = read_rows(LABELS / f"{name}.jsonl", LabelRow, key=lambda each: each.id)
        (found,) = compare_readers(rows, ["auto"], draws=10).readers
        assert f"| `{name}.jsonl` | {len(rows)} | {len({each.question for each in rows})} |" in page
        assert (found.correct.value, found.verdicts.value) == pytest.approx(figures, abs=5e-4), name
        row = next(line for line in page.splitlines() if line.startswith(f"| `{name}.jsonl` |") and "%" in line)
        assert [f"{figure:.1%}".replace("%", " %") in row for figure in figures] == [True, True], row


# ---- the readers of free text, against tables -----------------------------------------------------


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
