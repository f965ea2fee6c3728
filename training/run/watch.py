"""Looks at a model while it is trained: greedy answers to what it is not trained on, graded again and again.

A look draws nothing at random, so a run that is watched learns the same weights as one that is not.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from accelerate.utils import broadcast_object_list
from bitsandbytes.nn import Linear4bit
from transformers import (
    GenerationConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)
from trl.trainer.utils import use_adapter

from evals.errors import BadConfig
from evals.schema import Example
from evals.verifiers import verify
from training.config import DpoSettings
from training.data.questions import prompt_of
from training.models.generation import end_tokens
from training.models.policy import REFERENCE, StackedPeftModel
from training.run.alarms import alert
from training.run.folder import RunFolder

ROWS = 8
"""Questions that are answered together."""


@dataclass(frozen=True)
class Answers:
    """Answers as tokens: `ids` and `attended` are (rows, prompt + answer).

    `written`, (rows, answer), marks an answer's tokens, its end token with them.
    """

    ids: torch.Tensor
    attended: torch.Tensor
    written: torch.Tensor

    def tokens(self) -> list[list[int]]:
        """Return the tokens of each answer."""
        new = self.ids[:, -self.written.shape[1] :]
        return [row[keep].tolist() for row, keep in zip(new, self.written, strict=True)]


def answered(
    policy: StackedPeftModel, tokenizer: PreTrainedTokenizerBase, prompts: Sequence[str], most: int
) -> Answers:
    """Return the policy's greedy answers of at most `most` tokens to prompts that a template has written."""
    encoded = tokenizer(
        list(prompts), add_special_tokens=False, padding=True, padding_side="left", return_tensors="pt"
    ).to(policy.device)
    model = policy.get_base_model()
    assert isinstance(model, PreTrainedModel)
    ends = end_tokens(model, tokenizer)
    settings = GenerationConfig(
        max_new_tokens=most,
        do_sample=False,
        eos_token_id=list(ends),
        pad_token_id=tokenizer.pad_token_id if tokenizer.pad_token_id is not None else ends[0],
    )
    ids = policy.generate(**encoded, generation_config=settings)
    new = ids[:, encoded["input_ids"].shape[1] :]
    is_end = torch.isin(new, torch.tensor(ends, device=new.device))
    written = is_end.cumsum(dim=1) - is_end.long() == 0
    attended = torch.cat([encoded["attention_mask"], written.long()], dim=1)
    return Answers(ids, attended, written)


@contextmanager
def evaluating(policy: StackedPeftModel) -> Generator[None]:
    """Compute without dropout inside the block.

    Layers with 4-bit weights stay in training mode: on a processor bitsandbytes 0.50 repacks the weights
    of one that is not, for good, into a form that gradients do not pass.
    """
    was_training = policy.training
    policy.eval()
    for layer in policy.modules():
        if isinstance(layer, Linear4bit):
            layer.training = True
    try:
        yield
    finally:
        policy.train(was_training)


def answers_to(
    policy: StackedPeftModel, tokenizer: PreTrainedTokenizerBase, conversations: Sequence[Any], tokens: int
) -> Iterator[Answers]:
    """Yield greedy answers of at most `tokens` tokens to conversations, ROWS at a time, without dropout."""
    with torch.no_grad(), evaluating(policy):
        for start in range(0, len(conversations), ROWS):
            prompts = [
                str(tokenizer.apply_chat_template(each, tokenize=False, add_generation_prompt=True))
                for each in conversations[start : start + ROWS]
            ]
            yield answered(policy, tokenizer, prompts, tokens)


class Looks(TrainerCallback):
    """Measures the policy before the first step, every `every` steps and after the last; logs the figures.

    What `measure` returns on the first process counts for all of them. A resumed run does not look anew
    before its first step: what was seen stands in the trainer's own log (`seen`). BadConfig, naming
    `setting`, where weights are shared out, so that no process could answer by itself.
    """

    def __init__(self, trainer: Trainer, every: int, setting: str) -> None:
        deepspeed = trainer.accelerator.state.deepspeed_plugin
        if trainer.is_fsdp_enabled or (deepspeed is not None and deepspeed.zero_stage == 3):
            raise BadConfig(
                f"{setting} needs a whole model on each process, and FSDP and ZeRO-3 share one out; set"
                f" {setting} to 0, or use a profile that does not (single, multi-gpu, zero2)."
            )
        self.trainer, self.every = trainer, every

    figure = ""
    """The figure that `seen` returns."""

    def measure(self, policy: StackedPeftModel, tokenizer: PreTrainedTokenizerBase) -> dict[str, float]:
        """Return what is seen now, by the names that the log has for it."""
        raise NotImplementedError

    def looked(self, figures: dict[str, float], state: TrainerState, control: TrainerControl) -> None:
        """Do what follows from a look, on every process; the log has it already."""

    def seen(self, state: TrainerState) -> list[tuple[int, float]]:
        """Return the steps that were looked at and the figure there."""
        return [(int(row["step"]), row[self.figure]) for row in state.log_history if self.figure in row]

    @property
    def policy(self) -> StackedPeftModel:
        """The model that learns."""
        policy = self.trainer.accelerator.unwrap_model(self.trainer.model)
        assert isinstance(policy, StackedPeftModel)
        return policy

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **others: Any
    ) -> None:
        """Look before anything is learned."""
        if not self.seen(state):
            self._look(state, control)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **others: Any) -> None:
        """Look where it is time."""
        if state.global_step % self.every == 0 or state.global_step >= state.max_steps:
            self._look(state, control)

    def _look(self, state: TrainerState, control: TrainerControl) -> None:
        tokenizer = self.trainer.processing_class
        assert isinstance(tokenizer, PreTrainedTokenizerBase)
        with self.trainer.accelerator.autocast():
            found: list[Any] = [self.measure(self.policy, tokenizer)]
        figures = broadcast_object_list(found)[0]
        log_is_due = control.should_log  # logging here must not take the place of the trainer's own
        Trainer.log(self.trainer, dict(figures))
        control.should_log = log_is_due
        self.looked(figures, state, control)


ACCURACY, KL, LENGTH = "monitor/accuracy", "monitor/kl", "monitor/length"


class ForgettingMonitor(Looks):
    """Is what was known being forgotten? Says when accuracy falls or the distance grows beyond the settings.

    With `monitor_stop` the run is stopped then, a checkpoint kept.
    """

    figure = ACCURACY

    def __init__(
        self,
        trainer: Trainer,
        settings: DpoSettings,
        questions: Sequence[Example],
        system_prompt: str,
        run: RunFolder,
        stop: Callable[[str], None],
    ) -> None:
        super().__init__(trainer, settings.monitor_steps, "monitor_steps")
        self._settings, self._questions, self._prompt = settings, questions, system_prompt
        self._run, self._stop = run, stop

    def measure(self, policy: StackedPeftModel, tokenizer: PreTrainedTokenizerBase) -> dict[str, float]:
        """Return how the questions are answered now, and how far that is from the reference."""
        return forgetting(policy, tokenizer, self._questions, self._prompt, self._settings.monitor_tokens)

    def looked(self, figures: dict[str, float], state: TrainerState, control: TrainerControl) -> None:
        """Complain of what broke a limit."""
        first, settings = self.seen(state)[0][1], self._settings
        found = []
        if first - figures[ACCURACY] > settings.monitor_max_drop:
            found.append(
                f"of {len(self._questions)} watched questions {figures[ACCURACY]:.0%} are answered right,"
                f" {first:.0%} before training: knowledge is being lost; raise beta or lower learning_rate"
            )
        if figures[KL] > settings.monitor_max_kl:
            found.append(
                f"answers are {figures[KL]:.2g} nats per token away from the reference (allowed"
                f" {settings.monitor_max_kl:g}): raise beta or lower learning_rate"
            )
        for complaint in found:
            if state.is_world_process_zero:
                alert(self._run, state.global_step, complaint)
            if settings.monitor_stop:
                self._stop(complaint)


def forgetting(
    policy: StackedPeftModel,
    tokenizer: PreTrainedTokenizerBase,
    questions: Sequence[Example],
    system_prompt: str,
    tokens: int,
) -> dict[str, float]:
    """Return the share of questions answered right, their distance from the reference, their mean length.

    Answers are read by their answer lines, as the reward of GRPO does. The distance is the mean over the
    answers' tokens of KL(policy || reference) of the next token, exact over the vocabulary, in nats.
    """
    texts: list[str] = []
    length, divergence = 0, 0.0
    conversations = [prompt_of(each, system_prompt) for each in questions]
    for batch in answers_to(policy, tokenizer, conversations, tokens):
        texts += tokenizer.batch_decode(batch.tokens(), skip_special_tokens=True)
        length += int(batch.written.sum())
        divergence += float((_divergence(policy, batch) * batch.written).sum())
    pairs = zip(questions, texts, strict=True)
    right = sum(verify(question, text, read="answer").verdict == "correct" for question, text in pairs)
    return {ACCURACY: right / len(questions), KL: divergence / max(length, 1), LENGTH: length / len(questions)}


def _divergence(policy: StackedPeftModel, batch: Answers) -> torch.Tensor:
    """Return KL(policy || reference) of the next token at each place of the answers, in nats."""
    ours = _logits(policy, batch)
    with use_adapter(policy, REFERENCE):
        theirs = _logits(policy, batch)
    rows = []
    for mine, other in zip(ours, theirs, strict=True):  # one at a time: a vocabulary is wide
        log_p, log_q = mine.float().log_softmax(-1), other.float().log_softmax(-1)
        rows.append((log_p.exp() * (log_p - log_q)).sum(-1))
    return torch.stack(rows)


def _logits(policy: StackedPeftModel, batch: Answers) -> torch.Tensor:
    places = (batch.attended.cumsum(dim=1) - 1).clamp(min=0)
    kept = batch.written.shape[1] + 1
    outputs = policy(
        input_ids=batch.ids, attention_mask=batch.attended, position_ids=places, use_cache=False, logits_to_keep=kept
    )
    return outputs.logits[:, :-1]
