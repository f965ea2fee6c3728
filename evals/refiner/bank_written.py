"""Records from texts that were written for them: invented studies, four questions each (written.json)."""

import json
import random
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from evals.refiner.passages import Outline, Passage, item
from evals.schema.refining import RefinerRecord

ORIGIN = "invented study, written for this set"


def records(source: random.Random, split: Literal["train", "test"]) -> Iterator[RefinerRecord]:
    """Yield the records of one split: three questions with an answer and one without, per study."""
    for study in studies():
        if study["split"] == split:
            for number, question in enumerate(study["questions"], start=1):
                yield _outline(study, number, question).record(source)


@cache
def studies() -> tuple[Mapping[str, Any], ...]:
    """Return the studies with passages, questions, answers and rubric items."""
    return tuple(
        json.loads(files("evals.refiner").joinpath("written.json").read_text(encoding="utf-8"))
    )


def _outline(study: Mapping[str, Any], number: int, question: Mapping[str, Any]) -> Outline:
    name = study["study"]
    return Outline(
        id=f"refiner/{name}/{number}",
        question=question["question"],
        reasoning="I searched for the study by name and read what came back.",
        passages=tuple(Passage(key, name, text) for key, text in study["passages"].items()),
        answer=tuple(((key,) if key else (), text) for key, text in question["answer"]),
        wanted=tuple(item(*each) for each in question["wanted"]),
        unwanted=tuple(item(*each) for each in question["unwanted"]),
        group=name,
        origin=ORIGIN,
        answerable=question["answerable"],
    )
