"""Grounding: is what a concern says of a paper true there? By rules, and by a judge where one is handed in.

A concern claims that something is there ("the study was double-blinded"), that it is not ("not registered"), a number
("12 mice", "p = 0.03") or quotes words. Each claim is held against the sentences of the paper. What the rules know is
data: `claims.toml`. They read words, so most of what a concern says is not checkable by them.
"""

import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

from evals.review.places import LITTLE, QUOTED, WORD, Map
from evals.schema import Article
from evals.schema.record import Record
from evals.schema.reviewruns import ABSTRACT

CLAIMS = Path(__file__).with_name("claims.toml")
Status = Literal["supported", "contradicted", "not_checkable"]
SENTENCE = re.compile(r"(?<=[.!?])[\"”)]?\s+(?=[\"“(]?[A-ZÀ-Þ0-9])|\n+")
ABBREVIATED = re.compile(
    r"(?:\b(?:Fig|Figs|Tab|Eq|Ref|Refs|No|Nos|Dr|Prof|vs|ca|cf|al|approx|resp|e\.g|i\.e|[A-Z]))\.$"
)
STATISTIC = re.compile(
    r"(?<![\w.])([pPrRtFnNdzχ][²2]?)\s?(?:\([\d., ]+\))?\s?([=<>])\s?(-?\d*[.,]?\d+)(?![\d.]*\s?[x×·*]\s?10)"
)
COUNTED = re.compile(
    r"(?<![\d.,])(\d{1,5})(?: [a-z-]+)?? (patients|participants|volunteers|subjects|animals|mice|rats)\b"
)
CLAUSE = re.compile(r"[,;]\s+(?:but|yet|so)\s+|;\s+")
"""Where a part of a sentence begins that claims something of its own."""
DENIED = re.compile(r"\b(?:not|never)\b|n['’]t\b", re.I)
COPIED = 0.6
"""Share of a concern's words in one run of the paper's from which it is a copy."""
WHOLE = 0.4
"""The same for a whole sentence of the paper, with words of the concern's own around it."""


class Check(Record):
    """One thing that a concern claims of the paper, and the paper's sentence (empty where it has none) that tells."""

    topic: str
    claim: str
    status: Status
    sentence: str = ""
    section: int | None = None


class Grounding(Record):
    """What a paper says of a concern: contradicted if one claim is, else supported if one is.

    `quote` says whether words in quotation marks stand in the paper; `by` is rules, or the name of a judge.
    """

    status: Status
    checks: tuple[Check, ...] = ()
    quote: Literal["none", "found", "missing"] = "none"
    by: str = "rules"

    @property
    def contradiction(self) -> Check | None:
        """The first claim that the paper contradicts."""
        return next((each for each in self.checks if each.status == "contradicted"), None)


Judge = Callable[[Sequence[str], Article], Sequence[Grounding]]
"""Grounds the concerns about one paper."""


class PaperSentences:
    """A paper cut into sentences once, to hold many concerns against it."""

    def __init__(self, article: Article) -> None:
        self.map = Map(article)
        texts = [(ABSTRACT, f"{article.title}.\n{article.abstract}")]
        texts += [(number, each.text) for number, each in enumerate(article.sections)]
        self.sentences = [(place, text[a:b].strip()) for place, text in texts for a, b in sentences(text)]
        self.sentences += [(ABSTRACT, each.caption) for each in article.figures if each.caption]
        self._numbers = {each for _, text in self.sentences for each in _numbers(text)}

    def ground(self, concern: str) -> Grounding:
        """Return what the paper says of a concern, by rules."""
        clauses = (clause for a, b in sentences(concern) for clause in CLAUSE.split(concern[a:b]))
        checks = [check for clause in clauses for check in self._checks(clause)]
        checks = list(dict.fromkeys(checks))
        statuses = {each.status for each in checks}
        status: Status = "not_checkable"
        if statuses & {"contradicted", "supported"}:
            status = "contradicted" if "contradicted" in statuses else "supported"
        quoted = [each[1] or each[2] for each in QUOTED.finditer(concern)]
        quote = "found" if all(self.map.place(f'"{each}"') for each in quoted) else "missing"
        return Grounding(status=status, checks=tuple(checks), quote=quote if quoted else "none")

    def contradiction(self, concern: str) -> str:
        """Return the sentence of the paper that contradicts a concern, or what it claims; empty if none does."""
        wrong = self.ground(concern).contradiction
        return wrong.sentence or wrong.claim if wrong else ""

    def _checks(self, sentence: str) -> Iterator[Check]:
        data, wished = _data(), re.search(_data()["wished"], sentence, re.I)
        taken = set[str]()
        for topic, rule in data["topic"].items():
            found = re.search(rule["about"], sentence, re.I)
            if found is None or rule.get("unless") in taken:
                continue
            taken.add(topic)
            before, after = (f"(?:{data['before']})(?:{rule['about']})", f"(?:{rule['about']}){data['after']}")
            said = (re.search(before, sentence, re.I), re.search(after, sentence, re.I), DENIED.search(found[0]))
            is_absent = any(said)
            if not is_absent and (wished or rule.get("missing")):
                continue
            is_unstated = bool(re.search(data["unstated"], sentence, re.I))
            if rule.get("missing") and not is_unstated:
                continue
            yield self._held(topic, rule, sentence, is_absent=is_absent, is_unstated=is_unstated)
        if not wished:
            yield from self._figures(sentence)

    def _held(self, topic: str, rule: Mapping[str, Any], concern: str, *, is_absent: bool, is_unstated: bool) -> Check:
        """Return one claim held against the sentences that show the topic, and those that deny it."""
        near = {word for word in _telling(concern) if not re.search(rule["about"], word, re.I)}
        shown, denied = list[tuple[int, str]](), list[tuple[int, str]]()
        for each in self.sentences:
            if rule["denied"] and re.search(rule["denied"], each[1], re.I):
                denied.append(each)
            elif is_said(rule, each[1]) and (not rule.get("is_near") or near & _telling(each[1])):
                shown.append(each)
        claim = f"{topic} is {'not stated' if is_absent and is_unstated else 'absent' if is_absent else 'there'}"
        status: Status = "not_checkable"
        told = (shown or denied)[:1]
        if is_absent and not (shown and denied and not is_unstated):
            status, told = ("contradicted", shown[:1]) if shown else ("supported", denied[:1])
        elif not is_absent and shown:
            status = "supported" if not denied or topic != "double_blind" else "not_checkable"
        elif not is_absent and denied:
            status, told = "contradicted", denied[:1]
        place, sentence = told[0] if told else (None, "")
        return Check(topic=topic, claim=claim, status=status, sentence=sentence, section=place)

    def _figures(self, concern: str) -> Iterator[Check]:
        """Yield named statistics and numbers of subjects; one that neither stands in the paper nor follows is wrong."""
        for found in STATISTIC.finditer(concern):
            yield self._number(
                f"{found[1]} {found[2]} {found[3]}", found[3], rf"(?<![\w.]){re.escape(found[1])}\s?[=<>(]"
            )
        for found in COUNTED.finditer(concern):
            yield self._number(found[0], found[1], rf"\d (?:[\w-]+ ){{0,2}}{found[2]}\b")

    def _number(self, claim: str, number: str, like: str) -> Check:
        value = float(number.replace(",", "."))
        hits = [each for each in self.sentences if value in _numbers(each[1])]
        if hits:
            return Check(topic="number", claim=claim, status="supported", sentence=hits[0][1], section=hits[0][0])
        others = [each for each in self.sentences if re.search(like, each[1], re.I)]
        whole = [each for each in self._numbers if each == int(each)]
        follows = any(value in (a + b, abs(a - b), a * b) for a, b in combinations(whole, 2)) or not others
        place, sentence = (None, "") if follows else others[0]
        status: Status = "not_checkable" if follows else "contradicted"
        return Check(topic="number", claim=claim, status=status, sentence=sentence, section=place)


def summary(found: Sequence[Grounding]) -> dict[str, int]:
    """Return how many concerns are supported, contradicted and not checkable, and how many quotes stand in the paper."""
    counts = Counter(each.status for each in found)
    quotes = Counter(each.quote for each in found)
    named = {name: counts[name] for name in ("supported", "contradicted", "not_checkable")}
    return {"concerns": len(found), **named, "quotes_found": quotes["found"], "quotes_missing": quotes["missing"]}


def sentences(text: str) -> list[tuple[int, int]]:
    """Return where each sentence of a text begins and ends, the blanks after it not counted."""
    found, start = list[tuple[int, int]](), 0
    for gap in SENTENCE.finditer(text):
        if ABBREVIATED.search(text[start : gap.start()]):
            continue
        end = gap.start() + len(gap[0]) - len(gap[0].lstrip('"”)'))
        found.append((start, end))
        start = gap.end()
    return [span for span in (*found, (start, len(text.rstrip()))) if text[slice(*span)].strip()]


def copied(concern: str, article: Article) -> bool:
    """Return whether most of a concern's words stand in the paper in one run: a copy objects to nothing."""
    words = _words(concern)
    longest = max(3, round(COPIED * len(words)))
    runs = {f" {' '.join(words[at : at + longest])} " for at in range(len(words) - longest + 1)}
    texts, whole = _flat(article)
    said = f" {' '.join(words)} "
    return any(run in text for run in runs for text in texts) or any(
        n >= max(3, WHOLE * len(words)) and sentence in said for sentence, n in whole
    )


@cache
def _flat(article: Article) -> tuple[tuple[str, ...], tuple[tuple[str, int], ...]]:
    """Return the texts of a paper, and its sentences with how many words they have, as words between blanks."""
    texts = (article.title, article.abstract, *(each.text for each in article.sections))
    cut = [_words(text[a:b]) for text in texts for a, b in sentences(text)]
    return tuple(f" {' '.join(_words(text))} " for text in texts), tuple(
        (f" {' '.join(each)} ", len(each)) for each in cut
    )


def _words(text: str) -> list[str]:
    return [each[0].lower() for each in WORD.finditer(text)]


def is_said(topic: Mapping[str, Any], sentence: str) -> bool:
    """Return whether a sentence of a paper shows a topic and does not deny it."""
    is_denied = topic["denied"] and re.search(topic["denied"], sentence, re.I)
    return not is_denied and re.search(topic["shown"], sentence, re.I) is not None


def topics() -> dict[str, dict[str, Any]]:
    """Return the topics of claims with the patterns that show or deny them, by name."""
    return _data()["topic"]


@cache
def _data() -> dict[str, Any]:
    return tomllib.loads(CLAIMS.read_text(encoding="utf-8"))


def _numbers(text: str) -> set[float]:
    return {float(each) for each in re.findall(r"(?<![\w.])-?\d*\.?\d+(?![\w])", text.replace(",", ""))}


def _telling(text: str) -> set[str]:
    """Return the words of a text that say something, in lower case."""
    return {word for each in WORD.finditer(text) if (word := each[0].lower()) not in LITTLE and len(word) > 2}
