"""`assay review infer`: papers to concerns, by a chain on this machine or by a server, or to a report on stages."""

import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager, redirect_stdout
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from evals.errors import BadConfig, IncomparableReports, LabError
from evals.io import public_path, read_rows, write_whole
from evals.papers.places import Map, as_letter, as_markdown, line
from evals.review.clean import maker_of
from evals.review.prompt import TokenCounter
from evals.schema import Article, ReviewExample
from evals.schema.articles import PAPER_NOTE, ReviewedRow, ReviewRun
from evals.schema.reports import ReviewReport
from evals.schema.runs import DEMONSTRATION, is_demonstration
from lab.commands import FileSettings, InFile
from lab.commands.terminal import as_table, emit, notes, plural, progress_shown, summary_table
from lab.settings import from_environment
from lab.ui.text import say
from training.judge.prompts import HttpSettings
from training.models.manifest import BASE_STAGE, read_chain

if TYPE_CHECKING:
    from evals.review.match import Encoder
    from training.models.chain import LoadedChain
    from training.reviewer.engine import Asking, ReviewEngine


class ReviewServer(FileSettings):
    """Settings of asking a server about papers."""

    server: str = ""
    """A server to ask: URL or URL#MODEL, such as http://127.0.0.1:8000/v1."""
    timeout: float = 600
    """Seconds that a reply of the server may take."""
    retries: int = 3
    """How often a server that fails or is busy is asked again."""
    key_env: Annotated[str, InFile()] = ""
    """The variable that holds the key of the server."""
    allow_remote: Annotated[bool, InFile()] = False
    """Let a server on another machine read the papers."""

    def address(self) -> HttpSettings:
        """Return where the server is, and how patiently it is asked."""
        url, _, model = self.server.partition("#")
        known = (url, model, self.key_env, self.allow_remote)
        return HttpSettings(*known, timeout_seconds=self.timeout, retries=self.retries)


class InferSettings(ReviewServer):
    """Settings of `assay review infer`."""

    paper: Annotated[str, typer.Argument(show_default=False)] = ""
    """The same as --papers."""
    papers: Annotated[str, typer.Option("--papers", "--data")] = "demonstration"
    """A file or folder of `assay data review`, one paper (.pdf, .xml, .docx, .tex, .md, .txt), or demonstration."""
    out: Annotated[Path, typer.Option()]
    """The .jsonl file to write the rows to, or a .json file for a report."""
    split: Literal["train", "dev", "test", "all"] = "test"
    """Papers of this split alone."""
    limit: int = 0
    """The first N papers alone; 0 = all."""
    chain: str = "reviewer"
    """Who reviews: reviewer, a run folder, chain.json, base:NAME."""
    stage: str = ""
    """A stage; the last if not named. For a report: several, or all."""
    staged: bool = False
    """In stages: summary, concerns by section, one list, and what the paper contradicts dropped."""
    format: Literal["md", "letter"] | None = None
    """Also write the concerns in words: NAME.md or NAME-letter.md beside the rows."""
    max_new_tokens: Annotated[int, InFile()] = 2_048
    """Maximum length of a reply, in tokens."""
    temperature: Annotated[float, InFile()] = 0.1
    """How much chance there is in a reply; 0 = always the likeliest token."""
    top_p: Annotated[float, InFile()] = 0.9
    """Draw only from the likeliest tokens that have this share together."""
    repetition_penalty: Annotated[float, InFile()] = 1.05
    """Above 1, tokens that were written before become less likely."""
    seed: Annotated[int, InFile()] = 0
    """Same seed, same reply, where there is chance in it."""
    context: Annotated[int, InFile()] = 0
    """Tokens of paper and reply together; 0 = what the model reads, 16,384 at most."""
    overlap: Annotated[int, InFile()] = 200
    """Tokens that a part of a paper repeats of the one before."""
    max_parts: Annotated[int, InFile()] = 4
    """Parts that a long paper is read in at most."""
    constrain: Annotated[Literal["auto", "always", "never"], InFile()] = "auto"
    """Hold replies to the format: where the engine can, always (fails if it cannot), or never."""
    batch: Annotated[int, InFile()] = 4
    """Papers at a time."""
    dtype: Annotated[Literal["float32", "bfloat16", "nf4"], InFile()] = "float32"
    """Type of the weights."""
    tokenizer: Annotated[str, InFile()] = ""
    """What counts the tokens for a server: embedded, a folder or a Hub id."""
    cap: Annotated[int, InFile()] = 20
    """For a report: concerns of a paper that are kept at most."""
    encoder: Annotated[str, InFile()] = "embedded"
    """For a report: what says how alike concerns are, as in `assay review score`."""
    threshold: Annotated[str, InFile()] = ""
    """For a report: similarity from which concerns agree; calibrated if not given."""


def infer(settings: InferSettings) -> None:
    """Review papers and write one row each: concerns, what was answered, how it ended, how long it took.

    Given again after an interruption it goes on: good rows stand, papers without one are asked about
    again. Long papers are read in overlapping parts whose concerns are merged. Rows can be cleaned,
    scored and merged as they are; how they came about stands beside them in NAME.run.json.

    `assay eval run --task review` is this command. With --out NAME.json the rows of every stage asked are cleaned and
    scored, and one report keeps what was said. Until it is whole, rows stand in NAME.json.partial.

    Example: assay review infer --papers corpus --split test --chain reviewer --out predictions.jsonl

    Example: assay review infer paper.pdf --server http://127.0.0.1:8000/v1#Qwen/Qwen3-8B --staged --out paper.jsonl
    """
    if settings.paper:
        if settings.papers not in ("demonstration", settings.paper):
            raise BadConfig(f"papers are named twice, {settings.paper} and --papers {settings.papers}; name them once.")
        settings = settings.model_copy(update={"papers": settings.paper})
    if settings.out.suffix == ".json":
        return report_on_stages(settings)
    run = review_papers(settings)
    if run.by_status.get("failed", 0) == run.articles:
        raise typer.Exit(1)


def review_papers(settings: InferSettings) -> ReviewRun:
    """Review papers as the settings say, show how it went, and return the run's record.

    Ends with exit code 1 where a paper, or a part of one, got no answer.
    """
    from training.reviewer.engine import Asking, ChainEngine
    from training.reviewer.infer import Clocks, ReviewFile, ReviewPlan
    from training.reviewer.infer import infer as run_all
    from training.reviewer.staged import StagedEngine

    asking = Asking(**settings.model_dump(include={each.name for each in fields(Asking)}))
    articles = [each.article for each in read_papers(settings.papers, settings.split, settings.limit)]
    if settings.server:
        engine = _server(settings, asking)
    else:
        chain = _chain(settings)
        engine = ChainEngine(chain, asking, settings.stage)
        if is_demonstration(engine.stage, chain.stage_checksums):
            notes.print(f"note: {settings.chain}: {DEMONSTRATION}", soft_wrap=True)
    if settings.staged:
        engine = StagedEngine(engine, settings.batch)
    plan, out = ReviewPlan(articles, engine, asking, settings.batch), settings.out
    file = ReviewFile(out)
    with progress_bar(len(articles)) as (progress, within):
        run = run_all(plan, file, Clocks(time.monotonic, lambda: datetime.now(UTC)), progress, within)
    counts: dict[str, object] = {
        "papers": run.articles,
        "of them reviewed before": run.reviewed_before,
        "status": run.by_status,
    }
    counts |= {"finish reason": run.finish_reasons, "concerns": run.concerns, "held to": run.engine.constraint}
    counts |= {"seconds per paper": run.seconds_per_article}
    for note in run.engine.substitutions:
        notes.print(f"note: {note}", soft_wrap=True)
    shown: list[RenderableType] = [as_table(str(out), counts)]
    if len(articles) == 1:
        row = file.rows[articles[0].id]
        shown.append(Text(f"\n{_in_words(articles[0], row, run, 'md')}"))
        shown += [
            Text(f"dropped: {line(each.text)}\n  the paper says: {line(each.sentence)} ({each.by})")
            for each in row.dropped
        ]
        for problem in (each for each in row.problems if not each.startswith(PAPER_NOTE)):
            notes.print(f"note: {line(problem)}", soft_wrap=True, markup=False)
    emit(run, as_json=settings.as_json, table=Group(*shown))
    if kind := settings.format:
        read = [article for article in articles if file.rows[article.id].status != "failed"]
        path = out.with_suffix(".md") if kind == "md" else out.with_name(f"{out.stem}-letter.md")
        write_whole(path, "\n".join(_in_words(article, file.rows[article.id], run, kind) for article in read))
        notes.print(f"wrote {path}: {plural(len(read), 'paper')}", soft_wrap=True)
    ends = Counter(map(_how_it_ended, (file.rows[article.id] for article in articles)))
    for end in ("unanswered", "in_part", "unread"):
        if n := ends[end]:
            notes.print(say(f"command.{end}", papers=plural(n, "paper"), out=out), soft_wrap=True)
    if ends["unanswered"] or ends["in_part"]:
        raise typer.Exit(1)
    return run


def _how_it_ended(row: ReviewedRow) -> Literal["unanswered", "in_part", "unread", "read"]:
    """Return whether a paper got no answer, or only to a part of it, or one that cannot be read."""
    if any(part.error for part in row.parts):
        return "unanswered" if row.status == "failed" else "in_part"
    return "unread" if row.status == "failed" else "read"


def _in_words(article: Article, row: ReviewedRow, run: ReviewRun, kind: Literal["md", "letter"]) -> str:
    """Return the review of a paper in Markdown, or as a letter to its authors."""
    title = article.title.strip() or article.origin.file or article.id
    if kind == "letter":
        return as_letter(title, row.concerns)
    places = Map(article)
    why = f" ({'; '.join(row.problems[:3])})" if row.problems else ""
    by = f"Written by {run.engine.name} on {run.started_at:%Y-%m-%d}, status {row.status}{why}. Nobody has checked it."
    return as_markdown(title, [(each, places.place(each.text)) for each in row.concerns], by)


def _chain(settings: InferSettings) -> "LoadedChain":
    from training.models.chain import load_chain

    return load_chain(
        settings.chain, settings.dtype, lambda _, message: notes.print(message), cache=from_environment().cache
    )


def read_papers(papers: str, split: str = "all", limit: int = 0) -> list[ReviewExample]:
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
    from evals.papers.collection import read_collection, split_by_family

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


def _server(settings: InferSettings, asking: "Asking") -> "ReviewEngine":
    from training.reviewer.engine import EstimatedTokens, Room, ServerEngine

    counter: TokenCounter = EstimatedTokens()
    if settings.tokenizer:
        from training.data.tokens import ChatCounter
        from training.models.base import find_base, load_tokenizer

        found = find_base(settings.tokenizer, lambda _, message: notes.print(message))
        counter = ChatCounter(load_tokenizer(found), found.public_name)
    else:
        told = "name the model's own as tokenizer in the file of --config"
        notes.print(f"note: tokens are estimated, one for three characters; {told}", soft_wrap=True)
    return ServerEngine(settings.address(), asking, Room(counter, asking.context or 16_384))


@contextmanager
def progress_bar(total: int) -> Generator[tuple[Callable[[int, int, ReviewedRow | None], None], Callable[[str], None]]]:
    """Show how many papers are done, what the last one gave, and how far it is within one, on standard error."""
    share = 0.0

    with progress_shown("reviewing", total) as shown:

        def progress(done: int, of: int, row: ReviewedRow | None) -> None:
            nonlocal share
            if row is not None:
                said = plural(len(row.concerns), "concern")
                notes.print(f"{row.article_id}: {row.status}, {said}, {row.seconds:.1f} s")
            elif done:
                notes.print(f"{done} of {of} papers have a good row already")
            share = done / max(of, 1)
            shown(share, "reviewing")

        yield progress, lambda told: shown(share, told)


def find_cached(name: str) -> "Encoder":
    """Return an encoder whose vectors are kept on disk; progress is shown."""
    from evals.review.match import CachedEncoder
    from training.encoders import find_encoder
    from training.models.base import default_cache

    def report(done: int, total: int) -> None:
        if done == total or done % 1024 == 0:
            notes.print(f"encoded {done} of {total} texts")

    return CachedEncoder(find_encoder(name), default_cache() / "vectors", report)


def report_on_stages(settings: InferSettings) -> None:
    """Write a report on the stages that are asked for."""
    from evals.report import save_report
    from lab.shared.evaluations import command_line
    from training.data.dev import MeasureSettings, grade_reviews, read_measure
    from training.run.folder import versions

    papers = read_papers(settings.papers, settings.split, settings.limit)
    scoring = settings.model_dump(include=set(MeasureSettings.model_fields))
    measure = read_measure(scoring, str(settings.config))
    nothing = {each.id: () for each in papers}
    grade_reviews({"": (nothing, None)}, papers, measure, find_cached)  # what is missing is told before hours of asking
    names = [""] if settings.server else settings.stage.split(",")
    if names == ["all"]:
        names = [BASE_STAGE, *(each.name for each in read_chain(settings.chain).manifest.stages)]
    out, stages, made = settings.out, {}, None
    partial = out.with_name(f"{out.name}.partial")
    for name in names:
        rows = partial / f"{name or 'last'}.jsonl"
        with redirect_stdout(sys.stderr):
            review_papers(settings.model_copy(update={"out": rows, "stage": name, "format": None, "as_json": False}))
        made = maker_of(rows)
        said = {row.article_id: row.concerns for row in read_rows(rows, ReviewedRow)}
        stages[name or (made and made.stage) or "server"] = said, made
    corpus = public_path(settings.papers)
    asking = {"split", "limit", "dtype", "temperature", "max_new_tokens", "context", "max_parts"}
    _, mark, model = settings.server.partition("#")
    typed = settings.model_dump(include={"papers", "split", "limit", "out", "config"})
    by_chain = {"chain": settings.chain, "stage": settings.stage or None}
    typed |= {"server": f"URL{mark}{model}"} if settings.server else by_chain
    report = grade_reviews(
        stages,
        papers,
        measure,
        find_cached,
        data_name=f"{corpus} ({plural(len(papers), 'paper')}, {settings.split})",
        chain_name=made.name if made else "",
        settings=settings.model_dump(include=asking) | scoring | {"papers": corpus},
        created_at=datetime.now(UTC),
        command=command_line(task="review", **typed) + (" --staged" if settings.staged else ""),
        libraries=versions(),
    )
    save_report(report, out)
    shutil.rmtree(partial)
    notes.print(f"wrote {out}: {plural(len(report.rows), 'answer')} to {plural(len(papers), 'paper')}")
    emit(report, as_json=settings.as_json, table=summary_table(report))


def rescore_review(old: ReviewReport, path: Path) -> ReviewReport:
    """Return a report with what was said cleaned and matched by this version."""
    from training.data.dev import MeasureSettings, grade_reviews, read_measure

    known: dict[str, Any] = old.settings
    if "papers" not in known:
        raise LabError(
            f"{path} keeps no texts, as what `assay review score` writes; give that command the rows again, or review"
            " anew: assay eval run --task review --out REPORT.json"
        )
    papers = read_papers(known["papers"], known["split"], known["limit"])
    measure = read_measure({name: known[name] for name in MeasureSettings.model_fields}, str(path))
    said = {stage: (each.said, each.made_by) for stage, each in old.stages.items()}
    kept = ("data_name", "chain_name", "settings", "created_at", "command", "libraries")
    found = grade_reviews(said, papers, measure, find_cached, **{name: getattr(old, name) for name in kept})
    if found.data_sha256 != old.data_sha256:
        raise IncomparableReports(
            f"{known['papers']} holds other papers or human concerns than those that were reviewed; put those of then"
            " there, or review again: assay eval run --task review --out REPORT.json"
        )
    return found
