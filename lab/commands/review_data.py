"""`assay data review`: reviewed papers by split, and corpora of training rows within a model's context."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from lab.console import emit, notes, table_of

if TYPE_CHECKING:
    from rich.table import Table

    from evals.reviewing.budget import Budget
    from evals.reviewing.corpora import Recipe
    from evals.schema import ReviewExample
    from evals.schema.corpora import CorpusStatistics

SPLITS = ("train", "dev", "test")
TAUGHT: tuple[Literal["train", "dev"], ...] = ("train", "dev")
"""Splits that a corpus has rows of; test papers are never taught."""
EVERY = 100
"""Papers between two words of progress."""

Out = Annotated[Path, typer.Option("--out", help="Folder to write to.")]
CorpusName = Annotated[
    str | None,
    typer.Option(
        "--corpus",
        help="Make training rows too: a (every usable concern) or b (sure ones, 3 or more).",
    ),
]
Papers = Annotated[
    str,
    typer.Option(
        "--papers", help="A folder of split files, one file (.jsonl, .parquet), or demonstration."
    ),
]
Base = Annotated[
    str,
    typer.Option("--base", help="The model whose tokenizer counts: embedded, a folder, a Hub id."),
]
Context = Annotated[int, typer.Option("--context", help="Tokens of a row in all.")]
Reserve = Annotated[int, typer.Option("--reply-reserve", help="Tokens kept free for the reply.")]
MaxParts = Annotated[
    int,
    typer.Option(
        "--max-parts", help="Rows that a long paper is divided into before it is shortened."
    ),
]
Overlap = Annotated[
    int, typer.Option("--overlap", help="Tokens that a part repeats of the one before.")
]
MinConfidence = Annotated[
    float | None, typer.Option("--min-confidence", help="Instead of the corpus's own, 0 to 1.")
]
MinConcerns = Annotated[
    int | None, typer.Option("--min-concerns", help="Instead of the corpus's own, 1 or more.")
]
Seed = Annotated[int, typer.Option(help="Of the split, where papers come without one.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Count everything, write nothing.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of a table.")]


def review(
    out: Out,
    corpus: CorpusName = None,
    papers: Papers = "demonstration",
    base: Base = "embedded",
    context: Context = 16_384,
    reply_reserve: Reserve = 2_048,
    max_parts: MaxParts = 4,
    overlap: Overlap = 200,
    min_confidence: MinConfidence = None,
    min_concerns: MinConcerns = None,
    seed: Seed = 0,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Write reviewed papers by split, versions of one manuscript together, and corpora to train on.

    train, dev and test.jsonl hold papers with their concerns; scoring takes them as references. With
    --corpus, sft_train and sft_dev.jsonl hold chat rows in which no reply is ever cut, each with a
    statistics file, and the instructions they teach.
    """
    from evals.errors import BadConfig
    from evals.reviewing.budget import Budget
    from evals.reviewing.selection import CORPORA

    if corpus is not None and corpus.lower() not in CORPORA:
        raise BadConfig(f"corpus is {corpus!r}; it takes {' or '.join(CORPORA)}.")
    examples, left_out = _split(papers, seed)
    budget = Budget(context, reply_reserve, overlap, max_parts)
    recipe = _recipe(corpus, base, budget, (min_confidence, min_concerns)) if corpus else None
    made = _corpora(examples, recipe, papers) if recipe else {}
    if not dry_run:
        _write(out, examples, made)
    _report(examples, left_out, [each for each, _ in made.values()], as_json=as_json)
    notes.print(
        f"nothing was written: this was a dry run of --out {shlex.quote(str(out))}"
        if dry_run
        else f"written to {out}",
        soft_wrap=True,
    )


def _split(papers: str, seed: int) -> "tuple[tuple[ReviewExample, ...], dict[str, int]]":
    """Return the papers with their splits, families whole, and what was left out by reason."""
    from evals.articles.collection import read_collection
    from evals.articles.families import split_by_family, without_leaks

    collection = read_collection(
        papers, lambda file, rows: notes.print(f"read {rows} rows, now {file}")
    )
    left_out = {f"concern: {why}": count for why, count in collection.left_out.items()}
    if not collection.has_splits:
        return split_by_family(collection.examples, seed), left_out
    repair = without_leaks(collection.examples)
    left_out |= {f"paper: {why}": count for why, count in repair.left_out.items()}
    return repair.examples, left_out


def _recipe(
    corpus: str, base: str, budget: "Budget", instead: tuple[float | None, int | None]
) -> "Recipe":
    """Return how rows are made; MissingModel if the base's tokenizer cannot be had."""
    from dataclasses import replace

    from evals.reviewing.corpora import Recipe
    from evals.reviewing.selection import CORPORA
    from training.base import find_base, load_tokenizer
    from training.counting import ChatCounter

    rules = CORPORA[corpus.lower()]
    confidence, fewest = instead
    if confidence is not None:
        rules = replace(rules, min_confidence=confidence)
    if fewest is not None:
        rules = replace(rules, min_concerns=fewest)
    found = find_base(base, lambda _, message: notes.print(message))
    return Recipe(rules, budget, ChatCounter(load_tokenizer(found), found.public_name))


def _corpora(
    examples: "tuple[ReviewExample, ...]", recipe: "Recipe", papers: str
) -> "dict[str, tuple[CorpusStatistics, str]]":
    """Return statistics and rows (as JSONL) of each split that is taught."""
    from evals.reviewing.corpora import make_corpus
    from evals.reviewing.statistics import statistics_of

    def tell(done: int, of: int) -> None:
        if done % EVERY == 0:
            notes.print(f"{done} of {of} papers counted")

    made: dict[str, tuple[CorpusStatistics, str]] = {}
    for split in TAUGHT:
        corpus = make_corpus(examples, split, recipe, tell)
        text = "".join(each.row.model_dump_json(by_alias=True) + "\n" for each in corpus.rows)
        name = f"sft_{split}.jsonl"
        made[split] = (statistics_of(corpus, recipe, Path(papers).name, (name, text)), text)
    return made


def _write(
    out: Path,
    examples: "tuple[ReviewExample, ...]",
    made: "dict[str, tuple[CorpusStatistics, str]]",
) -> None:
    """Write papers, rows, instructions and, as the seal, statistics; each file whole."""
    from evals.questions.rows import write_whole
    from evals.reviewing import system_prompt

    for split in SPLITS:
        mine = [each for each in examples if each.split == split]
        write_whole(out / f"{split}.jsonl", "".join(each.model_dump_json() + "\n" for each in mine))
    if made:
        write_whole(out / "system_prompt.txt", system_prompt())
    for split, (statistics, text) in made.items():
        write_whole(out / f"sft_{split}.jsonl", text)
        write_whole(out / f"sft_{split}_stats.json", statistics.model_dump_json(indent=1) + "\n")


def _report(
    examples: "tuple[ReviewExample, ...]",
    left_out: dict[str, int],
    corpora: "list[CorpusStatistics]",
    *,
    as_json: bool,
) -> None:
    splits = {
        split: {
            "papers": len(mine),
            "families": len({each.family for each in mine}),
            "concerns": sum(len(each.concerns) for each in mine),
            "synthetic": sum(each.synthetic for each in mine),
        }
        for split in SPLITS
        for mine in [[each for each in examples if each.split == split]]
    }
    columns = ("split", *next(iter(splits.values())))
    table = table_of(
        "reviewed papers", columns, [(name, *row.values()) for name, row in splits.items()]
    )
    document = {
        "splits": splits,
        "left_out": left_out,
        "corpora": {each.split: each.model_dump() for each in corpora},
    }
    emit(document, as_json=as_json, table=table)
    for why, count in left_out.items():
        notes.print(f"left out, {why}: {count}")
    if not as_json:
        for each in corpora:
            emit(None, as_json=False, table=_table(each))


def _table(found: "CorpusStatistics") -> "Table":
    tokens, budget, audit = found.input_tokens, found.budget, found.truncation.overall
    rows = [
        ("papers kept", f"{found.articles_kept} of {found.articles_read}"),
        *((f"papers dropped: {why}", count) for why, count in found.articles_dropped.items()),
        ("concerns", f"{found.concerns_after} of {found.concerns_before}"),
        *((f"concerns dropped: {why}", count) for why, count in found.concerns_dropped.items()),
        ("rows", found.rows),
        *((f"papers in {parts} part(s)", count) for parts, count in found.parts.items()),
        ("papers shortened", f"{audit.cut} ({audit.share_lost:.1%} of all tokens lost)"),
        ("tokens read: median, longest", f"{tokens.median:g}, {tokens.high:g}"),
        ("reply: median, longest", f"{found.reply_tokens.median:g}, {found.reply_tokens.high:g}"),
        ("context, counted by", f"{budget.context}, {budget.tokenizer}"),
    ]
    return table_of(f"corpus {found.corpus}, {found.split}", ("what", "value"), rows)
