"""Judges of answers: a model on a server, word overlap, or a table; many answers at once, up to a deadline."""

import asyncio
import hashlib
import json
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import count
from typing import Any, TypeVar

from evals.errors import BadConfig, TrainingStopped
from evals.io import Cache
from evals.refine.judge import HeuristicJudge, Inquiry, Judge, StubJudge, Verdicts, missing
from evals.refine.score import prepare, settle
from evals.schema.record import Record
from evals.schema.refiner import RefinerRecord, RewardConfig
from training.judge.client import ChatClient, Constraint, Messages, Reply, in_a_loop
from training.judge.prompts import (
    CANARY,
    SCHEMA,
    Fences,
    HttpSettings,
    ItemVerdict,
    Question,
    citation_questions,
    fingerprint,
    messages,
    names_of,
    read_reply,
    rubric_questions,
)

Result = TypeVar("Result")
TRIES = 2
"""A reply, and one more for what it left out."""
OBEYED = "the judge said yes to what no answer can show"
NO_THOUGHT = {"chat_template_kwargs": {"enable_thinking": False}}


class HttpJudge:
    """Asks a server; what it does not answer clearly is a missing verdict. Errors are those of `ChatClient`."""

    def __init__(self, settings: HttpSettings) -> None:
        self.settings = settings
        self.client = ChatClient(settings)
        self.cache = Cache(settings.cache) if settings.cache else None
        self.fences = Fences()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.settings,)

    @property
    def label(self) -> str:
        """The model's name and that it is asked over HTTP; never the address or the key."""
        return f"http ({self.client.model or 'the model that the server lists'})"

    async def judge(self, inquiry: Inquiry) -> Verdicts:
        """Return the verdicts on one answer, in the order of the inquiry; none of them is a guess."""
        await self.client.find_model()
        rubric, citations = rubric_questions(inquiry), citation_questions(inquiry)
        groups: list[tuple[Question, ...]] = [rubric] * bool(inquiry.items)
        if self.settings.mode == "per_item":
            groups = [(each, rubric[-1]) for each in rubric[:-1]]  # each with its canary
        groups += [citations] * bool(citations)
        done = await asyncio.gather(*(self._asked(inquiry, group) for group in groups))
        found = {key: verdict for verdicts, _ in done for key, verdict in verdicts.items()}

        def score(key: str) -> float | None:
            return found[key].score if key in found else None

        items = [f"item {place}" for place in range(len(inquiry.items))]
        return Verdicts(
            raws=tuple(score(key) for key in items),
            quotes=tuple(found[key].quote if key in found else "" for key in items),
            support=tuple(score(f"support {place}") for place in range(len(inquiry.claims))),
            relevance=tuple(
                tuple(score(f"relevance {place} {name}") for name in ids) for place, ids in enumerate(inquiry.cited)
            ),
            needs=tuple(score(f"need {place}") for place in range(len(inquiry.uncited))),
            canary=max((verdicts[CANARY].score for verdicts, _ in done if CANARY in verdicts), default=None),
            problems=tuple(dict.fromkeys(problem for _, problem in done if problem)),
        )

    async def ask(self, compose: Callable[[], Messages], schema: dict[str, Any] = SCHEMA, attempt: int = 0) -> Reply:
        """Return a reply held to a schema where the server can, with every sampling field: servers have defaults."""
        sampling = {
            "temperature": 0.0,
            "top_p": 1.0,
            "frequency_penalty": 0.0,
            "presence_penalty": 0.0,
            "seed": self.settings.seed + attempt,
            "max_tokens": self.settings.max_tokens,
        }
        constraints = (
            Constraint.json_schema("JSON schema", schema, **NO_THOUGHT),
            Constraint("field chat_template_kwargs", NO_THOUGHT),
            Constraint("none", {}),
        )
        return await self.client.chat(compose, sampling, constraints)

    async def close(self) -> None:
        """Let go of this loop's connections."""
        await self.client.close()

    def recall(self, key: str) -> Any:
        """Return what was kept under a key, and count it as a hit; None if nothing was."""
        kept = self.cache.get([key]) if self.cache else {}
        self.client.counts.hits += len(kept)
        return json.loads(kept[key]) if kept else None

    def keep(self, key: str, document: Mapping[str, object]) -> None:
        """Keep a whole reply, where there is a cache; failures are never kept."""
        if self.cache:
            self.cache.put({key: json.dumps(document, ensure_ascii=False).encode()})

    async def _asked(self, inquiry: Inquiry, questions: tuple[Question, ...]) -> tuple[dict[str, ItemVerdict], str]:
        """Return verdicts by key, and what went wrong; all are void of a judge that says yes to the canary."""
        settings = self.settings
        told = f"{self.client.model}\n{settings.seed}\n{settings.mode}\n{settings.max_tokens}"
        key = hashlib.sha256(f"{told}\n{fingerprint(inquiry, questions)}".encode()).hexdigest()
        if (kept := self.recall(key)) is not None:
            return {name: ItemVerdict(*each) for name, each in kept.items()}, ""
        found: dict[str, ItemVerdict] = {}
        problem = ""
        for _ in range(TRIES):
            wanted = tuple(each for each in questions if each.key not in found or each.key == CANARY)
            names = names_of(inquiry, wanted)
            reply = await self.ask(lambda names=names: messages(inquiry, names, self.fences))
            if reply.error:
                return {}, reply.error
            found |= read_reply(reply.text, names, inquiry.answer)
            if CANARY in found and found[CANARY].score > 0:
                found, problem = {}, OBEYED
            elif len(found) == len(questions):
                self.keep(key, found)
                return found, ""
        if problem and not found:
            return {CANARY: ItemVerdict(questions[-1].top, "")}, problem
        return (
            found,
            problem or f"{len(questions) - len(found)} of {len(questions)} verdicts are missing from the reply",
        )


def judge_of(settings: HttpSettings) -> Judge:
    """Return the judge that `base_url` names: stub, heuristic, or the address of a server; BadConfig for another."""
    word = settings.base_url
    if word.startswith(("http://", "https://")):
        return HttpJudge(settings)
    if word not in ("stub", "heuristic"):
        raise BadConfig(
            f"there is no judge {word!r}; use stub, heuristic, or the address of a server, such as"
            " http://127.0.0.1:8000/v1."
        )
    return HeuristicJudge() if word == "heuristic" else StubJudge()


def judged(
    judge: Judge, inquiries: Sequence[Inquiry], deadline_seconds: float, tell: Callable[[int], None] | None = None
) -> list[Verdicts]:
    """Return the verdicts on each answer, missing ones for those not there at the deadline; `tell` hears how many."""

    async def work() -> list[Verdicts | None]:
        try:
            return await by_deadline((judge.judge(each) for each in inquiries), deadline_seconds, tell)
        finally:
            if isinstance(judge, HttpJudge):
                await judge.close()

    return [
        late(inquiry, deadline_seconds) if each is None else each
        for inquiry, each in zip(inquiries, in_a_loop(work()), strict=True)
    ]


def late(inquiry: Inquiry, deadline_seconds: float) -> Verdicts:
    """Return the verdicts on an answer that was not judged in time: all missing."""
    return missing(inquiry, f"not judged within {deadline_seconds:g} s")


async def by_deadline(
    work: Iterable[Coroutine[Any, Any, Result]], deadline_seconds: float, tell: Callable[[int], None] | None = None
) -> list[Result | None]:
    """Return what each piece of work returns, in order; None for what is not done at the deadline.

    Each is begun while those before it wait, so what it takes to make one costs the others no time.
    The first error ends all the rest and is raised. `tell` hears how many are done.
    """
    ends_at = asyncio.get_running_loop().time() + deadline_seconds
    tasks: list[asyncio.Task[Result]] = []
    number = count(1)
    try:
        for each in work:
            tasks.append(asyncio.create_task(each))
            if tell is not None:
                tasks[-1].add_done_callback(lambda task: task.cancelled() or tell(next(number)))
            await asyncio.sleep(0)
        if not tasks:
            return []
        left = max(0.0, ends_at - asyncio.get_running_loop().time())
        done, _ = await asyncio.wait(tasks, timeout=left, return_when=asyncio.FIRST_EXCEPTION)
        failed = [error for task in done if (error := task.exception()) is not None]
        if failed:
            raise failed[0]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return [task.result() if task in done else None for task in tasks]


class StopRule:
    """Raises once too large a share of answers had no verdict, `patience` batches in a row."""

    def __init__(self, max_missing_share: float = 0.25, patience: int = 1) -> None:
        self.max_missing_share = max_missing_share
        self.patience = patience
        self._in_a_row = 0

    def saw(self, missing: int, judged: int, problems: tuple[str, ...] = ()) -> None:
        """Take note of a batch; TrainingStopped if it was one too many."""
        if not judged or missing / judged <= self.max_missing_share:
            self._in_a_row = 0
            return
        self._in_a_row += 1
        if self._in_a_row < self.patience:
            return
        seen = f" It said: {'; '.join(problems[:3])}." if problems else ""
        raise TrainingStopped(
            f"the judge gave no verdict on {missing} of {judged} answers, in {self._in_a_row} batches in a"
            f" row (allowed: {self.max_missing_share:.0%} of a batch).{seen} Look at its server, then give"
            " the same command again to go on from the last checkpoint."
        )


MAY_FAIL = 1
"""Of the eight known pairs, how many a judge may put in the wrong order."""


class ProbePair(Record):
    """A record with a better and a worse answer; `about` says what makes the difference."""

    about: str
    record: RefinerRecord
    better: str
    worse: str


@cache
def probe_pairs() -> tuple[ProbePair, ...]:
    """Return the eight pairs, from pairs.json."""
    text = files("training.judge").joinpath("pairs.json").read_text(encoding="utf-8")
    return tuple(ProbePair.model_validate(row) for row in json.loads(text))


def wrong_pairs(judge: Judge, deadline_seconds: float = 120.0) -> tuple[str, ...]:
    """Return what the known pairs are about that a judge puts in the wrong order; so is one without a verdict."""
    config = RewardConfig(gate="off")
    pairs = probe_pairs()
    cases = [prepare(pair.record, answer, config) for pair in pairs for answer in (pair.better, pair.worse)]
    verdicts = judged(judge, [case.inquiry() for case in cases], deadline_seconds)
    rewards = [settle(case, given).reward for case, given in zip(cases, verdicts, strict=True)]
    return tuple(
        pair.about
        for pair, better, worse in zip(pairs, rewards[::2], rewards[1::2], strict=True)
        if better is None or worse is None or better <= worse
    )


def fit_judge(judge: Judge, deadline_seconds: float = 120.0) -> str:
    """Return in words how a judge orders the known pairs; BadConfig if it is not fit to reward anything."""
    wrong, of = wrong_pairs(judge, deadline_seconds), len(probe_pairs())
    if len(wrong) > MAY_FAIL:
        raise BadConfig(
            f"the judge {judge.label} put only {of - len(wrong)} of {of} known pairs in the right order"
            f" (needed: {of - MAY_FAIL}); it failed at: {'; '.join(wrong)}. Use a more capable model, or"
            " look whether the server answers at all."
        )
    return f"{of - len(wrong)} of {of} known pairs ordered right"
