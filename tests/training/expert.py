"""A judge's server that knows something: it compares words, as the judge without a model does."""

import json
import re
from collections.abc import Callable

from evals.normalize import plain
from evals.refine.judge import support_by_words
from evals.refine.words import content
from tests.training.judge_server import Asked, Reply, says

BLOCK = re.compile(r"^\[([A-Za-z0-9_.:-]+)\]\n", re.MULTILINE)
SAID = re.compile(r'(?:claim|sentence) ("(?:[^"\\]|\\.)*")')
NAMED = re.compile(r"passages? ([A-Za-z0-9_.:,\- ]+?) (?:together|bear)")
PHRASE = re.compile(r'"([^"]+)"')


def expert(asked: Asked) -> Reply:
    """Answer every item after comparing words."""
    return says({"verdicts": [_verdict(item, asked) for item in asked.items]})


def failing(asked: Asked) -> Reply:
    """Answer as an expert does until it is trusted; then fail at every third request, each time otherwise."""
    if asked.number <= 40 or asked.number % 3:
        return expert(asked)
    return ((429, b""), (500, b""), None, says("I would rather not say."), says({"verdicts": []}))[
        asked.number // 3 % 5
    ]


def _verdict(item: dict[str, str], asked: Asked) -> dict[str, object]:
    answer = re.sub(r"<[^>]*>", "", asked.parts.get("ANSWER", "")).strip()
    score, quote = _KINDS[item["kind"]](item, asked, answer)
    return {"item": item["item"], "evidence_quote": quote, "score": score}


def _behaviour(item: dict[str, str], asked: Asked, answer: str) -> tuple[float, str]:
    if item["text"].startswith("Citation Discipline"):
        spans = re.findall(r"<snippet[^>]*>(.*?)</snippet>", asked.parts.get("ANSWER", ""))
        good = bool(spans) and all(support_by_words(s, [*_passages(asked).values()]) for s in spans)
        return (2.0, spans[0]) if good else (0.0, "")
    said = plain(answer).text
    found = [
        next((way for way in each.split("|") if plain(way).text in said), None) for each in PHRASE.findall(item["text"])
    ]
    if found and all(found):
        return 2.0, str(found[0])
    return 0.0, ""


def _support(item: dict[str, str], asked: Asked, answer: str) -> tuple[float, str]:
    said, named = SAID.search(item["text"]), NAMED.search(item["text"])
    assert said and named, item
    texts = _passages(asked)
    cited = [texts[name.strip()] for name in named[1].split(",")]
    return support_by_words(json.loads(said[1]), cited), ""


def _relevance(item: dict[str, str], asked: Asked, answer: str) -> tuple[float, str]:
    return float(_support(item, asked, answer)[0] > 0), ""


def _need(item: dict[str, str], asked: Asked, answer: str) -> tuple[float, str]:
    said = SAID.search(item["text"])
    known = content(asked.parts["EVIDENCE"])
    return float(len(content(json.loads(said[1])) & known) >= 3) if said else 0.0, ""


_KINDS: dict[str, Callable[[dict[str, str], Asked, str], tuple[float, str]]] = {
    "behaviour": _behaviour,
    "support": _support,
    "relevance": _relevance,
    "need": _need,
}


def _passages(asked: Asked) -> dict[str, str]:
    parts = BLOCK.split(asked.parts["EVIDENCE"])
    return dict(zip(parts[1::2], (text.strip() for text in parts[2::2]), strict=True))
