"""`assay eval verify` and `assay eval readers`: judge rows of any model; agreement of each reader with hand labels."""

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import ConfigDict

from evals.errors import BadConfig
from evals.io import jsonl_text, read_rows, write_whole
from evals.readers import (
    Agreement,
    GivenAnswer,
    LabelRow,
    Reading,
    ReadRequest,
    check_way,
    compare_readers,
    judge_question,
    verdicts_on,
    with_texts,
)
from evals.schema import Claim, EvalReport, GroundTruth, Metric, Record, Share
from evals.verifiers import READINGS, verifier_versions
from evals.verifiers.score import Scoring, pays_falsehood
from evals.verifiers.score import weights as weights_of
from lab.commands import JsonSettings, terminal
from lab.commands.terminal import emit, notes, plural, progress_shown
from lab.settings import comma_separated, from_environment
from lab.ui.text import say
from training.judge.prompts import HttpSettings

if TYPE_CHECKING:
    from training.judge.judge import AnswerJudge

SAMPLE = 100
"""Labelled answers that a judge reads beside those that it is asked to."""
JUDGE_KEY = "ASSAY_JUDGE_KEY"
"""The variable that holds the key of a judge's server."""


class JudgeSettings(JsonSettings):
    """Settings of reading answers, where a judge reads them too."""

    read: str = "auto"
    """auto = the answer line where there is one, else the text; answer = the line alone; text = the text alone; judge = a
    model says what the answer says (--judge)."""
    judge: str = ""
    """For --read judge: a server that says what answers say, URL or URL#MODEL. Its key: ASSAY_JUDGE_KEY."""
    allow_remote: bool = False
    """Let a server on another machine read what is sent."""
    any_judge: bool = False
    """Continue with a judge that reads known answers wrong."""


class LabelledJudge(JudgeSettings):
    """Settings of reading answers, where a judge reads labelled ones too."""

    labels: Path | None = None
    """For --read judge: labelled answers, of which some are read too; the agreement stands beside the result."""


class VerifySettings(LabelledJudge):
    """Settings of `assay eval verify`."""

    rows: Path
    """JSONL: id, prompt, completion, ground_truth."""
    weights: str | None = None
    """What each verifier weighs: assay (the usual), mve, full, phase4, or a list such as V1=.3,V2=.15,V3=.1,V4=.45."""
    v4: str = "proper"
    """How V4 scores a confidence: proper, or to compare legacy, match_v1, calibration_aware."""
    out: Path | None = None
    """A .jsonl file to write every row to; the totals are shown."""


class ReadersSettings(JudgeSettings):
    """Settings of `assay eval readers`."""

    rows: Annotated[Path, typer.Argument(metavar="LABELS")]
    """JSONL: rows of `assay eval verify` with a label."""
    texts: Path | None = None
    """Folder of the files that hold the texts, where the labels only name them."""
    read: str = ",".join(READINGS)
    """Ways with commas between: answer, text, auto, judge (--judge)."""
    draws: Annotated[int, typer.Option(min=1)] = 10_000
    """Draws behind each interval."""
    seed: Annotated[int, typer.Option(min=0)] = 0
    """Same seed, same figures."""


def judge_server(url: str, allow_remote: bool) -> HttpSettings:
    """Return how the judge at URL or URL#MODEL is asked; what it said before is kept in the cache."""
    address, _, model = url.partition("#")
    key = JUDGE_KEY if JUDGE_KEY in os.environ else ""
    return HttpSettings(address, model, key, allow_remote, cache=from_environment().cache / "judge.sqlite")


@dataclass
class TriedJudge:
    """A judge that answers are read by; `failed` and `agreement` say how far it is to be trusted."""

    judge: "AnswerJudge"
    failed: tuple[str, ...]
    agreement: tuple[Agreement, int] | None = None

    def __call__(self, tasks: Sequence[ReadRequest]) -> list[Reading]:
        """Return one reading per task, counting on standard error."""
        of = plural(len(tasks), "answer")
        with progress_shown(f"reading {of}") as progress:
            return self.judge.read_all(tasks, lambda n: progress(n / len(tasks), f"{n} of {of} read"))

    def facts(self) -> dict[str, str]:
        """Return who read and how well, as reports keep it and people read it; never an address or a key."""
        from training.judge.judge import canaries

        of = len(canaries())
        found = {"judge": self.judge.version, "judge, known answers": f"{of - len(self.failed)} of {of} read right"}
        if self.agreement is not None:
            with_labels, unread = self.agreement
            rates = f"correct or not {_share(with_labels.correct)}, four verdicts {_share(with_labels.verdicts)}"
            found["judge, hand labels"] = f"agreement on {with_labels.n} answers ({unread} more not read): {rates}"
        return found

    def noted_in(self, report: EvalReport) -> EvalReport:
        """Return a report that says in its settings who read its answers, and how well."""
        return report.model_copy(update={"settings": {**report.settings, **self.facts()}})

    def tell(self) -> None:
        """Print on standard error how far the judge is to be trusted."""
        notes.print("; ".join(f"{name}: {value}" for name, value in self.facts().items()), soft_wrap=True)


def tried_judge(settings: JudgeSettings) -> TriedJudge | None:
    """Return the judge that the settings name, tried on known and perhaps on labelled answers; None without one."""
    if "judge" not in settings.read.split(","):
        if settings.judge:
            raise BadConfig(f"--judge is given, but answers are read by {settings.read!r}; add --read judge")
        return None
    if not settings.judge.startswith(("http://", "https://")):
        raise BadConfig(say("command.no_server", url=settings.judge))
    from training.judge.judge import AnswerJudge, failed_canaries, refuse_unless_fit

    judge = AnswerJudge(judge_server(settings.judge, settings.allow_remote))
    with progress_shown("asking the judge what known answers say"):
        tried = TriedJudge(judge, failed_canaries(judge))
    if tried.failed:
        notes.print(f"the judge read wrong: {'; '.join(tried.failed)}", style="yellow", soft_wrap=True)
    refuse_unless_fit(judge.label, tried.failed, anyway=settings.any_judge)
    if isinstance(settings, LabelledJudge):
        with progress_shown("reading labelled answers"):
            tried.agreement = _agreement(judge, settings.labels)
    return tried


def _agreement(judge: "AnswerJudge", labels: Path | None) -> tuple[Agreement, int]:
    """Return how far a judge agrees with the labels on a fixed sample of answers, and how many it cannot read."""
    path = labels or Path(str(files("evals").joinpath("labels/dev.jsonl")))
    rows = [row for row in read_rows(path, LabelRow) if row.completion is not None]
    rows = sorted(rows, key=lambda row: hashlib.sha256(row.id.encode()).hexdigest())[:SAMPLE]
    if not rows:
        raise BadConfig(f"{path} holds no labelled answer with its text; name another file (--labels)")
    tasks = [judge_question(row.ground_truth, row.prompt or "", row.completion or "") for row in rows]
    found = dict(zip(tasks, judge.try_all(tasks), strict=True))
    readings = {task: each for task, each in found.items() if isinstance(each, Reading)}
    read = [row for row, task in zip(rows, tasks, strict=True) if task in readings]
    report = compare_readers(read, ("judge",), lambda asked: [readings[task] for task in asked])
    return report.readers[0], len(rows) - len(read)


def _share(metric: Metric) -> str:
    if metric.value is None or metric.low is None or metric.high is None:
        return "not known"
    return f"{metric.value:.2f} ({metric.low:.2f} to {metric.high:.2f})"


class GivenRow(Record):
    """A row of `assay eval verify`; columns of other names are kept."""

    model_config = ConfigDict(frozen=True, extra="allow")

    id: str
    """the answer"""
    prompt: str
    """the question"""
    completion: str
    """the answer's text"""
    ground_truth: GroundTruth
    """what is known to be true"""


class VerifiedRow(Record):
    """What `assay eval verify` says of a row, beside the row's columns that it does not know."""

    model_config = ConfigDict(frozen=True, extra="allow")

    id: str
    """the answer"""
    verdict: str
    """correct, incorrect, contradictory or no_claim"""
    answer: str | None
    """what was read as the answer; null if nothing was"""
    read_by: str | None
    """how it was read: answer (the answer line), text, letter or judge"""
    stated_confidence: Share | None
    """the confidence that the answer states; null if none"""
    confidence_status: str
    """stated, missing or invalid"""
    scores: dict[str, Share | None]
    """each verifier's score; null where it does not apply"""
    reward: Share | None
    """the composed reward; null where only a judge could grade the answer"""
    reason: str
    """why the verifiers say so"""
    claims: tuple[Claim, ...]
    """what the answer asserts"""


def verify(settings: VerifySettings) -> None:
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
    rows, out, way = settings.rows, settings.out, check_way(settings.read)
    scoring = Scoring(weights_of(settings.weights), settings.v4)
    if warning := pays_falsehood(scoring.weights):
        notes.print(f"warning: {warning}", soft_wrap=True)
    if out is not None and out.resolve() == rows.resolve():
        raise BadConfig(f"--out {out} is the file of answers itself; name another file")
    answers = read_rows(rows, GivenRow, key=lambda row: row.id)
    tried = tried_judge(settings)
    with progress_shown(f"judging {plural(len(answers), 'answer')}"):
        texts = [GivenAnswer(row.ground_truth, row.prompt, row.completion) for row in answers]
        verdicts = verdicts_on(texts, way, scoring, tried)
    judged = []
    for row, each in zip(answers, verdicts, strict=True):
        said = {name: value for name, value in each if name in VerifiedRow.model_fields}
        said = {"id": row.id, **(row.model_extra or {}), **said}
        stated = {"stated_confidence": each.confidence.value, "confidence_status": each.confidence.status}
        judged.append(VerifiedRow.model_validate(said | stated))
    versions = ", ".join(f"{name} {value}" for name, value in verifier_versions(settings.v4).items())
    notes.print(
        f"judged {plural(len(judged), 'answer')} by {versions}; read by {terminal.read_totals(judged)}", soft_wrap=True
    )
    if tried is not None:
        tried.tell()
    if out is not None:
        write_whole(out, jsonl_text(terminal.plain(row) for row in judged))
        notes.print(f"wrote {out}")
    table = terminal.verdict_table(judged) if out is None else terminal.verdict_totals(judged)
    emit(judged, as_json=settings.as_json, table=table)


def readers(settings: ReadersSettings) -> None:
    """Hold each way of reading answers against labels: correct or not, four verdicts, who took what for what.

    A row is one of `assay eval verify` with "label": a verdict, or a list of
    verdicts that are all acceptable. "labelled_twice": what two labellers said;
    their agreement stands below. A reader of answer lines is held against the
    answers that have one. Intervals resample questions. --json lists every
    answer that is read otherwise.

    Example: assay eval readers evals/labels/dev.jsonl

    Example: assay eval readers evals/labels/biorlhf.jsonl --texts BioRLHF
    """
    ways = [check_way(way) for way in dict.fromkeys(comma_separated(settings.read))]
    tried = tried_judge(settings)
    rows = with_texts(read_rows(settings.rows, LabelRow, key=lambda row: row.id), settings.texts)
    with progress_shown(f"reading {plural(len(rows), 'answer')}"):
        found = compare_readers(rows, ways, tried, draws=settings.draws, seed=settings.seed)
    if tried is not None:
        tried.tell()
    emit(found, as_json=settings.as_json, table=terminal.readers_tables(found))
