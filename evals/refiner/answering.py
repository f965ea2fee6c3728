"""Records put to a model, stage by stage, beside answers that take no model: the rows of a report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from evals.model import Model, Progress, Sampling
from evals.refiner.baselines import BASELINES
from evals.refiner.copying import copied
from evals.refiner.explain import explain
from evals.refiner.grammar import WORD
from evals.refiner.judging import Verdicts
from evals.refiner.prompt import messages
from evals.refiner.rubric import Item
from evals.refiner.score import Prepared, prepare
from evals.schema.refinerreports import RefinerRow
from evals.schema.refining import JudgedItem, RefinerRecord, RewardConfig

Reason = Literal["stop", "length", "cancelled", "given"]
TOGETHER = 8
"""Records that are answered together."""


@dataclass(frozen=True)
class Answered:
    """One record answered by one stage, not yet judged."""

    stage: str
    record: RefinerRecord
    text: str
    finish_reason: Reason

    def prepared(self, config: RewardConfig) -> Prepared:
        """Return the answer read and checked, to be graded by all items."""
        return prepare(self.record, self.text, config)

    def row(
        self,
        prepared: Prepared,
        verdicts: Verdicts | None,
        judge: str,
        other_items: tuple[JudgedItem, ...] = (),
    ) -> RefinerRow:
        """Return the row of a report; `other_items` are those of another writer, judged beside it."""
        reading = prepared.reading
        texts = [part.text for part in (*reading.claims, *reading.uncited)]
        return RefinerRow(
            stage=self.stage,
            cluster=self.record.group,
            answerable=self.record.answerable,
            finish_reason=self.finish_reason,
            copied=copied(texts, prepared.evidence),
            words=sum(len(WORD.findall(text)) for text in texts),
            scored=explain(prepared, verdicts, judge),
            other_items=other_items,
        )


def answers(
    model: Model,
    records: Sequence[RefinerRecord],
    stages: Sequence[str],
    sampling: Sampling,
    progress: Progress | None = None,
) -> list[Answered]:
    """Return what every stage answers to every record, stage by stage."""
    found: Mapping[str, list[Answered]] = {stage: [] for stage in stages}
    for start in range(0, len(records), TOGETHER):
        batch = records[start : start + TOGETHER]
        given = model.generate([messages(record) for record in batch], stages, sampling)
        for record, row in zip(batch, given, strict=True):
            for answer in row:
                found[answer.stage].append(
                    Answered(answer.stage, record, answer.text, answer.finish_reason)
                )
        if progress is not None:
            done = start + len(batch)
            progress(done / len(records), f"{done} of {len(records)} records answered")
    return [each for stage in stages for each in found[stage]]


def beside(prepared: Prepared, items: tuple[Item, ...]) -> Prepared:
    """Return an answer to be judged by other items alone, without its citations."""
    config = prepared.config.model_copy(update={"apply_citation": False})
    return replace(prepared, items=items, config=config)


def baseline_answers(records: Sequence[RefinerRecord]) -> list[Answered]:
    """Return what takes no model, for every record."""
    return [
        Answered(name, record, policy(record), "given")
        for name, policy in BASELINES.items()
        for record in records
    ]
