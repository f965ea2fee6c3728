"""GRPO of the refiner: answers that cite evidence are sampled, judged by rubric and citations, compared.

    accelerate launch -m training.refiner --config training/configs/embedded/refiner-grpo.yaml

Starts from a chain whose SFT stage learned the grammar (`assay train sft` on the same records). The
judge is tried on known pairs first; who it is and how it was asked stands in run.json. An answer without
a verdict has no reward, and a judge that fails too often ends the run. Everything else is GRPO as in
`training.grpo`.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from accelerate.utils import gather_object
from datasets import Dataset
from transformers import (
    PreTrainedTokenizerBase,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)
from transformers.trainer_callback import ExportableState
from trl import GRPOConfig

from training.config import RefinerSettings, Request
from training.data.refiner import RefinerData, check_refiner_chain, refiner_data
from training.data.tokens import length_of, within
from training.grpo import PolicyTrainer, options
from training.judge.judge import StopRule
from training.launch.estimate import check_batches
from training.models.base import Base, find_base, load_tokenizer
from training.models.policy import policy_of
from training.models.start import Start, start_of
from training.refine.items import ItemBook
from training.refine.reward import Judging, RefinerReward, fit_judge, judge_facts, judging_of
from training.refine.watch import HeldOut, Pace, PlateauWatch
from training.run.alarms import AlarmCallback, alarms_of
from training.run.folder import announce, say
from training.run.session import load_base_for, processes, record_of, run_command, session


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    run_command("refiner", RefinerSettings, train, arguments)


def train(request: Request) -> None:
    """Train an adapter on top of a chain and leave it, with the longer chain, in the run folder."""
    settings = request.settings
    assert isinstance(settings, RefinerSettings)
    data = refiner_data(settings.data)
    base = find_base(settings.base, announce)
    start = start_of(settings, base)
    check_refiner_chain(start.system_prompt)
    tokenizer = load_tokenizer(base)
    data, held = held_out(data, settings, tokenizer)
    data = fitting(data, settings, tokenizer)
    check_batches(settings, data.count, processes().num_processes)
    judging = judging_of(settings)
    say(f"trying the judge {judging.judge.label} on known pairs")
    found = fit_judge(judging)
    facts = {**data.record(), **start.record(), **judge_facts(settings, judging, found)}
    record = record_of("refiner", request, base, facts)
    with session(record, Path(settings.output), overwrite=request.overwrite) as current:
        trainer = build_trainer(settings, data, start, base, judging)
        trainer.add_callback(AlarmCallback(current.run, alarms_of("sampling")))
        stop = current.stop.ask if settings.monitor_stop else None
        trainer.add_callback(AlarmCallback(current.run, alarms_of("refiner"), stop))
        if held is not None:
            steps, patience = settings.held_out_steps, settings.held_out_patience
            pace = Pace(steps, patience, settings.keeps_best)
            tell = current.result.__setitem__
            trainer.add_callback(PlateauWatch(trainer, held, pace, tell))
        if current.train(trainer):
            current.leave(trainer, start, base)


def fitting(data: RefinerData, settings: RefinerSettings, tokenizer: PreTrainedTokenizerBase) -> RefinerData:
    """Return the records whose prompt fits, passages taken away where that helps.

    BadConfig if one does not fit and may not be dropped.
    """
    data = data.shortened(settings.max_prompt_length, lambda row: length_of(row, tokenizer))
    lengths = {name: length_of(row, tokenizer) for name, row in data.trl_rows().items()}
    return within(data, lengths, settings)


def held_out(
    data: RefinerData, settings: RefinerSettings, tokenizer: PreTrainedTokenizerBase
) -> tuple[RefinerData, HeldOut | None]:
    """Return the records to train on, and those that show when to stop, if any are wanted.

    BadConfig if there are too few groups to hold one out.
    """
    if not settings.held_out_steps:
        return data, None
    data, held = data.parted(settings.held_out_share, settings.seed)
    records = fitting(held, settings, tokenizer).records
    return data, HeldOut(records, settings.reward(), settings.max_completion_length)


def build_trainer(
    settings: RefinerSettings, data: RefinerData, start: Start, base: Base, judging: Judging
) -> PolicyTrainer:
    """Return the trainer of an adapter on the chain, which is also the reference."""
    say(f"loading {base.public_name} and {', '.join(start.record())}")
    model, tokenizer = load_base_for(settings, base)
    say(f"sampling answers to {data.count} records of at most {settings.max_prompt_length} tokens")
    if data.trimmed:
        say(f"{len(data.trimmed)} records are trimmed to fit")
    for why, count in data.left_out.items():
        say(f"{count} records are left out: {why}")
    stop = StopRule(settings.max_none_fraction, settings.none_patience)
    reward = RefinerReward(settings.reward(), judging, ItemBook(settings.retire_after), stop)
    trainer = PolicyTrainer(
        model=policy_of(model, start, settings),
        args=GRPOConfig(**options(settings)),
        train_dataset=Dataset.from_list(list(data.trl_rows().values())),
        processing_class=tokenizer,
        reward_funcs=reward,
    )
    trainer.add_callback(JudgeCallback(trainer, reward))
    return trainer


class JudgeCallback(TrainerCallback, ExportableState):
    """Keeps the retired items the same over all processes and checkpoints, and closes the judge's connections."""

    def __init__(self, trainer: PolicyTrainer, reward: RefinerReward) -> None:
        self._trainer, self._reward = trainer, reward

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint stores."""
        return {"args": {}, "attributes": self._reward.book.state()}

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **others: Any
    ) -> None:
        """Load the state of the checkpoint that training resumes from."""
        stored = state.stateful_callbacks
        if isinstance(stored, dict) and type(self).__name__ in stored:
            self._reward.book.load(stored[type(self).__name__]["attributes"])

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **others: Any) -> None:
        """Count what all processes saw, so that the answers of a group have the same items everywhere."""
        self._reward.book.settle(gather_object([self._reward.book.take()]))

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **others: Any
    ) -> None:
        """Close the judge's connections inside the loop that made them."""
        asyncio.run_coroutine_threadsafe(self._reward.close(), self._trainer.async_loop).result()


if __name__ == "__main__":
    main()
