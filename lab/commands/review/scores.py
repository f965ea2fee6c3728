"""What a model says about a paper: read, cleaned, scored, merged."""

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from evals.io import jsonl_text, read_rows, write_whole
from evals.review.clean import Cleaning
from evals.review.clean import clean as cleaned_row
from evals.review.records import check_out, copy_record, drop_record, made_by
from evals.schema.reports import Assignment
from evals.schema.reviews import Linkage, PredictionRow, RawRow, Strategy
from lab.commands import JsonSettings
from lab.commands.review.infer import find_cached
from lab.commands.terminal import counted, emit, notes, plain, review_tables, table_of


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
    from evals.review.page import report_page
    from evals.review.score import (
        Scored,
        ScoreOptions,
        control_rates,
        measuring_of,
        micro_rates,
        read_library,
        read_panel,
        review_report,
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
    measuring = measuring_of(panel, options, find_cached, library)
    report = review_report({stage: Scored(panel, measuring, made_by(predictions))})
    for warning in report.stages[stage].warnings:
        notes.print(f"note: {warning}")
    if out is not None:
        save_report(report, out)
        write_whole(out.with_suffix(".md"), report_page(report))
        notes.print(f"wrote {out} and, to be read, {out.with_suffix('.md').name}")
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
    from evals.review.match import LEXICAL, Threshold, number_of

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
        chosen = Threshold(number_of(settings.threshold), "given")
    merging = Merging(settings.strategy, chosen.value, settings.linkage, settings.min_votes, settings.cap)
    merged = merge(tools, merging, found)
    write_lines(out, [row.model_dump(mode="json") for row in merged.rows])
    drop_record(out)
    notes.print(f"wrote {out}: {counted(merged.n_kept, 'concern')}, threshold {chosen.value:.3f}")
    document = {
        "out": str(out),
        "tools": [tool.name for tool in tools],
        "strategy": settings.strategy,
        "linkage": settings.linkage,
        "threshold": chosen.value,
        "threshold_from": chosen.origin,
        "encoder": found.name if found is not None else LEXICAL,
        "revision": found.revision if found is not None else "",
        **merged.model_dump(mode="json", exclude={"rows"}),
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
    notes.print(f"read {counted(len(parsed), 'output')}: {said}; {counted(n_concerns, 'concern')}")
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
    why = Counter(each.reason for row in cleaned for each in row.removed)
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
