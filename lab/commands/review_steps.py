"""`assay review steps`: one review run at its checkpoints, compared on development papers."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lab.commands.review_infer import Weights
from lab.commands.review_measure import measure_reviewer
from lab.commands.review_score import Encoders, Json
from lab.console import emit, notes, table_of

if TYPE_CHECKING:
    from evals.schema import ReviewExample, RunRecord
    from evals.schema.reviewsteps import StepScore, StepsReport
    from training.base import Base
    from training.reviewing.development import Measure
    from training.reviewing.steps import Step

Run = Annotated[Path, typer.Argument(help="The folder of a run of `assay train review`.")]
Papers = Annotated[
    str,
    typer.Option(
        "--papers", help="The folder of `assay data review`, or its dev.jsonl; dev papers alone."
    ),
]
Only = Annotated[
    list[int] | None,
    typer.Option("--step", help="Only these steps: repeat it, two or more; all if none."),
]
BaseAt = Annotated[
    str, typer.Option("--base", help="The run's base model, where it lies elsewhere by now.")
]
Out = Annotated[Path | None, typer.Option(help="A folder for the page and the JSON document.")]
Threshold = Annotated[
    str, typer.Option(help="Similarity from which concerns agree, or auto; empty = as usual.")
]


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
    threshold: Threshold = "",
    draws: Annotated[int, typer.Option(help="Draws behind each interval.")] = 1_000,
    seed: Annotated[int, typer.Option(help="Of sampling and draws.")] = 0,
    base: BaseAt = "",
    out: Out = None,
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
    from evals.concerns.steps import steps_report
    from lab.settings import from_environment
    from training.base import find_base
    from training.reviewing.development import development_papers, read_measure
    from training.reviewing.steps import base_named, chosen, review_record, steps_of
    from training.runs import RunFolder

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
    at = find_base(base or base_named(folder, record), _tell, from_environment().cache)
    scores = [_score(each, record, at, found, measure) for each in wanted]
    report = steps_report(run.name, scores, told)
    if out is not None:
        _write(report, out)
    for note in told:
        notes.print(f"note: {note}", soft_wrap=True)
    _show(report, as_json=as_json)


def _write(report: "StepsReport", folder: Path) -> None:
    from evals.concerns.steps import steps_page
    from lab.commands.review_report import write_report

    write_report(folder, "steps", steps_page(report), report)


def _show(report: "StepsReport", *, as_json: bool) -> None:
    from evals.concerns.steps import COLUMNS, RULE, steps_cells

    notes.print(f"note: {RULE}", soft_wrap=True)
    title = f"{report.run}: {len(report.steps)} steps on {report.n_articles} development papers"
    emit(report, as_json=as_json, table=table_of(title, COLUMNS, steps_cells(report)))


def _check_unlearned(
    record: "RunRecord", papers: "tuple[ReviewExample, ...]", name: str
) -> list[str]:
    """Refuse papers that the run was trained on; return what could not be checked."""
    from training.conversations import read_conversations
    from training.reviewing.development import refuse_learned
    from training.reviewing.steps import settings_of

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
    step: "Step",
    record: "RunRecord",
    base: "Base",
    papers: "tuple[ReviewExample, ...]",
    measure: "Measure",
) -> "StepScore":
    """Return the score of a step, measured first where it was not yet."""
    from evals.schema.reviewsteps import StepScore
    from training.reviewing.development import folder_of
    from training.reviewing.measured import Reviewer
    from training.reviewing.steps import write_chain

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


def _tell(_: float, message: str) -> None:
    notes.print(message)
