"""A stage of a test's own, in one file: it repeats the question, and learns to from rows without answers."""

from datasets import Dataset
from trl import SFTConfig

from training.config import Request, SftSettings
from training.data.questions import grpo_data
from training.data.tokens import Rows
from training.run.session import prepare, session
from training.sft import SupervisedTrainer, options


class ToySettings(SftSettings):
    """Settings of the toy stage."""

    about = "Learn to repeat the question."
    example = "--config toy.yaml"
    rows = "tests.training.toy:toy_rows"


def toy_rows(settings: ToySettings, chain_prompt: str | None) -> Rows:
    """Return the questions."""
    return grpo_data(settings.data, settings.seed, chain_prompt or "Repeat.")


def train(request: Request) -> None:
    """Train an adapter and leave it, with its chain, in the run folder."""
    ready = prepare("toy", request)
    rows = [{"prompt": row["prompt"], "completion": row["prompt"][-1:]} for row in ready.data.trl_rows().values()]
    with session(ready) as current:
        trainer = SupervisedTrainer(
            model=ready.policy(),
            args=SFTConfig(**options(ready.settings)),
            train_dataset=Dataset.from_list(rows),
            processing_class=ready.tokenizer,
        )
        current.train(trainer)
