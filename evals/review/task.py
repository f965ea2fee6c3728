"""The task `review`: a paper, the concerns that a model has about it, held against those of human reviewers; its tables."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, NamedTuple

import numpy as np

from evals.review.controls import STRONGEST, Index, generic_concerns
from evals.review.match import CATEGORY_NAMES, SEVERITY_NAMES, UNATTRIBUTED, Panel, panel_of
from evals.review.parse import parse
from evals.review.prompt import head_of, request, review_conversation, sections_of
from evals.review.score import Library, ScoreSetup, articles_of, control_rates, micro_rates
from evals.schema import Grade, Message, Metric, ReviewExample
from evals.schema.articles import PaperRow
from evals.schema.reports import ArticleScore, Rates, ReviewedStage, ReviewReport
from evals.schema.reviews import PredictionRow, ReferenceRow
from evals.stats.intervals import Floats
from evals.task import MetricRule, StageAnswer, Task, mean, pooled_rate, ratio, share


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
    noun = "papers"
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
        "f1": pooled_rate(
            lambda _, matched, human, predicted: f1_of(matched, human, predicted),
            *("n_matched", "n_human", "n_predicted"),
            is_shown=True,
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

    def __init__(self, setup: Callable[[Panel], ScoreSetup] | None = None) -> None:
        self.setup = setup

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


def paper_of_example(example: ReviewExample) -> PaperRow:
    """Return what controls know of a paper."""
    return PaperRow.model_validate(example.model_dump(include=KNOWN))


def _reply(concerns: Sequence[str]) -> str:
    return json.dumps([{"text": text} for text in concerns], ensure_ascii=False)


# ---- a report as tables ----------------------------------------------------------------------------


NAMES = {
    "f1": "F1",
    "macro_f1": "F1, mean over papers",
    "f1_above_strongest": "F1 above the strongest control",
    "f1_above_permuted": "F1 above permuted",
    "recall_major": "recall of major concerns",
    "generic_titled": "generic + title",
    "bm25": "BM25",
    "echo": "copied sentences",
    "echo_objected": "copied + “not stated”",
    "count_bound": "count bound",
}
GROUPED = ("f1", "recall", "precision")
"""Metrics of the table of groups."""


def metric_name(metric: str) -> str:
    """Return a metric or control as people write it."""
    return NAMES.get(metric, metric.replace("_", " "))


def control_figures(metrics: Mapping[str, Metric], controls: Iterable[str]) -> list[str]:
    """Return the F1 of each control that there is, the strongest first and the bound last."""
    known = [(name == "count_bound", -(metrics[name].value or 0.0), name) for name in controls if name in metrics]
    return [f"{metric_name(name)} {-value:.3f}" for _, value, name in sorted(known)]


def strongest_line(stage: ReviewedStage, controls: Mapping[str, Rates]) -> str:
    """Return the strongest control with its F1 and the p of the test against it: "copied sentences 0.423, p 0.0940"."""
    if stage.strongest is None:
        return "–"
    p = "" if stage.p is None else f", p {stage.p:.4f}{' (exact)' if stage.is_exact else ''}"
    return f"{metric_name(stage.strongest)} {controls[stage.strongest].f1:.3f}{p}"


def restatement_note(report: ReviewReport) -> str:
    """Return how much of what was said again by hand the matcher sees, as a sentence; "" where that is not known."""
    seen = report.matcher_agreement.get("recall")
    if seen is None or seen.value is None:
        return ""
    span = "" if seen.low is None or seen.high is None else f" [{seen.low:.0%}, {seen.high:.0%}]"
    return (
        f"At {report.matcher.threshold:.3f} this matcher sees {seen.value:.0%}{span} of {seen.n} concerns that were said"
        f" again in other words (hand-labelled pairs): what it does not see counts as not found, so read F1 beside other thresholds."
    )


class PageTable(NamedTuple):
    """A table of a report, and what has to be known to read it."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


def report_sections(report: ReviewReport) -> list[PageTable]:
    """Return what is known of each stage as tables: metrics, F1 over thresholds, controls, groups."""
    matcher, sections = report.matcher, list[PageTable]()
    for stage, known in report.stages.items():
        groups = {each.group: each.metrics for each in report.summaries if each.stage == stage}
        articles = [row for row in report.rows if row.stage == stage]
        controls, metrics = control_rates(articles), groups["all"]
        cells = [
            *((metric_name(name), number_with_interval(metrics.get(name))) for name in Review.metrics),
            ("strongest control", strongest_line(known, controls)),
            ("matcher", f"{matcher.encoder} @ {matcher.revision}, {matcher.assignment}"),
            ("threshold", f"{matcher.threshold:.3f} ({matcher.threshold_from})"),
        ]
        sections.append(PageTable(stage, ("what", "value"), cells, restatement_note(report)))
        rows = [
            (
                f"{each.threshold:.3f}{' (used)' if each.is_used else ''}",
                *map(number, (each.f1, each.recall, each.precision, each.f1_permuted)),
            )
            for each in known.thresholds
        ]
        columns = ("threshold", "F1", "recall", "precision", "F1 on other papers")
        sections.append(
            PageTable("F1 over thresholds", columns, rows, "other papers: what the same lists get by chance")
        )
        rows = [
            (metric_name(name), *(f"{n:,.0f}" for n in (each.n_predicted, each.n_matched)), *map(number, rates))
            for name, each in {stage: micro_rates(articles), **controls}.items()
            for rates in ((each.f1, each.recall, each.precision),)
        ]
        reasons = dict.fromkeys(known.no_control.values())
        whose = [
            ", ".join(metric_name(name) for name, each in known.no_control.items() if each == why) for why in reasons
        ]
        missing = "; ".join(f"{names}: {why}" for names, why in zip(whose, reasons, strict=True))
        columns = ("", "said", "matched", "F1", "recall", "precision")
        sections.append(PageTable("beside its controls", columns, rows, missing))
        rows = [
            (group, str(each["f1"].n), *(number_with_interval(each.get(name)) for name in GROUPED))
            for group, each in groups.items()
            if group != "all"
        ]
        near = "precision is over concerns by the nearest human concern, not by the label that the system gave"
        sections.append(PageTable("by group", ("", "papers", *map(metric_name, GROUPED)), rows, near))
    return [each for each in sections if each.rows]


def number(value: float | None) -> str:
    """Return a number with three decimals; a dash for what is not known."""
    return "–" if value is None else f"{value:.3f}"


def number_with_interval(metric: Metric | None) -> str:
    """Return a metric with three decimals and its interval; a dash for what is not known."""
    if metric is None:
        return number(None)
    if metric.low is None or metric.high is None:
        return number(metric.value)
    return f"{number(metric.value)} [{metric.low:.3f}, {metric.high:.3f}]"
