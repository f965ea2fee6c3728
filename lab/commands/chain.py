"""`assay chain`: which chains are here, whether they are what they claim, and those of the Hub. `assay ask`: ask one."""

import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.text import Text

from evals.confidence import read_confidence
from evals.errors import LabError
from evals.model import Progress, Sampling
from evals.questions import find
from evals.schema import ChainManifest, Completion, Record, StatedConfidence, Verdict
from evals.verifiers import verify
from lab.console import emit, notes, table_of
from lab.settings import from_environment

if TYPE_CHECKING:
    from training.streaming import Piece

app = typer.Typer(
    no_args_is_help=True, help="Chains of adapters: list, show, check, add a published one."
)

RUNS = Path("runs")
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]
BaseName = Annotated[
    str | None,
    typer.Option("--base", help="The base model, if it is not where the chain says."),
]
Name = Annotated[
    str, typer.Argument(help="embedded, a run folder, a chain.json, or base:NAME (asking only).")
]


class ListedChain(Record):
    """One chain that is here, or why its file cannot be read."""

    name: str
    stages: tuple[str, ...] = ()
    base: str | None = None
    problem: str | None = None


class Answered(Record):
    """One stage's answer with what it says about itself and, for a known question, what is true."""

    completion: Completion
    confidence: StatedConfidence
    verdict: Verdict | None


class Asked(Record):
    """What `assay ask --json` prints."""

    question: str
    chain: str
    settings: dict[str, str | int | float]
    answers: tuple[Answered, ...]


@app.command("list")
def list_chains(
    runs: Annotated[Path, typer.Option(help="Where training runs are kept.")] = RUNS,
    as_json: AsJson = False,
) -> None:
    """List the chains here: the embedded one and those of training runs.

    Example: assay chain list --runs runs
    """
    found = list(_chains_in(runs))
    rows = [(each.name, " → ".join(each.stages), each.base or each.problem) for each in found]
    emit(found, as_json=as_json, table=table_of("Chains", ("name", "stages", "base"), rows))


@app.command()
def show(name: Name, as_json: AsJson = False) -> None:
    """Show a chain's manifest: its base, its stages and their checksums.

    Example: assay chain show runs/grpo
    """
    from training.manifest import read_chain

    manifest = read_chain(name).manifest
    emit(
        manifest,
        as_json=as_json,
        table=table_of(manifest.name, ("what", "value"), _facts(manifest)),
    )


@app.command()
def check(name: Name, base: BaseName = None, as_json: AsJson = False) -> None:
    """Check a chain against what is here: base, tokenizer, adapters, and what it computes.

    Ends with exit code 1 if anything is wrong. Example: assay chain check embedded
    """
    from training.chain import check_chain

    cache = from_environment().cache
    with _progress() as progress:
        findings = check_chain(name, progress, base=base, cache=cache)
    rows = [
        (each.subject, each.check, "ok" if each.is_ok else "WRONG", each.detail)
        for each in findings
    ]
    columns = ("subject", "check", "", "detail")
    document = [
        dict(zip(("subject", "check", "result", "detail"), row, strict=True)) for row in rows
    ]
    emit(document, as_json=as_json, table=table_of(f"Chain {name}", columns, rows))
    wrong = sum(not each.is_ok for each in findings)
    if wrong:
        raise LabError(f"{wrong} of {len(findings)} checks failed; the table says what to do.")


@app.command()
def add(
    source: Annotated[str, typer.Argument(help="ORG/NAME, or ORG/NAME@TAG for one version.")],
    name: Annotated[
        str | None, typer.Option(help="What to call it here. Default: the repository's name.")
    ] = None,
    runs: Annotated[Path, typer.Option(help="Where training runs are kept.")] = RUNS,
    as_json: AsJson = False,
) -> None:
    """Bring a published chain here, every stage, each file compared with the chain's checksums.

    Example: assay chain add my-org/my-adapter@v1.0
    """
    from hub.chains import fetch_chain
    from hub.client import connect

    folder = runs / (name or source.split("@")[0].rsplit("/", 1)[-1])
    manifest = fetch_chain(connect(), source, folder, lambda words: notes.print(words))
    document = {"folder": str(folder), "stages": [stage.name for stage in manifest.stages]}
    emit(
        document, as_json=as_json, table=table_of(str(folder), ("what", "value"), _facts(manifest))
    )
    notes.print(f"ask it: assay ask --chain {folder} · check it: assay chain check {folder}")


def ask(
    question: Annotated[str, typer.Argument(help="What to ask.")],
    chain: Annotated[
        str, typer.Option(help="embedded, a run folder, or base:embedded.")
    ] = "embedded",
    base: BaseName = None,
    stage: Annotated[str, typer.Option(help="Stages with commas between, or all.")] = "all",
    max_new_tokens: Annotated[int, typer.Option(help="Longest answer, in tokens.")] = 128,
    temperature: Annotated[float, typer.Option(help="0 = always the likeliest token.")] = 0.0,
    seed: Annotated[int, typer.Option(help="Same seed, same draws.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Ask a question; every stage answers as it writes.

    Example: assay ask "Which direction does glycolysis take in the thymus?" --stage base,sft
    """
    from training.chain import load_chain

    sampling = Sampling(max_new_tokens=max_new_tokens, temperature=temperature, seed=seed)
    with _progress() as progress:
        loaded = load_chain(chain, progress=progress, base=base, cache=from_environment().cache)
    for substitution in loaded.substitutions:
        notes.print(f"note: {substitution}")
    stages = loaded.stages if stage == "all" else tuple(stage.split(","))
    pieces = loaded.stream(loaded.messages(question), stages, sampling, threading.Event())
    texts = _Texts(stages)
    with Live(console=Console(quiet=as_json), auto_refresh=False, transient=True) as screen:
        for piece in pieces:
            texts.add(piece)
            screen.update(texts.drawn(), refresh=True)
    asked = Asked(
        question=question,
        chain=loaded.manifest.name,
        settings={**asdict(sampling), "dtype": loaded.dtype},
        answers=tuple(_judged(question, completion) for completion in texts.completions()),
    )
    if as_json:
        emit(asked, as_json=True)
    else:
        Console().print(Group(*(_panel(answer) for answer in asked.answers)))


class _Texts:
    """What each stage has written so far."""

    def __init__(self, stages: tuple[str, ...]) -> None:
        self._texts = dict.fromkeys(stages, "")
        self._last: dict[str, Piece] = {}

    def add(self, piece: "Piece") -> None:
        self._texts[piece.stage] += piece.text
        self._last[piece.stage] = piece

    def drawn(self) -> Group:
        return Group(
            *(
                Panel(_printable(text), title=stage, title_align="left")
                for stage, text in self._texts.items()
            )
        )

    def completions(self) -> list[Completion]:
        return [
            Completion(
                stage=stage,
                text=text,
                n_tokens=self._last[stage].n_tokens,
                finish_reason=self._last[stage].finish_reason or "cancelled",
            )
            for stage, text in self._texts.items()
        ]


def _judged(question: str, completion: Completion) -> Answered:
    example = find(question)
    return Answered(
        completion=completion,
        confidence=read_confidence(completion.text),
        verdict=verify(example, completion.text) if example else None,
    )


def _panel(answer: Answered) -> Panel:
    """Return an answer with, below it, the confidence that it states and the verdict on it."""
    stated = answer.confidence
    notice = f"confidence: {stated.status}" if stated.value is None else f"{stated.value:.0%} sure"
    if answer.verdict:
        notice += f" · {answer.verdict.verdict}: {answer.verdict.reason}"
    if answer.completion.finish_reason == "length":
        notice += " · cut at the length limit"
    return Panel(
        _printable(answer.completion.text),
        title=answer.completion.stage,
        title_align="left",
        subtitle=Text(notice),
        subtitle_align="left",
    )


def _printable(text: str) -> Text:
    """Return text that cannot steer the terminal: control characters are shown as a mark."""
    return Text("".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in text))


@contextmanager
def _progress() -> Generator[Progress]:
    """Show what is being done on standard error, on one line, for as long as it takes."""
    with notes.status("starting") as status:
        yield lambda share, message: status.update(f"{message} ({share:.0%})")


def _chains_in(runs: Path) -> Iterator[ListedChain]:
    """Yield the embedded chain, if it was trained, and every run folder with a chain."""
    from training.manifest import EMBEDDED, FILE_NAME, chain_file, read_chain

    names = [EMBEDDED] if chain_file(EMBEDDED).is_file() else []
    names += [str(file.parent) for file in sorted(runs.glob(f"*/{FILE_NAME}"))]
    for name in names:
        try:
            manifest = read_chain(name).manifest
        except LabError as error:
            yield ListedChain(name=name, problem=str(error))
        else:
            stages = ("base", *(stage.name for stage in manifest.stages))
            yield ListedChain(name=name, stages=stages, base=_base_name(manifest))


def _facts(manifest: ChainManifest) -> list[tuple[str, str]]:
    base = manifest.base
    rows = [
        ("base", _base_name(manifest)),
        ("base licence", base.licence or "not recorded"),
        ("base weights", base.weights_sha256),
        ("tokenizer", base.tokenizer_sha256),
        ("chat template", base.template_sha256),
        ("vocabulary", f"{base.vocab_size:,}"),
        ("system prompt", manifest.system_prompt),
    ]
    for stage in manifest.stages:
        rows += [
            (f"stage {stage.name}", f"{stage.kind}, {stage.mode}, {stage.path}, {stage.sha256}")
        ]
    return rows


def _base_name(manifest: ChainManifest) -> str:
    base = manifest.base
    name = base.hub_id if base.hub_id in (base.source, None) else f"{base.source} ({base.hub_id})"
    return f"{name or base.source}{f' at {base.revision}' if base.revision else ''}"
