"""What a review model is shown and taught: papers cut into a budget of tokens, rows with their concerns."""

import json

import pytest

from evals.errors import BadConfig, ChainMismatch
from evals.review.corpus import (
    CORPORA,
    CorpusRecipe,
    Rules,
    best_parts,
    corpus_statistics,
    make_corpus,
    messages_of,
    paper_rows,
    select,
)
from evals.review.prompt import (
    CUT,
    Budget,
    allot,
    check_prompt,
    divide_room,
    instructions,
    pieces_of,
    prompt_sha256,
    request,
    review_system_prompt,
)
from tests.evals.reports import TABLES
from tests.evals.reviewed import WordCounter, concern, example, prose

COUNTER = WordCounter()
LONG = example([("Introduction", prose(600, "I")), ("Methods", prose(900, "M")), ("Results", prose(900, "R"))])
WHOLE = "# A paper about mice\n\n## Abstract\nMice were treated."

# ---- pieces of a paper ------------------------------------------------------------------------


def texts(article, room, overlap=40, max_parts=9):
    return [piece.text for piece in pieces_of(article, room, COUNTER, overlap, max_parts)]


def test_a_paper_that_fits_is_one_piece_in_its_own_order_with_nothing_lost():
    paper = example([("Results", "It grew."), ("Methods", "We looked. Twice."), ("Results", "Again.")])
    (piece,) = pieces_of(paper, 500, COUNTER, 40, 4)
    told = "## Results\nIt grew.\n\n## Methods\nWe looked. Twice.\n\n## Results\nAgain."
    assert (piece.text, piece.parts, piece.lost) == (f"{WHOLE}\n\n{told}", 1, 0)
    assert texts(example([]), 300) == [WHOLE]


def test_a_long_paper_is_read_in_parts_that_fit_hold_every_sentence_and_overlap():
    parts = texts(LONG, 800)
    assert len(parts) >= 3 and all(part.startswith("# A paper about mice") for part in parts)
    sentences = [f"{mark}{n} group" for mark, count in (("I", 60), ("M", 90), ("R", 90)) for n in range(count)]
    assert [each for each in sentences if not any(each in part for part in parts)] == []
    assert any("(continued)" in part for part in parts[1:])
    assert parts[0].split("\n")[-1].rsplit(". ", 1)[-1].rstrip(".") in parts[1]
    for room in (300, 500, 800, 1300):
        for piece in pieces_of(LONG, room, COUNTER, 40, 9):
            assert piece.tokens == len(COUNTER.ends(piece.text)) <= room
    for text in ("mice " * 3000, "x" * 9000 + " " + "y1!" * 2000):  # no full stop, an endless word
        assert all(len(COUNTER.ends(part)) <= 400 for part in texts(example([("Methods", text)]), 400))


def test_what_does_not_fit_in_all_parts_is_taken_from_what_matters_least():
    middle = [("Methods", prose(300, "M")), ("Results", prose(300, "R"))]
    paper = example([("Introduction", prose(600, "I")), *middle, ("Ethics", "Approved.")])
    (piece,) = pieces_of(paper, 900, COUNTER, 40, 1)
    assert all(f"M{n} group" in piece.text and f"R{n} group" in piece.text for n in range(30))
    assert "Approved." in piece.text
    assert CUT in piece.text and "I59 group" not in piece.text and "I0 group" in piece.text
    assert 0 < piece.lost < 500
    paper = example([("Methods", prose(200, "M"))], abstract=prose(3000, "A"))  # leaves half to the paper
    (piece,) = pieces_of(paper, 600, COUNTER, 40, 1)
    assert "M0 group" in piece.text and piece.lost > 2000


def test_room_goes_to_what_matters_first_and_surplus_to_who_needs_it_in_exact_shares():
    cases = TABLES["reviews: room for parts"]
    assert [allot(*asked) for *asked, _ in cases] == [given for *_, given in cases]
    for room in range(60):
        shares = divide_room([3, 17, 0, 9, 9], room)
        assert sum(shares) == min(room, 38)
        assert all(0 <= got <= want for got, want in zip(shares, [3, 17, 0, 9, 9], strict=True))


def test_the_budget_is_the_context_less_instructions_and_reply_and_one_that_makes_no_sense_is_refused():
    fixed = instructions(COUNTER)
    assert Budget(2000, 300).paper(COUNTER) == 2000 - fixed - 300
    assert Budget(2000, 300).paper(COUNTER, reply=500) == 2000 - fixed - 500
    with pytest.raises(BadConfig, match=f"less {fixed} for the instructions"):
        Budget(900, 300).paper(COUNTER)
    for given in ({"context": 0}, {"max_parts": 0}, {"overlap": -1}, {"context": 1000, "overlap": 400}):
        with pytest.raises(BadConfig):
            Budget(**given)


def test_the_instructions_are_known_by_checksum_and_a_part_says_which_of_how_many_it_is():
    assert prompt_sha256()[:12] == "11872cd2d1ef"
    check_prompt(review_system_prompt(), "runs/mine")
    with pytest.raises(ChainMismatch, match="runs/mine was trained with other review instructions"):
        check_prompt("Review.", "runs/mine")
    assert "part 2 of 3" in request("text", 2, 3) and "part" not in request("text").split("\n")[0]


# ---- rows to train on -------------------------------------------------------------------------

A, B = CORPORA["a"], CORPORA["b"]
METHODS = [("Methods", "Text.")]
DIFFER = concern("The groups differ.")


def reply(made):
    return json.loads(made.row.conversations[2].value)


def test_a_row_asks_for_a_review_and_answers_with_the_concerns_most_important_first():
    said = [concern("A small thing.", 1, severity="minor"), concern("Ünder-powered design.", 2)]
    paper = example([("Methods", "We looked.")], said)
    (made,) = paper_rows(paper, select(paper.concerns, A)[0], Budget(), COUNTER)
    assert reply(made) == [
        {"text": "Ünder-powered design.", "category": "design_flaw", "severity": "major"},
        {"text": "A small thing.", "category": "design_flaw", "severity": "minor"},
    ]
    assert "Ünder" in made.row.conversations[2].value
    assert [each["role"] for each in messages_of(made.row)] == ["system", "user", "assistant"]
    assert messages_of(made.row)[0]["content"] == review_system_prompt()
    assert '"from":"gpt"' in made.row.model_dump_json(by_alias=True)


def test_a_reply_is_never_cut_and_every_row_fits_its_context_or_the_numbers_are_named():
    budget = Budget(2500, 100, 40, 3)
    concerns = [concern(f"Point {n}: {prose(60)}", n) for n in range(1, 15)]
    rows = paper_rows(example([("Methods", prose(4000, "M"))], concerns), concerns, budget, COUNTER)
    assert sum(len(reply(made)) for made in rows) == 14
    for made in rows:
        assert COUNTER.chat(messages_of(made.row)) == made.input_tokens + made.reply_tokens <= 2500
    concerns = [concern(f"Point {n}: {prose(300)}", n) for n in range(1, 12)]
    with pytest.raises(BadConfig, match="leaves -"):
        paper_rows(example([("Methods", "We looked.")]), concerns, budget, COUNTER)


def test_each_concern_stands_with_the_part_that_it_is_about():
    parts = ["Mice were flown, n = 4 animals.", "Sclerostin rose by 32% in the cortex."]
    concerns = ["Why did sclerostin rise?", "Four animals? n = 4 is too few mice.", "Unclear aims overall."]
    assert best_parts(concerns, parts) == [1, 0, 0]


def test_what_a_corpus_drops_is_counted_by_reason():
    first = concern("The groups differ in age.")
    corpora = CORPORA | {"own": Rules("own", 0, 1, with_figures=True)}
    for change, name, reason in TABLES["reviews: concerns that a corpus drops"]:
        rules = corpora[name]
        kept, dropped = select([first, concern("Another point here.", 2, **change)], rules)
        assert (len(kept), dropped) == ((2, {}) if reason is None else (1, {reason: 1})), change


def corpus_of(*papers, **budget):
    recipe = CorpusRecipe(A, Budget(**({"context": 2500, "reply_reserve": 300, "overlap": 40} | budget)), COUNTER)
    return make_corpus(papers, "train", recipe), recipe


def test_papers_without_text_or_enough_concerns_are_dropped_and_other_splits_left_alone():
    bare = example([], [DIFFER], id="s:2", abstract="")
    test = example(METHODS, [DIFFER], id="s:4", split="test")
    corpus, _ = corpus_of(example(METHODS, [DIFFER]), bare, example(METHODS, id="s:3"), test)
    assert [each.example.id for each in corpus.taught] == ["s:1"]
    assert corpus.articles_dropped == {"title alone": 1, "fewer than 1 usable concerns": 1}
    assert corpus.read == 3


def test_the_statistics_count_kept_papers_alone_and_audit_what_was_cut():
    short = example(METHODS, [DIFFER, concern("See figure 1.", 2, category="figure_issue")])
    long = example([("Methods", prose(9000))], [concern("Too long a text.", 1)], id="t:2", source="t", family="2")
    dropped = example(METHODS, [concern("In figure 2 only.", 1, category="figure_issue")], id="s:3")
    corpus, recipe = corpus_of(short, long, dropped, max_parts=2)
    found = corpus_statistics(corpus, recipe, "here", ("sft_train.jsonl", "x"))
    assert found["concerns_before"] == 3 and found["concerns_after"] == 2
    assert found["concerns_dropped"] == {"needs a figure": 1}
    assert (found["articles_kept"], found["rows"], found["parts"]) == (2, 3, {"1": 1, "2": 1})
    assert found["cut"] == 1 and 0.5 < found["share_lost"] < 1
    assert (found["rows_without_concerns"], found["sources"]) == (1, {"s": 1, "t": 1})
    assert found["input_tokens"]["high"] <= 2500
