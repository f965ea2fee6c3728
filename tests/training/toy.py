"""A stage of a test's own, in one file: it repeats the question, and learns to from rows without answers."""

from datasets import Dataset
from trl import SFTConfig, SFTTrainer

from training.data.questions import grpo_data
from training.data.tokens import Rows
from training.run.session import Prepared
from training.sft import SftSettings, options
from training.upstream import SafeTrainer


class ToySettings(SftSettings):
    """Settings of the toy stage."""

    about = "Learn to repeat the question."
    example = "--config toy.yaml"

    def read_rows(self, chain_prompt: str | None) -> Rows:
        """Return the questions."""
        return grpo_data(self.data, self.seed, chain_prompt or "Repeat.")


def train(ready: Prepared) -> None:
    """Train an adapter and leave it, with its chain, in the run folder."""
    rows = [{"prompt": row["prompt"], "completion": row["prompt"][-1:]} for row in ready.data.trl_rows().values()]
    with ready.session() as current:
        trainer = SafeTrainer.before(SFTTrainer)(
            model=ready.policy(),
            args=SFTConfig(**ready.arguments, **options(ready.settings)),
            train_dataset=Dataset.from_list(rows),
            processing_class=ready.tokenizer,
        )
        current.train(trainer)
