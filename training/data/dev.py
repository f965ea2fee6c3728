"""The dev set of a run: what is asked again and again while a model is trained, graded by its task's own metrics.

Questions for SFT, DPO and GRPO; records with evidence for the refiner, and for an SFT stage that learns from them;
papers of the development split for a reviewer, whose concerns are matched by words. Rows for testing are refused,
and what the run is trained on is not asked.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

from evals.errors import BadConfig
from evals.io import data_sha256
from evals.questions.task import Questions
from evals.refine.task import Refine
from evals.review.match import LEXICAL, Panel
from evals.review.report import Wanted, measuring_of
from evals.review.score import Measuring
from evals.review.task import Review
from evals.schema import Example, ReviewExample
from training.config import StageSettings
from training.data.questions import grpo_row, watched_questions
from training.data.refine import are_records, refiner_data
from training.data.tokens import NO_THOUGHT, TEMPLATE_TOLD, Data, DevSet, Row, Rows, some_of
from training.encoders import find_encoder
from training.refiner import RefinerSettings
from training.review import ReviewSettings
from training.reviewer.measure import development_papers, refuse_learned


def with_dev(data: Data, settings: StageSettings) -> Data:
    """Return the rows with their dev set; BadConfig for one that cannot be used, or knows no `best_metric`."""
    if isinstance(settings, ReviewSettings):
        dev = papers(data, settings)
    elif isinstance(settings, RefinerSettings) or are_records(settings.eval_data):
        dev = records(data, settings)
    else:
        dev = questions(data, settings)
    known = [name for name, measure in dev.task.metrics.items() if measure.better]
    if settings.best_metric not in ("", *known):
        raise BadConfig(
            f"best_metric is {settings.best_metric!r}, by which no answers to {dev.task.asked} are better than others;"
            f" choose one of {', '.join(known)}."
        )
    return replace(data, dev=dev)


def questions(data: Rows[Any], settings: StageSettings) -> DevSet:
    """Return the questions of the dev set that are not trained on."""
    found = watched_questions(settings.eval_data, settings.eval_examples, settings.seed, data.questions, "eval")

    def row_of(example: Example) -> Row:
        return grpo_row(example, data.system_prompt)

    named = {each.id: each for each in found}
    rows = Rows(named, row_of, lambda each: (each.prompt,), data_sha256, data.system_prompt, {})
    return DevSet(Questions(system_prompt=data.system_prompt), rows)


def records(data: Rows[Any], settings: StageSettings) -> DevSet:
    """Return the records of the dev set; of the refiner's own data, where none is named, what it holds out."""
    if settings.eval_data:
        rows = refiner_data(settings.eval_data)
    else:
        assert isinstance(settings, RefinerSettings)
        rows = refiner_data(settings.data).parted(settings.held_out_share, settings.seed)[1]
    asked = [each.id for each in rows.items if each.id not in data.named and each.asked not in data.questions]
    if not asked:
        raise BadConfig(f"every record of eval_data {', '.join(settings.eval_data)} is trained on; name others.")
    chosen = some_of(asked, settings.eval_examples, settings.seed)
    reward = settings.reward() if isinstance(settings, RefinerSettings) else None
    named = {name: rows.named[name] for name in chosen}
    return DevSet(Refine(reward=reward), replace(rows, named=named, counts={}, left_out={}, facts={}))


def papers(data: Rows[Any], settings: StageSettings) -> DevSet:
    """Return the papers of the dev set; BadConfig if one is trained on."""
    found = [paper for source in settings.eval_data for paper in development_papers(source)]
    refuse_learned(found, data, settings.output)
    task = Review(measuring=by_words)

    def row_of(paper: ReviewExample) -> Row:
        _, request = task.prompt(paper)
        turns = [{"role": "system", "content": data.system_prompt}, request.model_dump()]
        return {"prompt": turns, TEMPLATE_TOLD: dict(NO_THOUGHT)}

    named = {each.id: each for each in some_of(found, settings.eval_examples, settings.seed)}
    return DevSet(task, Rows(named, row_of, lambda each: (each.title,), data_sha256, data.system_prompt, {}))


def by_words(panel: Panel) -> Measuring:
    """Return what concerns are matched with: words, as published, and what a list gets on other papers beside it."""
    wanted = Wanted(LEXICAL, controls=False)
    return replace(measuring_of(panel, Path(), wanted, find_encoder), has_controls=True)
