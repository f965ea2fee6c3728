"""The task `questions`: a question on biology, its answer read and held against the truth.

Groups: "all"; "unaided", the headline; and each kind by its name. Where gene sets are asked for their directions,
"unaided" leaves out the questions on what a set stands for (kinds "mechanism" and "term"): they name the direction,
or ask for none. In any other set of questions it is all of them. Free answers (kinds "rubric" and "facts") are not
scored and are in no group.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import ClassVar

import numpy as np

from evals.questions.baselines import BASELINES, baseline_answers
from evals.questions.prompt import SYSTEM_PROMPT, conversation
from evals.readers import AnswerReader, GivenAnswer, Way, verdicts_on
from evals.schema import EvalReport, EvalRow, Example, Grade, Message, Metric
from evals.stats import scores
from evals.stats.calibration import CalibrationSettings, bin_edges, ece, null_ece
from evals.stats.intervals import Floats
from evals.task import MetricRule, StageAnswer, Task, calibration_metric, in_narrow_tables, mean, share
from evals.verifiers.score import SCORED, VERIFIERS, Scoring

HEADLINE = "unaided"
BY_CHANCE = ("ece_if_calibrated", "ece_if_calibrated_q95")
DIRECTIONS = frozenset(("direct", "uncertainty", "comparison", "conservation", "mechanism"))
"""Kinds of question on gene sets in flight."""
MEANINGS = frozenset(("mechanism", "term"))
"""Kinds that never stand in one headline with directions."""


def is_scored(row: EvalRow) -> bool:
    """Return whether the row is scored, so that it counts in metrics; a rubric is only by a judge."""
    return row.example.ground_truth.kind in SCORED or row.verdict.reward is not None


def _ece(c: Floats, y: Floats, w: Floats) -> Floats:
    return ece(c, y, w, bin_edges(c, CalibrationSettings()))


def _part(name: str, row: EvalRow) -> float | None:
    return row.grade.parts.get(name)


def _verdict(name: str) -> Callable[[EvalRow], bool]:
    return lambda row: row.grade.verdict == name


def _confidence(status: str) -> Callable[[EvalRow], bool]:
    return lambda row: row.verdict.confidence.status == status


class Questions(Task[Example]):
    """Questions with a truth. `read` is how answers are read, by `judge` where that is "judge"."""

    name = "questions"
    says_reading = True
    noun = "questions"
    headline = HEADLINE
    compared = ("accuracy", "reward", "ece", "brier", "log_loss", "auroc", "aurc", "stated_share")
    policies = tuple(BASELINES)
    report = EvalReport
    metrics: ClassVar[Mapping[str, MetricRule]] = {
        "accuracy": in_narrow_tables(share(_verdict("correct"))),
        "reward": in_narrow_tables(mean(lambda row: row.grade.reward or 0.0)),
        **{name: mean(partial(_part, name), undefined="applies to none of these questions") for name in VERIFIERS},
        "ece": in_narrow_tables(calibration_metric(_ece, is_tested=False)),
        "brier": in_narrow_tables(calibration_metric(scores.brier)),
        "base_rate_brier": calibration_metric(scores.base_rate_brier, None),
        "log_loss": calibration_metric(scores.log_loss),
        "auroc": calibration_metric(scores.auroc, "higher", "needs right and wrong claims with a stated confidence"),
        "aurc": calibration_metric(scores.aurc),
        "mean_confidence": calibration_metric(scores.mean_confidence, None),
        "line_share": share(  # the answer line names one answer, and a confidence line 0 to 100 %
            lambda row: (
                row.verdict.read_by in ("answer", "letter")
                and row.verdict.verdict in ("correct", "incorrect")
                and row.verdict.confidence.status == "stated"
            )
        ),
        "stated_share": share(_confidence("stated")),
        "missing_share": share(_confidence("missing"), "lower"),
        "invalid_share": share(_confidence("invalid"), "lower"),
        "no_claim_share": share(_verdict("no_claim"), "lower"),
        "contradictory_share": share(_verdict("contradictory"), "lower"),
    }

    def __init__(
        self,
        system_prompt: str = SYSTEM_PROMPT,
        read: Way = "auto",
        scoring: Scoring | None = None,
        judge: AnswerReader | None = None,
    ) -> None:
        self.system_prompt, self.read, self.scoring, self.judge = system_prompt, read, scoring, judge

    def prompt(self, example: Example) -> tuple[Message, ...]:
        """Return the conversation that asks, with the options of the question in the instruction."""
        return conversation(example, self.system_prompt)

    def grade(self, examples: Sequence[Example], completions: Sequence[str]) -> list[Grade]:
        """Return one grade each, with the `Verdict` as its detail."""
        answers = [
            GivenAnswer(row.ground_truth, row.prompt, text) for row, text in zip(examples, completions, strict=True)
        ]
        return [verdict.grade for verdict in verdicts_on(answers, self.read, self.scoring, self.judge)]

    def baselines(self, train: Sequence[Example], asked: Sequence[Example]) -> dict[str, list[str]]:
        """Return the answers of every trivial policy that has something to say to any of the questions."""
        return baseline_answers(asked, train)

    def row(self, example: Example, prompt: tuple[Message, ...], answer: StageAnswer, grade: Grade) -> EvalRow:
        """Return the row of a report."""
        return EvalRow.model_validate(
            {
                "example": example,
                "stage": answer.stage,
                "prompt": prompt,
                "completion": answer.text,
                "finish_reason": "stop" if answer.finish_reason == "given" else answer.finish_reason,
                "verdict": grade.detail,
            }
        )

    @staticmethod
    def groups(rows: Sequence[EvalRow]) -> dict[str, list[EvalRow]]:
        """Return the scored rows as "all", "unaided" and by kind of question; a group without rows is left out."""
        scored = [row for row in rows if is_scored(row)]
        kinds = {row.example.ground_truth.kind for row in scored}
        aided = MEANINGS if kinds & DIRECTIONS else frozenset()
        unaided = [row for row in scored if row.example.ground_truth.kind not in aided]
        groups = {"all": scored, HEADLINE: unaided}
        for row in scored:
            groups.setdefault(row.example.ground_truth.kind, []).append(row)
        return {name: members for name, members in groups.items() if members}

    @staticmethod
    def beside(rows: Sequence[EvalRow], draws: int, seed: int) -> dict[str, Metric]:
        """Return the ECE that these confidences would show if they were right: mean, 95th percentile."""
        grades = (row.grade for row in rows)
        stated = [each.confidence for each in grades if each.confidence is not None and each.verdict != "no_claim"]
        if not stated:
            return dict.fromkeys(BY_CHANCE, Metric(value=None, n=0, note=calibration_metric(_ece).undefined))
        c = np.array(stated, dtype=np.float64)
        settings = CalibrationSettings(draws=draws, seed=seed)
        found = null_ece(c, bin_edges(c, settings), settings)
        values = zip(BY_CHANCE, (found.mean, found.q95), strict=True)
        return {name: Metric(value=value, n=len(c), note="by chance alone") for name, value in values}
