"""`assay review`: what a model says about a paper, read, cleaned, scored, merged and reported."""

import json
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evals.errors import BadConfig, LabError
from evals.schema.reports import Assignment, FigurePolicy
from evals.schema.reviews import Linkage, Strategy
from lab.commands import infer
from lab.commands.infer import Weights, reviewing_bar
from lab.commands.tables import board_tables, counted, emit, notes, plain, report_tables, score_tables, table_of

if TYPE_CHECKING:
    from rich.table import Table

    from evals.review.clean import CleanedRow
    from evals.review.ensemble import Tool
    from evals.review.match import Encoder, Threshold
    from evals.schema import ReviewExample, RunRecord
    from evals.schema.reports import PublishedResult, ReviewScore, StepScore
    from evals.schema.reviews import ParsedReview, PredictionRow
    from training.models.base import Base
    from training.reviewer.measure import Measure, Measured, Reviewer, Step

Encoders = Annotated[
    str, typer.Option(help="embedded, specter2, specter2-base-mean, lexical, a folder or a sentence-transformers id.")
]
Reference = Annotated[Path, typer.Option(help="JSONL: article_id, concerns of human reviewers.")]
Predictions = Annotated[Path, typer.Option(help="JSONL: article_id, concerns of the system.")]
Similarities = Annotated[Path | None, typer.Option(help="JSONL: article_id, matrix (rows predicted, columns human).")]
Vectors = Annotated[Path | None, typer.Option(help="JSONL: text, vector; instead of an encoder.")]
ThresholdOption = Annotated[
    str | None, typer.Option(help="Similarity from which concerns agree, or auto to calibrate it.")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]


def score(
    reference: Reference,
    predictions: Predictions,
    encoder: Encoders = "embedded",
    similarities: Similarities = None,
    vectors: Vectors = None,
    threshold: ThresholdOption = None,
    false_match_rate: Annotated[
        float, typer.Option(help="For auto: human concerns that may match on another paper.")
    ] = 0.05,
    assignment: Annotated[
        Assignment, typer.Option(help="One-to-one: the best of all, or the most alike pair first.")
    ] = "optimal",
    figures: Annotated[
        FigurePolicy, typer.Option(help="Human concerns left out: both (flag or category), flag, or keep all.")
    ] = "both",
    papers: Annotated[Path | None, typer.Option(help="Articles with texts, for the BM25 control.")] = None,
    retrieve_from: Annotated[
        Path | None, typer.Option(help="Articles whose concerns BM25 may borrow, such as train.")
    ] = None,
    controls: Annotated[
        bool, typer.Option("--controls/--no-controls", help="What knows-nothing lists would get.")
    ] = True,
    per_article: Annotated[bool, typer.Option("--per-article", help="Every article with its matches.")] = False,
    name: Annotated[str | None, typer.Option(help="What the system is called.")] = None,
    draws: Annotated[int, typer.Option(min=1, help="Draws behind each interval.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same figures.")] = 0,
    out: Annotated[Path | None, typer.Option(help="A .json file for the whole score.")] = None,
    as_json: Json = False,
) -> None:
    """Score concerns against human ones, beside controls that know nothing of the paper.

    A row of the reference: {"article_id": "elife:1", "source": "elife", "concerns": [{"text": "...",
    "category": "design_flaw", "severity": "major"}]}; article files are read as well. A row of the
    predictions: {"article_id": "elife:1", "concerns": ["..."]}, or objects with labels.

    The headline is F1 above what the same lists get on other papers of the source. Without
    --threshold it is calibrated for the encoder; docs/review-scoring.md explains every figure.
    Where PREDICTIONS.run.json stands beside the rows, the score says who answered, and how.

    Example: assay review score --reference test.jsonl --predictions clean.jsonl --out score.json

    Example: assay review score --reference test.jsonl --predictions clean.jsonl --encoder
    specter2-base-mean --threshold 0.65 --json
    """
    from evals.io import write_whole
    from evals.review.page import made_by, refuse_overlap
    from evals.review.report import Wanted, measuring_of, read_panel
    from evals.review.score import score as scored

    if similarities is not None and vectors is not None:
        raise BadConfig("--similarities and --vectors were both given; leave one out")
    if out is not None:
        refuse_overlap([reference, predictions], out)
    panel = read_panel(reference, predictions, figures)
    wanted = Wanted(
        encoder=encoder,
        similarities=similarities,
        vectors=vectors,
        threshold=threshold,
        false_match_rate=false_match_rate,
        assignment=assignment,
        figures=figures,
        papers=papers,
        retrieve_from=retrieve_from,
        has_controls=controls,
        has_articles=per_article or out is not None,
        draws=draws,
        seed=seed,
    )
    found = scored(name or predictions.stem, panel, measuring_of(panel, reference, wanted, find_cached)).model_copy(
        update={"made_by": made_by(predictions)}
    )
    for warning in found.warnings:
        notes.print(f"note: {warning}")
    if out is not None:
        write_whole(out, found.model_dump_json(indent=1) + "\n")
        notes.print(f"wrote {out}")
    shown = found if per_article else found.model_copy(update={"articles": None})
    document = shown.model_dump(mode="json")
    if not per_article:
        document.pop("articles")
    emit(document, as_json=as_json, table=score_tables(found))


def find_cached(name: str) -> "Encoder":
    """Return an encoder whose vectors are kept on disk; progress is shown while it encodes."""
    from evals.review.match import CachedEncoder
    from training.encoders import find_encoder
    from training.models.base import default_cache

    def report(done: int, total: int) -> None:
        if done == total or done % 1024 == 0:
            notes.print(f"encoded {done} of {total} texts")

    return CachedEncoder(find_encoder(name), default_cache() / "vectors", report)


def ensemble(
    files: Annotated[list[Path], typer.Argument(help="Prediction files, two or more.")],
    out: Annotated[Path, typer.Option(help="The .jsonl file to write.")],
    strategy: Annotated[Strategy, typer.Option(help="Keep all, those enough tools say, or those all say.")] = "union",
    threshold: Annotated[
        str, typer.Option(help="Similarity from which concerns are one, or auto to calibrate it.")
    ] = "auto",
    linkage: Annotated[
        Linkage, typer.Option(help="complete: all alike. single: chained, as published at 0.98.")
    ] = "complete",
    min_votes: Annotated[int, typer.Option(min=1, help="Tools that must agree, for vote.")] = 2,
    cap: Annotated[int | None, typer.Option(min=1, help="Keep the first N, after merging.")] = None,
    encoder: Encoders = "embedded",
    vectors: Vectors = None,
    seed: Annotated[int, typer.Option(min=0, help="For auto: same seed, same threshold.")] = 0,
    as_json: Json = False,
) -> None:
    """Merge the concerns of several tools; each keeps who said it, where and in which words.

    Only concerns of different tools are joined. The best supported stand first, then the more severe.
    With auto, the threshold is what one concern in a hundred reaches on another paper by chance.

    Example: assay review ensemble 8b.jsonl 9b.jsonl --strategy union --cap 20 --out both.jsonl

    Example: assay review ensemble 8b.jsonl 9b.jsonl --linkage single --threshold 0.98 --encoder
    specter2-base-mean --out published.jsonl
    """
    from evals.review.ensemble import Merging, merge
    from evals.review.match import LEXICAL
    from evals.review.page import drop_record, refuse_overlap
    from evals.review.report import read_vectors

    refuse_overlap(files, out)
    tools = _tools(files)
    found: Encoder | None = None
    if vectors is not None:
        found = read_vectors(vectors)
    elif encoder != LEXICAL:
        found = find_cached(encoder)
    chosen = _threshold(threshold, tools, found, seed)
    merging = Merging(strategy, chosen.value, linkage, min_votes, cap)
    merged = merge(tools, merging, found)
    write_lines(out, [row.model_dump(mode="json") for row in merged.rows])
    drop_record(out)
    notes.print(f"wrote {out}: {counted(merged.n_kept, 'concern')}, threshold {chosen.value:.3f}")
    document = {
        "out": str(out),
        "tools": [tool.name for tool in tools],
        "strategy": strategy,
        "linkage": linkage,
        "threshold": chosen.value,
        "threshold_from": chosen.origin,
        "encoder": found.name if found is not None else LEXICAL,
        "revision": found.revision if found is not None else "",
        **merged.model_dump(mode="json", exclude={"rows"}),
    }
    cells = [(name.replace("_", " "), value) for name, value in document.items()]
    emit(document, as_json=as_json, table=table_of("merged", ("what", "value"), cells))


def _tools(files: list[Path]) -> "list[Tool]":
    """Return the files as tools named by their stems, or by folder and stem where stems repeat."""
    from evals.io import read_rows
    from evals.review.ensemble import Tool
    from evals.schema.reviews import PredictionRow

    stems = [file.stem for file in files]
    names = [file.stem if stems.count(file.stem) == 1 else f"{file.parent.name}/{file.stem}" for file in files]
    return [
        Tool(name, tuple(read_rows(file, PredictionRow, key=lambda row: row.article_id)))
        for name, file in zip(names, files, strict=True)
    ]


def _threshold(written: str, tools: "list[Tool]", encoder: "Encoder | None", seed: int) -> "Threshold":
    from evals.review.ensemble import merging_threshold
    from evals.review.match import Threshold, number_of

    if written == "auto":
        return merging_threshold(tools, encoder, seed)
    return Threshold(number_of(written), "given")


def measure_reviewer(
    reviewer: "Reviewer", papers: "tuple[ReviewExample, ...]", measure: "Measure", folder: Path
) -> "Measured":
    """Return what a reviewer scores on the papers; what was done before is read and not done again."""
    from training.reviewer.infer import Clocks
    from training.reviewer.measure import known_score, measured

    known = known_score(reviewer, folder)
    if known is not None:
        return known
    notes.print(f"{reviewer.name} reviews {counted(len(papers), 'development paper')}")
    with reviewing_bar(len(papers)) as progress:
        clocks = Clocks(time.monotonic, lambda: datetime.now(UTC))
        return measured(reviewer, papers, measure, folder, clocks, find_cached, progress)


ReviewReportOut = Annotated[Path | None, typer.Option(help="A folder for the page and the JSON document.")]
Published = Annotated[
    list[Path] | None, typer.Option("--published", help="A result file of another project, shown apart; repeatable.")
]


def report(
    scores: Annotated[list[Path], typer.Argument(help="Scores that `score --out` wrote.")],
    predictions: Annotated[
        list[str] | None, typer.Option(help="SYSTEM=ROWS.jsonl, to say how its answers ended; repeatable.")
    ] = None,
    against: Annotated[str | None, typer.Option(help="The system others are held to.")] = None,
    published: Published = None,
    out: ReviewReportOut = None,
    as_json: Json = False,
) -> None:
    """Report on one system or several: scores with controls, gates, groups, errors, paired tests.

    The two published gates (F1 of 0.58, recall of 0.45) stand apart, with "either" as documents say and
    "both" as the published code does. Figures that cannot all be true are named. With --predictions,
    answers are told apart: ok, partial, cut, loop, failed, empty, missing.

    Example: assay review report tuned.json base.json --against base --predictions tuned=tuned.jsonl
    --out report
    """
    from evals.review.page import report_page
    from evals.review.report import report_of

    found = report_of(
        _scores(scores),
        {name: _rows(path) for name, path in map(_named, predictions or [])},
        against,
        _published(published),
    )
    _say_faults(found.published)
    if out is not None:
        write_report(out, "report", report_page(found), found)
    emit(found, as_json=as_json, table=None if as_json else report_tables(found))


def leaderboard(
    scores: Annotated[list[Path] | None, typer.Argument(help="Scores of `score --out`.")] = None,
    order: Annotated[
        str, typer.Option(help="f1_above_permuted, f1, recall, precision or recall_major.")
    ] = "f1_above_permuted",
    published: Published = None,
    out: ReviewReportOut = None,
    as_json: Json = False,
) -> None:
    """Rank reviewers by what they find above chance; one table per matcher and reference.

    A rank is one more than the number of systems shown to be better: paired permutation p, corrected
    by Holm, below 0.05. Results of other projects stand in a table of their own. Records of runs, reports
    and boards among the files, as in runs/*.json, are left out.

    Example: assay review leaderboard runs/*/score.json --out board
    """
    from evals.review.leaderboard import METRICS, boards_of
    from evals.review.page import board_page

    if order not in METRICS:
        raise BadConfig(f"--order is {order!r}; it takes {', '.join(METRICS)}.")
    if not scores and not published:
        raise LabError(
            "there is no score to rank; write some with `assay review score --out SCORE.json` and name"
            " them, or name result files with --published."
        )
    boards, others = boards_of(_scores(scores or []), order), _published(published)
    _say_faults(others)
    document = {"boards": boards, "published": others}
    if out is not None:
        write_report(out, "leaderboard", board_page(boards, others), document)
    emit(document, as_json=as_json, table=board_tables(boards, others))


def import_results(
    files: Annotated[list[Path], typer.Argument(help="Result files as they were published.")],
    out: Annotated[Path | None, typer.Option(help="A .jsonl file to write them to.")] = None,
    as_json: Json = False,
) -> None:
    """Read published results and name what in them cannot be; nothing is recomputed.

    Known are result records and leaderboards of bioreview-bench, tables of sources by tool, and the
    summaries beside a training project's predictions.

    Example: assay review import bm25_test_v4.json --out published.jsonl
    """
    from evals.io import write_whole

    found = _published(files)
    if out is not None:
        write_whole(out, "".join(each.model_dump_json() + "\n" for each in found))
        notes.print(f"wrote {counted(len(found), 'result')} to {out}")
    _say_faults(found)
    emit(found, as_json=as_json, table=board_tables((), found))


def _scores(files: list[Path]) -> "list[ReviewScore]":
    """Return the scores among files; those that commands write beside them are told and left out."""
    from evals.review.leaderboard import is_beside_scores, read_score

    beside = [path for path in files if is_beside_scores(path)]
    if beside:
        notes.print(f"left out, as it is no score: {', '.join(map(str, beside))}", soft_wrap=True)
    if files and len(beside) == len(files):
        raise LabError("none of the files named is a score; name what `assay review score --out SCORE.json` wrote.")
    return [read_score(path) for path in files if path not in beside]


def _published(files: list[Path] | None) -> "tuple[PublishedResult, ...]":
    from evals.review.published import read_published

    return tuple(each for path in files or [] for each in read_published(path))


def _say_faults(found: "tuple[PublishedResult, ...]") -> None:
    for each in found:
        for fault in each.faults:
            notes.print(f"cannot be: {each.system} ({each.file}): {fault}")


def _named(written: str) -> tuple[str, Path]:
    name, _, path = written.partition("=")
    if not name or not path:
        raise BadConfig(
            f"--predictions {written!r} names no system; write the name of a score and its rows: tuned=tuned.jsonl"
        )
    return name, Path(path)


def _rows(path: Path) -> "dict[str, PredictionRow]":
    from evals.io import read_rows
    from evals.schema.reviews import PredictionRow

    rows = read_rows(path, PredictionRow, key=lambda row: row.article_id)
    return {row.article_id: row for row in rows}


def write_report(folder: Path, name: str, page: str, document: object) -> None:
    """Write a report twice: as a page for people and as JSON, each whole."""
    from evals.io import write_whole

    text = json.dumps(plain(document), ensure_ascii=False, indent=1) + "\n"
    for path, content in ((folder / f"{name}.md", page), (folder / f"{name}.json", text)):
        write_whole(path, content)
        notes.print(f"wrote {path}")


Run = Annotated[Path, typer.Argument(help="The folder of a run of `assay train review`.")]
Papers = Annotated[
    str, typer.Option("--papers", help="The folder of `assay data review`, or its dev.jsonl; dev papers alone.")
]
Only = Annotated[
    list[int] | None, typer.Option("--step", help="Only these steps: repeat it, two or more; all if none.")
]
BaseAt = Annotated[str, typer.Option("--base", help="The run's base model, where it lies elsewhere by now.")]
ReviewStepsOut = Annotated[Path | None, typer.Option(help="A folder for the page and the JSON document.")]
ThresholdOption = Annotated[str, typer.Option(help="Similarity from which concerns agree, or auto; empty = as usual.")]


def steps(
    run: Run,
    papers: Papers,
    step: Only = None,
    limit: Annotated[int, typer.Option(min=0, help="The first N papers; 0 = all.")] = 0,
    max_new_tokens: Annotated[int, typer.Option(help="Longest reply to a part.")] = 2_048,
    max_parts: Annotated[int, typer.Option(help="Parts a long paper is read in.")] = 4,
    temperature: Annotated[float, typer.Option(help="Of sampling; 0 = greedy.")] = 0.1,
    batch: Annotated[int, typer.Option(help="Parts asked about at a time.")] = 4,
    dtype: Annotated[Weights, typer.Option(help="Weights of the model.")] = Weights.float32,
    cap: Annotated[int, typer.Option(help="Concerns kept of each paper; 0 = all.")] = 20,
    encoder: Encoders = "embedded",
    threshold: ThresholdOption = "",
    draws: Annotated[int, typer.Option(help="Draws behind each interval.")] = 1_000,
    seed: Annotated[int, typer.Option(help="Of sampling and draws.")] = 0,
    base: BaseAt = "",
    out: ReviewStepsOut = None,
    as_json: Json = False,
) -> None:
    """Compare the checkpoints of one run: each reviews the development papers, is cleaned and scored.

    A finished run keeps its last adapter alone; train with --keep_adapters true to keep one for every
    checkpoint. Of a run that is going on, or was stopped, the checkpoints that stand are taken.

    Scores stand above their permuted control with intervals, and beside the change since the step
    before. Only papers of the development split are read, none that the run was trained on, and
    nothing is chosen. Given again it goes on where it was; what was measured is not measured twice.

    Example: assay train review --config training/configs/embedded/review.yaml --keep_adapters true

    Example: assay review steps runs/review/mine --papers runs/review/corpus --out runs/review/steps
    """
    from evals.review.report import COLUMNS, RULE, steps_cells, steps_page, steps_report
    from lab.settings import from_environment
    from training.models.base import find_base
    from training.reviewer.measure import base_named, chosen, development_papers, read_measure, review_record, steps_of
    from training.run.folder import RunFolder

    asked = {
        "limit": limit,
        "max_new_tokens": max_new_tokens,
        "max_parts": max_parts,
        "temperature": temperature,
        "batch": batch,
        "dtype": dtype.value,
        "cap": cap,
        "encoder": encoder,
        "threshold": threshold,
        "draws": draws,
        "seed": seed,
    }
    measure = read_measure(asked, "the command line")
    folder = RunFolder(run)
    record = review_record(folder)
    found = development_papers(papers, measure.limit)
    told = _check_unlearned(record, found, run.name)
    wanted = chosen(steps_of(folder), step or ())
    at = find_base(
        base or base_named(folder, record), lambda _, message: notes.print(message), from_environment().cache
    )
    scores = [_score(each, record, at, found, measure) for each in wanted]
    report = steps_report(run.name, scores, told)
    if out is not None:
        write_report(out, "steps", steps_page(report), report)
    for note in (*told, RULE):
        notes.print(f"note: {note}", soft_wrap=True)
    title = f"{report.run}: {len(report.steps)} steps on {report.n_articles} development papers"
    emit(report, as_json=as_json, table=table_of(title, COLUMNS, steps_cells(report)))


def _check_unlearned(record: "RunRecord", papers: "tuple[ReviewExample, ...]", name: str) -> list[str]:
    """Refuse papers that the run was trained on; return what could not be checked."""
    from training.data.conversations import read_conversations
    from training.reviewer.measure import refuse_learned, settings_of

    files = settings_of(record).data
    gone = [each for each in files if not Path(each).is_file()]
    here = [each for each in files if each not in gone]
    if here:
        refuse_learned(papers, read_conversations(here), name)
    return [
        f"the training rows {each} are not here, so whether they hold a development paper was not checked"
        for each in gone
    ]


def _score(
    step: "Step", record: "RunRecord", base: "Base", papers: "tuple[ReviewExample, ...]", measure: "Measure"
) -> "StepScore":
    """Return the score of a step, measured first where it was not yet."""
    from evals.schema.reports import StepScore
    from training.reviewer.measure import Reviewer, folder_of, write_chain

    write_chain(step, record, base)
    reviewer = Reviewer(step.name, step.folder, str(base.folder))
    found = measure_reviewer(reviewer, papers, measure, folder_of(step.folder, papers, measure))
    return StepScore(
        step=step.number,
        is_last=step.is_last,
        score=found.score,
        statuses=found.run.by_status,
        seconds_per_article=found.run.seconds_per_article,
    )


app = typer.Typer(no_args_is_help=True, help="Peer review: read, clean, score, merge and compare concerns.")

app.command("score")(score)
app.command("ensemble")(ensemble)
app.command("infer")(infer.infer)
app.command("steps")(steps)
app.command("report")(report)
app.command("leaderboard")(leaderboard)
app.command("import")(import_results)

Out = Annotated[Path | None, typer.Option(help="A .jsonl file to write the rows to.")]


@app.command()
def parse(
    rows: Annotated[Path, typer.Argument(help="JSONL: id, raw.")], out: Out = None, as_json: Json = False
) -> None:
    r"""Read the concerns in what a model wrote, however it wrote them.

    A row of the file: {"id": "elife:1", "raw": "```json\n[{...}]\n```"}; a prediction row with
    its raw_output is read as well. Reasoning is left out; broken JSON, several lists, prose and
    tables are read. Labels are repaired by the table evals/review/labels.toml, or marked unknown.

    The status is ok, empty (it says there are none), partial (some of it is lost) or failed.

    Example: assay review parse raw.jsonl --out predictions.jsonl --json
    """
    from evals.io import read_rows
    from evals.review.page import hand_on, refuse_overlap
    from evals.review.parse import parse as read
    from evals.schema.reviews import RawRow

    if out is not None:
        refuse_overlap([rows], out)
    parsed = [read(row.id, row.raw) for row in read_rows(rows, RawRow, key=lambda row: row.id)]
    statuses = Counter(each.status for each in parsed)
    n_concerns = sum(len(each.concerns) for each in parsed)
    said = ", ".join(f"{n} {status}" for status, n in statuses.most_common())
    notes.print(f"read {counted(len(parsed), 'output')}: {said}; {counted(n_concerns, 'concern')}")
    if out is not None:
        write_lines(out, [_prediction(each) for each in parsed])
        hand_on(rows, out)
    emit(parsed, as_json=as_json, table=_parsed_table(parsed))


@app.command()
def clean(
    rows: Annotated[Path, typer.Argument(help="JSONL: article_id, concerns.")],
    out: Annotated[Path, typer.Option(help="The .jsonl file to write.")],
    dedup: Annotated[bool, typer.Option("--dedup/--no-dedup", help="Take repeats out.")] = True,
    cap: Annotated[int | None, typer.Option(min=1, help="Keep the first N of each article; published: 20.")] = None,
    cap_of: Annotated[list[str] | None, typer.Option(help="A cap for one source, such as f1000=15.")] = None,
    as_json: Json = False,
) -> None:
    """Take repeats, blanks and what is over the cap out of predictions; show what went.

    A row of the file: {"article_id": "elife:1", "concerns": ["No control arm.", {"text": "...",
    "category": "design_flaw", "severity": "major"}]}. Rows keep their form and their other fields;
    "removed" and "repaired" say what was done. The record of who answered, where one stands beside the
    rows (ROWS.run.json), goes along.

    Example: assay review clean predictions.jsonl --cap 20 --out clean.jsonl
    """
    from evals.io import read_rows
    from evals.review.clean import Cleaning
    from evals.review.clean import clean as cleaned_row
    from evals.review.page import hand_on, refuse_overlap
    from evals.schema.reviews import PredictionRow

    refuse_overlap([rows], out)
    cleaning = Cleaning(dedup, cap, _caps(cap_of or []))
    read = read_rows(rows, PredictionRow, key=lambda row: row.article_id)
    cleaned = [cleaned_row(row, cleaning) for row in read]
    write_lines(out, [each.document(cleaning) for each in cleaned])
    is_known = hand_on(rows, out)
    notes.print(f"wrote {out}{' and the record of who answered beside it' if is_known else ''}")
    document = _totals(cleaned)
    cells = [(name.replace("_", " "), n) for name, n in document.items()]
    emit(document, as_json=as_json, table=table_of("cleaned", ("what", "how many"), cells))


def write_lines(path: Path, documents: list[dict[str, object]]) -> None:
    """Write one JSON object per line, whole or not at all."""
    from evals.io import write_whole

    lines = (json.dumps(plain(each), ensure_ascii=False) + "\n" for each in documents)
    write_whole(path, "".join(lines))


def _prediction(parsed: "ParsedReview") -> dict[str, object]:
    """Return a parsed review as a prediction row, with its id under both names."""
    document = parsed.model_dump(mode="json")
    return {"article_id": document["id"], **document}


def _parsed_table(parsed: "list[ParsedReview]") -> "Table":
    cells = [(each.id, each.status, len(each.concerns), "; ".join(each.problems)) for each in parsed]
    return table_of("outputs", ("id", "status", "concerns", "problems"), cells)


def _totals(cleaned: "list[CleanedRow]") -> dict[str, int]:
    why = Counter(each.reason for row in cleaned for each in row.removed)
    before = sum(len(row.row.concerns) + len(row.removed) for row in cleaned)
    return {
        "rows": len(cleaned),
        "before": before,
        "after": before - sum(why.values()),
        "removed": sum(why.values()),
        **{f"removed_{reason}": why[reason] for reason in ("blank", "duplicate", "cap")},
        "labels_repaired": sum(len(row.repaired) for row in cleaned),
        "labels_unknown": sum(row.unknown_labels for row in cleaned),
    }


def _caps(written: list[str]) -> dict[str, int]:
    caps = {}
    for each in written:
        source, _, number = each.partition("=")
        if not source or not number.isdigit() or int(number) < 1:
            raise BadConfig(f"--cap-of {each!r} names no cap; write a source and a number: f1000=15")
        caps[source] = int(number)
    return caps
