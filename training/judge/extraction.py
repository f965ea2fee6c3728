"""A language model as reader of answers: what an answer says, and which items of a rubric it meets.

    reader = AnswerJudge(HttpSettings("http://127.0.0.1:8000/v1"))
    verdicts = judge_answers(answers, reader.read_all)

It is asked over the same line, with the same cache and fences, as the judge of cited answers, whose
questions after a rubric it uses as they are. The prompt for what an answer says is extraction.txt. A reply
that is no `{answer, confidence}` into the question's options is asked for once more; an answer that still
has no reading stops the work with an error: it never counts as wrong.
"""

import hashlib
import json
import tomllib
from collections.abc import Callable, Sequence
from functools import cache, partial
from importlib.resources import files
from typing import Any

from pydantic import Field

from evals.errors import BadConfig, LabError
from evals.refine.judge import Inquiry, number_of
from evals.refine.rubric import Item
from evals.schema import Record
from evals.verifiers.expected import normalised
from evals.verifiers.judged import Reading, Task, problem_of
from training.judge.client import TRIES, HttpJudge, JudgeFailure
from training.judge.judge import by_deadline, counting, in_a_loop
from training.judge.questions import objects

VERSION = "extraction-1"
"""Goes up whenever a judge would read other words, or its reply be read in another way."""
DEADLINE_SECONDS = 6 * 3600.0
AGAIN = (
    "An earlier reply could not be used: it was no JSON object with one of the OPTIONS (copied exactly),"
    ' "none" or "both: a; b" as answer, and a number from 0 to 100 or null as confidence. Reply again.'
)
MAY_FAIL = 1
"""Of the canary questions, how many a judge may get wrong."""
SCHEMA: dict[str, Any] = {
    "name": "extraction",
    "strict": True,
    "schema": {
        "type": "object",
        "additionalProperties": False,
        "required": ["answer", "confidence"],
        "properties": {
            "answer": {"type": "string"},
            "confidence": {"type": ["number", "null"]},
        },
    },
}


class Canary(Record):
    """An answer of which we know what it says; `about` is what it tries."""

    about: str
    question: str
    form: str
    answer: str
    says: tuple[str, ...] = Field(min_length=1)
    confidence: float | None = None

    def is_read_by(self, reading: Reading | None) -> bool:
        """Return whether a reading is right: one of the wordings, and the confidence."""
        if reading is None or reading.confidence != self.confidence:
            return False
        return normalised(reading.answer) in map(normalised, self.says)


class AnswerJudge(HttpJudge):
    """Reads answers on a server; made, configured and closed as `HttpJudge` is."""

    @property
    def version(self) -> str:
        """The model and the prompt, as reports keep them. The model is known after the first reply."""
        return f"{self._model}, {VERSION}"

    def read_all(self, tasks: Sequence[Task], tell: Callable[[int], None] | None = None) -> list[Reading]:
        """Return one reading per task; LabError, with their number, if any answer has none."""
        found = self.try_all(tasks, tell)
        readings = [each for each in found if isinstance(each, Reading)]
        if len(readings) < len(found):
            why = list(dict.fromkeys(each for each in found if isinstance(each, str)))
            raise LabError(
                f"the judge {self.label} gave no reading of {len(found) - len(readings)} of {len(found)} answers"
                f" ({'; '.join(why[:3])}), so nothing was scored. Look at its server, or use a more capable"
                " model, and give the same command again: readings in the cache are not asked for again."
            )
        return readings

    def try_all(self, tasks: Sequence[Task], tell: Callable[[int], None] | None = None) -> list[Reading | str]:
        """Return one reading per task, or in words why there is none."""

        async def one(task: Task) -> Reading | str:
            return await (self.grade(task) if task.items else self.extract(task))

        async def work() -> list[Reading | str | None]:
            try:
                if not self._model:
                    self._model = await self._line().model()
                return await by_deadline(counting(one, tasks, tell), DEADLINE_SECONDS)
            finally:
                await self.close()

        late = f"not read within {DEADLINE_SECONDS:g} s"
        return [late if each is None else each for each in in_a_loop(work())]

    async def grade(self, task: Task) -> Reading | str:
        """Return the scores of a rubric's items."""
        items = tuple(Item(f"+:{each.title}", each.title, each.description, "positive") for each in task.items)
        verdicts = await self.judge(
            Inquiry("", task.question, {}, task.answer, items, (), (), (), 1.0, asks_citations=False)
        )
        scores = tuple(each for each in verdicts.raws if each is not None)
        if len(scores) < len(items) or verdicts.canary != 0:
            return "; ".join(verdicts.problems) or "the judge said yes to what no answer can show"
        return Reading(scores=scores)

    async def extract(self, task: Task) -> Reading | str:
        """Return what an answer says."""
        key = self._key_of(task)
        kept = self._cache.document(key) if self._cache else None
        if kept is not None:
            self.counts.hits += 1
            return Reading(kept["answer"], kept["confidence"])
        problem = ""
        for attempt in range(TRIES):
            self.counts.reasked += attempt
            try:
                compose = partial(self._messages, task, is_again=attempt > 0)
                text = await self._line().ask(self._model, compose, attempt, SCHEMA)
            except JudgeFailure as failure:
                return str(failure)
            found = read_extraction(text, task)
            if isinstance(found, Reading):
                if self._cache:
                    self._cache.put(key, {"answer": found.answer, "confidence": found.confidence})
                return found
            problem = found
        return problem

    def _messages(self, task: Task, *, is_again: bool) -> list[dict[str, str]]:
        parts = [
            self._fences.shared("QUESTION", task.question),
            self._fences.shared("OPTIONS", task.form),
            self._fences.single("ANSWER", task.answer),
        ]
        if is_again:
            parts.append(AGAIN)
        return [
            {"role": "system", "content": instruction()},
            {"role": "user", "content": "\n\n".join(parts)},
        ]

    def _key_of(self, task: Task) -> str:
        asked = [VERSION, instruction(), SCHEMA, self._model, self.settings.seed]
        text = json.dumps([*asked, self.settings.max_tokens, task[:4]])
        return hashlib.sha256(text.encode()).hexdigest()


def read_extraction(text: str, task: Task) -> Reading | str:
    """Return the reading in a judge's reply, or in words what is wrong with it."""
    for document in objects(text):
        if not {"answer", "confidence"} <= document.keys():
            continue
        answer, stated = document["answer"], document["confidence"]
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
    return 'there is no {"answer": …, "confidence": …} in it'


@cache
def canaries() -> tuple[Canary, ...]:
    """Return the canary questions, from canaries.toml."""
    text = files("training.judge").joinpath("canaries.toml").read_text(encoding="utf-8")
    return tuple(Canary.model_validate(row) for row in tomllib.loads(text)["canary"])


def failed_canaries(judge: AnswerJudge) -> tuple[str, ...]:
    """Return what the canary questions are about that a judge reads wrong."""
    asked = canaries()
    tasks = [
        Task(
            each.question,
            each.answer,
            each.form,
            tuple(each.form.split(" / ")) if " / " in each.form else (),
        )
        for each in asked
    ]
    readings = judge.try_all(tasks)
    return tuple(
        each.about
        for each, reading in zip(asked, readings, strict=True)
        if not each.is_read_by(reading if isinstance(reading, Reading) else None)
    )


def refuse_unless_fit(label: str, failed: Sequence[str], *, anyway: bool = False) -> None:
    """Raise BadConfig for a judge that fails more than one canary question, unless it is wanted anyway."""
    if len(failed) > MAY_FAIL and not anyway:
        raise BadConfig(
            f"the judge {label} reads {len(failed)} of {len(canaries())} known answers wrong (allowed:"
            f" {MAY_FAIL}): {'; '.join(failed)}. Use a more capable model, or give --any-judge if its readings"
            " are wanted all the same."
        )


@cache
def instruction() -> str:
    """Return what a judge is told before it reads an answer."""
    return files("training.judge").joinpath("extraction.txt").read_text(encoding="utf-8")
