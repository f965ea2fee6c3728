"""`assay review infer`: papers to concerns, by a chain on this machine or by a server."""

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from evals.errors import BadConfig, LabError, MissingModel
from evals.review import DEMONSTRATION, is_demonstration
from evals.schema import Article, ReviewExample
from lab.commands import Json, KeyEnv, Remote
from lab.commands.terminal import counted, emit, notes, table_of
from lab.settings import from_environment
from lab.ui.text import say

if TYPE_CHECKING:
    from evals.schema.reviewruns import ReviewedRow
    from training.reviewer.engine import Asking, ReviewEngine


Weights = Literal["float32", "bfloat16", "nf4"]
DOCLING = "docling.document_converter"


def infer(
    out: Annotated[Path, typer.Option(help="The .jsonl file to write the rows to, or a .json file for a report.")],
    papers: Annotated[
        str,
        typer.Option(
            "--papers",
            "--data",
            help="A file or folder of `assay data review`, one paper (.pdf, .xml, .md, .txt), or demonstration.",
        ),
    ] = "demonstration",
    split: Annotated[Literal["train", "dev", "test", "all"], typer.Option(help="Papers of this split alone.")] = "test",
    reader: Annotated[
        Literal["assay", "docling"],
        typer.Option(help="Who reads a PDF: docling where it is installed (layout models; minutes a paper)."),
    ] = "assay",
    chain: Annotated[
        str, typer.Option(help="Who reviews: reviewer, a run folder, chain.json, base:NAME.")
    ] = "reviewer",
    stage: Annotated[str, typer.Option(help="A stage; the last if not named. For a report: several, or all.")] = "",
    server: Annotated[str, typer.Option(help="Or a server: http://127.0.0.1:8000/v1.")] = "",
    staged: Annotated[
        bool,
        typer.Option(
            "--staged",
            help="With --server: summary, concerns by section, merge, and what the paper contradicts dropped.",
        ),
    ] = False,
    model: Annotated[str, typer.Option(help="The server's model; needless if it has one.")] = "",
    key_env: KeyEnv = "",
    allow_remote: Remote = False,
    tokenizer: Annotated[str, typer.Option(help="Who counts a server's tokens: embedded, a folder, a Hub id.")] = "",
    context: Annotated[int, typer.Option(help="Tokens of paper and reply; 0 = 16,384 or what the model reads.")] = 0,
    max_new_tokens: Annotated[int, typer.Option(help="Longest reply to a part, tokens.")] = 2_048,
    temperature: Annotated[float, typer.Option(help="Of sampling; 0 = greedy.")] = 0.1,
    top_p: Annotated[float, typer.Option(help="Of sampling.")] = 0.9,
    repetition_penalty: Annotated[float, typer.Option(help="1 = none.")] = 1.05,
    seed: Annotated[int, typer.Option(help="Of sampling.")] = 0,
    max_parts: Annotated[int, typer.Option(help="Parts that a long paper is read in.")] = 4,
    overlap: Annotated[int, typer.Option(help="Tokens that a part repeats.")] = 200,
    batch: Annotated[int, typer.Option(help="Parts that are asked about at a time.")] = 4,
    constrain: Annotated[
        Literal["auto", "always", "never"],
        typer.Option(help="Hold answers to the JSON schema: auto = where it can be done."),
    ] = "auto",
    dtype: Annotated[Weights, typer.Option(help="Weights of a local model.")] = "float32",
    limit: Annotated[int, typer.Option(help="The first N papers alone; 0 = all.")] = 0,
    cap: Annotated[int, typer.Option(help="For a report: concerns kept of each paper; 0 = all.")] = 20,
    encoder: Annotated[str, typer.Option(help="For a report: as in `assay review score`.")] = "embedded",
    threshold: Annotated[str, typer.Option(help="For a report: as in `assay review score`.")] = "",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Make rows that are there anew.")] = False,
    as_json: Json = False,
) -> None:
    """Review papers and write one row each: concerns, what was answered, how it ended, how long it took.

    Given again after an interruption it goes on: good rows stand, papers without one are asked about
    again. Long papers are read in overlapping parts whose concerns are merged. Rows can be cleaned,
    scored and merged as they are; how they came about stands beside them in NAME.run.json.

    `assay eval run --task review` is this command. With --out NAME.json the rows of every stage asked are cleaned and
    scored, and one report keeps what was said. Until it is whole, rows stand in NAME.json.partial.

    Example: assay review infer --papers corpus --split test --chain reviewer --out predictions.jsonl
    """
    given = dict(locals())
    from training.models.chain import load_chain
    from training.models.manifest import chain_file
    from training.reviewer.engine import Asking, ChainEngine
    from training.reviewer.infer import Clocks, ReviewFile, ReviewPlan
    from training.reviewer.infer import infer as run_all
    from training.run.folder import RunFolder

    if out.suffix == ".json":
        from lab.commands.review.scores import report_on_stages

        return report_on_stages(given)
    asking = Asking(**{each.name: given[each.name] for each in fields(Asking)})
    if staged and not server:
        raise BadConfig("--staged asks a server: name one with --server URL; `assay chain serve` serves a chain.")
    articles = papers_named(papers, split, limit, reader)
    if server:
        engine: ReviewEngine = _server(server, model, key_env, allow_remote, tokenizer, asking, staged=staged)
    else:
        if not chain_file(chain).is_file() and (unfinished := RunFolder(Path(chain)).unfinished()):
            raise MissingModel(f"{chain} is no chain yet: {unfinished}.")
        cache = from_environment().cache
        loaded = load_chain(chain, dtype, lambda _, message: notes.print(message), cache=cache)
        engine = ChainEngine(loaded, asking, stage)
        if is_demonstration(engine.stage, loaded.stage_checksums):
            notes.print(f"note: {chain}: {DEMONSTRATION}", soft_wrap=True)
    plan = ReviewPlan(articles, engine, asking, batch)
    with reviewing_bar(len(articles)) as (progress, within):
        clocks = Clocks(time.monotonic, lambda: datetime.now(UTC))
        run = run_all(plan, ReviewFile(out), clocks, progress, within, overwrite=overwrite)
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
    if unanswered := run.finish_reasons.get("error", 0):
        papers = counted(unanswered, "paper")
        notes.print(say("command.unanswered", papers=papers, out=out), soft_wrap=True)
        raise typer.Exit(1)


def papers_named(papers: str, split: str = "all", limit: int = 0, reader: str = "assay") -> list[Article]:
    """Return the papers of a collection, without what reviewers said of them, or the one in a file."""
    return [each.article for each in reviewed_papers(papers, split, limit, reader)]


def _by_docling(path: Path) -> Article:
    """Return a paper as docling reads it, by way of the Markdown it writes; LabError where it is not installed."""
    from evals.papers import read_article

    try:
        docling = import_module(DOCLING)
    except ImportError:
        raise LabError(say("command.no_docling")) from None
    text = docling.DocumentConverter().convert(path).document.export_to_markdown()
    return read_article(text.encode(), f"{path.stem}.md")


def reviewed_papers(papers: str, split: str, limit: int = 0, reader: str = "assay") -> list[ReviewExample]:
    """Return the papers of a split with what reviewers said of them, or the one in a file, of which nobody did."""
    from evals.papers import read_article_file
    from evals.papers.collection import read_collection
    from evals.papers.families import split_by_family

    path = Path(papers)
    if path.is_file() and path.suffix not in (".jsonl", ".parquet"):
        article = read_article_file(path) if reader == "assay" else _by_docling(path)
        return [ReviewExample(**dict(article), family=article.id, concerns=())]
    collection = read_collection(papers)
    examples = collection.examples
    if not collection.has_splits and split != "all":
        if path.is_file():
            raise BadConfig(f"the papers of {papers} belong to no split; give --split all to review every one.")
        examples = split_by_family(examples, 0)
    chosen = [each for each in examples if split == "all" or each.split == split]
    if not chosen:
        raise LabError(f"{papers} holds no papers of the split {split}; name another with --split.")
    return chosen[:limit] if limit else chosen


def _server(
    url: str, model: str, key_env: str, allow_remote: bool, tokenizer: str, asking: "Asking", *, staged: bool
) -> "ReviewEngine":
    from training.data.tokens import ChatCounter
    from training.models.base import find_base, load_tokenizer
    from training.reviewer.engine import Room
    from training.reviewer.remote import Estimate, ServerEngine, ServerSettings
    from training.reviewer.staged import StagedEngine

    counter: ChatCounter | Estimate = Estimate()
    if tokenizer:
        found = find_base(tokenizer, lambda _, message: notes.print(message))
        counter = ChatCounter(load_tokenizer(found), found.public_name)
    else:
        notes.print("note: tokens are estimated, one for three characters; name the model's own with --tokenizer")
    room = Room(counter, asking.context or 16_384)
    engine = StagedEngine if staged else ServerEngine
    return engine(ServerSettings(url, model, key_env, allow_remote), asking, room)


@contextmanager
def reviewing_bar(
    total: int,
) -> Generator[tuple[Callable[[int, int, "ReviewedRow | None"], None], Callable[[str], None]]]:
    """Show how many papers are done, what the last one gave, and how far it is within one, on standard error.

    Where that is no terminal, a line tells of each part and of every 100 tokens.
    """
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

        def within(told: str) -> None:
            bars.update(task, description=told)
            if not notes.is_terminal and (told.endswith("00 tokens") or "tokens" not in told):
                notes.print(told)

        yield progress, within
