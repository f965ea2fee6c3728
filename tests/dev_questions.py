"""What runs of the embedded chain are compared on, never the tests: what no stage of them was asked.

python -m tests.dev_questions dev.jsonl

That is the rest of the half of the pathway questions that GRPO is asked, and the rest of the single missions.
"""

import sys
from pathlib import Path

import yaml

from evals.schema import Example
from tests.examples import write_examples
from training.data.questions import GRPO_HALF, grpo_data

PARTS = (GRPO_HALF, "missions-parted-train")
CONFIG = Path(__file__).resolve().parents[1] / "training/configs/embedded/grpo.yaml"


def left_out() -> tuple[Example, ...]:
    """Return the questions that neither the shipped GRPO run nor the stages below it are asked."""
    settings = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))
    asked = {row.id for row in grpo_data(settings["data"], settings["seed"]).items}
    return tuple(row for row in grpo_data(PARTS, 0).items if row.id not in asked)


if __name__ == "__main__":
    write_examples(Path(sys.argv[1]), left_out())
