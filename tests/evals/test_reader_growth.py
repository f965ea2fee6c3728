"""Reading takes time in proportion to the length of a text, whatever is written in it."""

import time

import pytest

from evals.questions import pathway_heldout
from evals.verifiers.agreement import agreements
from evals.verifiers.direction import statements
from evals.verifiers.reading import read

QUESTION = pathway_heldout()[0].prompt
SHORT, TIMES = 20_000, 8
"""Characters of the shorter text, and how many times longer the longer one is."""
SLACK = 2.5
"""A text 8 times as long may take 20 times as long; quadratic growth would take 64 times."""

HOSTILE = {
    "negations": "not not not ",
    "a negation far ahead": "it is not true that the set is, as they say, and also, ",
    "alternatives": "up or down or ",
    "directions": "adipogenesis is up and hypoxia is down and ",
    "parentheses": "(",
    "closed parentheses": "(adipogenesis (up) ",
    "commas": "up, down, thymus, ",
    "digits": "1,",
    "decimals": "1.2.3.",
    "one word": "a",
    "quotes": '"adipogenesis gene set" ',
    "open quotes": '" ',
    "table rows": "| thymus | down |\n",
    "headings": "Thymus\n- up\n",
    "sentences": "It falls in the thymus. ",
    "retractions": "It falls. That is false. ",
    "questions": "Is it up; is it down? ",
    "echo": f"{QUESTION[:-1]}. ",
    "led-in echo": f"You asked {QUESTION[:-1]}. ",
    "confidence": "confidence confidence: ",
    "emphasis": "**",
    "emphasised words": "**up** ",
    "blanks": "  ",
    "zero width": "u\u200bp ",
    "letters spelled out": "\ufb03\u00bc\u2193",
    "combining marks": "u\u0301\u0301\u0301",
    "hedges and breaks": "maybe but if so then ",
    "pathways": "adipogenesis, hypoxia and glycolysis ",
    "respectively": "up and down in liver and thymus, respectively, ",
    "scores": "NES of NES of -1.9 ",
}


def seconds(text: str) -> float:
    """Return the least process time of three readings."""
    taken = []
    for _ in range(3):
        started = time.process_time()
        reading = read(text, QUESTION)
        statements(reading)
        agreements(reading)
        taken.append(time.process_time() - started)
    return min(taken)


@pytest.mark.parametrize("name", HOSTILE)
def test_time_grows_no_faster_than_the_text(name: str) -> None:
    piece = HOSTILE[name]
    short = piece * (SHORT // len(piece))
    floor = 0.002
    assert seconds(short * TIMES) < SLACK * TIMES * max(seconds(short), floor)


@pytest.mark.parametrize("name", ["parentheses", "negations", "directions", "commas", "sentences"])
def test_a_megabyte_is_read_to_its_end(name: str) -> None:
    text = HOSTILE[name] * (1_000_000 // len(HOSTILE[name]))
    reading = read(f"{text}. Confidence: 80%", QUESTION)
    assert [stated.start for stated in reading.confidences] == [len(text) + 2]
