"""`assay review infer`: papers to concerns, by a chain on this machine or by a server."""

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from evals.errors import BadConfig, LabError
from lab.commands.tables import counted, emit, notes, table_of

if TYPE_CHECKING:
    from evals.schema import Article
    from evals.schema.reviewruns import ReviewedRow, ReviewRun
    from training.models.base import Dtype
    from training.reviewer.engine import Asking, Engine


class Split(StrEnum):
    """Which of the papers."""

    train = "train"
    dev = "dev"
    test = "test"
    all = "all"


class Constrain(StrEnum):
    """Whether answers are held to the JSON schema."""

    auto = "auto"
    always = "always"
    never = "never"


class Weights(StrEnum):
    """How a local model is held in memory."""

    float32 = "float32"
    bfloat16 = "bfloat16"
    nf4 = "nf4"


Out = Annotated[Path, typer.Option("--out", help="The .jsonl file to write the rows to.")]
Papers = Annotated[
    str,
    typer.Option(
        "--papers", help="A file or folder of `assay data review`, one paper (.pdf, .xml, .md, .txt), or demonstration."
    ),
]
Which = Annotated[Split, typer.Option("--split", help="Papers of this split alone.")]
Chain = Annotated[str, typer.Option("--chain", help="Who reviews: reviewer, a run folder, chain.json, base:NAME.")]
Stage = Annotated[str, typer.Option("--stage", help="A stage of the chain; its last if not named.")]
Server = Annotated[str, typer.Option("--server", help="Or a server: http://127.0.0.1:8000/v1.")]
Model = Annotated[str, typer.Option("--model", help="The server's model; needless if it has one.")]
KeyEnv = Annotated[str, typer.Option("--key-env", help="The variable that holds the server's key.")]
Remote = Annotated[bool, typer.Option("--allow-remote", help="Papers may be sent to another machine.")]
TokenizerOf = Annotated[
    str, typer.Option("--tokenizer", help="Who counts a server's tokens: embedded, a folder, a Hub id.")
]
Context = Annotated[
    int, typer.Option("--context", help="Tokens of paper and reply; 0 = 16,384 or what the model reads.")
]
Tokens = Annotated[int, typer.Option("--max-new-tokens", help="Longest reply to a part, tokens.")]
Temperature = Annotated[float, typer.Option("--temperature", help="Of sampling; 0 = greedy.")]
TopP = Annotated[float, typer.Option("--top-p", help="Of sampling.")]
Penalty = Annotated[float, typer.Option("--repetition-penalty", help="1 = none.")]
MaxParts = Annotated[int, typer.Option("--max-parts", help="Parts that a long paper is read in.")]
Overlap = Annotated[int, typer.Option("--overlap", help="Tokens that a part repeats.")]
Batch = Annotated[int, typer.Option("--batch", help="Parts that are asked about at a time.")]
Held = Annotated[
    Constrain, typer.Option("--constrain", help="Hold answers to the JSON schema: auto = where it can be done.")
]
Dtype_ = Annotated[Weights, typer.Option("--dtype", help="Weights of a local model.")]
Limit = Annotated[int, typer.Option("--limit", help="The first N papers alone; 0 = all.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Make rows that are there anew.")]
Seed = Annotated[int, typer.Option(help="Of sampling.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]


def infer(
    out: Out,
    papers: Papers = "demonstration",
    split: Which = Split.test,
    chain: Chain = "reviewer",
    stage: Stage = "",
    server: Server = "",
    model: Model = "",
    key_env: KeyEnv = "",
    allow_remote: Remote = False,
    tokenizer: TokenizerOf = "",
    context: Context = 0,
    max_new_tokens: Tokens = 2_048,
    temperature: Temperature = 0.1,
    top_p: TopP = 0.9,
    repetition_penalty: Penalty = 1.05,
    seed: Seed = 0,
    max_parts: MaxParts = 4,
    overlap: Overlap = 200,
    batch: Batch = 4,
    constrain: Held = Constrain.auto,
    dtype: Dtype_ = Weights.float32,
    limit: Limit = 0,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Review papers and write one row each: concerns, what was answered, how it ended, how long it took.

    Given again after an interruption it goes on: good rows stand, papers without one are asked about
    again. Long papers are read in overlapping parts whose concerns are merged. Rows can be cleaned,
    scored and merged as they are; how they came about stands beside them in NAME.run.json.

    Example: assay review infer --papers corpus --split test --chain reviewer --out predictions.jsonl
    """
    from training.reviewer.engine import Asking
    from training.reviewer.infer import Clocks, Job, ReviewFile
    from training.reviewer.infer import infer as run_all

    asking = Asking(
        max_new_tokens=max_new_tokens,
        temperature=temperature,
        top_p=top_p,
        repetition_penalty=repetition_penalty,
        seed=seed,
        context=context,
        overlap=overlap,
        max_parts=max_parts,
        constrain=constrain.value,
    )
    articles = _articles(papers, split, limit)
    engine = (
        _server(server, (model, key_env, allow_remote, tokenizer), asking)
        if server
        else _local(chain, stage, dtype.value, asking)
    )
    job = Job(articles, engine, asking, batch)
    with reviewing_bar(len(articles)) as progress:
        run = run_all(
            job, ReviewFile(out), Clocks(time.monotonic, lambda: datetime.now(UTC)), progress, overwrite=overwrite
        )
    _report(run, out, as_json=as_json)
    if unanswered := run.finish_reasons.get("error", 0):
        notes.print(
            f"{counted(unanswered, 'paper')} got no answer; {out} says why. Give the same command again to"
            " ask about them once more.",
            soft_wrap=True,
        )
        raise typer.Exit(1)


def _articles(papers: str, split: Split, limit: int) -> "list[Article]":
    """Return the papers, without what reviewers said of them."""
    from evals.papers.collection import read_collection
    from evals.papers.families import split_by_family
    from evals.papers.reading import read_article_file

    path = Path(papers)
    if path.is_file() and path.suffix not in (".jsonl", ".parquet"):
        return [read_article_file(path)]
    collection = read_collection(papers)
    examples = collection.examples
    if not collection.has_splits and split is not Split.all:
        if path.is_file():
            raise BadConfig(f"the papers of {papers} belong to no split; give --split all to review every one.")
        examples = split_by_family(examples, 0)
    chosen = [each.article for each in examples if split is Split.all or each.split == split.value]
    if not chosen:
        raise LabError(f"{papers} holds no papers of the split {split.value}; name another with --split.")
    return chosen[:limit] if limit else chosen


def _local(chain: str, stage: str, dtype: "Dtype", asking: "Asking") -> "Engine":
    from lab.settings import from_environment
    from training.models.chain import load_chain
    from training.reviewer.engine import ChainEngine

    def tell(_: float, message: str) -> None:
        notes.print(message)

    loaded = load_chain(chain, dtype, tell, cache=from_environment().cache)
    return ChainEngine(loaded, asking, stage)


def _server(url: str, told: tuple[str, str, bool, str], asking: "Asking") -> "Engine":
    from training.data.tokens import ChatCounter
    from training.models.base import find_base, load_tokenizer
    from training.reviewer.engine import Room
    from training.reviewer.server import Estimate, ServerEngine, ServerSettings

    model, key_env, allow_remote, tokenizer = told
    counter: ChatCounter | Estimate = Estimate()
    if tokenizer:
        found = find_base(tokenizer, lambda _, message: notes.print(message))
        counter = ChatCounter(load_tokenizer(found), found.public_name)
    else:
        notes.print("note: tokens are estimated, one for three characters; name the model's own with --tokenizer")
    room = Room(counter, asking.context or 16_384)
    return ServerEngine(ServerSettings(url, model, key_env, allow_remote), asking, room)


@contextmanager
def reviewing_bar(total: int) -> Generator[Callable[[int, int, "ReviewedRow | None"], None]]:
    """Show how many papers are done, and what the last one gave, on standard error."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Bars(*columns, console=notes) as bars:
        task = bars.add_task("reviewing", total=total)

        def progress(done: int, of: int, row: "ReviewedRow | None") -> None:
            if row is None:
                if done:
                    notes.print(f"{done} of {of} papers have a good row already")
            else:
                said = counted(len(row.concerns), "concern")
                notes.print(f"{row.article_id}: {row.status}, {said}, {row.seconds:.1f} s")
            bars.update(task, completed=done, total=of)

        yield progress


def _report(run: "ReviewRun", out: Path, *, as_json: bool) -> None:
    rows: list[Sequence[object]] = [
        ("papers", run.articles),
        ("of them reviewed before", run.reviewed_before),
        *((f"status {name}", count) for name, count in run.by_status.items()),
        *((f"finish reason {name}", count) for name, count in run.finish_reasons.items()),
        ("concerns", run.concerns),
        ("held to", run.engine.constraint),
    ]
    if run.seconds_per_article is not None:
        spread = run.seconds_per_article
        rows.append(("seconds per paper: median, longest", f"{spread.median:g}, {spread.high:g}"))
    for note in run.engine.substitutions:
        notes.print(f"note: {note}", soft_wrap=True)
    emit(run, as_json=as_json, table=table_of(str(out), ("what", "value"), rows))
