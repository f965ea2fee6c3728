"""Answers that were written before, for a page that asks no model: two to a question, drawn from a file."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from evals.errors import LabError
from evals.io import read_rows
from evals.schema import Answer, EvalReport
from lab.services import Services
from lab.session import Answered, QuestionRequest, new_id, session_of, stored_moment
from lab.ui.text import say

ANSWERS = "answers.jsonl"
"""The file of an arena: a line for each answer, as the store keeps them."""


class Recorded:
    """Answers by question and stage; LabError unless two stages answered a question, each with a verdict."""

    def __init__(self, answers: Iterable[Answer]) -> None:
        by_question: dict[str, dict[str, Answer]] = {}
        for answer in answers:
            if answer.verdict is None:
                raise LabError(say("arena.no_verdict", answer=answer.id))
            by_question.setdefault(answer.question, {})[answer.stage] = answer
        self._asked = {question: found for question, found in by_question.items() if len(found) > 1}
        if not self._asked:
            raise LabError(say("arena.no_pair"))

    @classmethod
    def read(cls, file: Path) -> "Recorded":
        """Return the answers of a file; LabError for one that holds none."""
        return cls(read_rows(file, Answer))

    @property
    def questions(self) -> tuple[str, ...]:
        """Those that have a pair."""
        return tuple(self._asked)

    @property
    def answers(self) -> tuple[Answer, ...]:
        """All to these questions."""
        return tuple(answer for found in self._asked.values() for answer in found.values())

    def answering(self, services: Services, asked: QuestionRequest) -> Iterator[Answered]:
        """Yield the answers of the stages that `asked` picks, stored for this visitor; LabError for another question."""
        if (found := self._asked.get(asked.question)) is None:
            raise LabError(say("compare.not_recorded"))
        own = {"session": session_of(services, asked.visitor, asked.tab)}
        stages = asked.pick(tuple(found)) if asked.pick else tuple(found)
        answers = tuple(found[stage].model_copy(update={**own, "id": new_id()}) for stage in stages)
        services.store.add_answers(answers)
        yield stored_moment(answers)


def answers_of(report: EvalReport) -> Iterator[Answer]:
    """Yield what stages and hosted models answered in a report, without the baselines."""
    baselines = {each.stage for each in report.summaries if each.is_baseline}
    usual = {"seed": 0, "max_new_tokens": 0, "temperature": 0.0, "dtype": "unknown"}
    settings = {name: report.settings.get(name, value) for name, value in usual.items()}
    for row in (row for row in report.rows if row.stage not in baselines):
        known = {
            "id": f"{row.stage} {row.id}",
            "asked_at": report.created_at,
            "session": report.data_name,
            "question": row.example.prompt,
            "example_id": row.id,
            "stage": row.stage,
            "text": row.completion,
            "finish_reason": row.finish_reason,
            "chain": report.chain_name,
            "stage_sha256": report.stage_checksums.get(row.stage, ""),
            "system_prompt": row.prompt[0].content if row.prompt[0].role == "system" else "",
            "verdict": row.verdict,
        }
        yield Answer.model_validate(known | settings)
