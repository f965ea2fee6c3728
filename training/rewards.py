"""The verifiers in the shape that TRL's GRPO trainer calls.

    trl grpo … --reward_funcs training.rewards.verifier_reward

An answer is read from its last lines `Answer: …` and `Confidence: N%` alone, for which the system prompt of
every question asks: no answer line, no claim, no reward; no confidence line, no score for it.

Each training row needs, beside its `prompt`, one of two columns:

    example        a whole `evals.schema.Example` as JSON, as `training.data.questions.grpo_row` writes it
    ground_truth   only what is known, by kind, as an object or as JSON:
                   {"kind": "direct", "tissue": "thymus", "pathway": "HALLMARK_…", "direction": "DOWN"};
                   as JSON where counts and labels mix, whose values no column of objects can hold

One composed reward, not one function per verifier: TRL, adding up before it compares, counts a missing
cell of one function as 0 beside another's score, which would punish answers for questions that a verifier
does not judge.
"""

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from statistics import fmean
from typing import Any

from pydantic import TypeAdapter, ValidationError

from evals.errors import BadConfig, first_problem
from evals.schema import Example, GroundTruth, Verdict
from evals.verifiers import verify_prepared
from evals.verifiers.score import DEFAULT_MODE, VERIFIERS, Scoring, pays_falsehood
from evals.verifiers.score import weights as weights_of

VERDICTS = ("correct", "incorrect", "contradictory", "no_claim")
STATUSES = ("stated", "missing", "invalid")
TRUTH: TypeAdapter[GroundTruth] = TypeAdapter(GroundTruth)
Answer = str | Sequence[Mapping[str, Any]]
"""A prompt or completion as TRL hands it over: text, or the messages of a conversation."""


class VerifierReward:
    """Callable reward in 0..1, None for a row that no verifier scores, such as one with a rubric.

    A class, not a closure, so that worker processes can unpickle it; may be called from several threads at
    once. `weights` are a preset's name or shares per verifier, None = the usual ones; `v4` is a mode of V4.
    BadConfig if either is unknown.
    """

    __name__ = "verifier"

    def __init__(self, weights: str | Mapping[str, float] | None = None, v4: str = DEFAULT_MODE) -> None:
        self.weights = dict(weights_of(weights))
        if warning := pays_falsehood(self.weights):
            logging.getLogger(__name__).warning(warning)
        self.v4 = Scoring(self.weights, v4).v4

    def __call__(
        self,
        *,
        completions: Sequence[Answer],
        prompts: Sequence[Answer] | None = None,
        log_metric: Callable[[str, float], None] | None = None,
        log_extra: Callable[[str, list[object]], None] | None = None,
        **columns: Any,
    ) -> list[float | None]:
        """Return one reward per completion.

        BadConfig for rows without a column to verify against, or with one that cannot be read.
        Means of the verifiers, shares of the verdicts, of answers with an answer line, and of stated,
        missing and invalid confidences go to TRL's log; verdict, confidence and each verifier's score into
        its table of completions.
        """
        verdicts = _verdicts(columns, prompts, completions, Scoring(self.weights, self.v4))
        if log_metric is not None:
            for name, mean in means(figures_of(each) for each in verdicts if each.reward is not None).items():
                log_metric(name, mean)
        if log_extra is not None:
            log_extra("verdict", [verdict.verdict for verdict in verdicts])
            log_extra("stated_confidence", [verdict.confidence.value for verdict in verdicts])
            for name in VERIFIERS:
                log_extra(name, [verdict.scores[name] for verdict in verdicts])
        return [verdict.reward for verdict in verdicts]


verifier_reward = VerifierReward()
"""The reward with the verifiers' own weights, by the name that TRL's command line imports."""


def text_of(answer: Answer) -> str:
    """Return the last thing that was said; empty where a turn holds no text, as a mere tool call, or is a tool's."""
    if isinstance(answer, str):
        return answer
    content = answer[-1].get("content") if answer and answer[-1].get("role") != "tool" else None
    if isinstance(content, list):
        return "".join(part.get("text") or "" for part in content)
    return content or ""


def _verdicts(
    columns: Mapping[str, Any], prompts: Sequence[Answer] | None, completions: Sequence[Answer], scoring: Scoring
) -> list[Verdict]:
    """Return a verdict per row; an `example` counts before a `ground_truth`, which needs its prompt."""
    column = "example" if columns.get("example") is not None else "ground_truth"
    rows = columns.get(column)
    if rows is None or (column == "ground_truth" and prompts is None):
        raise BadConfig(
            "the training rows have no column `example`, and no `ground_truth` beside `prompt`, so there"
            " is nothing to verify answers against; write rows as training.data.questions.grpo_row does, or add"
            f" ground_truth with its kind (columns found: {', '.join(sorted(columns)) or 'none'})."
        )
    asked = [""] * len(completions) if column == "example" else [text_of(prompt) for prompt in prompts or ()]
    weights = tuple(scoring.weights.items())
    verdicts = []
    for index, (row, question, answer) in enumerate(zip(rows, asked, completions, strict=True)):
        text = row if isinstance(row, str) else json.dumps(_without_gaps(row), default=str)
        try:
            verdicts.append(verdict_on(column, text, question, text_of(answer), weights, scoring.v4))
        except ValidationError as error:
            field, problem, seen = first_problem(error)
            raise BadConfig(
                f"row {index} of this batch cannot be verified: {f'{column}.{field}'.strip('.')}: {problem}, seen"
                f" {str(seen)[:80]!r}; correct the row, see docs/verifiers.md for each kind"
            ) from None
    return verdicts


@lru_cache(maxsize=4096)
def verdict_on(
    column: str, row: str, question: str, answer: str, weights: tuple[tuple[str, float], ...], v4: str
) -> Verdict:
    """Return the verdict on an answer, remembered: a quarter of what GRPO samples repeats."""
    return verify_prepared(*_truth_and_question(column, row, question), answer, Scoring(dict(weights), v4), "answer")


@lru_cache(maxsize=1024)
def _truth_and_question(column: str, row: str, question: str) -> tuple[GroundTruth, str]:
    """Return the truth and the question of a row that is JSON."""
    if column == "ground_truth":
        return TRUTH.validate_json(row), question
    example = Example.model_validate_json(row)
    return example.ground_truth, example.prompt


def _without_gaps(row: object) -> object:
    """Return an object without the empty cells that a datasets column adds, where rows have unlike fields."""
    if not isinstance(row, Mapping):
        return row
    return {name: _without_gaps(value) for name, value in row.items() if value is not None}


def figures_of(verdict: Verdict) -> dict[str, float | None]:
    """Return the figures of one answer by the name they are logged under."""
    return {
        **{f"verifier/{name}": verdict.scores[name] for name in VERIFIERS},
        "line/answer": float(verdict.read_by in ("answer", "letter")),
        **{f"verdict/{kind}": float(verdict.verdict == kind) for kind in VERDICTS},
        **{f"confidence/{status}": float(verdict.confidence.status == status) for status in STATUSES},
        "confidence/mean": verdict.confidence.value,
    }


def means(rows: Iterable[Mapping[str, float | None]]) -> dict[str, float]:
    """Return the mean of each figure over the answers that it applies to; what applies to none is left out."""
    columns: dict[str, list[float]] = {}
    for row in rows:
        for name, each in row.items():
            if each is not None:
                columns.setdefault(name, []).append(each)
    return {name: fmean(column) for name, column in columns.items()}
