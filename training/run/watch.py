"""Is what was known being forgotten? The same questions, asked again and again while a model is trained.

Each look writes the model's greedy answers to a set of questions, has their answer lines judged by the
verifiers, as the reward of GRPO does, and measures how far the model has moved from its reference on the way. A look draws nothing at random,
so a run with a monitor learns the same weights as one without.
"""

from collections.abc import Generator, Sequence
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
from training.data.questions import prompt_of
from training.models.generation import end_tokens
from training.models.policy import REFERENCE, StackedPeftModel
from training.run.callbacks import alert
from training.run.session import Session

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
        list(prompts),
        add_special_tokens=False,
        padding=True,
        padding_side="left",
        return_tensors="pt",
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


def whole_model_or_refused(trainer: Trainer, setting: str) -> None:
    """Raise BadConfig where the weights are shared out, so that no process could answer by itself."""
    if trainer.is_fsdp_enabled or _zero_stage(trainer) == 3:
        raise BadConfig(
            f"{setting} needs a whole model on each process, and FSDP and ZeRO-3 share one out; set"
            f" {setting} to 0, or use a profile that does not (single, multi-gpu, zero2)."
        )


def _zero_stage(trainer: Trainer) -> int:
    plugin = trainer.accelerator.state.deepspeed_plugin
    return plugin.zero_stage if plugin is not None else 0


ACCURACY, KL = "monitor/accuracy", "monitor/kl"


@dataclass(frozen=True)
class Limits:
    """What is too much: a fall in accuracy (0..1), a distance from the reference (nats per token)."""

    max_drop: float
    max_kl: float
    stop: bool = False


@dataclass(frozen=True)
class Look:
    """What was seen at one moment.

    `accuracy` is the share of questions answered right; `kl` the mean over the answers' tokens of
    KL(policy || reference) of the next token, exact over the vocabulary, in nats; `length` the mean
    length of an answer in tokens.
    """

    accuracy: float
    kl: float
    length: float


@dataclass(frozen=True)
class Watch:
    """What is asked, and how: `tokens` is the longest answer."""

    questions: Sequence[Example]
    system_prompt: str
    tokens: int

    def look(self, policy: StackedPeftModel, tokenizer: PreTrainedTokenizerBase) -> Look:
        """Return what the policy answers now, and how far that is from its reference."""
        right, lengths, divergences = 0, 0, 0.0
        with torch.no_grad(), evaluating(policy):
            for start in range(0, len(self.questions), ROWS):
                rows = self.questions[start : start + ROWS]
                batch = answered(policy, tokenizer, self._prompts(tokenizer, rows), self.tokens)
                texts = tokenizer.batch_decode(batch.tokens(), skip_special_tokens=True)
                right += sum(
                    verify(row, text, read="answer").verdict == "correct" for row, text in zip(rows, texts, strict=True)
                )
                lengths += int(batch.written.sum())
                divergences += float((_divergence(policy, batch) * batch.written).sum())
        count = len(self.questions)
        return Look(right / count, divergences / max(lengths, 1), lengths / count)

    def _prompts(self, tokenizer: PreTrainedTokenizerBase, rows: Sequence[Example]) -> list[str]:
        return [
            str(
                tokenizer.apply_chat_template(
                    prompt_of(row, self.system_prompt), tokenize=False, add_generation_prompt=True
                )
            )
            for row in rows
        ]


class ForgettingMonitor(TrainerCallback):
    """Looks before the first step, every `steps` steps and after the last; says when limits break.

    Figures go where the trainer's go. With `limits.stop` the run is stopped, a checkpoint kept.
    """

    def __init__(self, trainer: Trainer, watch: Watch, limits: Limits, steps: int, session: Session) -> None:
        """Watch `trainer`; BadConfig where its weights are sharded, so that no process has a model."""
        self._trainer, self._watch, self._limits = trainer, watch, limits
        self._steps, self._session = steps, session
        self._first: float | None = None
        whole_model_or_refused(trainer, "monitor_steps")

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **others: Any
    ) -> None:
        """Look at what is known before anything is learned; a resumed run remembers it."""
        known = [row[ACCURACY] for row in state.log_history if ACCURACY in row]
        self._first = known[0] if known else self._look(state, control).accuracy

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **others: Any) -> None:
        """Look, and compare with the first time."""
        if state.global_step % self._steps and state.global_step < state.max_steps:
            return
        look = self._look(state, control)
        for complaint in self._complaints(look):
            if state.is_world_process_zero:
                alert(self._session.run, state.global_step, complaint)
            if self._limits.stop:
                self._session.stop.ask(complaint)

    def _look(self, state: TrainerState, control: TrainerControl) -> Look:
        """Return what the first process sees, so that all of them decide alike."""
        policy = self._trainer.accelerator.unwrap_model(self._trainer.model)
        tokenizer = self._trainer.processing_class
        assert isinstance(policy, StackedPeftModel)
        assert isinstance(tokenizer, PreTrainedTokenizerBase)
        with self._trainer.accelerator.autocast():
            seen: list[Any] = [self._watch.look(policy, tokenizer)]
        look = broadcast_object_list(seen)[0]
        log_is_due = control.should_log  # logging here must not take the place of the trainer's own
        Trainer.log(self._trainer, {ACCURACY: look.accuracy, KL: look.kl, "monitor/length": look.length})
        control.should_log = log_is_due
        return look

    def _complaints(self, look: Look) -> list[str]:
        first, limits = self._first or 0.0, self._limits
        found = []
        if first - look.accuracy > limits.max_drop:
            found.append(
                f"of {len(self._watch.questions)} watched questions {look.accuracy:.0%} are answered right,"
                f" {first:.0%} before training: knowledge is being lost; raise beta or lower"
                " learning_rate"
            )
        if look.kl > limits.max_kl:
            found.append(
                f"answers are {look.kl:.2g} nats per token away from the reference (allowed"
                f" {limits.max_kl:g}): raise beta or lower learning_rate"
            )
        return found


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
        input_ids=batch.ids,
        attention_mask=batch.attended,
        position_ids=places,
        use_cache=False,
        logits_to_keep=kept,
    )
    return outputs.logits[:, :-1]
