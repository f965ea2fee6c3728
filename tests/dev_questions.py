"""What runs of the embedded chain are compared on, never the tests: what no stage of them was asked.

python -m tests.dev_questions dev.jsonl [training/configs/embedded/grpo.yaml]

For a run on one half of the pathway questions that is the rest of the half, and the rest of the single missions if it
is asked about those; for a run that is told apart by tissues, a tissue that neither stage has seen, and facts of the KMP
study.
"""

import sys
from pathlib import Path

import yaml

from evals.questions import write_examples
from evals.schema import Example
from training.data.questions import GRPO_HALF, grpo_data

PARTS = (GRPO_HALF, "missions-train", "missions-parted-train")
BY_TISSUE = ("pathways-train/kidney", "kmp-grpo-part[label]", "kmp-grpo-part[count:12]")
CONFIG = Path(__file__).resolve().parents[1] / "training/configs/embedded/grpo.yaml"


def left_out(config: Path = CONFIG) -> tuple[Example, ...]:
    """Return the questions that neither the run of this settings file nor its SFT stage is asked."""
    settings = yaml.safe_load(config.read_text(encoding="utf-8"))
    asked = grpo_data(settings["data"], settings["seed"]).examples
    named = [part for part in PARTS if any(part in source for source in settings["data"])]
    if named:
        rows = {each.id for each in asked}
        return tuple(row for row in grpo_data(named, 0).examples if row.id not in rows)
    facts = {each.cluster for each in asked}
    found = grpo_data(BY_TISSUE, settings["seed"]).examples
    return tuple(row for row in found if row.cluster not in facts)


def main(arguments: list[str]) -> None:
    """Write them to the file that is named."""
    out, *config = arguments
    write_examples(Path(out), left_out(*map(Path, config)))


if __name__ == "__main__":
    main(sys.argv[1:])
