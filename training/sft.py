"""Supervised fine-tuning: the base learns to answer as the examples do, through a new adapter.

    accelerate launch -m training.sft --config training/configs/embedded/sft.yaml

The loss is on the answers alone. Every row is used whole, never cut; of the refiner's records, from
which it learns to cite, passages that nothing rests on may go. On a chain it goes on as `training.start`
says. Left out on purpose: evaluation while training (`assay eval run`).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from datasets import Dataset
from transformers import PreTrainedTokenizerBase
from trl import SFTConfig, SFTTrainer

from evals.questions import SYSTEM_PROMPT
from evals.refiner.prompt import SYSTEM_PROMPT as REFINER_PROMPT
from training.base import Base, find_base, load_tokenizer
from training.config import SftSettings
from training.data import Row, TrainingData, sft_data, sft_row
from training.lengths import length_of, within
from training.packing import check_packing
from training.policy import policy_of
from training.record import record_of
from training.refining.data import RefinerData, are_records, check_refiner_chain, refiner_data
from training.request import Request
from training.session import (
    common_arguments,
    load_base_for,
    run_command,
    session,
)
from training.start import Start, start_of
from training.terminal import announce, say
from training.trainer import SafeTrainer

Lessons = TrainingData | RefinerData


class SupervisedTrainer(SafeTrainer, SFTTrainer):
    """TRL's SFTTrainer, safe to kill at any moment."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    run_command("sft", SftSettings, train, arguments)


def train(request: Request) -> None:
    """Train an adapter and leave it, with its chain and its records, in the run folder."""
    settings = request.settings
    assert isinstance(settings, SftSettings)
    data = lessons_of(settings)
    base = find_base(settings.base, announce)
    start = start_of(settings, base)
    if isinstance(data, RefinerData):
        check_refiner_chain(start.system_prompt)
    data = _fitting(data, start, settings, load_tokenizer(base))
    record = record_of("sft", request, base, {**data.record(), **start.record()})
    with session(record, Path(settings.output), overwrite=request.overwrite) as current:
        trainer = build_trainer(settings, data, start, base)
        if current.train(trainer):
            of_records = isinstance(data, RefinerData)
            current.leave(trainer, start, base, REFINER_PROMPT if of_records else SYSTEM_PROMPT)


def lessons_of(settings: SftSettings) -> Lessons:
    """Return what is learned from: questions with their answers, or records with their references."""
    if are_records(settings.data):
        return refiner_data(settings.data, is_for_sft=True)
    return sft_data(settings.data, settings.seed)


def build_trainer(
    settings: SftSettings, data: Lessons, start: Start, base: Base
) -> SupervisedTrainer:
    """Return the trainer of an adapter on the start."""
    say(f"loading {base.public_name}")
    model, tokenizer = load_base_for(settings, base)
    if settings.packing:
        check_packing(model)
    say(f"training on {data.count} rows of at most {settings.max_length} tokens")
    for why, count in data.left_out.items():
        say(f"{count} rows are left out: {why}")
    return SupervisedTrainer(
        model=policy_of(model, start, settings),
        args=SFTConfig(**options(settings)),
        train_dataset=Dataset.from_list(list(_rows(data, start).values())),
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


def _rows(data: Lessons, start: Start) -> dict[str, Row]:
    """Return what TRL is given of each row, by the name of the row."""
    if isinstance(data, RefinerData):
        return data.trl_rows()
    prompt = start.system_prompt or SYSTEM_PROMPT
    return {example.id: sft_row(example, prompt) for example in data.examples}


def _fitting(
    data: Lessons, start: Start, settings: SftSettings, tokenizer: PreTrainedTokenizerBase
) -> Lessons:
    """Return the rows that are short enough; BadConfig if one is not and may not be dropped."""
    if isinstance(data, RefinerData):
        data = data.shortened(settings.max_length, lambda row: length_of(row, tokenizer))
    lengths = {name: length_of(row, tokenizer) for name, row in _rows(data, start).items()}
    return within(data, lengths, settings)


if __name__ == "__main__":
    main()
