"""A language model as judge, on any server that speaks OpenAI's chat completions.

    vllm serve MODEL --host 127.0.0.1 --enable-prefix-caching
    HttpJudge(HttpSettings("http://127.0.0.1:8000/v1"))

Two calls per answer, one for the rubric and one for the citations, at the same time; with votes, two
of each, and more on what those do not agree on. What a reply leaves out is asked for once more; then it
is missing. Connections belong to an event loop and are made
inside it, so the judge can be pickled and used from several loops.
"""

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
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
from training.judging.votes import FIRST, Ballot, apart, is_open

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
        groups = self._groups(inquiry)
        votes = self.settings.votes
        ballot = await self._voted(inquiry, groups, range(min(votes, FIRST)))
        if votes > FIRST:
            still = [
                tuple(each for each in group if each.key == CANARY or is_open(ballot.of(each.key)))
                for group in groups
            ]
            ballot += await self._voted(
                inquiry, [group for group in still if len(group) > 1], range(FIRST, votes)
            )
        return _verdicts(inquiry, ballot)

    def _groups(self, inquiry: Inquiry) -> list[tuple[Question, ...]]:
        """Return what is asked together, a canary at the end of each."""
        rubric, citations = rubric_questions(inquiry), citation_questions(inquiry)
        groups: list[tuple[Question, ...]] = [rubric]
        if self.settings.mode == "per_item":
            groups = [(each, rubric[-1]) for each in rubric[:-1]]
        return [*groups, citations] if citations else groups

    async def _voted(
        self, inquiry: Inquiry, groups: Sequence[tuple[Question, ...]], votes: Sequence[int]
    ) -> Ballot:
        """Return what came of some votes on each group."""
        pairs = [(group, vote) for group in groups for vote in votes]
        done = await asyncio.gather(*(self._asked(inquiry, *pair) for pair in pairs))
        ballot = Ballot()
        for (group, _), (verdicts, problem) in zip(pairs, done, strict=True):
            ballot.add(group, verdicts, problem)
        return ballot

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
        self, inquiry: Inquiry, questions: tuple[Question, ...], vote: int
    ) -> tuple[dict[str, Verdict], str]:
        """Return the verdicts on some questions by key, and what went wrong.

        A judge that says yes to the canary was talked into it: then all its verdicts are void.
        """
        key = self._key(inquiry, questions, vote) if self._cache else ""
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
                found |= await self._reply(inquiry, wanted, vote)
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

    async def _reply(
        self, inquiry: Inquiry, wanted: tuple[Question, ...], vote: int
    ) -> dict[str, Verdict]:
        names = names_of(inquiry, wanted, vote)
        text = await self._line().ask(
            self._model, lambda: messages(inquiry, names, self._fences), vote
        )
        return read_reply(text, names, inquiry.answer)

    def _line(self) -> Line:
        loop = asyncio.get_running_loop()
        if loop not in self._lines:
            key = key_of(self.settings.key_variable, self._address)
            self._lines[loop] = Line(self.settings, key, self.counts)
        return self._lines[loop]

    def _key(self, inquiry: Inquiry, questions: tuple[Question, ...], vote: int) -> str:
        told = (
            f"{self._model}\n{self.settings.seed}\n{self.settings.mode}\n{self.settings.max_tokens}"
        )
        asked = fingerprint(inquiry, questions) + (f" vote {vote}" if vote else "")
        return hashlib.sha256(f"{told}\n{asked}".encode()).hexdigest()


def _verdicts(inquiry: Inquiry, ballot: Ballot) -> Verdicts:
    """Return what stands, in the order of the inquiry."""
    found = ballot.standing()

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
        canary=max((vote.score for vote in ballot.of(CANARY)), default=None),
        apart=tuple(apart(ballot.of(key), inquiry.scale) for key in items)
        if ballot.has_several
        else (),
        problems=tuple(dict.fromkeys(ballot.problems)),
    )
