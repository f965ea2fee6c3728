"""What a visitor asked: answered and graded, found in the store again, and asked again to compare."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from textwrap import shorten

from evals import questions
from evals.errors import LabError
from evals.schema import Answer, Verdict
from lab.services import Services
from lab.session import Draft, Drafts, Moment, QuestionRequest, answered, new_id, origin, session_of
from lab.ui.text import say
from lab.visitors import Visitor

ANSWERS = 90
"""How many stored answers are looked through, newest first."""


def answering(services: Services, asked: QuestionRequest) -> Iterator[Moment[Drafts, tuple[Answer, ...]]]:
    """Yield moments until the answers are stored, those we know with verdicts; LabError if the model cannot answer."""
    from evals.questions.task import Questions  # late: it brings the statistics

    example = questions.find(asked.question)

    def graded(draft: Draft) -> Draft:
        if example is None or draft.finish_reason == "cancelled":
            return draft
        (grade,) = Questions().grade([example], [draft.text])
        return replace(draft, verdict=Verdict.model_validate(grade.detail))

    def finish(drafts: Drafts) -> Moment[Drafts, tuple[Answer, ...]]:
        drafts = tuple(map(graded, drafts))
        chain, asked_at = asked.among(services.engine.chain(asked.chain)), services.now()
        answers = tuple(
            Answer(
                id=new_id(),
                asked_at=asked_at,
                session=session_of(services, asked.visitor, asked.tab),
                question=asked.question,
                example_id=example.id if example else None,
                stage=draft.stage,
                text=draft.text,
                finish_reason=draft.finish_reason or "cancelled",
                system_prompt=questions.system_prompt_for(chain.manifest.system_prompt, asked.question),
                verdict=draft.verdict,
                **origin(chain, draft.stage, asked.sampling),
            )
            for draft in drafts
        )
        try:
            services.store.add_answers(answers)
        except LabError as error:
            return Moment(drafts, problem=say("ask.not_kept", problem=error))
        return Moment(drafts, kept=answers)

    for moment in answered(services, asked, finish):
        is_complete = moment.written and all(draft.finish_reason for draft in moment.written)
        if moment.is_done or moment.is_replaced or not (is_complete or moment.is_grading):
            yield moment


@dataclass(frozen=True)
class Earlier:
    """A question asked before, with the stored answer of each stage."""

    answers: tuple[Answer, ...]

    @property
    def first(self) -> Answer:
        """Any of them: question, time and settings are the same in all."""
        return self.answers[0]

    @property
    def label(self) -> str:
        """One line to choose it by."""
        first = self.first
        short = shorten(first.question, 80, placeholder="…")
        return f"{when(first)} · {short} · seed {first.seed}, temperature {first.temperature:g}"


def earlier(services: Services, visitor: Visitor | None) -> tuple[Earlier, ...]:
    """Return what this browser asked in this tab before, newest first."""
    if visitor is None:
        return ()
    stages = ("base", "sft", "dpo", "grpo")
    if services.engine.status.state == "ready":
        stages = services.engine.chain().stages
    order = {stage: place for place, stage in enumerate(stages)}
    stored = services.store.answers(session_of(services, visitor, "ask"), ANSWERS)
    groups = (tuple(group) for _, group in groupby(stored, lambda row: (row.asked_at, row.question)))
    return tuple(Earlier(tuple(sorted(group, key=lambda row: order.get(row.stage, len(order))))) for group in groups)


def find_earlier(services: Services, visitor: Visitor | None, chosen: str | None) -> Earlier:
    """Return the earlier question one of whose answers has the id `chosen`; LabError if there is none."""
    for one in earlier(services, visitor):
        if chosen in {row.id for row in one.answers}:
            return one
    raise LabError(say("ask.history.gone"))


def compared(before: Earlier, answers: tuple[Answer, ...]) -> str:
    """Return whether a replay gave the same words, and if not, what could be why."""
    old = {answer.stage: answer for answer in before.answers}
    known = [(old[answer.stage], answer) for answer in answers if answer.stage in old]
    other = [(then, answer) for then, answer in known if then.text != answer.text]
    same = len(known) - len(other)
    facts = {"n": len(answers), "when": when(before.first)}
    if same == len(answers):
        return say("ask.replay.same", **facts)
    is_other = len(known) < len(answers) or any(then.stage_sha256 != answer.stage_sha256 for then, answer in known)
    is_stopped = all("cancelled" in {then.finish_reason, answer.finish_reason} for then, answer in other)
    why = "chain" if is_other else "stopped" if is_stopped else "numbers"
    return say("ask.replay.different", same=same, why=say(f"ask.replay.{why}"), **facts)


def when(answer: Answer) -> str:
    return f"{answer.asked_at:%d %b %H:%M} UTC"
