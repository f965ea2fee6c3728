"""A chain of adapters in use: loaded on one base, checked against its manifest, asked by stage.

    load_chain("embedded").generate(prompts, ("base", "sft"), Sampling())
    check_chain("runs/mine")

The loader refuses a chain that does not match: other base weights, another tokenizer or chat
template, a changed or missing adapter, or other numbers than the stored probe.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from transformers import PreTrainedTokenizerBase

from evals.errors import MissingModel
from evals.model import Progress, Sampling
from evals.questions import SYSTEM_PROMPT, system_prompt_for
from evals.schema import ChainManifest, Completion, Message
from training.models.adapters import read_adapter
from training.models.base import (
    EMBEDDED,
    Base,
    Dtype,
    best_device,
    default_cache,
    find_base,
    identity_of,
    is_at_hand,
    load_model,
    load_tokenizer,
    silent,
    unpacked_weights,
)
from training.models.check import (
    TOLERANCE,
    Finding,
    broken_probe_finding,
    distance,
    fault_of,
    file_findings,
    measure,
    probe_finding,
    probe_of,
    probe_prompt,
    refuse,
)
from training.models.generation import Form, Manner, Piece, Writer
from training.models.manifest import BARE, BASE_STAGE, Chain, active_adapters, chain_file, read_chain
from training.models.stack import Stack
from training.models.start import NewStage, append_stage

__all__ = [
    "Chain",
    "Finding",
    "LoadedChain",
    "NewStage",
    "Piece",
    "append_stage",
    "chain_file",
    "check_chain",
    "load_chain",
    "read_chain",
]


class LoadedChain:
    """A chain on one base in memory. Safe to use from several threads: batches take turns.

    `base` is the base as it was found, which other chains may share (`load_chain(beside=...)`). `stage_checksums` are the SHA-256 of the base's weights and of each adapter; `substitutions`
    say where the base is not the one that was named.
    """

    def __init__(self, manifest: ChainManifest, base: Base, writer: Writer, dtype: Dtype) -> None:
        self.manifest = manifest
        self.base = base
        self.dtype = dtype
        self.substitutions = base.substitutions
        self.stages = (BASE_STAGE, *(stage.name for stage in manifest.stages))
        self.stage_checksums = {
            BASE_STAGE: manifest.base.weights_sha256,
            **{stage.name: stage.sha256 for stage in manifest.stages},
        }
        self._writer = writer

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """What divides texts into the tokens that the chain reads."""
        return self._writer.tokenizer

    @property
    def context(self) -> int:
        """How many tokens question and answer may have together."""
        return self._writer.context

    @property
    def stack(self) -> Stack:
        """The model with the adapters laid over it."""
        return self._writer.stack

    def messages(self, question: str) -> tuple[Message, ...]:
        """Return a question as the stages were trained to read it: after the system prompt."""
        return self._prompt((Message(role="user", content=question),))

    def generate(
        self, prompts: Sequence[Sequence[Message]], stages: Sequence[str], sampling: Sampling, form: Form | None = None
    ) -> list[list[Completion]]:
        """Return one list per prompt, in it one completion per stage, in the order asked.

        A prompt without a system message is given the chain's own. A `form` holds what is written.
        Raises LabError for an empty or too long prompt, BadConfig for an unknown stage or setting.
        """
        whole = [self._prompt(prompt) for prompt in prompts]
        return self._writer.write(whole, stages, sampling, form)

    def stream(
        self,
        prompt: Sequence[Message],
        stages: Sequence[str],
        sampling: Sampling,
        stop: threading.Event,
        form: Form | None = None,
    ) -> Iterator[Piece]:
        """Yield the stages' answers as they are written, a last piece with a reason for each.

        Bad input is raised here, before anything is written. Setting `stop` ends the answers
        within a token; so does closing the iterator.
        """
        rows = self._writer.rows(self._prompt(prompt), stages, sampling, thinks=form is None)
        return self._writer.stream(rows, Manner(sampling, form), stop)

    def form(self, schema: Mapping[str, object] | None = None, repetition_penalty: float = 1.0) -> Form:
        """Return a form that this chain's answers can be held to, made for its tokenizer."""
        return Form(self.tokenizer, self._writer.ends, schema, repetition_penalty)

    def _prompt(self, prompt: Sequence[Message]) -> tuple[Message, ...]:
        if prompt and prompt[0].role == "system":
            return tuple(prompt)
        told = system_prompt_for(self.manifest.system_prompt, prompt[-1].content if prompt else "")
        return (Message(role="system", content=told), *prompt)


def load_chain(
    name: str | Path,
    dtype: Dtype = "bfloat16",
    progress: Progress | None = None,
    *,
    base: str | None = None,
    cache: Path | None = None,
    beside: Sequence[LoadedChain] = (),
) -> LoadedChain:
    """Return the chain called `name`, every check passed, on an accelerator where there is one.

    `name` is "embedded", a run folder, a chain.json, or base:NAME for a base model alone. `base`
    names the base model where it is not where the manifest says. A base that one of the chains `beside`
    stands on is not loaded again: both then take turns on it. Raises MissingModel if something is not here, ChainMismatch if something is not what it was when the chain was made.
    """
    report = progress or silent
    if str(name).startswith(BARE):
        return _load_bare(str(name).removeprefix(BARE), dtype, report, cache, beside)
    chain = read_chain(name)
    found = find_base(base or base_source(chain, cache), _first_half(report), cache)
    report(0.5, "checking the chain")
    other = _on_same_base(found, dtype, beside)
    tokenizer = other.tokenizer if other else load_tokenizer(found)
    refuse(name, file_findings(chain, found, tokenizer, other.manifest.base if other else None))
    report(0.6, "loading the model")
    running = _Running(chain, other.stack if other else _stack_of(found, dtype), tokenizer, dtype)
    report(0.9, "checking what the chain computes")
    refuse(name, running.probe_findings())
    report(1.0, "ready")
    return LoadedChain(chain.manifest, found, running.writer(), dtype)


def check_chain(
    name: str | Path, progress: Progress | None = None, *, base: str | None = None, cache: Path | None = None
) -> tuple[Finding, ...]:
    """Return all that was checked, right or wrong; the probe (float32) only if the files are right.

    Raises MissingModel if the chain or its base is not here at all, ChainMismatch if chain.json cannot be read.
    """
    chain = read_chain(name)
    found = find_base(base or base_source(chain, cache), progress, cache)
    tokenizer = load_tokenizer(found)
    findings = file_findings(chain, found, tokenizer)
    if all(finding.is_ok for finding in findings):
        findings += _Running(chain, _stack_of(found, "float32"), tokenizer, "float32").probe_findings()
    return findings


def _on_same_base(base: Base, dtype: Dtype, chains: Sequence[LoadedChain]) -> LoadedChain | None:
    wanted = (base.folder, base.weights_sha256, dtype)
    return next((each for each in chains if (each.base.folder, each.base.weights_sha256, each.dtype) == wanted), None)


def _stack_of(base: Base, dtype: Dtype) -> Stack:
    return Stack(load_model(base, dtype, best_device()), {})


class _Running:
    """A chain's adapters on its base, before anybody may ask it anything."""

    def __init__(self, chain: Chain, stack: Stack, tokenizer: PreTrainedTokenizerBase, dtype: Dtype) -> None:
        stages = chain.manifest.stages
        self._manifest = chain.manifest
        self._dtype = dtype
        self._tokenizer, self._stack = tokenizer, stack
        with stack.lock:
            mine = f"{len(stack.adapters)}/"  # two chains may have stages of one name
            stack.add({f"{mine}{stage.name}": read_adapter(chain.adapter_folder(stage)) for stage in stages})
        self._active = {
            stage: frozenset(f"{mine}{name}" for name in names) for stage, names in active_adapters(stages).items()
        }

    def writer(self) -> Writer:
        return Writer(self._stack, self._tokenizer, self._active)

    def probe_findings(self) -> tuple[Finding, ...]:
        """Return one finding per stage, or one that says why the probe cannot be compared."""
        if self._dtype == "nf4":
            return (Finding("chain", "probe", True, "not compared: 4-bit weights compute otherwise"),)
        probes = {BASE_STAGE: self._manifest.base_probe}
        probes |= {stage.name: stage.probe for stage in self._manifest.stages}
        faults = {stage: fault for stage, probe in probes.items() if (fault := fault_of(probe))}
        if faults:
            return tuple(broken_probe_finding(stage, fault) for stage, fault in faults.items())
        prompt = self._manifest.base_probe.prompt
        rows = [self._active[stage] for stage in probes]
        with self._stack.lock:
            measured = measure(self._stack.model, self._tokenizer, prompt, self._stack, rows)
        return tuple(
            probe_finding(stage, distance(probe, logprobs), TOLERANCE[self._dtype])
            for (stage, probe), logprobs in zip(probes.items(), measured, strict=True)
        )


def _load_bare(
    source: str, dtype: Dtype, report: Progress, cache: Path | None, beside: Sequence[LoadedChain]
) -> LoadedChain:
    base = find_base(source, _first_half(report), cache)
    report(0.6, "loading the model")
    other = _on_same_base(base, dtype, beside)
    stack, tokenizer = (other.stack, other.tokenizer) if other else (_stack_of(base, dtype), load_tokenizer(base))
    prompt = probe_prompt(tokenizer, SYSTEM_PROMPT)
    with stack.lock:
        (measured,) = measure(stack.model, tokenizer, prompt, stack, [frozenset()])
    manifest = ChainManifest(
        name=f"{BARE}{base.public_name}",
        system_prompt=SYSTEM_PROMPT,
        base=identity_of(base, tokenizer),
        base_probe=probe_of(prompt, measured),
        stages=(),
    )
    report(1.0, "ready")
    return LoadedChain(manifest, base, Writer(stack, tokenizer, active_adapters(())), dtype)


def base_source(chain: Chain, cache: Path | None = None) -> str:
    """Return the name to find the chain's base by: its exact commit where it came from the Hub.

    A published copy of the embedded base is not fetched where the very same weights were unpacked in
    `cache` and are sound there, or can be unpacked again. A local folder is looked for in the chain's own folder, beside that, and from here; MissingModel
    if it is in none of them.
    """
    base, cache = chain.manifest.base, cache or default_cache()
    if base.weights_sha256 == unpacked_weights(cache) and is_at_hand(cache):
        return EMBEDDED
    if base.hub_id and base.revision:
        return f"{base.hub_id}@{base.revision}"
    if base.hub_id or base.source == EMBEDDED:
        return base.source
    places = (chain.folder, chain.folder.parent, Path.cwd())
    found = (place / base.source for place in places if (place / base.source).is_dir())
    folder = next(found, None)
    if folder is None:
        raise MissingModel(
            f"no base model {base.source!r}: the chain was trained on a local folder of that name, which"
            f" is not in {chain.folder}, not beside it, and not in {Path.cwd()}. Put it into one of them,"
            " or name it with --base."
        )
    return str(folder)


def _first_half(report: Progress) -> Progress:
    return lambda share, text: report(0.5 * share, text)
