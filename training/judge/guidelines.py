"""Items of a reporting guideline asked of a model, one by one, with the place quoted and a second look at what is missing.

judge = GuidelineJudge(HttpSettings("http://127.0.0.1:8000/v1"))
checked = judge.check(article)
concerns = [each.concern for each in checked.findings]

A quote that does not stand in the paper does not count, and an item is missing only where two passes say so. The items
are data: `guidelines.toml`.
"""

import asyncio
import re
import tomllib
from collections.abc import Coroutine, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from evals.errors import BadConfig, LabError
from evals.papers.places import LITTLE, WORD, Map
from evals.review.parse import plain_label
from evals.review.prompt import head_of, sections_of
from evals.schema import Article, Section
from evals.schema.articles import Place
from evals.schema.record import Record
from evals.schema.reviews import Category, Concern, Severity
from evals.validity.pvalues import PaperFinding
from training.judge.judge import TRIES, HttpJudge
from training.judge.prompts import Fences, conversation, instruction, objects, reply_schema

MARKS = re.compile('["“”«»]')
STATUSES = ("supported", "contradicted", "not_checkable")
LONGEST_QUOTE = 400
Verdict = tuple[str, str]
"""A word and a quote."""


@cache
def verdict_schema(allowed: tuple[str, ...]) -> dict[str, Any]:
    """Return the schema of a reply with one of these words and a quote for each item."""
    words = {"type": "string", "enum": list(allowed)}
    row = {"item": {"type": "integer"}, "verdict": words, "quote": {"type": "string"}}
    item = {"type": "object", "additionalProperties": False, "required": list(row), "properties": row}
    return reply_schema("verdicts", {"verdicts": {"type": "array", "items": item}})


def read_verdicts(text: str, n: int, allowed: Sequence[str]) -> dict[int, Verdict]:
    """Return the verdicts in a reply by the number of their item, 1 to `n`; words that are none of these are left out.

    Case, blanks, hyphens and a full stop do not count: "Not checkable." is not_checkable. An item with two words has none.
    """
    found: dict[int, Verdict] = {}
    spoiled: set[int] = set()
    for document in objects(text):
        rows = document.get("verdicts", [document])
        for row in rows if isinstance(rows, list) else ():
            if not isinstance(row, dict):
                continue
            word, number = plain_label(str(row.get("verdict"))), re.search(r"\d+", str(row.get("item")))
            if word in allowed and number and 1 <= int(number[0]) <= n:
                first, _ = found.setdefault(int(number[0]), (word, str(row.get("quote") or "")))
                spoiled |= {int(number[0])} if first != word else set()
    return {number: each for number, each in found.items() if number not in spoiled}


def grounding_messages(concerns: Sequence[str], paper: str, fences: Fences) -> list[dict[str, str]]:
    """Return the question whether a paper bears out what concerns say of it."""
    listed = "\n".join(f"{number}. {text}" for number, text in enumerate(concerns, start=1))
    return conversation(instruction("grounding"), [fences.enclose("PAPER", paper), fences.enclose("CONCERNS", listed)])


def quoted_place(quote: str, places: Map) -> Place | None:
    """Return where the words that a model quotes stand in the paper, the first 400 characters of them; None where not."""
    words = " ".join(MARKS.sub(" ", quote).split())
    if len(words) > LONGEST_QUOTE:
        words = words[:LONGEST_QUOTE].rpartition(" ")[0]
    place = places.place(f'"{words}"') if words else None
    return place if place is not None and place.is_quoted else None


def contradicting(concern: str, quote: str, places: Map) -> Place | None:
    """Return where the sentence stands that a judge says contradicts a concern; None where it does not count.

    It stands in the paper word for word and speaks of the same: it shares two telling words with the concern, and a
    third of them.
    """
    place = quoted_place(quote, places)
    if place is None:
        return None
    said, shown = (
        {word for each in WORD.findall(text.lower()) if (word := each.rstrip("s")) and each not in LITTLE}
        for text in (concern, place.quote)
    )
    return place if len(said & shown) >= max(min(2, len(said)), len(said) / 3) else None


LONGEST = 60_000
"""Characters of a paper in one request; a longer paper is asked about in parts."""
HEAD = 6_000
"""Characters of a paper from which the guideline is chosen."""
SHORTEST_QUOTE = 3
"""Words."""
Word = Literal["reported", "not reported", "not applicable", "unclear"]
WORDS: tuple[Word, ...] = ("reported", "not reported", "not applicable")


class GuidelineItem(Record):
    """One item of a guideline: what is to be reported, and the kind of concern that its absence makes."""

    name: str
    asks: str
    category: Category
    severity: Severity


class ItemAnswer(Record):
    """What a paper says of an item: the `quote` that reports it, and the name of the section where it stands.

    "not reported" is what two passes say; "unclear" is no usable answer, or two passes that differ, for the reason `why`.
    """

    item: str
    verdict: Word
    quote: str = ""
    section: str = ""
    why: str = ""


class CheckedPaper(Record):
    """A paper held against a guideline (None where none fits), item by item, and the concerns that come of it."""

    guideline: str | None
    model: str
    items: tuple[ItemAnswer, ...] = ()
    findings: tuple[PaperFinding, ...] = ()


def guidelines() -> tuple[str, ...]:
    """Return the names of the guidelines."""
    return tuple(_data()["guideline"])


def items_of(guideline: str) -> list[GuidelineItem]:
    """Return the items of a guideline; BadConfig for one that is not there."""
    if guideline not in _data()["guideline"]:
        raise BadConfig(f"there is no guideline {guideline!r}; there are {', '.join(guidelines())}.")
    return [
        GuidelineItem(**dict(zip(GuidelineItem.model_fields, row, strict=True)))
        for row in _data()["guideline"][guideline]["items"]
    ]


class GuidelineJudge(HttpJudge):
    """Made and configured as `HttpJudge` is."""

    def check(self, article: Article, guideline: str = "") -> CheckedPaper:
        """Return a paper held against the guideline named, else the one that the model says fits.

        BadConfig for an unknown guideline, LabError where the server gives no usable answer at all.
        """
        items = items_of(guideline) if guideline else []

        async def work() -> CheckedPaper:
            model = await self.client.find_model()
            name = guideline or await self._fitting(article)
            asked = items or (items_of(name) if name else [])
            answers = await asyncio.gather(*(self._answer(item, article) for item in asked))
            if answers and all(each.verdict == "unclear" for each in answers):
                raise LabError(
                    f"the model {model} gave no usable answer to any of {len(answers)} items ({answers[0].why}); look at"
                    " its server, or use a more capable model."
                )
            missing = [item for item, each in zip(asked, answers, strict=True) if each.verdict == "not reported"]
            found = [_finding(name, item) for item in missing]
            return CheckedPaper(guideline=name or None, model=model, items=tuple(answers), findings=tuple(found))

        return self.client.run(work())

    async def _fitting(self, article: Article) -> str:
        """Return the guideline that fits a paper, "" for none."""
        known = {name: f"- {name}: {rule['study']}" for name, rule in _data()["guideline"].items()}
        system = _data()["choose"].replace("{known}", "\n".join(known.values()))
        schema = reply_schema("guideline", {"guideline": {"type": "string", "enum": [*known, "none"]}})
        said, problem = await self._first_object(
            system, [("PAPER", _parts(article)[0][:HEAD])], schema, "guideline", (*known, "none")
        )
        if said is None:
            raise LabError(
                f"the model does not say which guideline fits ({problem}); name one with --guideline: {', '.join(known)}."
            )
        return "" if said["guideline"] == "none" else str(said["guideline"])

    async def _answer(self, item: GuidelineItem, article: Article) -> ItemAnswer:
        """Return what two passes say of an item; the second is made only where the first finds nothing."""
        first = await self._pass("first", item, article)
        if first.verdict != "not reported":
            return first
        second = await self._pass("again", item, article)
        if second.verdict == "not applicable":
            return second.model_copy(update={"verdict": "unclear", "why": "the second pass says not applicable"})
        return second

    async def _pass(self, stage: Literal["first", "again"], item: GuidelineItem, article: Article) -> ItemAnswer:
        """Return what one pass over all parts of a paper says of an item."""
        schema: dict[str, Any] = {"verdict": {"type": "string", "enum": list(WORDS)}, "quote": {"type": "string"}}
        if stage == "again":
            schema = {"section": {"type": "string"}, **dict(reversed(schema.items()))}
        asked: list[Coroutine[Any, Any, tuple[dict[str, Any] | None, str]]] = [
            self._first_object(
                _data()[stage],
                [("PAPER", part), ("ITEM", f"{item.name}: {item.asks}")],
                reply_schema("item", schema),
                "verdict",
                WORDS,
            )
            for part in _parts(article)
        ]
        paper = _searchable(article)
        places, seen, why = Map(paper), set[Word](), ""
        for said, problem in await asyncio.gather(*asked):
            verdict: Word = said["verdict"] if said else "unclear"
            quote, why = str(said.get("quote") or "") if said else "", problem or why
            if verdict == "reported":
                place = quoted_place(quote, places)
                if place is not None and len(place.quote.split()) >= SHORTEST_QUOTE:
                    section = paper.sections[place.section].name
                    return ItemAnswer(item=item.name, verdict="reported", quote=place.quote, section=section)
                verdict, why = "unclear", "what was quoted does not stand in the paper"
            seen.add(verdict)
        verdict = next(word for word in ("unclear", "not applicable", "not reported") if word in seen)
        return ItemAnswer(item=item.name, verdict=verdict, why=why if verdict == "unclear" else "")

    async def _first_object(
        self, system: str, parts: Sequence[tuple[str, str]], schema: dict[str, Any], key: str, allowed: Sequence[str]
    ) -> tuple[dict[str, Any] | None, str]:
        """Return the first object of a reply whose `key` is one of the words allowed, else None and why."""
        by_word = {plain_label(word): word for word in allowed}
        problem = f"the reply names none of {', '.join(allowed)}"
        for attempt in range(TRIES):
            reply = await self.ask(
                lambda: conversation(system, [self.fences.enclose(name, text) for name, text in parts]), schema, attempt
            )
            if reply.error:
                return None, reply.error
            said = [(by_word.get(plain_label(str(each.get(key)))), each) for each in objects(reply.text)]
            said = [(word, each) for word, each in said if word]
            if len({word for word, _ in said}) == 1:
                return {**said[0][1], key: said[0][0]}, ""
        return None, problem


def _finding(guideline: str, item: GuidelineItem) -> PaperFinding:
    concern = Concern(
        text=f"The paper does not report {item.asks} ({guideline}: {item.name}).",
        category=item.category,
        severity=item.severity,
    )
    return PaperFinding(kind="guideline", source=guideline, item=item.name, concern=concern)


def _parts(article: Article) -> list[str]:
    """Return the text of a paper, captions included, in parts of `LONGEST` characters at most, cut between paragraphs."""
    sections = [f"## {name}\n{text}" for name, text in sections_of(article)]
    captions = (
        [f"## Captions\n{text}"]
        if (text := "\n".join(filter(None, (each.caption for each in article.figures))))
        else []
    )
    parts = [""]
    for paragraph in "\n\n".join((head_of(article), *sections, *captions)).split("\n"):
        for piece in (paragraph[at : at + LONGEST] for at in range(0, max(1, len(paragraph)), LONGEST)):
            if len(parts[-1]) + len(piece) >= LONGEST:
                parts.append("")
            parts[-1] += f"{piece}\n"
    return parts


def _searchable(article: Article) -> Article:
    """Return a paper whose title, abstract and captions are sections, so that quotes of them are found, too."""
    head, captions = f"{article.title}.\n{article.abstract}", "\n".join(each.caption for each in article.figures)
    more = (Section(name="Title and abstract", text=head), Section(name="Captions", text=captions))
    return article.model_copy(update={"abstract": "", "sections": (*more, *article.sections)})


@cache
def _data() -> dict[str, Any]:
    return tomllib.loads(files("training.judge").joinpath("guidelines.toml").read_text(encoding="utf-8"))
