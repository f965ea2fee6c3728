"""A language model that holds concerns against each other.

judge = ConcernJudge(HttpSettings("http://127.0.0.1:8000/v1"))
alike = judge.same([("No control arm.", "There is no placebo group.")])
"""

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path

from evals.errors import LabError
from evals.review.match import Encoder, JudgedEncoder
from training.judge.client import in_a_loop
from training.judge.judge import TRIES, HttpJudge, by_deadline
from training.judge.prompts import HttpSettings, conversation, instruction
from training.judge.verdicts import Verdict, read_verdicts, verdict_schema

VERSION = "concerns-1"
ITEMS = 20
"""Pairs that are asked about at a time."""
DEADLINE_SECONDS = 6 * 3600.0
SAME = {"yes": 1.0, "partly": 0.5, "no": 0.0}


class ConcernJudge(HttpJudge):
    """Made, configured and closed as `HttpJudge` is."""

    def same(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return for each pair of concerns 1 for the same point, 0.5 for one that overlaps, 0 for others.

        LabError where a verdict cannot be had: none is guessed.
        """
        items = [f"A: {one}\nB: {other}" for one, other in pairs]
        groups = [items[start : start + ITEMS] for start in range(0, len(items), ITEMS)]

        async def work() -> list[list[tuple[str | None, str]] | None]:
            try:
                await self.client.find_model()
                return await by_deadline(map(self._compared, groups), DEADLINE_SECONDS)
            finally:
                await self.close()

        late = (None, f"not read within {DEADLINE_SECONDS:g} s")
        found = zip(groups, in_a_loop(work()), strict=True)
        answered = [each for group, done in found for each in done or [late] * len(group)]
        if missing := [problem for word, problem in answered if word is None]:
            raise LabError(
                f"the judge {self.label} gave {len(pairs) - len(missing)} of {len(pairs)} verdicts ({missing[0]}); look at"
                " its server, or use a more capable model, and give the same command again: verdicts in the cache are"
                " not asked for again."
            )
        return [SAME[word] for word, _ in answered if word]

    async def _compared(self, items: Sequence[str]) -> list[tuple[str | None, str]]:
        """Return each pair's verdict, or None and why there is none."""
        told = [VERSION, instruction("matching"), self.client.model, self.settings.seed, "", list(items)]
        key = hashlib.sha256(json.dumps(told).encode()).hexdigest()
        found: dict[int, Verdict] = {}
        problem = "the reply has no verdict on it"
        if (kept := self.recall(key)) is not None:
            found = {int(number): (word, quote) for number, (word, quote) in kept.items()}
        listed = "\n".join(f"{number}. {text}" for number, text in enumerate(items, start=1))
        for attempt in range(TRIES):
            if len(found) == len(items):
                break
            reply = await self.ask(
                lambda: conversation(instruction("matching"), [self.fences.single("PAIRS", listed)]),
                verdict_schema(tuple(SAME)),
                attempt,
            )
            problem = reply.error or problem
            found = read_verdicts(reply.text, len(items), tuple(SAME)) | found
            if len(found) == len(items):
                self.keep(key, {str(number): verdict for number, verdict in found.items()})
        return [(found.get(number, (None, ""))[0], problem) for number in range(1, len(items) + 1)]


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
