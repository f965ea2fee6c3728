"""`assay review insertion` and `checks`: is a concern right, not only alike?"""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evals.errors import BadConfig, LabError
from evals.io import jsonl_text, read_rows, write_whole
from evals.schema.reviews import PredictionRow
from lab.commands import JsonSettings, command
from lab.commands.review.infer import ReviewServer, read_papers
from lab.commands.terminal import counted, emit, notes, table_of

if TYPE_CHECKING:
    from evals.validity.insertion import Detected

FEW_PAPERS = 20
"""Manuscripts below which draws of them spread too little."""
PAPERS, PAIRS = "papers.jsonl", "pairs.jsonl"
insertion = typer.Typer(
    no_args_is_help=True, help="Insertion test: is a planted flaw named, and the mended paper left alone?"
)


class InsertionSettings(JsonSettings):
    """Settings of `assay review insertion make`."""

    out: Annotated[Path, typer.Option()]
    """A folder for papers.jsonl and pairs.jsonl."""
    papers: str = "demonstration"
    """One paper (.pdf, .xml, .md, .txt), a file or folder of `assay data review`, or demonstration."""
    split: str = "all"
    """Papers of this split alone: train, dev, test, dev+test or all."""
    pairs: Annotated[int, typer.Option(min=1)] = 85
    """Pairs at most, as many of each kind as can be."""
    kind: list[str] | None = None
    """Only this kind of flaw; repeat it for several."""
    seed: Annotated[int, typer.Option(min=0)] = 0
    """Same seed, same pairs."""


class DetectionSettings(JsonSettings):
    """Settings of `assay review insertion score`."""

    test: Path
    """The folder of `assay review insertion make`."""
    predictions: Path
    """JSONL: article_id (of papers.jsonl), concerns."""
    name: str = ""
    """What the system is called."""
    draws: Annotated[int, typer.Option(min=1)] = 1000
    """Draws of papers behind each interval."""
    seed: Annotated[int, typer.Option(min=0)] = 0
    """Same seed, same intervals."""
    out: Path | None = None
    """A .json file for the whole score."""


class CheckedPapers(ReviewServer):
    """Settings of `assay review checks`."""

    papers: str
    """A paper (.pdf, .xml, .md, .txt), a file or folder of papers, or demonstration."""
    split: str = "all"
    """Papers of this split alone: train, dev, test or all."""
    guideline: str = ""
    """With a server: CONSORT, STROBE, ARRIVE or PRISMA; the one that the model says fits, if none."""
    out: Path | None = None
    """A .jsonl file of rows with concerns, to be scored as any reviewer's."""


@command(insertion)
def make(settings: InsertionSettings) -> None:
    """Plant flaws in papers: pairs of one paper with a flaw and without it, apart by a sentence or a number.

    Of seventeen kinds of flaw (evals/validity/flaws.toml) those are planted that fit a paper: what it says of blinding is
    taken out, or a sentence on it is added to one version only; a p value or a number of patients is changed.
    papers.jsonl is what a reviewer is given, and its ids tell nothing; pairs.jsonl is the key.

    Example: assay review insertion make --split dev+test --out insertion

    Example: assay review infer --papers insertion/papers.jsonl --split all --out insertion/reviewer.jsonl
    """
    from evals.validity.insertion import make_pairs

    seed, out = settings.seed, settings.out
    chosen = {each.id: each for name in settings.split.split("+") for each in read_papers(settings.papers, name)}
    pairs, versions = make_pairs(list(chosen.values()), settings.pairs, seed, settings.kind or ())
    for name, rows in ((PAPERS, versions), (PAIRS, pairs)):
        write_whole(out / name, jsonl_text(rows))
    kinds = {each.kind: sum(pair.kind == each.kind for pair in pairs) for each in pairs}
    document = {"pairs": len(pairs), "papers": len({pair.paper for pair in pairs}), "seed": seed, "kinds": kinds}
    notes.print(f"wrote {out / PAPERS} and {out / PAIRS}")
    title = f"{counted(len(pairs), 'pair')} of {counted(document['papers'], 'paper')}"
    emit(document, as_json=settings.as_json, table=table_of(title, ("kind of flaw", "pairs"), list(kinds.items())))


@command(insertion, "score")
def score_insertion(settings: DetectionSettings) -> None:
    """Score what a reviewer said of the pairs: detection, false alarms and d' of both, with 95 % intervals.

    A flaw is detected if a concern about the planted version names it; a false alarm is a concern about the mended
    version that would have. d' is 0 for lists that say the same of both, however long they are. Pairs without an
    answer to both versions are left out and counted, so a sample of them can be asked about.

    Example: assay review insertion score insertion insertion/reviewer.jsonl --out score.json
    """
    from evals.papers.collection import read_collection
    from evals.validity.insertion import Pair, score_pairs

    test, out = settings.test, settings.out
    pairs = read_rows(test / PAIRS, Pair, key=lambda row: row.id)
    versions = {each.id: each.article for each in read_collection(str(test / PAPERS)).examples}
    rows = read_rows(settings.predictions, PredictionRow, key=lambda row: row.article_id)
    said = {row.article_id: texts_of(row) for row in rows}
    name = settings.name or settings.predictions.stem
    found = score_pairs(pairs, versions, said, name, settings.draws, settings.seed)
    if found.unanswered:
        notes.print(f"note: {counted(found.unanswered, 'pair')} without an answer to both versions left out")
    if found.all.papers < FEW_PAPERS:
        papers = counted(found.all.papers, "manuscript")
        notes.print(f"note: {papers}; below {FEW_PAPERS} the intervals are too narrow", soft_wrap=True)
    if out is not None:
        write_whole(out, found.model_dump_json(indent=1) + "\n")
        notes.print(f"wrote {out}")

    def cells(group: str, each: "Detected") -> list[object]:
        shown = []
        for metric in ("detection", "false_alarm", "d_prime"):
            span = each.intervals[metric]
            shown.append(f"{getattr(each, metric):.2f}" + (f" [{span[0]:.2f}, {span[1]:.2f}]" if span else ""))
        return [group, each.pairs, *shown]

    table = [cells(group, each) for group, each in [("all", found.all), *found.kinds.items()]]
    columns = ("kind of flaw", "pairs", "detection", "false alarm", "d'")
    emit(found, as_json=settings.as_json, table=table_of(found.system, columns, table))


def texts_of(row: PredictionRow) -> list[str]:
    """Return the texts of a row's concerns, blank ones left out."""
    from evals.review.clean import written

    return [text for each in written(row) if (text := (each.text or "").strip())]


def checks(settings: CheckedPapers) -> None:
    """Check what can be checked of a paper: its p values, and with a server what a reporting guideline asks for.

    t, F, r, z, Q and chi-squared tests are recomputed after the rules of statcheck. With --server a model is asked item
    by item whether CONSORT, STROBE, ARRIVE or PRISMA is met: it quotes the place, a quote that is not in the paper does
    not count, and an item is missing only where a second pass over the sections says so, too.

    Example: assay review checks paper.pdf

    Example: assay review checks paper.pdf --server http://127.0.0.1:8000/v1#Qwen/Qwen3-8B
    """
    from evals.validity.pvalues import finding, recompute
    from training.judge.guidelines import CheckedPaper, GuidelineJudge, items_of

    guideline, out = settings.guideline.upper(), settings.out
    if guideline and not settings.server:
        raise BadConfig("--guideline asks a model; name its server: --server http://127.0.0.1:8000/v1.")
    if guideline:
        items_of(guideline)
    articles = [each.article for each in read_papers(settings.papers, settings.split)]
    tests = {each.id: recompute(each) for each in articles}
    found = {name: [finding(each) for each in mine if "error" in each.verdict] for name, mine in tests.items()}
    checked, failed = dict[str, CheckedPaper](), 0
    if settings.server:
        judge = GuidelineJudge(settings.address())
        for article in articles:
            try:
                mine = judge.check(article, guideline)
            except LabError as error:
                if not checked:
                    raise
                notes.print(f"{article.id}: {error}", soft_wrap=True)
                failed += 1
                continue
            checked[article.id] = mine
            found[article.id] += mine.findings
            words = Counter(each.verdict for each in mine.items)
            told = ", ".join(f"{n} {word}" for word, n in words.items()) or "none of the guidelines fits"
            notes.print(f"{article.id}: {mine.guideline or 'no guideline'}: {told}", soft_wrap=True)
    if out is not None:
        rows = (
            {"article_id": name, "concerns": [each.concern.model_dump() for each in mine]}
            for name, mine in found.items()
        )
        write_whole(out, jsonl_text(rows))
        notes.print(f"wrote {out}")
    verdicts = Counter(each.verdict for mine in tests.values() for each in mine)
    told = ", ".join(f"{n} {name}" for name, n in verdicts.items()) or "no statistic with its p was found"
    notes.print(f"recomputed {counted(verdicts.total(), 'test')}: {told}")
    cells = [(name, each.source, each.item, each.concern.text) for name, mine in found.items() for each in mine]
    title = f"{counted(len(cells), 'finding')} in {counted(len(found), 'paper')}"
    documents = {
        each.id: {
            "findings": found[each.id],
            "tests": tests[each.id],
            "guideline": checked.get(each.id),
            "notes": each.origin.notes,
        }
        for each in articles
    }
    emit(documents, as_json=settings.as_json, table=table_of(title, ("paper", "by", "item", "concern"), cells))
