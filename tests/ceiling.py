"""How much reward the held-out questions can give a chain that knows no more directions than its SFT stage.

python -m tests.ceiling
"""

import re
import sys
from pathlib import Path

from evals.schema import EvalReport
from evals.verifiers import judge

REPORT = Path(__file__).resolve().parents[1] / (
    "training/embedded/grpo/reports/pathways-heldout.json"
)
STATED = re.compile(r"Confidence:.*")


def ceiling(report: EvalReport) -> tuple[float, float]:
    """Return the mean reward of the SFT stage, 0 to 1, and the most it can become without new directions.

    Directions stay as SFT gave them, each with a confidence of 50 %; everything else is answered as
    the reference answers it, with 95 %.
    """
    rows = [row for row in report.rows if row.stage == "sft"]
    best = []
    for row in rows:
        truth, question = row.example.ground_truth, row.example.prompt
        is_direct = truth.kind == "direct"
        answer = row.completion if is_direct else row.example.answer
        answer = STATED.sub(f"Confidence: {50 if is_direct else 95}%", answer)
        best.append(judge(truth, question, answer).reward)
    return sum(row.verdict.reward for row in rows) / len(rows), sum(best) / len(best)


def main() -> None:
    """Print both."""
    now, most = ceiling(EvalReport.model_validate_json(REPORT.read_text(encoding="utf-8")))
    sys.stdout.write(f"SFT {now:.3f}, at most {most:.3f} ({most / now - 1:+.0%})\n")


if __name__ == "__main__":
    main()
