"""The trainer of supervised fine-tuning, one for every stage that learns from written answers.

A stage says which rows, which base and which options; what is trained, and that nothing is cut, is here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from datasets import Dataset
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from trl import SFTConfig, SFTTrainer

from training.config import SftSettings
from training.lengths import Row
from training.packing import check_packing
from training.policy import policy_of
from training.session import common_arguments
from training.start import Start
from training.terminal import say
from training.trainer import SafeTrainer


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
