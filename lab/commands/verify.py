"""`assay eval verify`: judge answers that are on file, whoever wrote them."""

import json
from pathlib import Path
from typing import Annotated

import typer

from evals.errors import BadConfig
from evals.schema import GroundTruth, Record, Verdict
from lab.commands import answer_judge
from lab.console import counted, emit, notes, plain
from lab.figures import VerifiedRow, read_totals, verdict_table, verdict_totals


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
Read = Annotated[
    str,
    typer.Option(
        help="How answers are read: auto = the answer line where there is one, else the text; answer = the"
        " line alone; text = the text alone; judge = a model says what the answer says (--judge)."
    ),
]
Out = Annotated[
    Path | None, typer.Option(help="A .jsonl file to write every row to; the totals are shown.")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]


def verify(
    rows: Annotated[Path, typer.Argument(help="JSONL: id, prompt, completion, ground_truth.")],
    read: Read = "auto",
    judge: answer_judge.Url = "",
    judge_model: answer_judge.Model = "",
    key_env: answer_judge.KeyEnv = "",
    allow_remote: answer_judge.Remote = False,
    labels: answer_judge.Labels = None,
    any_judge: answer_judge.AnyJudge = False,
    weights: Weights = None,
    v4: Mode = "proper",
    out: Out = None,
    as_json: Json = False,
) -> None:
    r"""Judge answers that are on file: verdict, what was read and how, stated confidence, scores, reward.

    A row of the file: {"id": "q1", "prompt": "Is adipogenesis up in thymus?",
    "completion": "It falls.\nAnswer: down\nConfidence: 80%", "ground_truth":
    {"kind": "direct", "tissue": "thymus", "pathway": "HALLMARK_ADIPOGENESIS",
    "direction": "DOWN"}}. Other kinds of ground truth: choice, number, set,
    term, rubric, and those of our own questions (docs/verifiers.md).

    The verdict is correct, incorrect, contradictory or no_claim; read_by says
    whether it comes from the answer line or from text. V1 asks for what was
    asked, V2 for true figures beside it, V3 for no contradiction, V4 for an
    honest confidence; null where one does not apply. The reward is their
    weighted mean, null for a rubric; the verdict never looks at V4.

    Example: assay eval verify answers.jsonl --weights phase4 --json

    Example: assay eval verify answers.jsonl --read judge --judge http://127.0.0.1:8000/v1
    """
    from evals.jsonl import read_rows
    from evals.questions.rows import write_whole
    from evals.readers import check_way, verdicts_on
    from evals.verifiers import Scoring, instrument
    from evals.verifiers.judged import Answer
    from evals.verifiers.presets import weights as weights_of

    way = check_way(read)
    scoring = Scoring(weights_of(weights), v4)
    if out is not None and out.resolve() == rows.resolve():
        raise BadConfig(f"--out {out} is the file of answers itself; name another file")
    answers = read_rows(rows, AnswerRow, key=lambda row: row.id)
    tried = answer_judge.tried_judge(
        read, judge, judge_model, key_env, allow_remote, labels, any_judge
    )
    with notes.status(f"judging {counted(len(answers), 'answer')}"):
        asked = [Answer(row.ground_truth, row.prompt, row.completion) for row in answers]
        verdicts = verdicts_on(asked, way, scoring, tried)
    judged = [_row(row.id, verdict) for row, verdict in zip(answers, verdicts, strict=True)]
    versions = ", ".join(f"{name} {value}" for name, value in instrument(v4).items())
    notes.print(
        f"judged {counted(len(judged), 'answer')} by {versions}; read by {read_totals(judged)}",
        soft_wrap=True,
    )
    if tried is not None:
        tried.tell()
    if out is not None:
        write_whole(out, "".join(_line(row) for row in judged))
        notes.print(f"wrote {out}")
    table = verdict_table(judged) if out is None else verdict_totals(judged)
    emit(judged, as_json=as_json, table=table)


def _row(name: str, verdict: Verdict) -> VerifiedRow:
    return VerifiedRow(
        id=name,
        verdict=verdict.verdict,
        answer=verdict.answer,
        read_by=verdict.read_by,
        stated_confidence=verdict.confidence.value,
        confidence_status=verdict.confidence.status,
        scores=verdict.scores,
        reward=verdict.reward,
        reason=verdict.reason,
        claims=verdict.claims,
    )


def _line(row: VerifiedRow) -> str:
    return json.dumps(plain(row), ensure_ascii=False) + "\n"
