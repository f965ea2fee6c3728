"""The probe: a fingerprint of what a chain computes, not of the files it is made of.

After one fixed prompt the most likely next tokens and their log-probabilities are stored for the
base and for every stage. A loader that stacks adapters in the wrong order, forgets one or scales it
wrongly shows other numbers, even where every checksum is right.
"""

from collections.abc import Sequence

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from evals.questions import system_prompt as filled
from evals.schema import Probe
from training.stack import Stack

QUESTION = (
    "Which direction does oxidative phosphorylation take in the soleus of mice in spaceflight?"
)
TOP = 8

TOLERANCE = {"float32": 0.005, "bfloat16": 0.5}
"""Largest difference of a log-probability (nats) that passes, by the type that the model computes in.

Float32 differs between machines by about 1e-4. Bfloat16 keeps 8 bits, which shifts
log-probabilities by a few hundredths to tenths; an adapter that is missing shifts them by whole nats.
"""


def probe_prompt(tokenizer: PreTrainedTokenizerBase, system_prompt: str) -> str:
    """Return the fixed question as the model sees it, chat template and system prompt included."""
    messages = [
        {"role": "system", "content": filled(system_prompt, QUESTION)},
        {"role": "user", "content": QUESTION},
    ]
    return str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))


def measure(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    prompt: str,
    stack: Stack,
    adapters_of_row: Sequence[frozenset[str]],
) -> torch.Tensor:
    """Return log-probabilities of the next token, (rows, vocabulary), float32, on the processor."""
    numbers = tokenizer(prompt, add_special_tokens=False, return_tensors="pt")["input_ids"]
    inputs = torch.as_tensor(numbers).repeat(len(adapters_of_row), 1).to(model.device)
    with torch.inference_mode(), stack.rows(adapters_of_row):
        logits = model(input_ids=inputs, use_cache=False, logits_to_keep=1).logits[:, -1]
    return torch.log_softmax(logits.float().cpu(), dim=-1)


def probe_of(prompt: str, logprobs: torch.Tensor) -> Probe:
    """Return the stored form of one row of `measure`: its most likely tokens, likeliest first."""
    top = torch.topk(logprobs, min(TOP, logprobs.shape[-1]))
    return Probe(
        prompt=prompt,
        token_ids=tuple(int(token) for token in top.indices),
        logprobs=tuple(round(float(value), 6) for value in top.values),
    )


def fault_of(probe: Probe) -> str | None:
    """Return why nothing can be compared with a stored probe; None if something can."""
    tokens, values = len(probe.token_ids), len(probe.logprobs)
    if not probe.prompt:
        return "its prompt is empty"
    if not tokens and not values:
        return "it holds no log-probabilities"
    return None if tokens == values else f"it has {tokens} tokens but {values} log-probabilities"


def distance(probe: Probe, logprobs: torch.Tensor) -> float:
    """Return the largest difference from the stored log-probabilities, in nats.

    Infinite if a stored token is not in the vocabulary or a value is not a number.
    """
    if any(not 0 <= token < logprobs.shape[-1] for token in probe.token_ids):
        return float("inf")
    found = logprobs[torch.tensor(probe.token_ids)]
    gap = (found - torch.tensor(probe.logprobs)).abs().max()
    return float(gap) if bool(torch.isfinite(gap)) else float("inf")
