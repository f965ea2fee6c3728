"""Assay's verifiers as an `evaluate` module: the one module here that needs Assay itself.

Verifiers read language; a copy of them would go stale. So this one imports them, and reports their
versions with every result.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

import datasets
import evaluate
from pydantic import TypeAdapter

try:
    from evals.report import instrument
    from evals.schema import GroundTruth
    from evals.verifiers import verify_answer
except ImportError as error:
    raise ImportError(
        "verifier_verdict judges with Assay's own verifiers, which are not here: load it in the"
        " environment that `make setup` makes in Assay's repository. The package called evals on PyPI"
        " is something else."
    ) from error

DESCRIPTION = """
Verdicts on answers whose truth is known: correct, incorrect, contradictory or no_claim, the confidence that
the answer states, and the reward, by the verifiers of Assay. Questions are about directions of gene sets,
counts, names, agreement between missions, and what data cannot answer.
"""
INPUTS = """
Args:
    predictions: the answers, as the model wrote them.
    references: for each answer {"prompt": the question, "ground_truth": its truth as a JSON text}.
    weights: verifier -> weight of its score in the reward (default: Assay's own).

Returns n, accuracy, mean_reward, shares {verdict: share}, stated_share, and for each answer verdicts,
rewards, confidences (None where none is stated) and reasons; versions says what judged.

Example:
    >>> metric = evaluate.load("evals/metrics/verifier_verdict")
    >>> truth = '{"kind": "direct", "tissue": "thymus", "pathway": "HALLMARK_ADIPOGENESIS", "direction": "DOWN"}'
    >>> asked = {"prompt": "In mouse thymus, is adipogenesis up or down?", "ground_truth": truth}
    >>> metric.compute(predictions=["Adipogenesis falls. Confidence: 80%"], references=[asked])["verdicts"]
    ['correct']
"""
VERDICTS = ("correct", "incorrect", "contradictory", "no_claim")


class VerifierVerdict(evaluate.Metric):
    """Verdict, stated confidence and reward of answers whose truth is known."""

    def _info(self) -> evaluate.MetricInfo:
        truth = {"prompt": datasets.Value("string"), "ground_truth": datasets.Value("string")}
        features = {"predictions": datasets.Value("string"), "references": truth}
        return evaluate.MetricInfo(
            description=DESCRIPTION,
            citation="",
            inputs_description=INPUTS,
            features=datasets.Features(features),
        )

    def _compute(  # ty: ignore[incompatible-method-override]  # options are named, so a typo is an error
        self,
        *,
        predictions: Sequence[str] = (),
        references: Sequence[Mapping[str, str]] = (),
        weights: Mapping[str, float] | None = None,
    ) -> dict[str, object]:
        if not len(predictions):
            raise ValueError("there is no answer to judge; give answers and what is asked of each")
        truth = TypeAdapter(GroundTruth)
        judged = [
            verify_answer(
                truth.validate_json(each["ground_truth"]), each["prompt"], answer, weights
            )
            for answer, each in zip(predictions, references, strict=True)
        ]
        n, counts = len(judged), Counter(each.verdict for each in judged)
        return {
            "n": n,
            "accuracy": counts["correct"] / n,
            "mean_reward": sum(each.reward for each in judged) / n,
            "shares": {verdict: counts[verdict] / n for verdict in VERDICTS},
            "stated_share": sum(each.confidence.value is not None for each in judged) / n,
            "verdicts": [each.verdict for each in judged],
            "rewards": [each.reward for each in judged],
            "confidences": [each.confidence.value for each in judged],
            "reasons": [each.reason for each in judged],
            "versions": instrument(),
        }
