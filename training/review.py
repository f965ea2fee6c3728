"""Fine-tuning of a reviewer: the base learns to answer a paper with the concerns that people had.

    accelerate launch -m training.review --config training/configs/embedded/review.yaml

Supervised fine-tuning as in `training.sft`, on chat rows. The loss is on the reply alone, which is
checked for every row; no row is ever cut. The instructions of the rows become the system prompt of the
chain, so that an adapter is asked with the words it was trained with.
"""

import importlib
import importlib.util
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from transformers import PreTrainedTokenizerBase

from evals.errors import BadConfig
from training.config import Request, ReviewSettings
from training.data.conversations import Conversations, check_chain_prompt, check_replies, read_conversations
from training.data.tokens import length_of, within
from training.models.base import Base, find_base, load_tokenizer
from training.models.start import Start, append_stage, start_of
from training.reviewer.measure import KeepAdapters
from training.run.folder import announce, say
from training.run.session import load_base_for, record_of, run_command, session
from training.sft import Lessons, Loaded, SupervisedTrainer, options, supervised_trainer

UNSLOTH = "unsloth"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    run_command("review", ReviewSettings, train, arguments)


def train(request: Request) -> None:
    """Train an adapter and leave it, with its chain, its instructions and its records, in the run folder."""
    settings = request.settings
    assert isinstance(settings, ReviewSettings)
    data = read_conversations(settings.data)
    base = find_base(settings.base, announce)
    start = start_of(settings, base)
    check_chain_prompt(data, start.system_prompt)
    data = fitting(data, settings, load_tokenizer(base), base.public_name)
    made_with = loader_facts(settings)
    record = record_of("review", request, base, {**data.record(), **start.record(), **made_with})
    with session(record, Path(settings.output), overwrite=request.overwrite) as current:
        trainer = build_trainer(settings, data, start, base)
        if settings.keep_adapters:
            trainer.add_callback(KeepAdapters(trainer, current.run.path))
        if current.train(trainer) and trainer.write(current.run.adapter):
            say("measuring what the new stage computes")
            stage = start.stage("review", current.run.adapter)
            append_stage(current.run.path, stage, base, start.chain, data.system_prompt)


def fitting(
    data: Conversations, settings: ReviewSettings, tokenizer: PreTrainedTokenizerBase, base: str
) -> Conversations:
    """Return the rows that are short enough, each checked to be learned from by its reply alone."""
    lengths = {name: length_of(row, tokenizer) for name, row in data.trl_rows().items()}
    kept = within(data, lengths, settings)
    check_replies(kept, tokenizer, base)
    return kept


def build_trainer(settings: ReviewSettings, data: Conversations, start: Start, base: Base) -> SupervisedTrainer:
    """Return the trainer of an adapter on the start."""
    say(f"loading {base.public_name}")
    loaded = _loaded(settings, base)
    if data.without_thought:
        say(f"the reasoning before {data.without_thought} replies is not learned from")
    arguments = {**options(settings), "optim": settings.optimizer}
    return supervised_trainer(settings, Lessons(data, data.trl_rows()), start, loaded, arguments)


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


def _loaded(settings: ReviewSettings, base: Base) -> Loaded:
    """Return the base as it is trained on; Unsloth's kernels where they were asked for."""
    if settings.loader != UNSLOTH:
        return Loaded(*load_base_for(settings, base))
    fast = importlib.import_module(UNSLOTH).FastLanguageModel
    model, _ = fast.from_pretrained(
        model_name=str(base.folder),
        max_seq_length=settings.max_length,
        load_in_4bit=settings.weights == "nf4",
        local_files_only=True,
    )
    return Loaded(model, load_tokenizer(base))


if __name__ == "__main__":
    main()
