"""Supervised fine-tuning: the base learns to answer as the examples do, through a new adapter.

    accelerate launch -m training.sft --config training/configs/embedded/sft.yaml

The loss is on the answers alone. Every row is used whole, never cut; of the refiner's records, from
which it learns to cite, passages that nothing rests on may go. On a chain it goes on as `training.models.start`
says. Left out on purpose: evaluation while training (`assay eval run`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from datasets import Dataset
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from trl import SFTConfig, SFTTrainer

from evals.questions import SYSTEM_PROMPT
from evals.refine.prompt import SYSTEM_PROMPT as REFINER_PROMPT
from training.config import Request, SftSettings
from training.data.packing import check_packing
from training.data.questions import TrainingData, sft_data, sft_row
from training.data.refiner import RefinerData, are_records, check_refiner_chain, refiner_data
from training.data.tokens import Row, length_of, within
from training.models.base import Base, find_base, load_tokenizer
from training.models.policy import policy_of
from training.models.start import Start, start_of
from training.run.folder import announce, say
from training.run.session import common_arguments, load_base_for, record_of, run_command, session
from training.run.trainer import SafeTrainer


class SupervisedTrainer(SafeTrainer, SFTTrainer):
    """TRL's SFTTrainer, safe to kill at any moment."""


class Counted(Protocol):
    """Training data that know how many rows they have, and what was left out of them and why."""

    @property
    def count(self) -> int:
        """How many rows there are."""
        ...

    @property
    def left_out(self) -> Mapping[str, int]:
        """How many were left out, by the reason."""
        ...


@dataclass(frozen=True)
class Lessons:
    """What is learned from: the data, and what TRL is given of each row, by the name of the row."""

    data: Counted
    rows: Mapping[str, Row]


@dataclass(frozen=True)
class Loaded:
    """A base as it is trained on, and its tokenizer."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase


def supervised_trainer(
    settings: SftSettings,
    lessons: Lessons,
    start: Start,
    loaded: Loaded,
    arguments: Mapping[str, Any],
) -> SupervisedTrainer:
    """Return the trainer of an adapter on the start; `arguments` are TRL's, all of them."""
    if settings.packing:
        check_packing(loaded.model)
    say(f"training on {lessons.data.count} rows of at most {settings.max_length} tokens")
    for why, count in lessons.data.left_out.items():
        say(f"{count} rows are left out: {why}")
    return SupervisedTrainer(
        model=policy_of(loaded.model, start, settings),
        args=SFTConfig(**arguments),
        train_dataset=Dataset.from_list([dict(row) for row in lessons.rows.values()]),
        processing_class=loaded.tokenizer,
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


Taught = TrainingData | RefinerData


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


def lessons_of(settings: SftSettings) -> Taught:
    """Return what is learned from: questions with their answers, or records with their references."""
    if are_records(settings.data):
        return refiner_data(settings.data, is_for_sft=True)
    return sft_data(settings.data, settings.seed)


def build_trainer(settings: SftSettings, data: Taught, start: Start, base: Base) -> SupervisedTrainer:
    """Return the trainer of an adapter on the start."""
    say(f"loading {base.public_name}")
    loaded = Loaded(*load_base_for(settings, base))
    lessons = Lessons(data, _rows(data, start))
    return supervised_trainer(settings, lessons, start, loaded, options(settings))


def _rows(data: Taught, start: Start) -> Mapping[str, Row]:
    """Return what TRL is given of each row, by the name of the row."""
    if isinstance(data, RefinerData):
        return data.trl_rows()
    prompt = start.system_prompt or SYSTEM_PROMPT
    return {example.id: sft_row(example, prompt) for example in data.examples}


def _fitting(data: Taught, start: Start, settings: SftSettings, tokenizer: PreTrainedTokenizerBase) -> Taught:
    """Return the rows that are short enough; BadConfig if one is not and may not be dropped."""
    if isinstance(data, RefinerData):
        data = data.shortened(settings.max_length, lambda row: length_of(row, tokenizer))
    lengths = {name: length_of(row, tokenizer) for name, row in _rows(data, start).items()}
    return within(data, lengths, settings)


if __name__ == "__main__":
    main()
