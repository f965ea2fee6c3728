"""What is put to a judge, item by item: behaviours of an answer, and what became of its citations.

The judge never learns what an item weighs, whether it is wanted, or how a reward is made of it. Names
and order of the items follow from a checksum, so they tell nothing and are the same in every run.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

from evals.refiner.judging import Inquiry
from training.judging.fence import Fences

VERSION = "1"
"""Of the prompt: goes up whenever a judge would read other words."""
CANARY = "canary"
_quoted = json.JSONEncoder(ensure_ascii=False).encode
"""A text as JSON; one encoder for all of them, where `json.dumps` would make a new one each time."""
SCHEMA = {
    "name": "verdicts",
    "strict": True,
    "schema": {
        "type": "object",
        "additionalProperties": False,
        "required": ["verdicts"],
        "properties": {
            "verdicts": {
                "type": "array",
                "items": {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["item", "evidence_quote", "score"],
                    "properties": {
                        "item": {"type": "string"},
                        "evidence_quote": {"type": "string"},
                        "score": {"type": "number"},
                    },
                },
            }
        },
    },
}


@dataclass(frozen=True, slots=True)
class Question:
    """One thing to be told about an answer: a number from 0 to `top`.

    `key` says where the verdict belongs; only a behaviour needs words of the answer to rest on.
    """

    key: str
    kind: Literal["behaviour", "support", "relevance", "need"]
    text: str
    top: float

    def name(self, salt: str) -> str:
        """Return what the judge calls it: nothing can be read from it."""
        return "i" + hashlib.sha256(f"{salt}\n{self.key}\n{self.text}".encode()).hexdigest()[:6]


def rubric_questions(inquiry: Inquiry) -> tuple[Question, ...]:
    """Return one question per rubric item, and the one that no answer can say yes to."""
    top = inquiry.scale
    asked = [
        Question(f"item {place}", "behaviour", f"{item.title}: {item.description}", top)
        for place, item in enumerate(inquiry.items)
    ]
    return (*asked, canary(top))


def canary(top: float) -> Question:
    """Return the question after a behaviour that no answer shows: a judge that sees it obeys the answer."""
    text = "The answer is written as a musical score with a clef, five staff lines and drawn notes."
    return Question(CANARY, "behaviour", text, top)


def citation_questions(inquiry: Inquiry) -> tuple[Question, ...]:
    """Return the questions after support, relevance and need, and the canary; none where none count."""
    if not inquiry.asks_citations:
        return ()
    asked: list[Question] = []
    for place, (claim, ids) in enumerate(zip(inquiry.claims, inquiry.cited, strict=True)):
        if not ids:
            continue
        said = _quoted(claim.text)
        together = ", ".join(ids)
        text = f"How far do the passages {together} together say what the claim {said} says: 1 wholly, 0.5 in part, 0 not."
        asked.append(Question(f"support {place}", "support", text, 1.0))
        for name in ids:
            text = f"Does the passage {name} bear on the claim {said}: 1 yes, 0 no."
            asked.append(Question(f"relevance {place} {name}", "relevance", text, 1.0))
    for place, passage in enumerate(inquiry.uncited):
        said = _quoted(passage.text)
        text = f"Is the sentence {said} a statement of fact that could be checked: 1 yes, 0 no."
        asked.append(Question(f"need {place}", "need", text, 1.0))
    return (*asked, canary(1.0)) if asked else ()


def messages(
    inquiry: Inquiry, named: Mapping[str, Question], fences: Fences
) -> list[dict[str, str]]:
    """Return the conversation: instruction, evidence, question, answer, and the items last.

    What is the same for all answers to a question comes first, so a prefix cache serves it. `named` are
    the questions by name (`names_of`).
    """
    evidence = "\n\n".join(f"[{name}]\n{text}" for name, text in inquiry.evidence.items())
    parts = (
        fences.shared("EVIDENCE", evidence or "(none)"),
        fences.shared("QUESTION", inquiry.question),
        fences.single("ANSWER", inquiry.answer),
        fences.single("ITEMS", _items(named)),
    )
    return [
        {"role": "system", "content": instruction()},
        {"role": "user", "content": "\n\n".join(parts)},
    ]


def names_of(
    inquiry: Inquiry, questions: tuple[Question, ...], vote: int = 0
) -> dict[str, Question]:
    """Return the questions by the name that the judge echoes, in the order it reads them.

    Both are others in another vote.
    """
    salt = f"{inquiry.question}\n{inquiry.answer}" + (f"\nvote {vote}" if vote else "")
    named = {question.name(salt): question for question in questions}
    return dict(sorted(named.items()))


def fingerprint(inquiry: Inquiry, questions: tuple[Question, ...]) -> str:
    """Return a checksum of everything that a verdict depends on but the judge itself."""
    document = [
        VERSION,
        instruction(),
        SCHEMA,
        sorted(inquiry.evidence.items()),
        inquiry.question,
        inquiry.answer,
        [(question.key, question.kind, question.text, question.top) for question in questions],
    ]
    text = json.dumps(document, ensure_ascii=False, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def instruction() -> str:
    """Return what every judge is told first."""
    return files("training.judging").joinpath("instruction.txt").read_text(encoding="utf-8")


def _items(named: Mapping[str, Question]) -> str:
    """Return one JSON object a line; name, kind and numbers are ours and hold nothing to escape."""
    return "\n".join(
        f'{{"item": "{name}", "kind": "{question.kind}", "numbers": "{_numbers(question)}",'
        f' "text": {_quoted(question.text)}}}'
        for name, question in named.items()
    )


def _numbers(question: Question) -> str:
    if question.kind == "behaviour":
        return f"0 (absent) to {question.top:g} (fully present)"
    return f"0 to {question.top:g}"
