"""Supervised fine-tuning: the base learns to answer as the examples do, through a new adapter.

    accelerate launch -m training.sft --config training/configs/embedded/sft.yaml

The loss is on the answers alone. Every row is used whole, never cut. On a chain it goes on as
`training.start` says. Left out on purpose: evaluation while training (`assay eval run`).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from datasets import Dataset
from transformers import PreTrainedTokenizerBase
from trl import SFTConfig, SFTTrainer

from evals.questions import SYSTEM_PROMPT
from training.base import Base, chat_tokenizer, find_base
from training.config import SftSettings
from training.data import TrainingData, sft_data, sft_row
from training.lengths import length_of, within
from training.lineage import append_stage
from training.packing import check_packing
from training.policy import policy_of
from training.request import Request
from training.session import (
    common_arguments,
    load_base_for,
    record_of,
    run_command,
    session,
)
from training.start import Start, start_of
from training.terminal import announce, say
from training.trainer import SafeTrainer


class SupervisedTrainer(SafeTrainer, SFTTrainer):
    """TRL's SFTTrainer, safe to kill at any moment."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    run_command("sft", SftSettings, train, arguments)


def train(request: Request) -> None:
    """Train an adapter and leave it, with its chain and its records, in the run folder."""
    settings = request.settings
    assert isinstance(settings, SftSettings)
    data = sft_data(settings.data, settings.seed)
    base = find_base(settings.base, announce)
    start = start_of(settings, base)
    data = _fitting(data, start, settings, chat_tokenizer(base))
    record = record_of("sft", request, base, {**data.record(), **start.record()})
    with session(record, Path(settings.output), overwrite=request.overwrite) as current:
        trainer = build_trainer(settings, data, start, base)
        if not current.train(trainer):
            return
        if trainer.write(current.run.adapter):
            say("measuring what the new stage computes")
            prompt = start.system_prompt or SYSTEM_PROMPT
            stage = start.stage("sft", current.run.adapter)
            append_stage(current.run.path, stage, base, start.chain, prompt)


def build_trainer(
    settings: SftSettings, data: TrainingData, start: Start, base: Base
) -> SupervisedTrainer:
    """Return the trainer of an adapter on the start."""
    say(f"loading {base.public_name}")
    prompt = start.system_prompt or SYSTEM_PROMPT
    model, tokenizer = load_base_for(settings, base)
    if settings.packing:
        check_packing(model)
    say(f"training on {len(data.examples)} rows of at most {settings.max_length} tokens")
    for why, count in data.left_out.items():
        say(f"{count} rows are left out: {why}")
    return SupervisedTrainer(
        model=policy_of(model, start, settings),
        args=SFTConfig(**options(settings)),
        train_dataset=Dataset.from_list([sft_row(example, prompt) for example in data.examples]),
        processing_class=tokenizer,
    )


def options(settings: SftSettings) -> dict[str, Any]:
    """Return every training argument of TRL's that has an effect; none is left to its default."""
    return {
        **common_arguments(settings),
        "max_length": settings.max_length,
        "truncation_mode": "keep_start",
        "completion_only_loss": True,
        "assistant_only_loss": False,
        "packing": settings.packing,
        "packing_strategy": "bfd",
        "eval_packing": False,
        "padding_free": settings.packing,
        "pad_to_multiple_of": None,
        "shuffle_dataset": False,
        "loss_type": "nll",
        "router_aux_loss_coef": None,
        "activation_offloading": False,
    }


def _fitting(
    data: TrainingData, start: Start, settings: SftSettings, tokenizer: PreTrainedTokenizerBase
) -> TrainingData:
    """Return the rows that are short enough; BadConfig if one is not and may not be dropped."""
    prompt = start.system_prompt or SYSTEM_PROMPT
    lengths = {each.id: length_of(sft_row(each, prompt), tokenizer) for each in data.examples}
    return within(data, lengths, settings)


if __name__ == "__main__":
    main()
