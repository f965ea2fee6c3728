"""What runs of the embedded chain are compared on, never the tests: a tissue and facts that no stage was asked.

python -m tests.dev_questions dev.jsonl [training/configs/embedded/grpo.yaml]
"""

import sys
from pathlib import Path

import yaml

from evals.questions import write_examples
from evals.schema import Example
from training.data import grpo_data

SOURCES = ("pathways-train/kidney", "kmp-grpo-part[label]", "kmp-grpo-part[count:12]")
CONFIG = Path(__file__).resolve().parents[1] / "training/configs/embedded/grpo.yaml"


def left_out(config: Path = CONFIG) -> tuple[Example, ...]:
    """Return the questions of the sources about facts that the run of this settings file is not asked."""
    settings = yaml.safe_load(config.read_text(encoding="utf-8"))
    asked = {each.cluster for each in grpo_data(settings["data"], settings["seed"]).examples}
    found = grpo_data(SOURCES, settings["seed"]).examples
    return tuple(each for each in found if each.cluster not in asked)


def main(arguments: list[str]) -> None:
    """Write them to the file that is named."""
    out, *config = arguments
    write_examples(Path(out), left_out(*map(Path, config)))


if __name__ == "__main__":
    main(sys.argv[1:])
