"""Greedy answers of a model in the middle of its training, which draws nothing at random for them."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from bitsandbytes.nn import Linear4bit
from transformers import GenerationConfig, PreTrainedModel, PreTrainedTokenizerBase, Trainer

from evals.errors import BadConfig
from training.generation import end_tokens
from training.policy import StackedPeftModel

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
