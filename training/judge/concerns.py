"""A language model that holds concerns against their paper, or against each other.

judge = ConcernJudge(HttpSettings("http://127.0.0.1:8000/v1"))
found = judge.ground(["The trial was not registered."], article)
alike = judge.same([("No control arm.", "There is no placebo group.")])
"""

import hashlib
import json
import os
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, get_args

from evals.errors import LabError
from evals.review.match import Encoder, JudgedEncoder
from evals.review.parse import plain_label
from evals.review.places import LITTLE, WORD, Map
from evals.review.prompt import head_of, sections_of
from evals.schema import Article
from evals.schema.reviewruns import Place
from evals.validity.grounding import Check, Grounding, Status
from training.judge.client import Messages, in_a_loop
from training.judge.judge import TRIES, HttpJudge, by_deadline
from training.judge.prompts import Fences, HttpSettings, conversation, instruction, objects, reply_schema

VERSION = "concerns-1"
ITEMS = 20
"""Concerns or pairs that are asked about at a time."""
LONGEST = 60_000
"""Characters of a paper that the judge is shown."""
DEADLINE_SECONDS = 6 * 3600.0
SAME = {"yes": 1.0, "partly": 0.5, "no": 0.0}
MARKS = re.compile('["“”«»]')
STATUSES = get_args(Status)
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

    Case, blanks, hyphens and a full stop do not count: "Not checkable." is not_checkable.
    """
    found: dict[int, Verdict] = {}
    for document in objects(text):
        rows = document.get("verdicts", [document])
        for row in rows if isinstance(rows, list) else ():
            if not isinstance(row, dict):
                continue
            word, number = plain_label(str(row.get("verdict"))), re.search(r"\d+", str(row.get("item")))
            if word in allowed and number and 1 <= int(number[0]) <= n:
                found.setdefault(int(number[0]), (word, str(row.get("quote") or "")))
    return found


def grounding_messages(concerns: Sequence[str], paper: str, fences: Fences) -> Messages:
    """Return the question whether a paper bears out what concerns say of it."""
    listed = "\n".join(f"{number}. {text}" for number, text in enumerate(concerns, start=1))
    return conversation(instruction("grounding"), [fences.shared("PAPER", paper), fences.shared("CONCERNS", listed)])


def place_of(quote: str, places: Map) -> Place | None:
    """Return where the sentence that a judge quotes stands in the paper; None where it does not."""
    words = MARKS.sub(" ", quote)[:400].strip()
    return places.place(f'"{words}"') if words else None


def contradicting(concern: str, quote: str, places: Map) -> Place | None:
    """Return where the sentence stands that a judge says contradicts a concern; None where it does not count.

    It stands in the paper word for word and speaks of the same: it shares two telling words with the concern, and a
    third of them.
    """
    place = place_of(quote, places)
    if place is None or not place.is_quoted:
        return None
    said, shown = (
        {word for each in WORD.findall(text.lower()) if (word := each.rstrip("s")) and each not in LITTLE}
        for text in (concern, place.quote)
    )
    return place if len(said & shown) >= max(min(2, len(said)), len(said) / 3) else None


class ConcernJudge(HttpJudge):
    """Made, configured and closed as `HttpJudge` is."""

    def ground(self, concerns: Sequence[str], article: Article) -> list[Grounding]:
        """Return what the paper says of each concern; a contradiction without words of the paper is none.

        Where a verdict cannot be had the concern is not checkable, and `by` says that it was not verified.
        """
        sections = (f"## {name}\n{text}" for name, text in sections_of(article))
        paper = "\n\n".join(filter(None, (head_of(article), *sections)))[:LONGEST]
        answered = self._verdicts("grounding", paper, list(concerns), STATUSES)
        places, found = Map(article), list[Grounding]()
        for concern, (verdict, problem) in zip(concerns, answered, strict=True):
            word, quote = verdict or ("not_checkable", "")
            by = self.label if verdict else f"{self.label}, not verified: {problem}"
            if word == "contradicted":
                place = contradicting(concern, quote, places)
            else:
                place = place_of(quote, places) if word == "supported" else None
            stands = word != "contradicted" or place is not None
            status: Status = next((each for each in STATUSES if each == word and stands), "not_checkable")
            checks = ()
            if place is not None:
                claim = {"topic": "judge", "claim": concern[:200], "status": status}
                checks = (Check(**claim, sentence=place.quote, section=place.section),)
            found.append(Grounding(status=status, checks=checks, by=by))
        return found

    def same(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return for each pair of concerns 1 for the same point, 0.5 for one that overlaps, 0 for others.

        LabError where a verdict cannot be had: none is guessed.
        """
        items = [f"A: {one}\nB: {other}" for one, other in pairs]
        answered = self._verdicts("matching", "", items, tuple(SAME))
        if missing := [problem for verdict, problem in answered if verdict is None]:
            raise LabError(
                f"the judge {self.label} gave {len(pairs) - len(missing)} of {len(pairs)} verdicts ({missing[0]}); look at"
                " its server, or use a more capable model, and give the same command again: verdicts in the cache are"
                " not asked for again."
            )
        return [SAME[verdict[0]] for verdict, _ in answered if verdict]

    def _verdicts(
        self, task: str, paper: str, items: Sequence[str], allowed: tuple[str, ...]
    ) -> list[tuple[Verdict | None, str]]:
        """Return each item's verdict, or None and why there is none."""
        groups = [items[start : start + ITEMS] for start in range(0, len(items), ITEMS)]

        async def work() -> list[list[tuple[Verdict | None, str]] | None]:
            try:
                await self.client.find_model()
                asked = (self._asked_in_one(task, paper, group, allowed) for group in groups)
                return await by_deadline(asked, DEADLINE_SECONDS)
            finally:
                await self.close()

        late: list[tuple[Verdict | None, str]] = [(None, f"not read within {DEADLINE_SECONDS:g} s")]
        done = in_a_loop(work())
        return [each for group, found in zip(groups, done, strict=True) for each in found or late * len(group)]

    async def _asked_in_one(
        self, task: str, paper: str, items: Sequence[str], allowed: tuple[str, ...]
    ) -> list[tuple[Verdict | None, str]]:
        told = [VERSION, instruction(task), self.client.model, self.settings.seed, paper, list(items)]
        key = hashlib.sha256(json.dumps(told).encode()).hexdigest()
        found: dict[int, Verdict] = {}
        problem = "the reply has no verdict on it"
        if self.cache and (kept := self.cache.get(key)) is not None:
            self.client.counts.hits += 1
            found = {int(number): (word, quote) for number, (word, quote) in kept.items()}

        def compose() -> Messages:
            if paper:
                return grounding_messages(items, paper, self.fences)
            listed = "\n".join(f"{number}. {text}" for number, text in enumerate(items, start=1))
            return conversation(instruction(task), [self.fences.single("PAIRS", listed)])

        for attempt in range(TRIES):
            if len(found) == len(items):
                break
            reply = await self.ask(compose, verdict_schema(allowed), attempt)
            problem = reply.error or problem
            found = read_verdicts(reply.text, len(items), allowed) | found
            if self.cache and len(found) == len(items):
                self.cache.put(key, {str(number): verdict for number, verdict in found.items()})
        return [(found.get(number), problem) for number in range(1, len(items) + 1)]


KEY = "ASSAY_JUDGE_KEY"
"""The variable that holds the key of a judge that is named as URL#MODEL; a key is leave to ask another machine."""


def matching_judge(address: str, encoder: Encoder | None, folder: Path) -> JudgedEncoder:
    """Return the judge at URL#MODEL as a matcher; what it said is kept in a folder.

    A judge on another machine is asked only where ASSAY_JUDGE_KEY is set: concerns are sent there.
    """
    url, _, model = address.partition("#")
    has_key = bool(os.environ.get(KEY))
    settings = HttpSettings(url, model, KEY if has_key else "", has_key, cache=folder / "matching.sqlite")
    judge = ConcernJudge(settings)
    judge.client.run(judge.client.find_model())
    return JudgedEncoder(f"judge {judge.client.model} ({VERSION})", encoder, judge.same)
