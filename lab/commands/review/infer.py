"""`assay review infer`: papers to concerns, by a chain on this machine or by a server, or to a report on stages."""

import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Group, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars
from rich.text import Text

from evals.errors import BadConfig, IncomparableReports, LabError, MissingModel
from evals.io import public_path, write_whole
from evals.review import DEMONSTRATION, is_demonstration
from evals.review.places import Map, as_letter, as_markdown, line
from evals.review.prompt import TokenCounter
from evals.schema import Article, ReviewExample
from evals.schema.reviewruns import PAPER_NOTE
from lab.commands import Json, KeyEnv, Remote, Retries, Timeout
from lab.commands.terminal import counted, emit, notes, summary_table, table_of
from lab.settings import from_environment
from lab.ui.text import say

if TYPE_CHECKING:
    from evals.review.match import Encoder
    from evals.schema.reports import ReviewReport
    from evals.schema.reviewruns import ReviewedRow, ReviewRun
    from training.models.chain import LoadedChain
    from training.reviewer.engine import Asking, ReviewEngine


Weights = Literal["float32", "bfloat16", "nf4"]


def infer(
    out: Annotated[Path, typer.Option(help="The .jsonl file to write the rows to, or a .json file for a report.")],
    paper: Annotated[str, typer.Argument(help="The same as --papers.", show_default=False)] = "",
    papers: Annotated[
        str,
        typer.Option(
            "--papers",
            "--data",
            help="A file or folder of `assay data review`, one paper (.pdf, .xml, .docx, .tex, .md, .txt), or demonstration.",
        ),
    ] = "demonstration",
    split: Annotated[Literal["train", "dev", "test", "all"], typer.Option(help="Papers of this split alone.")] = "test",
    chain: Annotated[
        str, typer.Option(help="Who reviews: reviewer, a run folder, chain.json, base:NAME.")
    ] = "reviewer",
    stage: Annotated[str, typer.Option(help="A stage; the last if not named. For a report: several, or all.")] = "",
    server: Annotated[str, typer.Option(help="Or a server: http://127.0.0.1:8000/v1.")] = "",
    staged: Annotated[
        bool,
        typer.Option(
            "--staged",
            help="In stages: summary, concerns by section, one list, and what the paper contradicts dropped.",
        ),
    ] = False,
    model: Annotated[str, typer.Option(help="The server's model; needless if it has one.")] = "",
    key_env: KeyEnv = "",
    allow_remote: Remote = False,
    timeout: Timeout = 600,
    retries: Retries = 3,
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
    words: Annotated[
        Literal["md", "letter"] | None,
        typer.Option("--format", help="Also write the concerns in words: NAME.md or NAME-letter.md beside the rows."),
    ] = None,
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
    if named := given.pop("paper"):
        if papers not in ("demonstration", named):
            raise BadConfig(f"papers are named twice, {named} and --papers {papers}; name them once.")
        given["papers"] = named
    if out.suffix == ".json":
        return report_on_stages(given)
    run = review_papers(given)
    if run.by_status.get("failed", 0) == run.articles:
        raise typer.Exit(1)


def review_papers(given: Mapping[str, Any]) -> "ReviewRun":
    """Review papers as the options of `infer` say, show how it went, and return the run's record.

    Ends with exit code 1 where a paper, or a part of one, got no answer.
    """
    from training.reviewer.engine import Asking, ChainEngine
    from training.reviewer.infer import Clocks, ReviewFile, ReviewPlan
    from training.reviewer.infer import infer as run_all
    from training.reviewer.staged import StagedEngine

    asking = Asking(**{each.name: given[each.name] for each in fields(Asking)})
    articles = read_articles(given["papers"], given["split"], given["limit"])
    if given["server"]:
        engine = _server(given, asking)
    else:
        chain = _chain(given["chain"], given["dtype"])
        engine = ChainEngine(chain, asking, given["stage"])
        if is_demonstration(engine.stage, chain.stage_checksums):
            notes.print(f"note: {given['chain']}: {DEMONSTRATION}", soft_wrap=True)
    if given["staged"]:
        engine = StagedEngine(engine, given["batch"])
    plan, out = ReviewPlan(articles, engine, asking, given["batch"]), given["out"]
    file = ReviewFile(out)
    with progress_bar(len(articles)) as (progress, within):
        clocks = Clocks(time.monotonic, lambda: datetime.now(UTC))
        run = run_all(plan, file, clocks, progress, within, overwrite=given["overwrite"])
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
    shown: list[RenderableType] = [table_of(str(out), ("what", "value"), rows)]
    if len(articles) == 1:
        row = file.rows[articles[0].id]
        shown.append(Text(f"\n{_in_words(articles[0], row, run, 'md')}"))
        shown += [
            Text(f"dropped: {line(each.text)}\n  the paper says: {line(each.sentence)} ({each.by})")
            for each in row.dropped
        ]
        for problem in (each for each in row.problems if not each.startswith(PAPER_NOTE)):
            notes.print(f"note: {line(problem)}", soft_wrap=True, markup=False)
    emit(run, as_json=given["as_json"], table=Group(*shown))
    if kind := given["words"]:
        read = [article for article in articles if file.rows[article.id].status != "failed"]
        path = out.with_suffix(".md") if kind == "md" else out.with_name(f"{out.stem}-letter.md")
        write_whole(path, "\n".join(_in_words(article, file.rows[article.id], run, kind) for article in read))
        notes.print(f"wrote {path}: {counted(len(read), 'paper')}", soft_wrap=True)
    ends = Counter(map(_how_it_ended, (file.rows[article.id] for article in articles)))
    for end in ("unanswered", "in_part", "unread"):
        if n := ends[end]:
            notes.print(say(f"command.{end}", papers=counted(n, "paper"), out=out), soft_wrap=True)
    if ends["unanswered"] or ends["in_part"]:
        raise typer.Exit(1)
    return run


def _how_it_ended(row: "ReviewedRow") -> Literal["unanswered", "in_part", "unread", "read"]:
    """Return whether a paper got no answer, or only to a part of it, or one that cannot be read."""
    if any(part.error for part in row.parts):
        return "unanswered" if row.status == "failed" else "in_part"
    return "unread" if row.status == "failed" else "read"


def _in_words(article: Article, row: "ReviewedRow", run: "ReviewRun", kind: Literal["md", "letter"]) -> str:
    """Return the review of a paper in Markdown, or as a letter to its authors."""
    title = article.title.strip() or article.origin.file or article.id
    if kind == "letter":
        return as_letter(title, row.concerns)
    places = Map(article)
    why = f" ({'; '.join(row.problems[:3])})" if row.problems else ""
    by = f"Written by {run.engine.name} on {run.started_at:%Y-%m-%d}, status {row.status}{why}. Nobody has checked it."
    return as_markdown(title, [(each, places.place(each.text)) for each in row.concerns], by)


def _chain(name: str, dtype: Weights) -> "LoadedChain":
    from training.models.chain import load_chain
    from training.models.manifest import chain_file
    from training.run.folder import RunFolder

    if not chain_file(name).is_file() and (unfinished := RunFolder(Path(name)).unfinished()):
        raise MissingModel(f"{name} is no chain yet: {unfinished}.")
    return load_chain(name, dtype, lambda _, message: notes.print(message), cache=from_environment().cache)


def read_articles(papers: str, split: str = "all", limit: int = 0) -> list[Article]:
    """Return the papers of a collection, without what reviewers said of them, or the one in a file."""
    return [each.article for each in read_papers(papers, split, limit)]


def read_papers(papers: str, split: str, limit: int = 0) -> list[ReviewExample]:
    """Return the papers of a split with what reviewers said of them, or the one in a file, of which nobody did.

    What the reader of a paper could not read or left out is printed.
    """
    found = _papers(papers, split, limit)
    for each in found:
        for note in each.origin.notes:
            notes.print(f"note: {each.id}: {PAPER_NOTE}{note}", soft_wrap=True)
    return found


def _papers(papers: str, split: str, limit: int) -> list[ReviewExample]:
    from evals.papers import read_article_file
    from evals.papers.collection import read_collection
    from evals.papers.families import split_by_family

    path = Path(papers)
    if path.is_file() and path.suffix not in (".jsonl", ".parquet"):
        article = read_article_file(path)
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


def _server(given: Mapping[str, Any], asking: "Asking") -> "ReviewEngine":
    from training.judge.prompts import ServerSettings
    from training.reviewer.engine import Room
    from training.reviewer.remote import Estimate, ServerEngine

    counter: TokenCounter = Estimate()
    if given["tokenizer"]:
        from training.data.tokens import ChatCounter
        from training.models.base import find_base, load_tokenizer

        found = find_base(given["tokenizer"], lambda _, message: notes.print(message))
        counter = ChatCounter(load_tokenizer(found), found.public_name)
    else:
        notes.print("note: tokens are estimated, one for three characters; name the model's own with --tokenizer")
    settings = ServerSettings(
        given["server"],
        given["model"],
        given["key_env"],
        given["allow_remote"],
        timeout_seconds=given["timeout"],
        retries=given["retries"],
    )
    return ServerEngine(settings, asking, Room(counter, asking.context or 16_384))


@contextmanager
def progress_bar(
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


def find_cached(name: str) -> "Encoder":
    """Return an encoder whose vectors are kept on disk; progress is shown."""
    from evals.review.match import CachedEncoder
    from training.encoders import find_encoder
    from training.models.base import default_cache

    def report(done: int, total: int) -> None:
        if done == total or done % 1024 == 0:
            notes.print(f"encoded {done} of {total} texts")

    return CachedEncoder(find_encoder(name), default_cache() / "vectors", report)


SCORING = ("cap", "encoder", "threshold", "seed")
ASKING = ("split", "limit", "dtype", "temperature", "max_new_tokens", "context", "max_parts")


def report_on_stages(given: dict[str, Any]) -> None:
    """Write a report on the stages asked for by the options of `assay review infer`."""
    from evals.io import read_rows
    from evals.report import save_report
    from evals.review.records import made_by
    from evals.schema.reviewruns import ReviewedRow
    from lab.results.evaluations import command_line
    from training.models.manifest import BASE_STAGE, read_chain
    from training.reviewer.measure import graded, read_measure
    from training.run.folder import versions

    papers = read_papers(given["papers"], given["split"], given["limit"])
    measure = read_measure({name: given[name] for name in SCORING}, "the command line")
    nothing = {each.id: () for each in papers}
    graded({"": (nothing, None)}, papers, measure, find_cached)  # what is missing is told before hours of asking
    names = [""] if given["server"] else given["stage"].split(",")
    if names == ["all"]:
        names = [BASE_STAGE, *(each.name for each in read_chain(given["chain"]).manifest.stages)]
    out, stages, made = given["out"], {}, None
    partial = out.with_name(f"{out.name}.partial")
    for name in names:
        rows = partial / f"{name or 'last'}.jsonl"
        options: dict[str, Any] = given | {"out": rows, "stage": name, "as_json": False}
        with redirect_stdout(sys.stderr):
            review_papers(options)
        made = made_by(rows)
        said = {row.article_id: row.concerns for row in read_rows(rows, ReviewedRow)}
        stages[name or (made and made.stage) or "server"] = said, made
    corpus, told = public_path(given["papers"]), given | {"server": "URL" if given["server"] else "", "words": ""}
    report = graded(
        stages,
        papers,
        measure,
        find_cached,
        data_name=f"{corpus} ({counted(len(papers), 'paper')}, {given['split']})",
        chain_name=made.name if made else "",
        settings={name: given[name] for name in (*ASKING, *SCORING)} | {"papers": corpus},
        created_at=datetime.now(UTC),
        command=command_line(
            task="review", **{key: v for key, v in told.items() if v != "" and not isinstance(v, bool)}
        ),
        libraries=versions(),
    )
    save_report(report, out)
    shutil.rmtree(partial)
    notes.print(f"wrote {out}: {counted(len(report.rows), 'answer')} to {counted(len(papers), 'paper')}")
    emit(report, as_json=given["as_json"], table=summary_table(report))


def rescore_review(old: "ReviewReport", path: Path) -> "ReviewReport":
    """Return a report with what was said cleaned and matched by this version."""
    from training.reviewer.measure import graded, read_measure

    known: dict[str, Any] = old.settings
    if "papers" not in known:
        raise LabError(
            f"{path} keeps no texts, as what `assay review score` writes; give that command the rows again, or review"
            " anew: assay eval run --task review --out REPORT.json"
        )
    papers = read_papers(known["papers"], known["split"], known["limit"])
    measure = read_measure({name: known[name] for name in SCORING}, str(path))
    said = {stage: (each.said, each.made_by) for stage, each in old.stages.items()}
    kept = ("data_name", "chain_name", "settings", "created_at", "command", "libraries")
    found = graded(said, papers, measure, find_cached, **{name: getattr(old, name) for name in kept})
    if found.data_sha256 != old.data_sha256:
        raise IncomparableReports(
            f"{known['papers']} holds other papers or human concerns than those that were reviewed; put those of then"
            " there, or review anew: assay eval run --task review --out REPORT.json"
        )
    return found
