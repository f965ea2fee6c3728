"""A language model as judge, on any server that speaks OpenAI's chat completions.

    vllm serve MODEL --host 127.0.0.1 --enable-prefix-caching
    HttpJudge(HttpSettings("http://127.0.0.1:8000/v1"))

Two calls per answer, one for the rubric and one for the citations, at the same time. What a reply
leaves out is asked for once more; then it is missing. Connections belong to an event loop and are made
inside it, so the judge can be pickled and used from several loops.
"""

import asyncio
import hashlib
from collections.abc import Mapping
from weakref import WeakKeyDictionary

from evals.refiner.judging import Inquiry, Verdicts
from training.judging.address import checked_address, key_of
from training.judging.cache import VerdictCache
from training.judging.fence import Fences
from training.judging.line import Counts, JudgeFailure, Line
from training.judging.questions import (
    CANARY,
    Question,
    citation_questions,
    fingerprint,
    messages,
    names_of,
    rubric_questions,
)
from training.judging.reply import Verdict, read_reply
from training.judging.settings import HttpSettings

TRIES = 2
"""A reply, and one more for what it left out."""


class HttpJudge:
    """Asks a server; what it does not answer clearly is a missing verdict.

    BadConfig for an address that is none, one on another machine without leave, or a key that is not
    set. `counts` say what happened on the line.
    """

    def __init__(self, settings: HttpSettings) -> None:
        self.settings = settings
        self._address = checked_address(settings.base_url, allow_remote=settings.allow_remote)
        key_of(settings.key_variable, self._address)
        self._start()

    def _start(self) -> None:
        self.counts = Counts()
        self._model = self.settings.model
        self._cache = VerdictCache(self.settings.cache) if self.settings.cache else None
        self._fences = Fences()
        self._lines: WeakKeyDictionary[asyncio.AbstractEventLoop, Line] = WeakKeyDictionary()

    def __getstate__(self) -> dict[str, object]:
        return {"settings": self.settings, "_address": self._address}

    def __setstate__(self, state: Mapping[str, object]) -> None:
        self.__dict__.update(state)
        self._start()

    @property
    def label(self) -> str:
        """The model's name and that it is asked over HTTP; never the address or the key."""
        return f"http ({self._model or 'the model that the server lists'})"

    async def judge(self, inquiry: Inquiry) -> Verdicts:
        """Return the verdicts on one answer; none of them is a guess."""
        if not self._model:
            self._model = await self._line().model()
        rubric, citations = rubric_questions(inquiry), citation_questions(inquiry)
        groups: list[tuple[Question, ...]] = [rubric]
        if self.settings.mode == "per_item":
            groups = [(each, rubric[-1]) for each in rubric[:-1]]
        if citations:
            groups.append(citations)
        done = await asyncio.gather(*(self._asked(inquiry, group) for group in groups))
        found: dict[str, Verdict] = {}
        hits = [verdicts[CANARY].score for verdicts, _ in done if CANARY in verdicts]
        for verdicts, _ in done:
            found |= verdicts
        problems = tuple(dict.fromkeys(problem for _, problem in done if problem))
        return _verdicts(inquiry, found, max(hits, default=None), problems)

    def write_cache(self) -> None:
        """Put the verdicts that were given into the cache's file, if there is one."""
        if self._cache is not None:
            self._cache.write()

    async def close(self) -> None:
        """Let go of this loop's connections and of the cache."""
        line = self._lines.pop(asyncio.get_running_loop(), None)
        if line is not None:
            await line.close()
        if self._cache is not None:
            self._cache.close()

    def take_counts(self) -> Counts:
        """Return what happened since this was last asked, and start anew."""
        taken, self.counts = self.counts, Counts()
        for line in self._lines.values():
            line.counts = self.counts
        return taken

    async def _asked(
        self, inquiry: Inquiry, questions: tuple[Question, ...]
    ) -> tuple[dict[str, Verdict], str]:
        """Return the verdicts on some questions by key, and what went wrong.

        A judge that says yes to the canary was talked into it: then all its verdicts are void.
        """
        key = self._key(inquiry, questions) if self._cache else ""
        kept = self._cache.get(key) if self._cache else None
        if kept is not None:
            self.counts.hits += 1
            return kept, ""
        found: dict[str, Verdict] = {}
        problem = ""
        for attempt in range(TRIES):
            wanted = tuple(
                each for each in questions if each.key not in found or each.key == CANARY
            )
            if attempt:
                self.counts.reasked += 1
            try:
                found |= await self._reply(inquiry, wanted)
            except JudgeFailure as failure:
                return {}, str(failure)
            if CANARY in found and found[CANARY].score > 0:
                found, problem = {}, "the judge said yes to what no answer can show"
                continue
            if len(found) == len(questions):
                if self._cache:
                    self._cache.put(key, found)
                return found, ""
        if problem and not found:
            return {CANARY: Verdict(questions[-1].top, "")}, problem
        left = len(questions) - len(found)
        return found, problem or f"{left} of {len(questions)} verdicts are missing from the reply"

    async def _reply(self, inquiry: Inquiry, wanted: tuple[Question, ...]) -> dict[str, Verdict]:
        names = names_of(inquiry, wanted)
        text = await self._line().ask(self._model, lambda: messages(inquiry, names, self._fences))
        return read_reply(text, names, inquiry.answer)

    def _line(self) -> Line:
        loop = asyncio.get_running_loop()
        if loop not in self._lines:
            key = key_of(self.settings.key_variable, self._address)
            self._lines[loop] = Line(self.settings, key, self.counts)
        return self._lines[loop]

    def _key(self, inquiry: Inquiry, questions: tuple[Question, ...]) -> str:
        told = (
            f"{self._model}\n{self.settings.seed}\n{self.settings.mode}\n{self.settings.max_tokens}"
        )
        asked = fingerprint(inquiry, questions)
        return hashlib.sha256(f"{told}\n{asked}".encode()).hexdigest()


def _verdicts(
    inquiry: Inquiry,
    found: Mapping[str, Verdict],
    canary: float | None,
    problems: tuple[str, ...],
) -> Verdicts:
    """Return verdicts in the order of the inquiry."""

    def score(key: str) -> float | None:
        return found[key].score if key in found else None

    items = [f"item {place}" for place in range(len(inquiry.items))]
    return Verdicts(
        raws=tuple(score(key) for key in items),
        quotes=tuple(found[key].quote if key in found else "" for key in items),
        support=tuple(score(f"support {place}") for place in range(len(inquiry.claims))),
        relevance=tuple(
            tuple(score(f"relevance {place} {name}") for name in ids)
            for place, ids in enumerate(inquiry.cited)
        ),
        needs=tuple(score(f"need {place}") for place in range(len(inquiry.uncited))),
        canary=canary,
        problems=problems,
    )
