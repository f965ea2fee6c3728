"""The rows of an evaluation as a table: one type for each column, so that any reader takes them.

What has other fields from row to row (what is known to be true, the scores) stands as JSON text.
"""

import json
from typing import Any

from evals.schema.reports import EvalRow


def flat(row: EvalRow) -> dict[str, Any]:
    """Return one row of the table; the columns are those that `templates/rows.yaml` describes."""
    example, verdict = row.example, row.verdict
    return {
        "id": example.id,
        "source": example.source,
        "kind": example.kind,
        "cluster": example.cluster,
        "question": example.prompt,
        "reference_answer": example.answer,
        "ground_truth": example.ground_truth.model_dump_json(),
        "stage": row.stage,
        "prompt": [each.model_dump() for each in row.prompt],
        "completion": row.completion,
        "finish_reason": row.finish_reason,
        "verdict": verdict.verdict,
        "reason": verdict.reason,
        "answer": verdict.answer,
        "read_by": verdict.read_by,
        "stated_confidence": verdict.confidence.value,
        "confidence_status": verdict.confidence.status,
        "scores": json.dumps(verdict.scores),
        "reward": verdict.reward,
    }
