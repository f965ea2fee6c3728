import pytest

from evals.errors import BadConfig, ChainMismatch
from evals.review.prompt import (
    CUT,
    Budget,
    allot,
    check_prompt,
    instructions,
    level,
    pieces_of,
    prompt_sha256,
    request,
    system_prompt,
)
from tests.evals.reviewed import WordCounter, example, prose

COUNTER = WordCounter()
LONG = example([("Introduction", prose(600, "I")), ("Methods", prose(900, "M")), ("Results", prose(900, "R"))])


def texts(article, room, overlap=40, max_parts=9):
    return [piece.text for piece in pieces_of(article, room, COUNTER, overlap, max_parts)]


def test_a_paper_that_fits_is_one_piece_in_its_own_order_with_nothing_lost():
    paper = example([("Results", "It grew."), ("Methods", "We looked. Twice."), ("Results", "Again.")])
    (piece,) = pieces_of(paper, 500, COUNTER, 40, 4)
    assert piece.text == (
        "# A paper about mice\n\n## Abstract\nMice were treated.\n\n## Results\nIt grew.\n\n## Methods\nWe"
        " looked. Twice.\n\n## Results\nAgain."
    )
    assert (piece.parts, piece.lost) == (1, 0)


def test_a_long_paper_is_read_in_parts_that_hold_every_sentence_and_overlap():
    parts = texts(LONG, 800)
    assert len(parts) >= 3
    for mark in "IMR":
        for n in range(60 if mark == "I" else 90):
            assert any(f"{mark}{n} group" in part for part in parts)
    assert all(part.startswith("# A paper about mice") for part in parts)
    assert any("(continued)" in part for part in parts[1:])
    sentences = [part.split("\n")[-1] for part in parts]
    assert sentences[0].rsplit(". ", 1)[-1].rstrip(".") in parts[1]


def test_no_part_has_more_tokens_than_there_is_room_for():
    for room in (300, 500, 800, 1300):
        for piece in pieces_of(LONG, room, COUNTER, 40, 9):
            assert piece.tokens == len(COUNTER.ends(piece.text)) <= room


def test_what_does_not_fit_in_all_parts_is_taken_from_what_matters_least():
    paper = example(
        [
            ("Introduction", prose(600, "I")),
            ("Methods", prose(300, "M")),
            ("Results", prose(300, "R")),
            ("Ethics", "Approved."),
        ]
    )
    (piece,) = pieces_of(paper, 900, COUNTER, 40, 1)
    assert all(f"M{n} group" in piece.text and f"R{n} group" in piece.text for n in range(30))
    assert "Approved." in piece.text
    assert CUT in piece.text and "I59 group" not in piece.text and "I0 group" in piece.text
    assert 0 < piece.lost < 500


def test_a_text_without_a_full_stop_and_an_endless_word_still_fit():
    for text in ("mice " * 3000, "x" * 9000 + " " + "y1!" * 2000):
        paper = example([("Methods", text)])
        assert all(len(COUNTER.ends(part)) <= 400 for part in texts(paper, 400))


def test_an_abstract_longer_than_the_room_leaves_half_to_the_paper():
    paper = example([("Methods", prose(200, "M"))], abstract=prose(3000, "A"))
    (piece,) = pieces_of(paper, 600, COUNTER, 40, 1)
    assert "M0 group" in piece.text and piece.lost > 2000


def test_a_paper_without_sections_is_its_abstract():
    assert texts(example([]), 300) == ["# A paper about mice\n\n## Abstract\nMice were treated."]


@pytest.mark.parametrize(
    ("sizes", "ranks", "room", "given"),
    [
        ([5, 10], [0, 1], 100, [5, 10]),
        ([5, 900, 900], [0, 0, 1], 1000, [5, 867, 128]),
        ([900, 900, 10], [1, 0, 0], 1000, [128, 862, 10]),
        ([400, 400, 10], [0, 0, 0], 510, [250, 250, 10]),
        ([300, 300], [0, 1], 20, [15, 5]),
        ([], [], 50, []),
    ],
)
def test_room_goes_to_what_matters_first_and_surplus_to_who_needs_it(sizes, ranks, room, given):
    assert allot(sizes, ranks, room) == given


def test_shares_are_exact_and_never_more_than_wanted():
    for room in range(60):
        shares = level([3, 17, 0, 9, 9], room)
        assert sum(shares) == min(room, 38)
        assert all(0 <= got <= want for got, want in zip(shares, [3, 17, 0, 9, 9], strict=True))


def test_the_budget_is_the_context_less_instructions_and_reply():
    fixed = instructions(COUNTER)
    assert Budget(2000, 300).paper(COUNTER) == 2000 - fixed - 300
    assert Budget(2000, 300).paper(COUNTER, reply=500) == 2000 - fixed - 500
    with pytest.raises(BadConfig, match=f"less {fixed} for the instructions"):
        Budget(900, 300).paper(COUNTER)


@pytest.mark.parametrize(
    "settings", [{"context": 0}, {"max_parts": 0}, {"overlap": -1}, {"context": 1000, "overlap": 400}]
)
def test_a_budget_that_makes_no_sense_is_refused(settings):
    with pytest.raises(BadConfig):
        Budget(**settings)


def test_the_instructions_are_known_by_version_and_checksum():
    assert (prompt_sha256()[:12], "review-1") == (PROMPT, "review-1")
    check_prompt(system_prompt(), "runs/mine")
    with pytest.raises(ChainMismatch, match="runs/mine was trained with other review instructions"):
        check_prompt("Review.", "runs/mine")


def test_a_part_says_which_of_how_many_it_is():
    assert "part 2 of 3" in request("text", 2, 3) and "part" not in request("text").split("\n")[0]


PROMPT = "11872cd2d1ef"
