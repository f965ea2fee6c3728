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
from functools import cache
from importlib.resources import files

from pydantic import Field

from evals.errors import BadConfig, LabError
from evals.refine.judge import Inquiry, number_of
from evals.refine.rubric import Item
from evals.schema import Record
from evals.verifiers.expected import normalised
from evals.verifiers.judged import Reading, ReadRequest, problem_of
from training.judge.client import Messages, in_a_loop
from training.judge.judge import OBEYED, TRIES, HttpJudge, by_deadline
from training.judge.prompts import conversation, instruction, objects, reply_schema

VERSION = "extraction-1"
"""Goes up whenever a judge would read other words, or its reply be read in another way."""
DEADLINE_SECONDS = 6 * 3600.0
AGAIN = (
    "An earlier reply could not be used: it was no JSON object with one of the OPTIONS (copied exactly),"
    ' "none" or "both: a; b" as answer, and a number from 0 to 100 or null as confidence. Reply again.'
)
MAY_FAIL = 1
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
    """Reads answers on a server; made, configured and closed as `HttpJudge` is."""

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
                f" ({'; '.join(why[:3])}), so nothing was scored. Look at its server, or use a more capable"
                " model, and give the same command again: readings in the cache are not asked for again."
            )
        return readings

    def try_all(self, tasks: Sequence[ReadRequest], tell: Callable[[int], None] | None = None) -> list[Reading | str]:
        """Return one reading per task, or in words why there is none."""

        async def one(task: ReadRequest) -> Reading | str:
            return await (self.grade(task) if task.items else self.extract(task))

        async def work() -> list[Reading | str | None]:
            try:
                await self.client.find_model()
                return await by_deadline(map(one, tasks), DEADLINE_SECONDS, tell)
            finally:
                await self.close()

        late = f"not read within {DEADLINE_SECONDS:g} s"
        return [late if each is None else each for each in in_a_loop(work())]

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
                    self.fences.shared("QUESTION", task.question),
                    self.fences.shared("OPTIONS", task.form),
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
    options = [tuple(each.form.split(" / ")) if " / " in each.form else () for each in canaries()]
    tasks = [
        ReadRequest(each.question, each.answer, each.form, of) for each, of in zip(canaries(), options, strict=True)
    ]
    wrong = []
    for each, found in zip(canaries(), judge.try_all(tasks), strict=True):
        is_right = not isinstance(found, str) and normalised(found.answer) in map(normalised, each.says)
        if not is_right or found.confidence != each.confidence:
            wrong.append(each.about)
    return tuple(wrong)


def refuse_unless_fit(label: str, failed: Sequence[str], *, anyway: bool = False) -> None:
    """Raise BadConfig for a judge that fails more than one canary question, unless it is wanted anyway."""
    if len(failed) > MAY_FAIL and not anyway:
        raise BadConfig(
            f"the judge {label} reads {len(failed)} of {len(canaries())} known answers wrong (allowed:"
            f" {MAY_FAIL}): {'; '.join(failed)}. Use a more capable model, or give --any-judge if its readings"
            " are wanted all the same."
        )
