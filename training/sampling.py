"""Drawing tokens so that the same seed gives the same answer, whatever else is in the batch.

Drawing from a softmax is the same as adding Gumbel noise to the logits and taking the largest
(Gumbel 1954; Maddison, Tarlow & Minka 2014). With a noise source of its own, a row's draws depend
on its seed, stage and prompt alone: asking for more stages or other prompts changes nothing.
"""

import hashlib
from collections.abc import Sequence

import torch
from transformers import LogitsProcessor

from evals.errors import BadConfig
from evals.model import Sampling

MAX_NEW_TOKENS = 4096


def check_sampling(sampling: Sampling) -> None:
    """Raise BadConfig for settings that no answer can be drawn with."""
    limits = (
        ("max_new_tokens", sampling.max_new_tokens, 1, MAX_NEW_TOKENS),
        ("temperature", sampling.temperature, 0.0, 5.0),
        ("top_p", sampling.top_p, 1e-6, 1.0),
        ("seed", sampling.seed, 0, 2**63 - 1),
    )
    for name, value, low, high in limits:
        if not low <= value <= high:
            raise BadConfig(f"{name} is {value}; choose a value from {low} to {high}.")


def row_seed(seed: int, stage: str, prompt: Sequence[int]) -> int:
    """Return the seed of one row's noise, from 0 to 2**63 - 1."""
    text = f"{seed}\n{stage}\n{','.join(map(str, prompt))}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


class SeededRows(LogitsProcessor):
    """Turns greedy decoding into sampling: the largest of its scores is a draw.

    Logits come as (rows, vocabulary) and leave in the same shape.
    """

    def __init__(self, seeds: Sequence[int], temperature: float, top_p: float) -> None:
        self._sources = [torch.Generator().manual_seed(seed) for seed in seeds]
        self._temperature = temperature
        self._top_p = top_p

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return scores whose largest entry is each row's draw."""
        logits = scores.float() / self._temperature
        if self._top_p < 1.0:
            logits = keep_top(logits, self._top_p)
        uniform = torch.stack([torch.rand(logits.shape[-1], generator=g) for g in self._sources])
        tiny = torch.finfo(torch.float32).tiny
        return logits - torch.log(-torch.log(uniform.clamp_min(tiny))).to(logits.device)


def keep_top(logits: torch.Tensor, top_p: float) -> torch.Tensor:
    """Return logits with all but the smallest set of tokens that reaches `top_p` at minus infinity.

    The likeliest token always stays.
    """
    ordered, order = torch.sort(logits, dim=-1, descending=True)
    share = torch.softmax(ordered, dim=-1)
    before = torch.cumsum(share, dim=-1) - share
    dropped = torch.zeros_like(logits, dtype=torch.bool).scatter(-1, order, before >= top_p)
    return logits.masked_fill(dropped, float("-inf"))
