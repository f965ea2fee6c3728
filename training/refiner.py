"""GRPO of the refiner: answers that cite evidence are sampled, judged by rubric and citations, compared.

    accelerate launch -m training.refiner --config training/configs/embedded/refiner-grpo.yaml

Starts from a chain whose SFT stage learned the grammar (`assay train sft` on the same records). The
judge is tried on known pairs first; who it is and how it was asked stands in run.json. An answer without
a verdict has no reward, and a judge that fails too often ends the run. Everything else is GRPO as in
`training.grpo`.
"""

from typing import Any

from accelerate.utils import gather_object
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from evals.refine.judge import Judge
from training.config import RefinerSettings, Request
from training.data.refine import RefinerData
from training.grpo import PolicyTrainer, policy_trainer
from training.judge.judge import StopRule
from training.refiner_rewards import ItemBook, RefinerReward, judge_facts, judge_for
from training.run.alarms import AlarmCallback, alarms_of
from training.run.folder import say
from training.run.session import Prepared, prepare, run_command, session
from training.upstream import ExportableState


def train(request: Request) -> None:
    """Train an adapter on top of a chain and leave it, with the longer chain, in the run folder."""
    ready = prepare("refiner", request)
    settings = ready.settings
    assert isinstance(settings, RefinerSettings)
    judge = judge_for(settings)
    say(f"trying the judge {judge.label} on known pairs")
    with session(ready, **judge_facts(settings, judge)) as current:
        trainer = build_trainer(ready, judge)
        trainer.add_callback(AlarmCallback(current.run, alarms_of("sampling")))
        stop = current.stop.ask if settings.monitor_stop else None
        trainer.add_callback(AlarmCallback(current.run, alarms_of("refiner"), stop))
        current.train(trainer)


def build_trainer(ready: Prepared, judge: Judge) -> PolicyTrainer:
    """Return the trainer of an adapter on the chain, which is also the reference."""
    settings, data = ready.settings, ready.data
    assert isinstance(settings, RefinerSettings) and isinstance(data, RefinerData)
    if data.trimmed:
        say(f"{len(data.trimmed)} records are trimmed to fit")
    stop = StopRule(settings.max_none_fraction, settings.none_patience)
    book = ItemBook(settings.retire_after)
    reward = RefinerReward(settings.reward(), judge, book, stop, settings.judge_deadline_seconds)
    trainer = policy_trainer(ready, reward)
    trainer.add_callback(JudgeCallback(trainer, reward))
    return trainer


class JudgeCallback(TrainerCallback, ExportableState):
    """Keeps the retired items the same over all processes and checkpoints, and closes the judge's connections."""

    def __init__(self, trainer: PolicyTrainer, reward: RefinerReward) -> None:
        self._trainer, self._reward = trainer, reward

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint stores."""
        return {"args": {}, "attributes": {"alike": self._reward.book.alike}}

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **others: Any
    ) -> None:
        """Load the state of the checkpoint that training resumes from."""
        stored = state.stateful_callbacks
        if isinstance(stored, dict) and type(self).__name__ in stored:
            self._reward.book.load(stored[type(self).__name__]["attributes"]["alike"])

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **others: Any) -> None:
        """Count what all processes saw, so that the answers of a group have the same items everywhere."""
        self._reward.book.settle(gather_object([self._reward.book.take()]))

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **others: Any
    ) -> None:
        """Close the judge's connections inside the loop that made them."""
        self._trainer.run_async(self._reward.close())


if __name__ == "__main__":
    run_command("refiner", train)
