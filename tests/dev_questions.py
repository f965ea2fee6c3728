"""Questions of the GRPO half that a GRPO settings file leaves out: what runs are compared on, never the tests.

python -m tests.dev_questions dev.jsonl [training/configs/embedded/grpo.yaml]
"""

import sys
from pathlib import Path

import yaml

from evals.questions import write_examples
from evals.schema import Example
from training.data import GRPO_HALF, grpo_data

CONFIG = Path(__file__).resolve().parents[1] / "training/configs/embedded/grpo.yaml"


def left_out(config: Path = CONFIG) -> tuple[Example, ...]:
    """Return the questions of the half that the run of this settings file is not asked."""
    settings = yaml.safe_load(config.read_text(encoding="utf-8"))
    asked = {each.id for each in grpo_data(settings["data"], settings["seed"]).examples}
    half = grpo_data([GRPO_HALF], settings["seed"]).examples
    return tuple(each for each in half if each.id not in asked)


def main(arguments: list[str]) -> None:
    """Write them to the file that is named."""
    out, *config = arguments
    write_examples(Path(out), left_out(*map(Path, config)))


if __name__ == "__main__":
    main(sys.argv[1:])
