"""A language model that holds concerns against their paper, or against each other.

judge = ConcernJudge(HttpSettings("http://127.0.0.1:8000/v1"))
found = judge.ground(["The trial was not registered."], article)
alike = judge.same([("No control arm.", "There is no placebo group.")])
"""

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, get_args

from evals.errors import LabError
from evals.review.match import Encoder, JudgedEncoder
from evals.review.places import Map
from evals.review.prompt import head_of, sections_of
from evals.schema import Article
from evals.schema.record import Record
from training.judge.client import Messages, in_a_loop
from training.judge.judge import TRIES, HttpJudge, by_deadline
from training.judge.prompts import HttpSettings, conversation, instruction, objects, reply_schema

VERSION = "concerns-1"
ITEMS = 20
"""Concerns or pairs that are asked about at a time."""
LONGEST = 60_000
"""Characters of a paper that the judge is shown."""
DEADLINE_SECONDS = 6 * 3600.0
SAME = {"yes": 1.0, "partly": 0.5, "no": 0.0}
ROW = {"item": {"type": "integer"}, "verdict": {"type": "string"}, "quote": {"type": "string"}}
ITEM = {"type": "object", "additionalProperties": False, "required": list(ROW), "properties": ROW}
SCHEMA = reply_schema("verdicts", {"verdicts": {"type": "array", "items": ITEM}})
Verdict = tuple[str, str]
"""A word and a quote."""
Status = Literal["supported", "contradicted", "not_checkable"]


class Grounding(Record):
    """What a judge says of a concern, with the sentence of the paper that decides; empty where none does."""

    status: Status
    sentence: str = ""
    section: int | None = None
    by: str


class ConcernJudge(HttpJudge):
    """Made, configured and closed as `HttpJudge` is. LabError where a verdict cannot be had: none is guessed."""

    def ground(self, concerns: Sequence[str], article: Article) -> list[Grounding]:
        """Return what the paper says of each concern; a contradiction without words of the paper is none."""
        sections = (f"## {name}\n{text}" for name, text in sections_of(article))
        paper = "\n\n".join(filter(None, (head_of(article), *sections)))[:LONGEST]
        verdicts = self._verdicts("grounding", paper, list(concerns), get_args(Status))
        places, found = Map(article), list[Grounding]()
        for word, quote in verdicts:
            place = places.place(f'"{quote}"') if quote.strip() else None
            status: Status = "supported" if word == "supported" else "not_checkable"
            if word == "contradicted" and place is not None and place.is_quoted:
                status = "contradicted"
            if place is None or status == "not_checkable":
                found.append(Grounding(status=status, by=self.label))
            else:
                found.append(Grounding(status=status, sentence=place.quote, section=place.section, by=self.label))
        return found

    def same(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return for each pair of concerns 1 for the same point, 0.5 for one that overlaps, 0 for others."""
        items = [f"A: {one}\nB: {other}" for one, other in pairs]
        return [SAME[word] for word, _ in self._verdicts("matching", "", items, tuple(SAME))]

    def _verdicts(self, task: str, paper: str, items: Sequence[str], allowed: Sequence[str]) -> list[Verdict]:
        groups = [items[start : start + ITEMS] for start in range(0, len(items), ITEMS)]

        async def work() -> list[dict[int, Verdict] | None]:
            try:
                await self.client.find_model()
                asked = (self._asked_in_one(task, paper, group, allowed) for group in groups)
                return await by_deadline(asked, DEADLINE_SECONDS)
            finally:
                await self.close()

        done = in_a_loop(work())
        return [verdict for group in done for _, verdict in sorted((group or {}).items())]

    async def _asked_in_one(
        self, task: str, paper: str, items: Sequence[str], allowed: Sequence[str]
    ) -> dict[int, Verdict]:
        told = [VERSION, instruction(task), self.client.model, self.settings.seed, paper, list(items)]
        key = hashlib.sha256(json.dumps(told).encode()).hexdigest()
        if self.cache and (kept := self.cache.get(key)) is not None:
            self.client.counts.hits += 1
            return {int(number): (word, quote) for number, (word, quote) in kept.items()}
        listed = "\n".join(f"{number}. {text}" for number, text in enumerate(items, start=1))
        found: dict[int, Verdict] = {}
        problem = "the reply has no verdict on some of them"
        for attempt in range(TRIES):

            def compose() -> Messages:
                shown = [self.fences.shared("PAPER", paper)] if paper else []
                return conversation(
                    instruction(task), [*shown, self.fences.single("PAIRS" if not paper else "CONCERNS", listed)]
                )

            reply = await self.ask(compose, SCHEMA, attempt)
            problem = reply.error or problem
            for document in objects(reply.text):
                rows = document.get("verdicts")
                for row in rows if isinstance(rows, list) else ():
                    word, number = str(row.get("verdict", "")).strip().lower(), row.get("item")
                    if word in allowed and isinstance(number, int) and 1 <= number <= len(items):
                        found.setdefault(number, (word, str(row.get("quote") or "")))
            if len(found) == len(items):
                if self.cache:
                    self.cache.put(key, {str(number): verdict for number, verdict in found.items()})
                return found
        raise LabError(
            f"the judge {self.label} gave {len(found)} of {len(items)} verdicts ({problem}); look at its server, or use"
            " a more capable model, and give the same command again: verdicts in the cache are not asked for again."
        )


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
