"""Supervised fine-tuning: the base learns to answer as the examples do, through a new adapter.

    accelerate launch -m training.sft --config training/configs/embedded/sft.yaml

The loss is on the answers alone. Every row is used whole: one that is too long is an error. Left
out on purpose: packing (no gain for short rows), evaluation while training (`assay eval run`).
"""

from collections.abc import Sequence
from pathlib import Path

from datasets import Dataset
from transformers import PreTrainedTokenizerBase
from trl import SFTConfig, SFTTrainer

from evals.questions import SYSTEM_PROMPT
from evals.schema import Example
from training.base import find_base, load_base
from training.chain import NewStage, append_stage
from training.config import Request, SftSettings
from training.data import check_lengths, prompt_of, sft_data, sft_row
from training.policy import lora_of, stacked_policy, write_adapter
from training.session import (
    QuietTrainer,
    base_device,
    common_arguments,
    record_of,
    run_command,
    session,
)
from training.terminal import announce, say


class SupervisedTrainer(QuietTrainer, SFTTrainer):
    """TRL's SFTTrainer, silent towards the Hub."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    run_command("sft", SftSettings, train, arguments)


def train(request: Request) -> None:
    """Train an adapter and leave it, with its chain and its records, in the run folder."""
    settings = request.settings
    assert isinstance(settings, SftSettings)
    data = sft_data(settings.data, settings.seed)
    base = find_base(settings.base, announce)
    record = record_of("sft", request, base, data.record())
    with session(record, Path(settings.output), overwrite=request.overwrite) as current:
        say(f"loading {base.public_name}")
        model, tokenizer = load_base(base, settings.weights, base_device(settings))
        longest = check_lengths(
            data.examples,
            lambda example: _length(tokenizer, example),
            settings.max_length,
            "max_length",
        )
        say(f"training on {len(data.examples)} rows of at most {longest} tokens")
        trainer = SupervisedTrainer(
            model=stacked_policy(model, {}, lora_of(settings, model), settings.seed),
            args=_arguments(settings),
            train_dataset=Dataset.from_list([sft_row(example) for example in data.examples]),
            processing_class=tokenizer,
        )
        if not current.train(trainer):
            return
        if trainer.is_world_process_zero():
            write_adapter(trainer.accelerator.unwrap_model(trainer.model), current.run.adapter)
            say("measuring what the new stage computes")
            stage = NewStage("sft", "sft", current.run.adapter)
            append_stage(current.run.path, stage, base, None, SYSTEM_PROMPT)


def _arguments(settings: SftSettings) -> SFTConfig:
    return SFTConfig(
        **common_arguments(settings),
        max_length=settings.max_length,
        completion_only_loss=True,
        packing=False,
        loss_type="nll",
    )


def _length(tokenizer: PreTrainedTokenizerBase, example: Example) -> int:
    """Return the tokens of question and answer together, as TRL puts them."""
    messages = [*prompt_of(example), {"role": "assistant", "content": example.answer}]
    text = tokenizer.apply_chat_template(messages, tokenize=False)
    return len(tokenizer(text, add_special_tokens=False)["input_ids"])


if __name__ == "__main__":
    main()
