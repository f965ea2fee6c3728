"""The verifiers in the shape that TRL's GRPO trainer calls.

    trl grpo … --reward_funcs training.rewards.verifier_reward

One composed reward, not one function per verifier: TRL counts a missing cell of one function as 0
beside another's score, which would punish answers for questions that a verifier does not judge.
"""

from collections.abc import Callable, Mapping, Sequence

from evals.errors import BadConfig
from evals.schema import Example, Verdict
from evals.verifiers import VERIFIERS, verify

VERDICTS = ("correct", "incorrect", "contradictory", "no_claim")
Answer = str | Sequence[Mapping[str, str]]
"""A completion as TRL hands it over: text, or the messages of a conversation."""


class VerifierReward:
    """Callable reward in 0..1, None for a row that no verifier scores.

    A class, not a closure, so that worker processes can unpickle it. `weights` are those of
    `evals.verifiers.verify`; None = its own.
    """

    __name__ = "verifier"

    def __init__(self, weights: Mapping[str, float] | None = None) -> None:
        self.weights = dict(weights) if weights is not None else None

    def __call__(
        self,
        *,
        completions: Sequence[Answer],
        example: Sequence[str] | None = None,
        log_metric: Callable[[str, float], None] | None = None,
        log_extra: Callable[[str, list[object]], None] | None = None,
        **columns: object,
    ) -> list[float | None]:
        """Return one reward per completion; each row's `example` column holds the Example as JSON.

        BadConfig if the data set has no such column. Means of the verifiers, of the verdicts and of
        the stated confidence go to TRL's log, the verdicts also into its table of completions.
        """
        if example is None:
            raise BadConfig(
                "the training rows have no column `example`, so there is nothing to verify answers"
                " against; write rows with `prompt` and `example` as training.data.grpo_row does"
                f" (columns found: {', '.join(sorted(columns))})."
            )
        verdicts = [
            verify(Example.model_validate_json(row), text_of(answer), self.weights)
            for row, answer in zip(example, completions, strict=True)
        ]
        if log_metric is not None:
            for name, mean in _means(verdicts).items():
                log_metric(name, mean)
        if log_extra is not None:
            log_extra("verdict", [verdict.verdict for verdict in verdicts])
            log_extra("stated_confidence", [verdict.confidence.value for verdict in verdicts])
        return [verdict.reward if _is_scored(verdict) else None for verdict in verdicts]


verifier_reward = VerifierReward()
"""The reward with the verifiers' own weights, by the name that TRL's command line imports."""


def text_of(answer: Answer) -> str:
    """Return the last thing the model said."""
    return answer if isinstance(answer, str) else answer[-1]["content"]


def _is_scored(verdict: Verdict) -> bool:
    return any(score is not None for score in verdict.scores.values())


def _means(verdicts: Sequence[Verdict]) -> dict[str, float]:
    """Return means over the rows that each thing applies to; what applies to none is left out."""
    scored = [verdict for verdict in verdicts if _is_scored(verdict)]
    columns: dict[str, list[float]] = {
        f"verifier/{name}": [
            score for verdict in scored if (score := verdict.scores.get(name)) is not None
        ]
        for name in VERIFIERS
    }
    for kind in VERDICTS:
        columns[f"verdict/{kind}"] = [float(verdict.verdict == kind) for verdict in scored]
    stated = [verdict.confidence.value for verdict in scored]
    columns["confidence/stated"] = [float(value is not None) for value in stated]
    columns["confidence/mean"] = [value for value in stated if value is not None]
    return {name: sum(values) / len(values) for name, values in columns.items() if values}
