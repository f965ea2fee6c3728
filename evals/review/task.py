"""The task `review`: a paper, the concerns that a model has about it, held against those of human reviewers."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from evals.review.controls import STRONGEST, Index, Paper, generic_concerns
from evals.review.match import CATEGORY_NAMES, SEVERITY_NAMES, UNATTRIBUTED, Panel, panel_of
from evals.review.parse import parse
from evals.review.prompt import head_of, request, review_conversation, sections_of
from evals.review.score import Library, ScoreSetup, articles_of, control_rates, paper_of
from evals.schema import Grade, Message, Metric, ReviewExample
from evals.schema.articles import PaperRow
from evals.schema.reports import ArticleScore, ReviewReport
from evals.schema.reviews import PredictionRow, ReferenceRow
from evals.stats.intervals import Floats
from evals.task import MetricRule, StageAnswer, Task, in_narrow_tables, mean, pooled_rate, ratio, share


def f1_of(matched: Floats, human: Floats, predicted: Floats) -> Floats:
    """Return F1, which is twice the matches over both lists together; 0 for two empty lists."""
    return ratio(2 * matched, human + predicted)


CONCERNS = 10
"""Concerns of a baseline on each paper."""
KNOWN = {"id", "title", "abstract", "family", "sections", "concerns"}
"""Fields of an example that controls look at."""


class Review(Task[ReviewExample]):
    """Papers with human concerns. `setup` gives what two lists of concerns are matched with."""

    name = "review"
    asked = "papers"
    order = "f1_above_strongest"
    metrics: ClassVar[Mapping[str, MetricRule]] = {
        "f1_above_strongest": MetricRule(
            lambda row: (
                (
                    row.n_matched,
                    row.n_human,
                    row.n_predicted,
                    *(n for name in STRONGEST for n in row.by_control.get(name, (0, 0))),
                )
                if row.by_control
                else None
            ),
            lambda _, matched, human, predicted, *others: (
                f1_of(matched, human, predicted)
                - np.max([f1_of(one, human, said) for one, said in zip(others[::2], others[1::2], strict=True)], axis=0)
            ),
            is_shown=True,
            undefined="no control, or no concern",
        ),
        "f1_above_permuted": MetricRule(
            lambda row: (
                (row.n_matched, row.n_human, row.n_predicted, row.by_control["permuted"][0])
                if "permuted" in row.by_control
                else None
            ),
            lambda _, matched, human, predicted, by_chance: (
                f1_of(matched, human, predicted) - f1_of(by_chance, human, predicted)
            ),
            undefined="no permuted control",
        ),
        "f1": in_narrow_tables(
            pooled_rate(
                lambda _, matched, human, predicted: f1_of(matched, human, predicted),
                *("n_matched", "n_human", "n_predicted"),
            )
        ),
        "recall": pooled_rate(lambda _, matched, human: ratio(matched, human), "n_matched", "n_human"),
        "precision": pooled_rate(lambda _, matched, predicted: ratio(matched, predicted), "n_matched", "n_predicted"),
        "recall_major": pooled_rate(lambda _, matched, major: ratio(matched, major), "n_major_matched", "n_major"),
        "macro_f1": mean(lambda row: row.f1 if row.n_human + row.n_predicted else None),
        "answered": share(lambda row: row.is_answered, better=None),
        "none_found": mean(lambda row: float(not row.n_matched) if row.n_human else None, better=None),
        "all_found": mean(lambda row: float(row.n_matched == row.n_human) if row.n_human else None, better=None),
    }
    metrics = {
        name: replace(each, interval="jackknife", limits=(-1.0 if "above" in name else 0.0, 1.0))
        for name, each in metrics.items()
    }
    compared = ("f1_above_strongest", "f1_above_permuted", "f1", "recall", "precision", "recall_major")
    controls = (*STRONGEST, "count_bound")
    report = ReviewReport

    def __init__(
        self, papers: Sequence[ReviewExample] = (), setup: Callable[[Panel], ScoreSetup] | None = None
    ) -> None:
        self.papers, self.setup = papers, setup

    def examples(self, split: str) -> list[ReviewExample]:
        """Return the papers of a split, in their order."""
        return [paper for paper in self.papers if paper.split == split]

    def prompt(self, example: ReviewExample) -> tuple[Message, ...]:
        """Return the conversation that asks about a whole paper (`evals.review.prompt.pieces_of` cuts long ones)."""
        sections = (f"## {name}\n{text}" for name, text in sections_of(example.article))
        paper = "\n\n".join(filter(None, (head_of(example.article), *sections)))
        return review_conversation(request(paper))

    def grade(self, examples: Sequence[ReviewExample], completions: Sequence[str]) -> list[Grade]:
        """Return one grade each, with the `ArticleScore` as its detail; all are matched together.

        Without `setup` an answer is only read: the verdict is the status of its parse, and nothing is rewarded.
        """
        read = [parse(row.id, text) for row, text in zip(examples, completions, strict=True)]
        if self.setup is None:
            return [
                Grade(
                    verdict=each.status,
                    counts={"n_predicted": len(each.concerns)},
                    reason="; ".join(each.problems),
                    detail=each,
                )
                for each in read
            ]
        said = [
            PredictionRow(article_id=each.id, concerns=tuple(c.model_dump() for c in each.concerns)) for each in read
        ]
        panel = panel_of([reference_of(row) for row in examples], said)
        setup = self.setup(panel)
        setup = replace(setup, library=setup.library or Library(tuple(map(paper_of_example, examples)), ()))
        found = setup.match(panel)
        return [each.grade for each in articles_of(panel, *found[:2])]

    def row(
        self, example: ReviewExample, prompt: tuple[Message, ...], answer: StageAnswer, grade: Grade
    ) -> ArticleScore:
        """Return the counts of the paper, by whom they are."""
        assert isinstance(grade.detail, ArticleScore)
        return grade.detail.model_copy(update={"stage": answer.stage})

    def baselines(self, train: Sequence[ReviewExample], asked: Sequence[ReviewExample]) -> dict[str, list[str]]:
        """Return objections that fit any paper, and those made to the training papers most alike in words."""
        found = {"generic list": [_reply(generic_concerns()[:CONCERNS])] * len(asked)}
        if train:
            index = Index([paper_of_example(row) for row in train])
            nearest = index.nearest([paper_of_example(row) for row in asked])
            found["BM25"] = [_reply(index.concerns(neighbours, CONCERNS)) for neighbours in nearest]
        return found

    @staticmethod
    def groups(rows: Sequence[ArticleScore]) -> dict[str, list[ArticleScore]]:
        """Return the rows as they are, those of each source, and the counts of each category and severity."""
        found = {"all": list(rows)}
        for source, _ in Counter(row.source for row in sorted(rows, key=lambda row: row.source)).most_common():
            found[f"source {source}"] = [row for row in rows if row.source == source]
        for kind, names in (("category", CATEGORY_NAMES), ("severity", SEVERITY_NAMES)):
            for name in (f"{kind} {each}" for each in (*names, UNATTRIBUTED)):
                members = [row.of_group(name) for row in rows if name in row.groups]
                if any(row.n_human for row in members) or (name.endswith(UNATTRIBUTED) and members):
                    found[name] = members
        return found

    @staticmethod
    def beside(rows: Sequence[ArticleScore], draws: int, seed: int) -> dict[str, Metric]:
        """Return the F1 of each control."""
        return {name: Metric(value=each.f1, n=len(rows)) for name, each in control_rates(rows).items()}


def reference_of(example: ReviewExample) -> ReferenceRow:
    """Return a paper's human concerns as scoring reads them."""
    return ReferenceRow.model_validate(example.model_dump(include={"id", "source", "concerns"}))


def paper_of_example(example: ReviewExample) -> Paper:
    """Return what controls know of a paper."""
    return paper_of(PaperRow.model_validate(example.model_dump(include=KNOWN)))


def _reply(concerns: Sequence[str]) -> str:
    return json.dumps([{"text": text} for text in concerns], ensure_ascii=False)
