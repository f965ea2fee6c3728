"""Passages of a record while it is made: their texts, documents and, once in order, their ids."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evals.schema.refining import RefinerRecord, RubricItem


@dataclass(frozen=True)
class Passage:
    """One passage: what it is called while the record is made, its document and its text."""

    key: str
    document: str
    text: str


@dataclass(frozen=True)
class Outline:
    """A record before its passages have ids. `answer` pairs the passages of each claim with its text."""

    id: str
    question: str
    reasoning: str
    passages: tuple[Passage, ...]
    answer: tuple[tuple[tuple[str, ...], str], ...]
    wanted: tuple[RubricItem, ...]
    unwanted: tuple[RubricItem, ...]
    group: str
    origin: str
    answerable: bool = True

    def record(self, source: random.Random) -> RefinerRecord:
        """Return the record, its passages in random order."""
        order = source.sample(self.passages, len(self.passages))
        ids = {passage.key: f"S{place}" for place, passage in enumerate(order, start=1)}
        return RefinerRecord(
            id=self.id,
            prompt=self.question,
            agent_reasoning=self.reasoning,
            tool_output="\n".join(
                f"<snippet id={ids[each.key]}>{each.text}</snippet>" for each in order
            ),
            positive_rubrics=self.wanted,
            negative_rubrics=self.unwanted,
            answerable=self.answerable,
            sources={ids[each.key]: each.document for each in order},
            split_group=self.group,
            reference=written(self.answer, ids),
            origin=self.origin,
        )


def written(answer: Sequence[tuple[Sequence[str], str]], ids: Mapping[str, str]) -> str:
    """Return claims as an answer in the output grammar, each with the ids of its passages, if it has any."""
    claims = (
        f"<snippet id={','.join(sorted(ids[key] for key in keys))}>{text}</snippet>"
        if keys
        else text
        for keys, text in answer
    )
    return f"<answer>{' '.join(claims)}</answer>"


def item(title: str, description: str) -> RubricItem:
    """Return a rubric item of weight 1."""
    return RubricItem(title=title, description=description)
