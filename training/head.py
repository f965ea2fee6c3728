"""The output layer while training on a processor: it scores the tokens that are learned from, no others.

TRL 1.16 leaves the other positions (questions, padding) out on a GPU only; on a processor it projects
every position to the whole vocabulary, in the backward pass once more, and goes over the result a
dozen times. With a vocabulary of 49,152 over a model of 135 million weights that is half of the work.
Here a position without a label is never projected, and because the output layer is frozen its gradient
is known as soon as the scores are, so nothing is computed twice.
"""

import functools
from typing import Any

import torch
from torch.autograd import Function
from transformers import PreTrainedModel
from trl.trainer.utils import FusedCausalLMOutput

IGNORED = -100
"""The label of a position that nothing is learned from."""
CHUNK = 2**23
"""Scores that are held at a time, whatever the vocabulary: 32 MB in float32."""
CHANGES_SCORES = (
    "final_logit_softcapping",
    "logit_scale",
    "output_multiplier",
    "lm_head_multiplier",
    "logits_scaling",
)
"""What the configuration of a model may do to its scores; such a model is left to TRL."""


class Scores(Function):
    """Log-probabilities of labels, and what describes the distributions they are drawn from.

    `hidden` (n, size), `weight` (vocabulary, size), `labels` (n,). Returns four tensors (n,): log-
    probability (nats; the only one with a gradient, and only towards `hidden`), entropy (nats), mean
    score, and whether the label is the likeliest token.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: torch.Tensor,
        weight: torch.Tensor,
        labels: torch.Tensor,
        temperature: float,
    ) -> tuple[torch.Tensor, ...]:
        """Score all labels, a chunk of positions at a time."""
        device = hidden.device.type
        low = (
            torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden.dtype
        )
        weight = weight.to(low)
        learns = ctx.needs_input_grad[0]
        gradient = torch.empty_like(hidden, dtype=torch.float32) if learns else None
        found = torch.zeros(4, len(labels), dtype=torch.float32, device=hidden.device)
        rows = max(1, CHUNK // len(weight))
        for start in range(0, len(labels), rows):
            part = slice(start, start + rows)
            chosen = labels[part, None]
            scores = torch.mm(hidden[part].to(low), weight.t()).float()
            scores = scores.div_(temperature) if temperature != 1.0 else scores
            found[2, part] = scores.mean(-1)
            logs = scores.log_softmax(-1)
            found[0, part] = logs.gather(-1, chosen)[:, 0]
            found[3, part] = (found[0, part] >= logs.amax(-1)).float()
            shares = torch.exp(logs, out=scores)
            found[1, part] = -torch.linalg.vecdot(shares, logs)
            if gradient is not None:
                shares.scatter_add_(-1, chosen, -torch.ones_like(chosen, dtype=shares.dtype))
                gradient[part] = torch.mm(shares.to(low), weight).float().div_(-temperature)
        ctx.save_for_backward(gradient)
        logprobs, entropy, mean, is_top = found.unbind()
        top = is_top.bool()
        ctx.mark_non_differentiable(entropy, mean, top)
        return logprobs, entropy, mean, top

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """Return the gradient towards `hidden`."""
        (gradient,) = ctx.saved_tensors
        return gradient * gradients[0][:, None], None, None, None


def score_learned_tokens(model: PreTrainedModel, temperature: float = 1.0) -> None:
    """Let `model`, which TRL has given its fused head, score labelled positions only.

    Nothing changes on an accelerator, for models that rescale their scores, and where the output layer
    learns or has a bias.
    """
    whole, config = model.forward, model.config.get_text_config()
    if any(getattr(config, name, None) not in (None, 1, 1.0) for name in CHANGES_SCORES):
        return

    @functools.wraps(whole)
    def forward(
        *inputs: Any,
        fused_lm_head: bool = False,
        labels: torch.Tensor | None = None,
        **options: Any,
    ) -> Any:
        head = model.get_output_embeddings()
        if fused_lm_head and labels is not None and _is_plain(head, options):
            hidden = model.base_model(*inputs, **{**options, "use_cache": False}).last_hidden_state
            return _output(hidden[:, :-1], head.weight, labels[:, 1:], temperature)
        if labels is not None:
            options["labels"] = labels
        return whole(*inputs, fused_lm_head=fused_lm_head, **options)

    model.forward = forward


def _is_plain(head: Any, options: dict[str, Any]) -> bool:
    """Whether the output layer is an ordinary frozen one on a processor, asked in the ordinary way."""
    weight = head.weight
    return (
        weight.device.type == "cpu"
        and not weight.requires_grad
        and getattr(head, "bias", None) is None
        and not {"shift_labels", "num_items_in_batch", "output_router_logits"} & options.keys()
    )


def _output(
    hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor, temperature: float
) -> FusedCausalLMOutput:
    """Return what TRL's fused head returns: every field (rows, positions), zero where nothing is learned."""
    mask = labels != IGNORED
    logprobs, entropy, mean, is_top = (
        values.new_zeros(mask.shape).masked_scatter(mask, values)
        for values in Scores.apply(hidden[mask], weight, labels[mask], temperature)
    )
    return FusedCausalLMOutput(
        loss=-logprobs.sum() / mask.sum().clamp(min=1),
        log_probs=logprobs,
        entropy=entropy,
        mean_logits=mean,
        is_top1=is_top,
        label_mask=mask,
    )
