"""`assay review`: papers reviewed, what was said read, cleaned, scored, merged and reported, and held against the paper."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evals.errors import BadConfig, LabError
from evals.io import jsonl_text, read_rows, write_whole
from evals.review.clean import Cleaning, check_out, copy_record, drop_record, maker_of
from evals.review.clean import clean as cleaned_row
from evals.schema.reports import Assignment
from evals.schema.reviews import Linkage, PredictionRow, RawRow, Strategy
from lab.commands import JsonSettings, command
from lab.commands.review.infer import ReviewServer, find_cached, infer, read_papers
from lab.commands.terminal import emit, notes, plain, plural, review_tables, table_of

if TYPE_CHECKING:
    from evals.validity.insertion import Detected


class MatchSettings(JsonSettings):
    """Settings of telling which concerns are alike."""

    encoder: str = "embedded"
    """embedded, specter2, specter2-base-mean, lexical, a folder, or a sentence-transformers id."""
    seed: Annotated[int, typer.Option(min=0)] = 0
    """Same seed, same figures."""


class ScoreSettings(MatchSettings):
    """Settings of `assay review score`."""

    reference: Annotated[Path, typer.Option()]
    """JSONL: article_id, concerns of human reviewers."""
    predictions: Annotated[Path, typer.Option()]
    """JSONL: article_id, concerns of the system."""
    similarities: Path | None = None
    """JSONL: article_id, matrix (rows predicted, columns human)."""
    threshold: str | None = None
    """Similarity from which concerns agree, or auto to calibrate it."""
    assignment: Assignment = "optimal"
    """One-to-one: the best of all, or the most alike pair first."""
    papers: Path | None = None
    """Articles with texts, for controls that copy or search them."""
    retrieve_from: Path | None = None
    """Articles whose concerns BM25 may borrow, such as train."""
    controls: bool = True
    """What lists without an objection to the paper would get."""
    per_article: bool = False
    """Every article with its matches."""
    name: str | None = None
    """What the system is called."""
    out: Path | None = None
    """A .json file for the whole score."""


class EnsembleSettings(MatchSettings):
    """Settings of `assay review ensemble`."""

    files: list[Path]
    """Prediction files, two or more."""
    out: Annotated[Path, typer.Option()]
    """The .jsonl file to write."""
    strategy: Strategy = "union"
    """Keep all, those enough tools say, or those all say."""
    threshold: str = "auto"
    """Similarity from which concerns are one, or auto to calibrate it."""
    linkage: Linkage = "complete"
    """complete: all alike. single: chained, as published at 0.98."""
    min_votes: Annotated[int, typer.Option(min=1)] = 2
    """Tools that must agree, for vote."""
    cap: Annotated[int | None, typer.Option(min=1)] = None
    """Keep the first N, after merging."""
    vectors: Path | None = None
    """JSONL: text, vector; instead of an encoder."""


class ParseSettings(JsonSettings):
    """Settings of `assay review parse`."""

    rows: Path
    """JSONL: id, raw."""
    out: Path | None = None
    """A .jsonl file to write the rows to."""


class CleanSettings(JsonSettings):
    """Settings of `assay review clean`."""

    rows: Path
    """JSONL: article_id, concerns."""
    out: Annotated[Path, typer.Option()]
    """The .jsonl file to write."""
    dedup: bool = True
    """Take repeats out."""
    cap: Annotated[int | None, typer.Option(min=1)] = None
    """Keep the first N of each article; published: 20."""


def score(settings: ScoreSettings) -> None:
    """Score concerns against human ones, beside controls that object to nothing in the paper.

    A row of the reference: {"article_id": "elife:1", "source": "elife", "concerns": [{"text": "...",
    "category": "design_flaw", "severity": "major"}]}; article files are read as well. A row of the
    predictions: {"article_id": "elife:1", "concerns": ["..."]}, or objects with labels.

    The headline is F1 above the strongest control: the same lists on other papers, generic objections,
    concerns that BM25 borrows, sentences copied from the paper. The last need the papers' texts: in the
    reference, or by --papers. Without --threshold it is calibrated for the encoder; docs/review-scoring.md
    explains every figure.
    Where PREDICTIONS.run.json stands beside the rows, the score says who answered, and how.

    Example: assay review score --reference test.jsonl --predictions clean.jsonl --out score.json

    Example: assay review score --reference test.jsonl --predictions clean.jsonl --encoder
    specter2-base-mean --threshold 0.65 --json
    """
    from evals.report import save_report
    from evals.review.score import (
        Scored,
        ScoreOptions,
        control_rates,
        micro_rates,
        read_library,
        read_panel,
        review_report,
        score_setup,
    )
    from evals.review.task import Review

    reference, predictions, out = settings.reference, settings.predictions, settings.out
    if out is not None:
        check_out([reference, predictions], out, ".json")
    panel = read_panel(reference, predictions)
    library = read_library(reference, settings.papers, settings.retrieve_from) if settings.controls else None
    kept = ("encoder", "similarities", "threshold", "assignment", "controls", "seed")
    options = ScoreOptions(**settings.model_dump(include=set(kept)))
    stage = settings.name or predictions.stem
    setup = score_setup(panel, options, find_cached, library)
    report = review_report({stage: Scored(panel, setup, maker_of(predictions))})
    for warning in report.stages[stage].warnings:
        notes.print(f"note: {warning}")
    if out is not None:
        save_report(report, out)
        notes.print(f"wrote {out}")
    metrics = {each.group: each.metrics for each in report.summaries}
    known = metrics.get("all", {})
    beside = control_rates(report.rows)
    document: dict[str, object] = {
        "system": stage,
        "micro": micro_rates(report.rows),
        "intervals": {
            name: None if (metric := known[name]).low is None else (metric.low, metric.high)
            for name in Review.compared
            if name in known
        },
        "controls": {name: beside.get(name) for name in Review.controls} if settings.controls else None,
        "matcher": report.matcher,
        "matcher_agreement": report.matcher_agreement,
        "metrics": metrics,
        **report.stages[stage].model_dump(mode="json", exclude={"said"}),
    }
    if settings.per_article:
        document["articles"] = report.rows
    emit(document, as_json=settings.as_json, table=review_tables(report))


def ensemble(settings: EnsembleSettings) -> None:
    """Merge the concerns of several tools; each keeps who said it, where and in which words.

    Only concerns of different tools are joined. The best supported stand first, then the more severe.
    With auto, the threshold is what one concern in a hundred reaches on another paper by chance.

    Example: assay review ensemble 8b.jsonl 9b.jsonl --strategy union --cap 20 --out both.jsonl

    Example: assay review ensemble 8b.jsonl 9b.jsonl --linkage single --threshold 0.98 --encoder
    specter2-base-mean --out published.jsonl
    """
    from evals.review.ensemble import Merging, Tool, merge, merging_threshold, read_vectors
    from evals.review.match import LEXICAL, Threshold, read_threshold

    files, out = settings.files, settings.out
    check_out(files, out)
    stems = [file.stem for file in files]
    names = [file.stem if stems.count(file.stem) == 1 else f"{file.parent.name}/{file.stem}" for file in files]
    rows = [tuple(read_rows(file, PredictionRow, key=lambda row: row.article_id)) for file in files]
    tools = [Tool(name, each) for name, each in zip(names, rows, strict=True)]
    found = None
    if settings.vectors is not None:
        found = read_vectors(settings.vectors)
    elif settings.encoder != LEXICAL:
        found = find_cached(settings.encoder)
    if settings.threshold == "auto":
        chosen = merging_threshold(tools, found, settings.seed)
    else:
        chosen = Threshold(read_threshold(settings.threshold), "given")
    merging = Merging(settings.strategy, chosen.value, settings.linkage, settings.min_votes, settings.cap)
    merged, counts = merge(tools, merging, found)
    write_lines(out, merged)
    drop_record(out)
    notes.print(f"wrote {out}: {plural(counts['n_kept'], 'concern')}, threshold {chosen.value:.3f}")
    document = {
        "out": str(out),
        "tools": [tool.name for tool in tools],
        "strategy": settings.strategy,
        "linkage": settings.linkage,
        "threshold": chosen.value,
        "threshold_from": chosen.origin,
        "encoder": found.name if found is not None else LEXICAL,
        "revision": found.revision if found is not None else "",
        **counts,
    }
    emit(document, as_json=settings.as_json, table="merged")


def parse(settings: ParseSettings) -> None:
    r"""Read the concerns in what a model wrote, however it wrote them.

    A row of the file: {"id": "elife:1", "raw": "```json\n[{...}]\n```"}; a prediction row with
    its raw_output is read as well. Reasoning is left out; broken JSON, several lists, prose and
    tables are read. Labels are repaired by the table evals/review/labels.toml, or marked unknown.

    The status is ok, empty (it says there are none), partial (some of it is lost) or failed.

    Example: assay review parse raw.jsonl --out predictions.jsonl --json
    """
    from evals.review.parse import parse as read

    rows, out = settings.rows, settings.out
    if out is not None:
        check_out([rows], out)
    parsed = [read(row.id, row.raw) for row in read_rows(rows, RawRow, key=lambda row: row.id)]
    statuses = Counter(each.status for each in parsed)
    n_concerns = sum(len(each.concerns) for each in parsed)
    said = ", ".join(f"{n} {status}" for status, n in statuses.most_common())
    notes.print(f"read {plural(len(parsed), 'output')}: {said}; {plural(n_concerns, 'concern')}")
    if out is not None:
        write_lines(out, [{"article_id": each.id, **each.model_dump(mode="json")} for each in parsed])
        copy_record(rows, out)
    cells = [(each.id, each.status, len(each.concerns), "; ".join(each.problems)) for each in parsed]
    emit(parsed, as_json=settings.as_json, table=table_of("outputs", ("id", "status", "concerns", "problems"), cells))


def clean(settings: CleanSettings) -> None:
    """Take repeats, blanks and what is over the cap out of predictions; show what went.

    A row of the file: {"article_id": "elife:1", "concerns": ["No control arm.", {"text": "...",
    "category": "design_flaw", "severity": "major"}]}. Rows keep their form and their other fields;
    "removed" and "repaired" say what was done. The record of who answered, where one stands beside the
    rows (ROWS.run.json), goes along.

    Example: assay review clean predictions.jsonl --cap 20 --out clean.jsonl
    """
    rows, out = settings.rows, settings.out
    check_out([rows], out)
    cleaning = Cleaning(settings.dedup, settings.cap)
    read = read_rows(rows, PredictionRow, key=lambda row: row.article_id)
    cleaned = [cleaned_row(row, cleaning) for row in read]
    write_lines(out, [each.document(cleaning) for each in cleaned])
    is_known = copy_record(rows, out)
    notes.print(f"wrote {out}{' and the record of who answered beside it' if is_known else ''}")
    why = Counter(each["reason"] for row in cleaned for each in row.removed)
    before = sum(len(row.row.concerns) + len(row.removed) for row in cleaned)
    document = {
        "rows": len(cleaned),
        "before": before,
        "after": before - sum(why.values()),
        "removed": sum(why.values()),
        **{f"removed_{reason}": why[reason] for reason in ("blank", "duplicate", "cap")},
        "labels_repaired": sum(len(row.repaired) for row in cleaned),
        "labels_unknown": sum(row.unknown_labels for row in cleaned),
    }
    emit(document, as_json=settings.as_json, table="cleaned")


def write_lines(path: Path, documents: list[dict[str, object]]) -> None:
    """Write one JSON object per line, whole or not at all."""
    write_whole(path, jsonl_text(map(plain, documents)))


# ---- held against the paper ----------------------------------------------------------------------


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
    from evals.validity.insertion import make_insertions

    seed, out = settings.seed, settings.out
    chosen = {each.id: each for name in settings.split.split("+") for each in read_papers(settings.papers, name)}
    pairs, versions = make_insertions(list(chosen.values()), settings.pairs, seed, settings.kind or ())
    for name, rows in ((PAPERS, versions), (PAIRS, pairs)):
        write_whole(out / name, jsonl_text(rows))
    kinds = {each.kind: sum(pair.kind == each.kind for pair in pairs) for each in pairs}
    document = {"pairs": len(pairs), "papers": len({pair.paper for pair in pairs}), "seed": seed, "kinds": kinds}
    notes.print(f"wrote {out / PAPERS} and {out / PAIRS}")
    title = f"{plural(len(pairs), 'pair')} of {plural(document['papers'], 'paper')}"
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
    from evals.validity.insertion import InsertionPair, score_pairs

    test, out = settings.test, settings.out
    pairs = read_rows(test / PAIRS, InsertionPair, key=lambda row: row.id)
    versions = {each.id: each.article for each in read_collection(str(test / PAPERS)).examples}
    rows = read_rows(settings.predictions, PredictionRow, key=lambda row: row.article_id)
    said = {row.article_id: texts_of(row) for row in rows}
    name = settings.name or settings.predictions.stem
    found = score_pairs(pairs, versions, said, name, settings.draws, settings.seed)
    if found.unanswered:
        notes.print(f"note: {plural(found.unanswered, 'pair')} without an answer to both versions left out")
    if found.all.papers < FEW_PAPERS:
        papers = plural(found.all.papers, "manuscript")
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
    from evals.review.clean import concerns_in

    return [text for each in concerns_in(row) if (text := (each.text or "").strip())]


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
    notes.print(f"recomputed {plural(verdicts.total(), 'test')}: {told}")
    cells = [(name, each.source, each.item, each.concern.text) for name, mine in found.items() for each in mine]
    title = f"{plural(len(cells), 'finding')} in {plural(len(found), 'paper')}"
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


app = typer.Typer(no_args_is_help=True, help="Peer review: read, clean, score, merge and compare concerns.")
command(app)(score)
command(app)(ensemble)
command(app)(infer)
app.add_typer(insertion, name="insertion")
command(app)(checks)
command(app)(parse)
command(app)(clean)
