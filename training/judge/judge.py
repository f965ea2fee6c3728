"""Judges of answers: a model on a server, word overlap, or a table; many answers at once, up to a deadline."""

import asyncio
import hashlib
import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from pydantic import Field

from evals.errors import BadConfig, LabError, TrainingStopped
from evals.io import Cache
from evals.readers import Reading, ReadRequest, problem_of
from evals.refine.judge import HeuristicJudge, Inquiry, Item, Judge, StubJudge, Verdicts, missing, number_of
from evals.refine.score import final_figures, prepare
from evals.schema.record import Record
from evals.schema.refiner import RefinerRecord, RewardConfig
from evals.verifiers.expected import normalise
from training.judge.client import ChatClient, Constraint, Messages, Reply, gather_until, in_a_loop
from training.judge.prompts import (
    CANARY,
    SCHEMA,
    Fences,
    HttpSettings,
    ItemVerdict,
    JudgeQuestion,
    citation_questions,
    conversation,
    fingerprint,
    instruction,
    messages,
    names_of,
    objects,
    reply_schema,
    rubric_questions,
    verdicts_in,
)

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
        groups: list[tuple[JudgeQuestion, ...]] = [rubric] * bool(inquiry.items)
        if self.settings.mode == "per_item":
            groups = [(each, rubric[-1]) for each in rubric[:-1]]  # each with its canary
        groups += [citations] * bool(citations)
        done = await asyncio.gather(*(self._ask(inquiry, group) for group in groups))
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

    def recall(self, key: str) -> Any:
        """Return what was kept under a key, and count it as a hit; None if nothing was."""
        kept = self.cache.get([key]) if self.cache else {}
        self.client.counts.hits += len(kept)
        return json.loads(kept[key]) if kept else None

    def keep(self, key: str, document: Mapping[str, object]) -> None:
        """Keep a whole reply, where there is a cache; failures are never kept."""
        if self.cache:
            self.cache.put({key: json.dumps(document, ensure_ascii=False).encode()})

    async def _ask(self, inquiry: Inquiry, questions: tuple[JudgeQuestion, ...]) -> tuple[dict[str, ItemVerdict], str]:
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
            found |= verdicts_in(reply.text, names, inquiry.answer)
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


def collect_verdicts(
    judge: Judge, inquiries: Sequence[Inquiry], deadline_seconds: float, tell: Callable[[int], None] | None = None
) -> list[Verdicts]:
    """Return the verdicts on each answer, missing ones for those not there at the deadline; `tell` hears how many."""
    run = judge.client.run if isinstance(judge, HttpJudge) else in_a_loop
    found = run(gather_until((judge.judge(each) for each in inquiries), deadline_seconds, tell=tell))
    return [
        late(inquiry, deadline_seconds) if each is None else each
        for inquiry, each in zip(inquiries, found, strict=True)
    ]


def late(inquiry: Inquiry, deadline_seconds: float) -> Verdicts:
    """Return the verdicts on an answer that was not judged in time: all missing."""
    return missing(inquiry, f"not judged within {deadline_seconds:g} s")


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
            f" row (allowed: {self.max_missing_share:.0%} of a batch).{seen} Check its server, then give"
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
    verdicts = collect_verdicts(judge, [case.inquiry() for case in cases], deadline_seconds)
    rewards = [final_figures(case, given).reward for case, given in zip(cases, verdicts, strict=True)]
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


# ---- what an answer says, read by a judge --------------------------------------------------------


VERSION = "extraction-2"
"""Goes up whenever a judge would read other words, or its reply be read in another way."""
DEADLINE_SECONDS = 6 * 3600.0
AGAIN = (
    "An earlier reply could not be used: it was no JSON object with one of the OPTIONS (copied exactly),"
    ' "none" or "both: a; b" as answer, and a number from 0 to 100 or null as confidence. Reply again.'
)
READING_FAILS = 1
"""Of the canary questions, how many a judge may get wrong."""
SCHEMA = reply_schema("extraction", {"answer": {"type": "string"}, "confidence": {"type": ["number", "null"]}})


class Canary(Record):
    """An answer of which we know what it says; `about` is what it tries."""

    about: str
    question: str
    form: str
    answer: str
    says: tuple[str, ...] = Field(min_length=1)
    confidence: float | None = None


class AnswerJudge(HttpJudge):
    """Reads answers on a server; made and configured as `HttpJudge` is."""

    @property
    def version(self) -> str:
        """The model and the prompt, as reports keep them. The model is known after the first reply."""
        return f"{self.client.model}, {VERSION}"

    def read_all(self, tasks: Sequence[ReadRequest], tell: Callable[[int], None] | None = None) -> list[Reading]:
        """Return one reading per task; LabError, with their number, if any answer has none."""
        found = self.try_all(tasks, tell)
        readings = [each for each in found if isinstance(each, Reading)]
        if len(readings) < len(found):
            why = list(dict.fromkeys(each for each in found if isinstance(each, str)))
            raise LabError(
                f"the judge {self.label} gave no reading of {len(found) - len(readings)} of {len(found)} answers"
                f" ({'; '.join(why[:3])}), so nothing was scored. Check its server, or use a more capable"
                " model, and run the same command again: readings in the cache are not asked for again."
            )
        return readings

    def try_all(self, tasks: Sequence[ReadRequest], tell: Callable[[int], None] | None = None) -> list[Reading | str]:
        """Return one reading per task, or in words why there is none."""

        async def one(task: ReadRequest) -> Reading | str:
            return await (self.grade(task) if task.items else self.extract(task))

        async def work() -> list[Reading | str | None]:
            await self.client.find_model()
            return await gather_until(map(one, tasks), DEADLINE_SECONDS, tell=tell)

        late = f"not read within {DEADLINE_SECONDS:g} s"
        return [late if each is None else each for each in self.client.run(work())]

    async def grade(self, task: ReadRequest) -> Reading | str:
        """Return the scores of a rubric's items."""
        items = tuple(Item(f"+:{each.title}", each.title, each.description, "positive") for each in task.items)
        verdicts = await self.judge(
            Inquiry("", task.question, {}, task.answer, items, (), (), (), 1.0, asks_citations=False)
        )
        scores = tuple(each for each in verdicts.raws if each is not None)
        if len(scores) < len(items) or verdicts.canary != 0:
            return "; ".join(verdicts.problems) or OBEYED
        return Reading(scores=scores)

    async def extract(self, task: ReadRequest) -> Reading | str:
        """Return what an answer says."""
        settings = self.settings
        asked = [VERSION, instruction("extraction"), SCHEMA, self.client.model, settings.seed, settings.max_tokens]
        key = hashlib.sha256(json.dumps([*asked, task[:4]]).encode()).hexdigest()
        if (kept := self.recall(key)) is not None:
            return Reading(kept["answer"], kept["confidence"])
        problem = ""
        for attempt in range(TRIES):

            def compose(is_again: bool = attempt > 0) -> Messages:
                parts = [
                    self.fences.enclose("QUESTION", task.question),
                    self.fences.enclose("OPTIONS", task.form),
                    self.fences.single("ANSWER", task.answer),
                ]
                return conversation(instruction("extraction"), [*parts, AGAIN] if is_again else parts)

            reply = await self.ask(compose, SCHEMA, attempt)
            if reply.error:
                return reply.error
            found = read_extraction(reply.text, task)
            if isinstance(found, Reading):
                self.keep(key, {"answer": found.answer, "confidence": found.confidence})
                return found
            problem = found
        return problem


def read_extraction(text: str, task: ReadRequest) -> Reading | str:
    """Return the reading in a judge's reply, or in words what is wrong with it."""
    found = [(each["answer"], each["confidence"]) for each in objects(text) if {"answer", "confidence"} <= each.keys()]
    if not found:
        return 'there is no {"answer": …, "confidence": …} in it'
    if any(each != found[0] for each in found):
        return "it reads the answer in two ways"
    answer, stated = found[0]
    if number_of(answer) is not None:
        answer = str(answer)
    if not isinstance(answer, str):
        return f"answer is {answer!r}; it takes a text"
    answer = answer.encode("utf-8", "replace").decode()
    if problem := problem_of(task, answer):
        return problem
    confidence = number_of(stated)
    if stated is not None and confidence is None:
        return f"confidence is {stated!r}; it takes a number, or null"
    return Reading(answer, confidence)


@cache
def canaries() -> tuple[Canary, ...]:
    """Return the canary questions, from canaries.toml."""
    text = files("training.judge").joinpath("canaries.toml").read_text(encoding="utf-8")
    return tuple(Canary.model_validate(row) for row in tomllib.loads(text)["canary"])


def failed_canaries(judge: AnswerJudge) -> tuple[str, ...]:
    """Return what the canary questions are about that a judge reads wrong."""
    options = [tuple(each.form.split(" / ")) if " / " in each.form else () for each in canaries()]
    tasks = [
        ReadRequest(each.question, each.answer, each.form, of) for each, of in zip(canaries(), options, strict=True)
    ]
    wrong = []
    for each, found in zip(canaries(), judge.try_all(tasks), strict=True):
        is_right = not isinstance(found, str) and normalise(found.answer) in map(normalise, each.says)
        if not is_right or found.confidence != each.confidence:
            wrong.append(each.about)
    return tuple(wrong)


def refuse_unless_fit(label: str, failed: Sequence[str], *, anyway: bool = False) -> None:
    """Raise BadConfig for a judge that fails more than one canary question, unless it is wanted anyway."""
    if len(failed) > READING_FAILS and not anyway:
        raise BadConfig(
            f"the judge {label} reads {len(failed)} of {len(canaries())} known answers wrong (allowed:"
            f" {READING_FAILS}): {'; '.join(failed)}. Use a more capable model, or give --any-judge if its readings"
            " are wanted all the same."
        )
