"""The task `questions`: a question on biology, its answer read and held against the truth.

Groups: "all"; "unaided", the headline; and each kind by its name. Where gene sets are asked for their directions,
"unaided" leaves out the questions on what a set stands for (kinds "mechanism" and "term"): they name the direction,
or ask for none. In any other set of questions it is all of them. Free answers (kinds "rubric" and "facts") are not
scored and are in no group.

Baselines are answers that need no model. They stand in every report, so that nobody mistakes a trick for skill.
Each policy takes a question and what can be had without understanding it, and returns a whole answer, or
None where it has nothing to say. It is told the options that the system prompt lists. "tissue majority" may
look up the figures of the tissue, "most frequent in training" the training rows, and "system prompt only"
what is right most often in the other clusters of the set, wherever the system prompt reads so: what can
be had without a look at the question. A baseline that has nothing to say to any question of a set is left out.
"""

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import ClassVar, TypeVar

import numpy as np

from evals.facts import load_enrichment, load_hallmark
from evals.io import group_by
from evals.questions.prompt import SYSTEM_PROMPT, answer_form, conversation, with_answer, with_confidence_line
from evals.readers import AnswerReader, GivenAnswer, Way, verdicts_on
from evals.schema import CANNOT_BE_TOLD, ChoiceTruth, EvalReport, EvalRow, Example, Grade, Message, Metric
from evals.stats import calibration
from evals.stats.calibration import CalibrationSettings, bin_edges
from evals.stats.intervals import Floats
from evals.task import MetricRule, StageAnswer, Task, calibration_metric, mean, share
from evals.verifiers.expected import DIRECTIONS as WAYS
from evals.verifiers.expected import expected_answer, normalise
from evals.verifiers.line import options_in, read_lines
from evals.verifiers.numbers import numbers_in
from evals.verifiers.score import SCORED, VERIFIERS, Scoring

HEADLINE = "unaided"
BY_CHANCE = ("ece_if_calibrated", "ece_if_calibrated_q95")
DIRECTIONS = frozenset(("direct", "uncertainty", "comparison", "conservation", "mechanism"))
"""Kinds of question on gene sets in flight."""
MEANINGS = frozenset(("mechanism", "term"))
"""Kinds that never stand in one headline with directions."""


# ---- answers that need no model ----------------------------------------------------------------


@dataclass(frozen=True)
class Known:
    """What is known of a set: its options, and how often each answer is right, by what the prompt asks for.

    `by_cluster` counts the answers of one cluster alone, by form and cluster.
    """

    options: frozenset[str]
    in_training: Mapping[str, Counter[str]]
    asked: Mapping[str, Counter[str]]
    by_cluster: Mapping[tuple[str, str], Counter[str]]


Policy = Callable[[Example, Known], str | None]
K = TypeVar("K", bound=Hashable)

NAMED = {
    "up": re.compile(r"\b(?:upregulated|activated|raise|higher|up)\b"),
    "down": re.compile(r"\b(?:downregulated|suppressed|lower|down)\b"),
}
"""How the questions name a direction."""


def options(example: Example) -> tuple[str, ...]:
    """Return the options that the system prompt lists for a question; none where the form is open."""
    if isinstance(example.ground_truth, ChoiceTruth):
        return *example.ground_truth.options, CANNOT_BE_TOLD
    listed = tuple(_form(example).split(" / "))
    return listed if len(listed) > 1 else ()


def _form(example: Example) -> str:
    return answer_form(example.prompt, example.ground_truth)


def _line(answer: str | None, percent: int = 60) -> str | None:
    return with_answer("", answer, percent) if answer else None


def _always(answer: str) -> Policy:
    return lambda example, known: _line(answer) if answer in known.options else None


def _system_prompt_only(example: Example, known: Known) -> str | None:
    form = _form(example)
    return _most_frequent(known.asked.get(form, Counter()) - known.by_cluster.get((form, example.cluster), Counter()))


def _most_frequent(count: Counter[str] | None) -> str | None:
    return _line(min(count, key=lambda each: (-count[each], each))) if count else None


def _echo_as_statement(example: Example, _: Known) -> str:
    said = f"The statement is that {' '.join(example.prompt.split()).rstrip(' ?.!')}."
    return with_answer(said, said, 62)


def _copy_option(example: Example, _: Known) -> str | None:
    """Copy into the line what the question itself holds: its first option, number or all of its names."""
    asked, question = expected_answer(example.ground_truth), _without_set_name(example)
    if asked.kind == "number":
        number = next(numbers_in(question), None)
        return _line(f"{number.value:.10g}") if number else None
    named = [each for part in options_in(normalise(question), asked.by_wording) for each in part]
    if not named or asked.kind == "term":
        return None
    return _line(", ".join(named) if asked.kind == "set" else named[0])


def _restate(example: Example, _: Known, *, explained: bool = False) -> str | None:
    """Return the finding that a question holds; None where it names no direction, or both, names of sets aside.

    `explained`: with what the gene set stands for, which only the answer line may say.
    """
    row = load_hallmark().get(getattr(example.ground_truth, "pathway", ""))
    named = [way for way, word in NAMED.items() if word.search(_without_set_name(example))]
    if row is None or len(named) != 1:
        return None
    about = f"The {row.name} gene set stands for {row.about}." if explained else ""
    return with_answer(about, f"{row.name} is {named[0]}", 80)


def _without_set_name(example: Example) -> str:
    row = load_hallmark().get(getattr(example.ground_truth, "pathway", ""))
    return example.prompt.replace(row.name, "") if row else example.prompt


def _tissue_majority(example: Example, known: Known) -> str | None:
    majority = tissue_majorities().get(example.tissue or "")
    return _line(majority, 80) if majority in known.options else None


BASELINES: Mapping[str, Policy] = {
    "always down, 60%": _always("down"),
    "always up, 60%": _always("up"),
    "always disagreement, 60%": _always(WAYS[2]),
    "always abstain, 60%": _always(CANNOT_BE_TOLD),
    "first option listed, 60%": lambda example, _: _line(next(iter(options(example)), None)),
    "all options listed, 60%": lambda example, _: _line(" / ".join(options(example))),
    "most frequent in training, 60%": lambda example, known: _most_frequent(known.in_training.get(_form(example))),
    "system prompt only, 60%": _system_prompt_only,
    "echo the question, 62%": lambda example, _: with_answer(example.prompt, " ".join(example.prompt.split()), 62),
    "echo as a statement, 62%": _echo_as_statement,
    "copy an option of the question, 60%": _copy_option,
    "restate the finding, 80%": _restate,
    "restate and explain, 80%": partial(_restate, explained=True),
    "only a confidence, 50%": lambda example, _: with_confidence_line("", 50).lstrip(),
    "empty answer": lambda example, _: "",
    "tissue majority, 80%": _tissue_majority,
}


def baseline_answers(examples: Sequence[Example], train: Iterable[Example] = ()) -> dict[str, list[str]]:
    """Return the answers of every baseline that has something to say to any of the questions.

    `train` are the training rows of the same set, as far as they are known.
    """
    listed = frozenset((CANNOT_BE_TOLD, *(option for example in examples for option in options(example))))
    train = tuple(train)
    every = {example.id: example for example in (*train, *examples)}.values()
    known = Known(
        listed,
        _counts_by(train, _form),
        _counts_by(every, _form),
        _counts_by(every, lambda example: (_form(example), example.cluster)),
    )
    said = {name: [policy(example, known) for example in examples] for name, policy in BASELINES.items()}
    return {
        name: [answer or "" for answer in answers]
        for name, answers in said.items()
        if any(answer is not None for answer in answers)
    }


def _counts_by(examples: Iterable[Example], by: Callable[[Example], K]) -> dict[K, Counter[str]]:
    counts: dict[K, Counter[str]] = {}
    for example in examples:
        taught = read_lines(example.answer).answer
        if taught:
            counts.setdefault(by(example), Counter())[taught] += 1
    return counts


@cache
def tissue_majorities() -> dict[str, str]:
    """Return, by tissue, the direction that most significant gene-set scores have; ties are left out."""
    votes: dict[str, Counter[str]] = {}
    for row in load_enrichment():
        if row.direction is not None:
            votes.setdefault(row.tissue, Counter())[row.direction.lower()] += 1
    return {tissue: count.most_common(1)[0][0] for tissue, count in votes.items() if count["up"] != count["down"]}


# ---- the task ------------------------------------------------------------------------------------


def is_scored(row: EvalRow) -> bool:
    """Return whether the row is scored, so that it counts in metrics; a rubric is only by a judge."""
    return row.example.ground_truth.kind in SCORED or row.verdict.reward is not None


def _ece(c: Floats, y: Floats, w: Floats) -> Floats:
    return calibration.ece(c, y, w, bin_edges(c, CalibrationSettings()))


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
        "accuracy": share(_verdict("correct"), is_shown=True),
        "reward": mean(lambda row: row.grade.reward or 0.0, is_shown=True),
        **{name: mean(partial(_part, name), undefined="applies to none of these questions") for name in VERIFIERS},
        "ece": calibration_metric(_ece, is_tested=False, is_shown=True),
        "brier": calibration_metric(calibration.brier, is_shown=True),
        "base_rate_brier": calibration_metric(calibration.base_rate_brier, None),
        "log_loss": calibration_metric(calibration.log_loss),
        "auroc": calibration_metric(
            calibration.auroc, "higher", "needs right and wrong claims with a stated confidence"
        ),
        "aurc": calibration_metric(calibration.aurc),
        "mean_confidence": calibration_metric(calibration.mean_confidence, None),
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
        groups = {"all": scored, HEADLINE: unaided} | group_by(scored, lambda row: row.example.ground_truth.kind)
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
        found = calibration.null_ece(c, bin_edges(c, settings), settings)
        values = zip(BY_CHANCE, (found.mean, found.q95), strict=True)
        return {name: Metric(value=value, n=len(c), note="by chance alone") for name, value in values}
