"""What is put to a judge, item by item: behaviours of an answer, and what became of its citations.

The judge never learns what an item weighs, whether it is wanted, or how a reward is made of it. Names
and order of the items follow from a checksum, so they tell nothing and are the same in every run.
"""

import hashlib
import hmac
import json
import re
import secrets
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, NamedTuple

from evals.errors import BadConfig
from evals.refine.judge import Inquiry, number_of
from evals.verifiers.line import without_thought
from evals.wording import plain

LOOKALIKES = (
    re.compile(r"===+|-----+"),
    re.compile(r"(?:BEGIN|END)(?=\s+(?:EVIDENCE|QUESTION|OPTIONS|ANSWER|ITEMS)\b)", re.IGNORECASE),
    re.compile(
        r"<(?:\|[^<>|]{1,40}\||<?/?(?:s|sys|system|user|assistant|human|inst|start_of_turn|end_of_turn|bos|eos)>?)>"
        r"|\[/?INST\]",
        re.IGNORECASE,
    ),
    re.compile(r"^\s*(?:system|assistant|user|human)\s*:", re.IGNORECASE | re.MULTILINE),
)
"""What imitates a fence or a turn of a conversation."""
REMOVED = "[…]"


class Fences:
    """Makes fences: one word per text for what many requests share, a new one for each answer.

    Equal evidence gets equal fences as long as the object lives, so a server's prefix cache serves
    every answer of a group; a fence for an answer is used once.
    """

    def __init__(self, secret: bytes | None = None) -> None:
        self._secret = secret or secrets.token_bytes(16)

    def enclose(self, name: str, text: str) -> str:
        """Return a text between fences whose word follows from the text and our secret."""
        return _secret_fence(self._secret, name, text)

    def single(self, name: str, text: str) -> str:
        """Return a text between fences of a new random word."""
        return fence(name, text, secrets.token_hex(8))


def fence(name: str, text: str, word: str) -> str:
    """Return the text between two fences, what imitates fences or turns taken out."""
    return f"=== BEGIN {name} {word} ===\n{harmless(text)}\n=== END {name} {word} ==="


def harmless(text: str) -> str:
    """Return a text in which nothing looks like a fence or a turn of a conversation."""
    visible = text
    if not text.replace("\n", "").replace("\t", "").isprintable():
        visible = "".join(c for c in text if c in "\n\t" or unicodedata.category(c)[0] != "C")
    for pattern in LOOKALIKES:
        visible = pattern.sub(REMOVED, visible)
    return visible


@lru_cache(maxsize=256)
def _secret_fence(secret: bytes, name: str, text: str) -> str:
    word = hmac.new(secret, f"{name}\n{text}".encode(), hashlib.sha256).hexdigest()[:16]
    return fence(name, text, word)


def reply_schema(name: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of a reply as `response_format` takes it: an object with just these properties."""
    return {"name": name, "strict": True, "schema": _object(properties)}


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    fixed = {"type": "object", "additionalProperties": False}
    return {**fixed, "required": list(properties), "properties": dict(properties)}


VERSION = "1"
"""Of the prompt: goes up whenever a judge would read other words."""
CANARY = "canary"
ROW = _object({"item": {"type": "string"}, "evidence_quote": {"type": "string"}, "score": {"type": "number"}})
SCHEMA = reply_schema("verdicts", {"verdicts": {"type": "array", "items": ROW}})
_quoted = json.JSONEncoder(ensure_ascii=False).encode


@dataclass(frozen=True, slots=True)
class JudgeQuestion:
    """One thing to be told about an answer, a number 0..`top`; `key` says where the verdict belongs."""

    key: str
    kind: Literal["behaviour", "support", "relevance", "need"]
    text: str
    top: float


def rubric_questions(inquiry: Inquiry) -> tuple[JudgeQuestion, ...]:
    """Return one question per rubric item, and the one that no answer can say yes to."""
    top = inquiry.scale
    asked = [
        JudgeQuestion(f"item {place}", "behaviour", f"{item.title}: {item.description}", top)
        for place, item in enumerate(inquiry.items)
    ]
    return (*asked, canary(top))


def canary(top: float) -> JudgeQuestion:
    """Return the question after a behaviour that no answer shows: a judge that sees it obeys the answer."""
    text = "The answer is written as a musical score with a clef, five staff lines and drawn notes."
    return JudgeQuestion(CANARY, "behaviour", text, top)


def citation_questions(inquiry: Inquiry) -> tuple[JudgeQuestion, ...]:
    """Return the questions after support, relevance and need, and the canary; none where none count."""
    if not inquiry.asks_citations:
        return ()
    asked: list[JudgeQuestion] = []
    for place, (claim, ids) in enumerate(zip(inquiry.claims, inquiry.cited, strict=True)):
        if not ids:
            continue
        said = _quoted(claim.text)
        text = (
            f"How far do the passages {', '.join(ids)} together say what the claim {said} says: 1 wholly, 0.5 in"
            " part, 0 not."
        )
        asked.append(JudgeQuestion(f"support {place}", "support", text, 1.0))
        for name in ids:
            text = f"Does the passage {name} bear on the claim {said}: 1 yes, 0 no."
            asked.append(JudgeQuestion(f"relevance {place} {name}", "relevance", text, 1.0))
    for place, passage in enumerate(inquiry.uncited):
        text = f"Is the sentence {_quoted(passage.text)} a statement of fact that could be checked: 1 yes, 0 no."
        asked.append(JudgeQuestion(f"need {place}", "need", text, 1.0))
    return (*asked, canary(1.0)) if asked else ()


def conversation(system: str, parts: Iterable[str]) -> list[dict[str, str]]:
    """Return the messages of a request: what the judge is told, and the fenced parts."""
    return [{"role": "system", "content": system}, {"role": "user", "content": "\n\n".join(parts)}]


def messages(inquiry: Inquiry, named: Mapping[str, JudgeQuestion], fences: Fences) -> list[dict[str, str]]:
    """Return the conversation: instruction, evidence, question, answer, and the items last.

    What is the same for all answers to a question comes first, so a prefix cache serves it. `named` are
    the questions by name (`names_of`), one JSON object a line.
    """
    evidence = "\n\n".join(f"[{name}]\n{text}" for name, text in inquiry.evidence.items())
    rows = []
    for name, each in named.items():
        is_behaviour = each.kind == "behaviour"
        numbers = f"0 (absent) to {each.top:g} (fully present)" if is_behaviour else f"0 to {each.top:g}"
        row = {"item": name, "kind": each.kind, "numbers": numbers, "text": each.text}
        rows.append(json.dumps(row, ensure_ascii=False))
    parts = (
        fences.enclose("EVIDENCE", evidence or "(none)"),
        fences.enclose("QUESTION", inquiry.question),
        fences.single("ANSWER", inquiry.answer),
        fences.single("ITEMS", "\n".join(rows)),
    )
    return conversation(instruction(), parts)


def names_of(inquiry: Inquiry, questions: tuple[JudgeQuestion, ...]) -> dict[str, JudgeQuestion]:
    """Return the questions by the name that the judge echoes, in the order it reads them."""
    salt = f"{inquiry.question}\n{inquiry.answer}"
    codes = (hashlib.sha256(f"{salt}\n{each.key}\n{each.text}".encode()).hexdigest()[:6] for each in questions)
    return dict(sorted((f"i{code}", each) for code, each in zip(codes, questions, strict=True)))


def fingerprint(inquiry: Inquiry, questions: tuple[JudgeQuestion, ...]) -> str:
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
def instruction(name: str = "instruction") -> str:
    """Return what every judge is told first; "extraction" for one that says what an answer says."""
    return files("training.judge").joinpath(f"{name}.txt").read_text(encoding="utf-8")


DECODER = json.JSONDecoder()
BETWEEN = re.compile(r"[\W_]+")


class ItemVerdict(NamedTuple):
    """A number on the question's scale and the words of the answer that it rests on."""

    score: float
    quote: str


def verdicts_in(text: str, questions: Mapping[str, JudgeQuestion], answer: str) -> dict[str, ItemVerdict]:
    """Return the verdicts of a reply by the key of their question; those that are none are left out."""
    documents = (document.get("verdicts") for document in objects(text))
    rows = [row for each in documents if isinstance(each, list) for row in each]
    found: dict[str, ItemVerdict] = {}
    spoiled: set[str] = set()
    for row in rows:
        name = row.get("item") if isinstance(row, dict) else None
        question = questions.get(name) if isinstance(name, str) else None
        if question is None:
            continue
        verdict = _verdict(row, question, answer)
        if verdict is None or found.get(question.key, verdict).score != verdict.score:
            spoiled.add(question.key)
        else:
            found[question.key] = verdict
    return {key: verdict for key, verdict in found.items() if key not in spoiled}


def _verdict(row: Mapping[str, object], question: JudgeQuestion, answer: str) -> ItemVerdict | None:
    number = number_of(row.get("score"))
    if number is None:
        return None
    quote = row.get("evidence_quote")
    shown = quote if isinstance(quote, str) else ""
    score = min(question.top, max(0.0, number))
    needs_quote = question.kind == "behaviour" and question.key != CANARY
    if needs_quote and score > 0 and not stands_in(shown, answer):
        return None
    return ItemVerdict(score, shown)


def stands_in(quote: str, answer: str) -> bool:
    """Return whether the words of a quote stand in the answer, case, marks and blanks aside."""
    wanted = _words(quote)
    return bool(wanted) and f" {wanted} " in f" {_words(answer)} "


@lru_cache(maxsize=1024)
def _words(text: str) -> str:
    return BETWEEN.sub(" ", plain(text).text).strip()


def objects(text: str) -> Iterator[dict[str, object]]:
    """Yield the JSON objects in a text, whatever stands around them; what is only thought is left out."""
    text = without_thought(text)
    at = text.find("{")
    while at >= 0:
        try:
            document, end = DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):  # the latter where brackets are nested a thousand deep
            at = text.find("{", at + 1)
            continue
        yield document
        at = text.find("{", end)


@dataclass(frozen=True)
class ServerSettings:
    """Where an OpenAI-compatible server is (`model` empty: the one it lists), and how patiently it is asked."""

    base_url: str
    model: str = ""
    key_variable: str = ""
    allow_remote: bool = False
    concurrency: int = 64
    timeout_seconds: float = 600.0
    retries: int = 3

    def __post_init__(self) -> None:
        for name, low in (("concurrency", 1), ("retries", 0), ("timeout_seconds", 0.001)):
            if not getattr(self, name) >= low:
                raise BadConfig(f"{name} is {getattr(self, name):g}; it takes {low} or more.")


@dataclass(frozen=True)
class HttpSettings(ServerSettings):
    """How a judge is asked: all items of an answer in one call (batched), or each in its own, which is dearer."""

    timeout_seconds: float = 60.0
    mode: Literal["batched", "per_item"] = "batched"
    max_tokens: int = 2048
    seed: int = 0
    cache: Path | None = None
