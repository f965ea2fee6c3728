"""`assay eval verify`: judge answers that are on file, whoever wrote them."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import track

from evals.errors import BadConfig
from evals.schema import GroundTruth, Record, Verdict
from lab.console import counted, emit, notes, plain
from lab.figures import VerifiedRow, verdict_table, verdict_totals

MANY = 1000
"""From so many rows on, progress is shown while they are judged."""


class AnswerRow(Record):
    """A row of `assay eval verify`."""

    id: str
    prompt: str
    completion: str
    ground_truth: GroundTruth


Weights = Annotated[
    str | None,
    typer.Option(
        help="What each verifier weighs: assay (the usual), mve, full, phase4, or a list such as"
        " V1=.3,V2=.15,V3=.1,V4=.45."
    ),
]
Mode = Annotated[
    str,
    typer.Option(
        "--v4",
        help="How V4 scores a confidence: proper, or to compare legacy, match_v1, calibration_aware.",
    ),
]
Out = Annotated[
    Path | None, typer.Option(help="A .jsonl file to write every row to; the totals are shown.")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]


def verify(
    rows: Annotated[Path, typer.Argument(help="JSONL: id, prompt, completion, ground_truth.")],
    weights: Weights = None,
    v4: Mode = "proper",
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Judge answers that are on file: verdict, stated confidence, scores, reward, claims.

    A row of the file: {"id": "q1", "prompt": "Is adipogenesis up in thymus?",
    "completion": "It falls. Confidence: 80%", "ground_truth": {"kind":
    "direct", "tissue": "thymus", "pathway": "HALLMARK_ADIPOGENESIS",
    "direction": "DOWN"}}. Other kinds of ground truth: mechanism, uncertainty,
    comparison, conservation, count, label, abstain, facts (docs/verifiers.md).

    The verdict is correct, incorrect, contradictory or no_claim. V1 asks for
    what was asked, V2 for true side statements on enrichment, V3 for no
    contradiction, V4 for an honest confidence; null where one does not apply.
    The reward is their weighted mean; the verdict never looks at V4.

    Example: assay eval verify answers.jsonl --weights phase4 --json
    """
    from evals.jsonl import read_rows
    from evals.questions.rows import write_whole
    from evals.verifiers import Scoring, instrument, judge
    from evals.verifiers.presets import weights as weights_of

    scoring = Scoring(weights_of(weights), v4)
    if out is not None and out.resolve() == rows.resolve():
        raise BadConfig(f"--out {out} is the file of answers itself; name another file")
    read = read_rows(rows, AnswerRow, key=lambda row: row.id)
    shown = track(
        read,
        "judging",
        console=notes,
        transient=True,
        disable=len(read) < MANY or not notes.is_terminal,
    )
    judged = [
        _row(row.id, judge(row.ground_truth, row.prompt, row.completion, scoring)) for row in shown
    ]
    versions = ", ".join(f"{name} {value}" for name, value in instrument(v4).items())
    notes.print(f"judged {counted(len(judged), 'answer')} by {versions}")
    if out is not None:
        write_whole(out, "".join(_line(row) for row in judged))
        notes.print(f"wrote {out}")
    table = verdict_table(judged) if out is None else verdict_totals(judged)
    emit(judged, as_json=as_json, table=table)


def _row(name: str, verdict: Verdict) -> VerifiedRow:
    return VerifiedRow(
        id=name,
        verdict=verdict.verdict,
        stated_confidence=verdict.confidence.value,
        confidence_status=verdict.confidence.status,
        scores=verdict.scores,
        reward=verdict.reward,
        reason=verdict.reason,
        claims=verdict.claims,
    )


def _line(row: VerifiedRow) -> str:
    return json.dumps(plain(row), ensure_ascii=False) + "\n"
