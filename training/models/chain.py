"""A chain of adapters in use: loaded on one base, checked against its manifest, asked by stage.

    load_chain("embedded").generate(prompts, ("base", "sft"), Sampling())
    check_chain("runs/mine")

The loader refuses a chain that does not match: other base weights, another tokenizer or chat
template, a changed or missing adapter, or other numbers than the stored probe.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from transformers import PreTrainedTokenizerBase

from evals.errors import MissingModel
from evals.questions import SYSTEM_PROMPT, system_prompt_for
from evals.schema import ChainManifest, Completion, Message
from evals.schema.questions import Progress, Sampling, TokenScore
from training.data.tokens import ChatCounter, marks_of
from training.models.adapters import read_adapter
from training.models.base import (
    EMBEDDED,
    FOLDER_NAME,
    Base,
    Dtype,
    accelerator,
    copy_fault,
    default_cache,
    embedded_gguf,
    find_base,
    identity_of,
    load_model,
    load_tokenizer,
    local_base,
    no_progress,
    stream_model,
    tokenizer_sha256,
    unpacked_weights,
    usual_dtype,
)
from training.models.batching import shared_batcher, unbatched_layers
from training.models.check import (
    TOLERANCE,
    ChainFinding,
    file_findings,
    measure,
    probe_finding,
    probe_of,
    probe_prompt,
    refuse_chain,
)
from training.models.generation import Form, Piece, Writer
from training.models.manifest import BARE, BASE_STAGE, Chain, active_adapters, chain_file, mend_tokenizer, read_chain
from training.models.stack import FOREGROUND, Stack, pack

if TYPE_CHECKING:
    from training.serve.hosted import HostedModels


class LoadedChain(Writer):
    """A chain on one base in memory. Safe to use from several threads: batches take turns.

    `base` is the base as it was found, which other chains may share (`load_chain(beside=...)`).
    `held` says what is in memory: chains for which it is the same may share it. `stage_checksums` are the SHA-256 of the base's weights and of each adapter; `substitutions` say where the
    base is not the one that was named. A prompt without a system message is given the chain's own.

    `hosted` are stages that servers answer (`training.serve.hosted.with_hosted`). `lend` is given the chain and what
    `stream` takes, and writes an answer with a GPU that is lent for its length alone (`lab.gpu`).
    """

    hosted: "HostedModels | None" = None
    lend: Callable[..., Iterator[Piece]] | None = None

    def __init__(
        self,
        manifest: ChainManifest,
        base: Base,
        dtype: Dtype,
        stack: Stack,
        tokenizer: PreTrainedTokenizerBase,
        active: Mapping[str, frozenset[str]],
    ) -> None:
        super().__init__(stack, tokenizer, active)
        self.manifest, self.base, self.dtype = manifest, base, dtype
        self.held = (base.folder, base.weights_sha256, base.tokenizer, dtype)
        self.substitutions = base.substitutions
        self.stages = (BASE_STAGE, *(stage.name for stage in manifest.stages))
        self.stage_checksums = {
            BASE_STAGE: manifest.base.weights_sha256,
            **{stage.name: stage.sha256 for stage in manifest.stages},
        }

    @property
    def counter(self) -> ChatCounter:
        """Who counts the tokens that this chain reads."""
        return ChatCounter(self.tokenizer, self.manifest.base.source)

    @property
    def marks(self) -> tuple[str, ...]:
        """The control marks of the base's template, as they are written."""
        return marks_of(self.tokenizer).texts

    def messages(self, question: str) -> tuple[Message, ...]:
        """Return a question as the stages were trained to read it: after the system prompt."""
        return self.prompt((Message(role="user", content=question),))

    def prompt(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """Return a conversation with the chain's system prompt, unless it has one or the chain has none."""
        if messages and messages[0].role == "system":
            return tuple(messages)
        told = system_prompt_for(self.manifest.system_prompt, messages[-1].content if messages else "")
        return (Message(role="system", content=told), *messages) if told else tuple(messages)

    def generate(
        self,
        prompts: Sequence[Sequence[Message]],
        stages: Sequence[str],
        sampling: Sampling,
        form: Form | None = None,
        told: Callable[[int], None] | None = None,
    ) -> list[list[Completion]]:
        """Return answers as `Writer.generate` does; LabError where a server gives none."""
        here = [stage for stage in stages if stage not in (self.hosted or ())]
        rows = super().generate(prompts, here, sampling, form, told) if here or not stages else [[] for _ in prompts]
        if self.hosted is None or len(here) == len(stages):
            return rows
        return self.hosted.complete(rows, list(map(self.prompt, prompts)), stages, sampling)

    def token_scores(
        self, prompts: Sequence[Sequence[Message]], stage: str, texts: Sequence[str], sampling: Sampling
    ) -> list[Sequence[TokenScore]]:
        """Return what `Writer.token_scores` does, of a hosted stage by asking it again; LabError where it tells nothing."""
        if self.hosted is None or stage not in self.hosted:
            return super().token_scores(prompts, stage, texts, sampling)
        return self.hosted[stage].token_scores(list(map(self.prompt, prompts)), texts, sampling)

    def stream(
        self,
        prompt: Sequence[Message],
        stages: Sequence[str],
        sampling: Sampling,
        stop: threading.Event,
        form: Form | None = None,
    ) -> Iterator[Piece]:
        """Yield answers as they are written, those of this machine as rows of the batch that all readers of this base share.

        Closing the iterator stops the writing, too. A base that no batch can be kept running of answers as
        `Writer.stream` does. A hosted answer is one piece, whose note says its cost or its problem.
        """
        here = [stage for stage in stages if stage not in (self.hosted or ())]
        # What answers are held to does not travel to where a GPU is lent: those run here.
        write = self.write if self.lend is None or form else partial(self.lend, self)
        pieces = write(prompt, here, sampling, stop, *([form] if form else [])) if here or not stages else iter(())
        if self.hosted is None or len(here) == len(stages):
            return pieces
        return self.hosted.stream(pieces, self.prompt(prompt), stages, sampling, stop)

    def write(
        self,
        prompt: Sequence[Message],
        stages: Sequence[str],
        sampling: Sampling,
        stop: threading.Event,
        form: Form | None = None,
    ) -> Iterator[Piece]:
        """Yield the answers of the chain's own stages, written here and now."""
        if unbatched_layers(self.stack.model):
            return super().stream(prompt, stages, sampling, stop, form)
        rows = self.rows(prompt, stages, sampling, thinks=form is None)

        def pieces() -> Iterator[Piece]:
            with FOREGROUND.answering():  # while the batch is made, too: nothing comes between
                yield from shared_batcher(self).stream(self, rows, sampling, stop, form)

        return pieces()

    def form(self, schema: Mapping[str, object] | None = None, repetition_penalty: float = 1.0) -> Form:
        """Return a form that this chain's answers can be held to, made for its tokenizer."""
        return Form(self.tokenizer, self.ends, schema, repetition_penalty)


def load_chain(
    name: str | Path,
    dtype: Dtype | None = None,
    progress: Progress | None = None,
    *,
    base: str | None = None,
    cache: Path | None = None,
    beside: Sequence[LoadedChain] = (),
) -> LoadedChain:
    """Return the chain called `name`, every check passed, on an accelerator where there is one.

    `name` is "embedded", a run folder, a chain.json, or base:NAME for a base model alone. `base`
    names the base model where it is not where the manifest says. Without a `dtype` it is the base's usual one. A base that one of the chains `beside`
    stands on is not loaded again: both then take turns on it. Raises MissingModel if something is not here, ChainMismatch if something is not what it was when the chain was made.
    """
    report = progress or no_progress
    chain = None if str(name).startswith(BARE) else read_chain(name)
    if chain is None:
        found = find_base(str(name).removeprefix(BARE), _first_half(report), cache)
    else:
        found = chain_base(chain, base, _first_half(report), cache)
    report(0.5, "checking the chain")
    dtype = dtype or usual_dtype(found)
    held = (found.folder, found.weights_sha256, found.tokenizer, dtype)
    other = next((each for each in beside if each.held == held), None)
    tokenizer = other.tokenizer if other else load_tokenizer(found)
    if chain is not None:
        refuse_chain(name, file_findings(chain, found, tokenizer, other.manifest.base if other else None))
    report(0.6, "loading the model")
    stack = other.stack if other else _stack_of(found, dtype)
    if chain is None:
        manifest, active = _bare_manifest(found, stack, tokenizer), active_adapters(())
    else:
        manifest, active = chain.manifest, _laid_over(stack, chain)
        report(0.9, "checking what the chain computes")
        refuse_chain(name, _probe_findings(manifest, stack, active, tokenizer, dtype))
    report(1.0, "ready")
    return LoadedChain(manifest, found, dtype, stack, tokenizer, active)


def check_chain(
    name: str | Path,
    progress: Progress | None = None,
    *,
    base: str | None = None,
    cache: Path | None = None,
    mend: bool = False,
) -> tuple[ChainFinding, ...]:
    """Return all that was checked, right or wrong; the probe (float32) only if the files are right.

    With `mend`, a checksum that an earlier version took from a tokenizer which a trainer had changed is corrected in
    chain.json and in those of the stages before, if everything else is right. Raises MissingModel if the chain or its
    base is not here at all, ChainMismatch if chain.json cannot be read.
    """
    chain, report = read_chain(name), progress or no_progress
    found = chain_base(chain, base, _first_half(report), cache)
    report(0.5, "checking the files")
    tokenizer = load_tokenizer(found)
    findings = file_findings(chain, found, tokenizer)
    if all(finding.is_ok or finding.is_mendable for finding in findings):
        report(0.6, "checking what the chain computes")
        with stream_model(found) as model:
            stack = Stack(model, {})
            findings += _probe_findings(chain.manifest, stack, _laid_over(stack, chain), tokenizer, "float32")
    is_sound = all(finding.is_ok or finding.is_mendable for finding in findings)
    if mend and is_sound and any(finding.is_mendable for finding in findings):
        now = tokenizer_sha256(tokenizer)
        files = mend_tokenizer(chain, chain_file(name), now)
        told = f"{now[:12]}…, corrected in {', '.join(map(str, files))}"
        findings = tuple(replace(each, is_ok=True, detail=told) if each.is_mendable else each for each in findings)
    return findings


def _stack_of(base: Base, dtype: Dtype) -> Stack:
    model = load_model(base, dtype, accelerator())
    if not unbatched_layers(model):
        pack(model)
    return Stack(model, {})


def _laid_over(stack: Stack, chain: Chain) -> dict[str, frozenset[str]]:
    """Lay a chain's adapters over the base and return those at work in each stage, by their names there."""
    stages = chain.manifest.stages
    with FOREGROUND.answering(), stack.lock:
        mine = f"{len(stack.adapters)}/"  # two chains may have stages of one name
        stack.add({f"{mine}{stage.name}": read_adapter(chain.adapter_folder(stage)) for stage in stages})
    return {stage: frozenset(f"{mine}{name}" for name in names) for stage, names in active_adapters(stages).items()}


def _probe_findings(
    manifest: ChainManifest,
    stack: Stack,
    active: Mapping[str, frozenset[str]],
    tokenizer: PreTrainedTokenizerBase,
    dtype: Dtype,
) -> tuple[ChainFinding, ...]:
    """Return one finding per stage, or one that says why the probe is not compared."""
    if dtype == "nf4":
        return (ChainFinding("chain", "probe", True, "not compared: 4-bit weights compute otherwise"),)
    probes = {BASE_STAGE: manifest.base_probe, **{stage.name: stage.probe for stage in manifest.stages}}
    with FOREGROUND.answering(), stack.lock:
        rows = [active[stage] for stage in probes]
        measured = measure(stack.model, tokenizer, manifest.base_probe.prompt, stack, rows)
    return tuple(
        probe_finding(stage, probe, logprobs, TOLERANCE[dtype])
        for (stage, probe), logprobs in zip(probes.items(), measured, strict=True)
    )


def _bare_manifest(base: Base, stack: Stack, tokenizer: PreTrainedTokenizerBase) -> ChainManifest:
    """Return what a chain.json of the base alone would hold."""
    prompt = probe_prompt(tokenizer, SYSTEM_PROMPT)
    with FOREGROUND.answering(), stack.lock:
        (measured,) = measure(stack.model, tokenizer, prompt, stack, [frozenset()])
    return ChainManifest(
        name=f"{BARE}{base.public_name}",
        system_prompt=SYSTEM_PROMPT,
        base=identity_of(base, tokenizer),
        base_probe=probe_of(prompt, measured),
        stages=(),
    )


def chain_base(
    chain: Chain,
    named: str | None = None,
    progress: Progress | None = None,
    cache: Path | None = None,
    *,
    needs_weights: bool = True,
) -> Base:
    """Return the base that a chain stands on, `named` where it lies elsewhere, with the chain's own tokenizer if it has one."""
    found = find_base(named or base_source(chain, cache), progress, cache, needs_weights=needs_weights)
    return replace(found, tokenizer=chain.tokenizer_folder)


def base_source(chain: Chain, cache: Path | None = None) -> str:
    """Return the name to find the chain's base by: its exact commit where it came from the Hub.

    A published copy of the embedded base is not fetched where the very same weights were unpacked in
    `cache` and are sound there, or can be unpacked again. A local folder is looked for in the chain's own folder, beside that, from here, and where it was
    trained on this machine; MissingModel if it is in none of them.
    """
    base, cache = chain.manifest.base, cache or default_cache()
    is_unpacked = base.weights_sha256 == unpacked_weights(cache)
    if is_unpacked and (embedded_gguf() is not None or copy_fault(cache / FOLDER_NAME) is None):
        return EMBEDDED
    if base.hub_id and base.revision:
        return f"{base.hub_id}@{base.revision}"
    if base.hub_id or base.source == EMBEDDED:
        return base.source
    folder = local_base(base, chain.folder)
    if folder is None:
        raise MissingModel(
            f"no base model {base.source!r}: the chain was trained on a local folder of that name, which"
            f" is not in {chain.folder}, not beside it, and not in {Path.cwd()}. Put it into one of them,"
            " or name it with --base."
        )
    return str(folder)


def _first_half(report: Progress) -> Progress:
    return lambda share, text: report(0.5 * share, text)
