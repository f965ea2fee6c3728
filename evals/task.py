"""A task: examples, a prompt and a grader. Running, reporting, comparing and rewarding are written once, over this.

questions  a biology question, graded against its truth
review     a paper, graded against the concerns of human reviewers
refine     evidence and a question, graded by citations and a rubric

To add a task: one folder in `evals` with a class of this shape, and one line in `TASKS`. To add a metric: one line in
the task's `metrics`; it then stands in every summary, comparison, leaderboard, page and card.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, TypeVar

import numpy as np

from evals.errors import BadConfig
from evals.io import data_sha256
from evals.schema import Grade, Message, Metric
from evals.schema.reports import GradedRow, Report
from evals.stats.intervals import Floats

Better = Literal["higher", "lower"]
RowT_contra = TypeVar("RowT_contra", bound=Any, contravariant=True)


class StageAnswer(NamedTuple):
    """What a stage answered; `finish_reason` is "given" where no model did."""

    stage: str
    text: str
    finish_reason: str = "stop"


class GradedAnswer(Protocol):
    """A graded answer: to which example, by which stage of a chain, baseline or system.

    Rows of one `cluster` are not independent: splits and draws keep them together.
    """

    @property
    def id(self) -> str: ...

    @property
    def cluster(self) -> str: ...

    @property
    def stage(self) -> str: ...

    @property
    def grade(self) -> Grade: ...


@dataclass(frozen=True)
class MetricRule:
    """A metric of graded rows, as sums over rows, so that draws of rows need only be multiplied.

    `adds` gives what a row adds to the sums, None where the metric does not apply to it. `of` makes the value from the
    sums, arrays of one shape (None: the mean of what the rows add). `of_claims` in their place makes it from stated
    confidences, outcomes (each of shape (cells,)) and weights (draws, cells). `better` is the end that is better, None
    where neither is. `is_tested` is false where no p is fit to compare two stages, as for the ECE: noise adds to it
    the more, the more confidences are spread.
    """

    adds: Callable[[Any], Sequence[float] | float | None] | None = None
    of: Callable[..., Floats] | None = None
    of_claims: Callable[[Floats, Floats, Floats], Floats] | None = None
    better: Better | None = "higher"
    is_share: bool = False
    is_tested: bool = True
    interval: Literal["bootstrap", "jackknife"] = "bootstrap"
    """How its 95 % interval is made: from draws of clusters, or of Student's t, which holds with few clusters, too."""
    limits: tuple[float, float] = (-np.inf, np.inf)
    """What an interval by jackknife is cut to."""
    is_shown: bool = False
    """Whether narrow tables show it, on the page and in the terminal."""
    undefined: str = "no row that it applies to"
    lacking: str = ""
    """What rows are called that it does not apply to, where a summary should count them."""


def mean(adds: Callable[[Any], float | None], **told: Any) -> MetricRule:
    """Return the mean of a number per row; rows that give None are left out and lower its n."""
    return MetricRule(adds, **told)


def share(holds: Callable[[Any], bool], better: Better | None = "higher", **told: Any) -> MetricRule:
    """Return the share of rows of which something holds, in 0..1."""
    return MetricRule(holds, better=better, is_share=True, **told)


def pooled_rate(of: Callable[..., Floats], *counts: str, **told: Any) -> MetricRule:
    """Return a rate of counts that are summed over rows first (micro average)."""
    return MetricRule(lambda row: [row.grade.counts[name] for name in counts], of, **told)


def calibration_metric(
    of: Callable[[Floats, Floats, Floats], Floats],
    better: Better | None = "lower",
    undefined: str = "no claim with a stated confidence",
    **told: Any,
) -> MetricRule:
    """Return a metric of stated confidences and whether their claims are correct."""
    return MetricRule(of_claims=of, better=better, undefined=undefined, **told)


def ratio(part: Floats, whole: Floats) -> Floats:
    """Return part / whole, 0 where whole is 0."""
    return np.divide(part, whole, out=np.zeros_like(part, dtype=float), where=whole > 0)


class Task(Protocol[RowT_contra]):
    """See the module. Encoders and judges are plain callables given to the constructor."""

    name: ClassVar[str]
    noun: ClassVar[str] = "examples"
    """What its examples are called."""
    metrics: ClassVar[Mapping[str, MetricRule]]
    """By name, in the order in which they are shown."""
    compared: ClassVar[Sequence[str]] = ()
    """The metrics that two stages are compared by; all if none is named."""
    order: ClassVar[str] = "reward"
    """The metric that a leaderboard is ordered by."""
    headline: ClassVar[str] = "all"
    """The group of rows that is shown first."""
    says_reading: ClassVar[bool] = False
    """Whether tables say how answers were read."""
    controls: ClassVar[Sequence[str]] = ()
    """Figures beside the metrics that a leaderboard shows with them."""
    policies: ClassVar[Collection[str]] = ()
    """Names of the baselines."""
    report: ClassVar[type[Report[Any]]] = Report[GradedRow]

    def prompt(self, example: RowT_contra) -> tuple[Message, ...]:
        """Return the conversation that asks; it never depends on the truth."""

    def grade(self, examples: Sequence[RowT_contra], completions: Sequence[str]) -> list[Grade]:
        """Return a grade for each completion; a grader that breaks raises."""

    def baselines(self, train: Sequence[RowT_contra], asked: Sequence[RowT_contra]) -> Mapping[str, Sequence[str]]:
        """Return what policies without a model answer to the asked rows, by name."""
        return {}

    def row(self, example: RowT_contra, prompt: tuple[Message, ...], answer: StageAnswer, grade: Grade) -> GradedAnswer:
        """Return the row of a report."""
        group = getattr(example, "cluster", None) or getattr(example, "group", None) or self.id_of(example)
        return GradedRow(
            id=self.id_of(example),
            cluster=group,
            stage=answer.stage,
            prompt=prompt,
            completion=answer.text,
            finish_reason=answer.finish_reason,
            grade=grade,
        )

    @staticmethod
    def id_of(example: RowT_contra) -> str:
        """Return what tells an example from others."""
        return example.id

    @staticmethod
    def sha256(examples: Sequence[RowT_contra]) -> str:
        """Return a checksum of what the examples say, whatever their order."""
        return data_sha256(examples)

    @staticmethod
    def groups(rows: Sequence[Any]) -> dict[str, list[Any]]:
        """Return the graded rows by group, each of which gets its own summaries."""
        return {"all": list(rows)}

    @staticmethod
    def beside(rows: Sequence[Any], draws: int, seed: int) -> dict[str, Metric]:
        """Return figures beside the metrics that no draw of rows is needed for."""
        return {}


TASKS: Mapping[str, str] = {
    "questions": "evals.questions.task:Questions",
    "review": "evals.review.task:Review",
    "refine": "evals.refine.task:Refine",
}
"""Each task's class, by the name that `--task` takes."""


def task_class(name: str) -> type[Any]:
    """Return the class of a task; BadConfig if there is none of that name."""
    if name not in TASKS:
        raise BadConfig(f"there is no task {name!r}; choose one of {', '.join(TASKS)}")
    module, _, attribute = TASKS[name].partition(":")
    return getattr(import_module(module), attribute)


def narrow(metrics: Mapping[str, MetricRule]) -> tuple[str, ...]:
    """Return the metrics that narrow tables show."""
    return tuple(name for name, measure in metrics.items() if measure.is_shown)
