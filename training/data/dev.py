"""The dev set of a run: what is asked again and again while a model is trained, graded by its task's own metrics.

Questions for SFT, DPO and GRPO; records with evidence for the refiner, and for an SFT stage that learns from them;
papers of the development split for a reviewer, whose concerns are matched by words. Beside it SFT may hold out rows, on
which the loss is measured. Rows for testing are refused, and what the run is trained on is not asked.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import Field

from evals.errors import BadConfig
from evals.io import data_sha256, sha256_of_text
from evals.papers.collection import OWN, family_of, read_collection, split_by_family, without_leaks
from evals.questions.sets import normalise_question
from evals.questions.task import Questions
from evals.refine.task import Refine
from evals.review.clean import Cleaning, clean
from evals.review.match import LEXICAL, Encoder, Panel, panel_of, read_threshold
from evals.review.score import AUTO, Library, Scored, ScoreOptions, ScoreSetup, review_report, score_setup
from evals.review.task import Review, paper_of_example, reference_of
from evals.schema import Example, ReviewExample
from evals.schema.refiner import RewardConfig
from evals.schema.reports import ReviewReport
from evals.schema.reviews import Concern, MadeBy, PredictionRow
from training.config import LOSS, Settings, StageSettings, make
from training.data.conversations import Conversations, read_conversations
from training.data.questions import grpo_row, watched_questions
from training.data.refine import RefinerData, are_records, refiner_data
from training.data.reviews import ReviewedPaper
from training.data.tokens import NO_THOUGHT, TEMPLATE_TOLD, Data, DataRow, DevSet, Rows, some_of
from training.encoders import find_encoder


class MeasureSettings(Settings):
    """How what a reviewer says is cleaned and scored."""

    seed: int = Field(0, ge=0, description="of the draws behind intervals and p")
    cap: int = Field(20, ge=0, description="concerns kept of each paper; 0 = all")
    encoder: str = Field("embedded", description="what tells whether two concerns agree")
    threshold: str = Field(
        "", description="similarity from which they agree, or auto; empty = what is usual for the encoder"
    )


def read_measure(values: Mapping[str, object], place: str) -> MeasureSettings:
    """Return a measure from values by name, defaults for the rest; BadConfig names what is wrong."""
    measure = make(MeasureSettings, values, place)
    if measure.threshold not in ("", AUTO):
        read_threshold(measure.threshold)  # refused now, not once the papers have been reviewed
    return measure


def development_papers(source: str, limit: int = 0) -> tuple[ReviewExample, ...]:
    """Return the papers of the development split, two or more: the first `limit` if that is not 0.

    `source` is the folder of `assay data review`, a file of such papers, or demonstration. BadConfig
    if there are none: papers of another split, test above all, never take their place.
    """
    collection = read_collection(source)
    examples = collection.examples
    if collection.has_splits:
        examples, _ = without_leaks(examples)
    elif source == OWN:
        examples = split_by_family(examples, 0)
    found = tuple(each for each in examples if each.split == "dev")
    if not found:
        splits = sorted({each.split or "none" for each in examples})
        raise BadConfig(
            f"{source} holds no papers of the development split (its splits: {', '.join(splits)}). Reviewers are"
            " compared on those alone, so that test papers stay unseen; name the folder that `assay data review`"
            " wrote, or its dev.jsonl."
        )
    chosen = found[:limit] if limit else found
    if len(chosen) < 2:
        raise BadConfig(
            f"{len(chosen)} development paper of {source} is too few: what a list gets by chance is what it gets"
            " on another paper. Take two or more."
        )
    return chosen


def refuse_learned(papers: Sequence[ReviewExample], learned: Rows[ReviewedPaper], trained: str) -> None:
    """Raise BadConfig if a paper, or another version of it, is among what `trained` was trained on."""
    families = {family_of(row.article, "") for row in learned.items}
    names = {row.article for row in learned.items}
    both = [each.id for each in papers if each.id in names or each.family in families]
    if both:
        raise BadConfig(
            f"{len(both)} of {len(papers)} development papers (such as {both[0]}) are in the training data of"
            f" {trained} as well, so it would be measured by what it has seen; name other papers."
        )


def grade_reviews(
    stages: Mapping[str, tuple[Mapping[str, tuple[Concern, ...]], MadeBy | None]],
    papers: Sequence[ReviewExample],
    measure: MeasureSettings,
    find_encoder: Callable[[str], Encoder],
    **about: Any,
) -> ReviewReport:
    """Return one report on what stages said of papers, cleaned and scored; `about` are fields that no score knows."""
    cleaning, scored = Cleaning(cap=measure.cap or None), dict[str, Scored]()
    options = ScoreOptions(measure.encoder, threshold=measure.threshold or None, seed=measure.seed)
    texts = tuple(map(paper_of_example, papers))
    for name, (said, made) in stages.items():
        rows = [PredictionRow(article_id=of, concerns=tuple(map(dict, each))) for of, each in said.items()]
        panel = panel_of(list(map(reference_of, papers)), [clean(row, cleaning).row for row in rows])
        setup = score_setup(panel, options, find_encoder, Library(texts, texts))
        scored[name] = Scored(panel, setup, made, said)
    return review_report(scored, **about)


def with_dev(data: Data, settings: StageSettings, dev: DevSet | None) -> Data:
    """Return the rows with their dev set; BadConfig if neither it nor what is held out knows the `best_metric`."""
    known = [LOSS] if data.held else []
    known += [name for name, measure in dev.task.metrics.items() if measure.better] if dev else []
    if settings.best_metric not in ("", *known):
        answers = f"answers to {dev.task.noun}" if dev else "rows"
        raise BadConfig(
            f"best_metric is {settings.best_metric!r}, by which no {answers} are better than others;"
            f" choose one of {', '.join(known)}."
        )
    return replace(data, dev=dev)


def with_held_out(data: Data, share: float, seed: int, named: Sequence[str] = (), **form: Any) -> Data:
    """Return the rows with those that only the loss is measured on: a share of them, and conversations in `named` files.

    Rows that ask the same, or are about the same fact, stay together. BadConfig if nothing is left on one side.
    `form` is of `read_conversations`.
    """
    held: Rows[Any] | None = None
    if share:
        names = share_of(data, share, seed)
        alone = replace(data, named={name: data.named[name] for name in names}, counts={}, left_out={}, facts={})
        held, data = alone, data.without(names, "held out, to measure the loss on")
    if named:
        found = read_conversations(named, system_prompt=data.system_prompt or None, **form)
        learned = {json.dumps(row, sort_keys=True) for row in data.trl_rows().values()}
        known = [name for name, row in found.trl_rows().items() if json.dumps(row, sort_keys=True) in learned]
        found = found.without(known, "trained on") if known else found
        if not found.count:
            raise BadConfig(f"every row of eval_data {', '.join(named)} is trained on; name others, or set hold_out.")
        if held and not isinstance(held, Conversations):
            raise BadConfig(
                f"hold_out takes questions, and eval_data {', '.join(named)} holds conversations; the loss is measured"
                " on one of the two. Set hold_out to 0, or leave these out of eval_data."
            )
        held = replace(found, named={**held.named, **found.named}) if held else found
    return replace(data, held=held)


def share_of(data: Rows[Any], share: float, seed: int) -> tuple[str, ...]:
    """Return the names of about `share` of the rows, whole groups of one question or fact, drawn by the seed."""
    groups: dict[str, list[str]] = {}
    for name, item in data.named.items():
        asked = getattr(item, "cluster", "") or next(iter(data.asks(item)), name)
        groups.setdefault(normalise_question(asked), []).append(name)
    wanted = max(1, round(share * data.count))
    order = sorted(groups, key=lambda key: sha256_of_text(f"{seed}:{key}"))
    chosen: list[str] = []
    for key in order:
        if len(chosen) < wanted and len(chosen) + len(groups[key]) <= 1.5 * wanted:
            chosen += groups[key]
    if not chosen or len(chosen) == data.count:
        raise BadConfig(
            f"hold_out is {share:g}, but the {data.count} rows ask only {len(groups)} different questions, which stay"
            " together; give more rows, another share, or a file of rows as eval_data."
        )
    held = set(chosen)
    return tuple(name for name in data.named if name in held)


def dev_questions(data: Rows[Any], sources: Sequence[str], settings: StageSettings) -> DevSet:
    """Return the questions, or records of the refiner, of the dev set that are not trained on."""
    if are_records(sources):
        return records(data, refiner_data(sources), settings)
    found = watched_questions(sources, settings.asked_at_a_look(data.count), settings.seed, data.questions)

    def row_of(example: Example) -> DataRow:
        return grpo_row(example, data.system_prompt)

    named = {each.id: each for each in found}
    rows = Rows(named, row_of, lambda each: (each.prompt,), data_sha256, data.system_prompt, {})
    return DevSet(Questions(system_prompt=data.system_prompt), rows)


def records(data: Rows[Any], rows: RefinerData, settings: StageSettings, reward: RewardConfig | None = None) -> DevSet:
    """Return the records of the dev set that are not trained on, graded as the reward does."""
    left = [each.id for each in rows.items if each.id not in data.named and each.asked not in data.questions]
    if not left:
        raise BadConfig(f"every record of eval_data {', '.join(settings.eval_data)} is trained on; name others.")
    chosen = some_of(left, settings.asked_at_a_look(data.count), settings.seed)
    named = {name: rows.named[name] for name in chosen}
    return DevSet(Refine(reward=reward), replace(rows, named=named, counts={}, left_out={}, facts={}))


def papers(data: Rows[Any], settings: StageSettings) -> DevSet:
    """Return the papers of the dev set; BadConfig if one is trained on."""
    found = [paper for source in settings.eval_data for paper in development_papers(source)]
    refuse_learned(found, data, settings.output)
    task = Review(setup=by_words)

    def row_of(paper: ReviewExample) -> DataRow:
        _, request = task.prompt(paper)
        turns = [{"role": "system", "content": data.system_prompt}, request.model_dump()]
        return {"prompt": turns, TEMPLATE_TOLD: dict(NO_THOUGHT)}

    named = {each.id: each for each in some_of(found, settings.asked_at_a_look(data.count), settings.seed)}
    return DevSet(task, Rows(named, row_of, lambda each: (each.title,), data_sha256, data.system_prompt, {}))


def by_words(panel: Panel) -> ScoreSetup:
    """Return what concerns are matched with: words, as published, and what a list gets on other papers beside it."""
    options = ScoreOptions(LEXICAL, controls=False)
    return replace(score_setup(panel, options, find_encoder), has_controls=True)
