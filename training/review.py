"""Fine-tuning of a reviewer: the base learns to answer a paper with the concerns that people had.

    accelerate launch -m training.review --config training/configs/embedded/review.yaml

Supervised fine-tuning as in `training.sft`, on chat rows. The loss is on the reply alone, which is
checked for every row; no row is ever cut. The instructions of the rows become the system prompt of the
chain, so that an adapter is asked with the words it was trained with.
"""

import importlib
import importlib.util
from importlib.metadata import version

from transformers import PreTrainedModel

from evals.errors import BadConfig
from training.config import Request, ReviewSettings
from training.data.conversations import WITHOUT_REASONING, check_replies
from training.reviewer.measure import KeepAdapters
from training.run.folder import say
from training.run.session import Prepared, prepare, run_command, session
from training.sft import SupervisedTrainer
from training.sft import build_trainer as supervised_trainer

UNSLOTH = "unsloth"


def train(request: Request) -> None:
    """Train an adapter and leave it, with its chain, its instructions and its records, in the run folder."""
    ready = prepare("review", request)
    settings, data = ready.settings, ready.data
    assert isinstance(settings, ReviewSettings)
    check_replies(data, ready.tokenizer, ready.base.public_name)
    with session(ready, **loader_facts(settings)) as current:
        trainer = build_trainer(ready)
        if settings.keep_adapters:
            trainer.add_callback(KeepAdapters(trainer, current.run.path))
        current.train(trainer)


def build_trainer(ready: Prepared) -> SupervisedTrainer:
    """Return the trainer of an adapter on the start."""
    settings, data = ready.settings, ready.data
    assert isinstance(settings, ReviewSettings)
    if count := data.facts.get(WITHOUT_REASONING):
        say(f"the reasoning before {count} replies is not learned from")
    model = _unsloth(ready) if settings.loader == UNSLOTH else None
    return supervised_trainer(ready, model, optim=settings.optimizer)


def loader_facts(settings: ReviewSettings) -> dict[str, str | int]:
    """Return what run.json keeps of another loader; BadConfig if it was asked for and is not here."""
    if settings.loader != UNSLOTH:
        return {}
    if importlib.util.find_spec(UNSLOTH) is None:
        raise BadConfig(
            "loader is unsloth, but the package is not installed; `pip install unsloth` on a machine with a"
            " GPU, or use loader transformers, which trains the same adapter more slowly."
        )
    return {"loaded by": f"unsloth {version(UNSLOTH)}"}


def _unsloth(ready: Prepared) -> PreTrainedModel:
    """Return the base as it is trained on, with Unsloth's kernels."""
    settings = ready.settings
    fast = importlib.import_module(UNSLOTH).FastLanguageModel
    model, _ = fast.from_pretrained(
        model_name=str(ready.base.folder),
        max_seq_length=settings.longest,
        load_in_4bit=settings.weights == "nf4",
        local_files_only=True,
    )
    return model


if __name__ == "__main__":
    run_command("review", train)
