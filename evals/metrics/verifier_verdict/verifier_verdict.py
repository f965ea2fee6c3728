"""Assay's verifiers as an `evaluate` module: the one module here that needs Assay itself.

Verifiers read language; a copy of them would go stale. So this one imports them, and reports their
versions with every result.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from inspect import cleandoc

import datasets
import evaluate
from pydantic import TypeAdapter

try:
    from evals.report import instrument
    from evals.schema import GroundTruth
    from evals.verifiers import check_read, verify_answer
except ImportError as error:
    raise ImportError(
        "verifier_verdict judges with Assay's own verifiers, which are not here: load it in the"
        " environment that `make setup` makes in Assay's repository. The package called evals on PyPI"
        " is something else."
    ) from error

VERDICTS = ("correct", "incorrect", "contradictory", "no_claim")


class VerifierVerdict(evaluate.Metric):
    """Verdicts on answers whose truth is known, by the verifiers of Assay.

    Correct, incorrect, contradictory or no_claim, the confidence that the answer states, and the reward. A question has one right option, number, set of
    names or short phrase, or is one of Assay's own; rubrics need a judge and are not scored.

    Args:
        predictions: the answers, as the model wrote them.
        references: for each answer {"prompt": the question, "ground_truth": its truth as a JSON text}.
        weights: verifier -> weight of its score in the reward (default: Assay's own).
        read: auto (the answer line where there is one, else the text), answer or text.

    Returns n, accuracy, mean_reward, shares {verdict: share}, stated_share, and for each answer verdicts,
    rewards (None for a rubric), confidences (None where none is stated), read_by and reasons; versions says what
    judged.

    Example:
        >>> metric = evaluate.load("evals/metrics/verifier_verdict")
        >>> truth = '{"kind": "direct", "tissue": "thymus", "pathway": "HALLMARK_ADIPOGENESIS", "direction": "DOWN"}'
        >>> asked = {"prompt": "In mouse thymus, is adipogenesis up or down?", "ground_truth": truth}
        >>> metric.compute(predictions=["Answer: down"], references=[asked])["verdicts"]
        ['correct']
    """

    def _info(self) -> evaluate.MetricInfo:
        truth = {"prompt": datasets.Value("string"), "ground_truth": datasets.Value("string")}
        features = {"predictions": datasets.Value("string"), "references": truth}
        told = cleandoc(self.__doc__ or "")
        return evaluate.MetricInfo(
            description=told, citation="", inputs_description=told, features=datasets.Features(features)
        )

    def _compute(  # ty: ignore[incompatible-method-override]  # options are named, so a typo is an error
        self,
        *,
        predictions: Sequence[str] = (),
        references: Sequence[Mapping[str, str]] = (),
        weights: Mapping[str, float] | None = None,
        read: str = "auto",
    ) -> dict[str, object]:
        if not len(predictions):
            raise ValueError("there is no answer to judge; give answers and what is asked of each")
        truth = TypeAdapter(GroundTruth)
        judged = [
            verify_answer(
                truth.validate_json(each["ground_truth"]), each["prompt"], answer, weights, read=check_read(read)
            )
            for answer, each in zip(predictions, references, strict=True)
        ]
        scored = [each for each in judged if each.reward is not None]
        if not scored:
            raise ValueError("every question is a rubric, and only a judge can score those")
        n, counts = len(scored), Counter(each.verdict for each in scored)
        return {
            "n": n,
            "accuracy": counts["correct"] / n,
            "mean_reward": sum(each.reward or 0.0 for each in scored) / n,
            "shares": {verdict: counts[verdict] / n for verdict in VERDICTS},
            "stated_share": sum(each.confidence.value is not None for each in scored) / n,
            "verdicts": [each.verdict for each in judged],
            "rewards": [each.reward for each in judged],
            "confidences": [each.confidence.value for each in judged],
            "read_by": [each.read_by for each in judged],
            "reasons": [each.reason for each in judged],
            "versions": instrument(),
        }
