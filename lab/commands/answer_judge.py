"""`--read judge` of `assay eval`: its options, and the judge that they make, tried before it reads anything."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evals.errors import BadConfig
from lab.commands.refiner_judge import KeyEnv, Remote
from lab.console import counted, notes

if TYPE_CHECKING:
    from evals.readers import Agreement
    from evals.schema import EvalReport, Metric
    from evals.verifiers.judged import Reading, Task
    from training.judging.extraction import AnswerJudge

__all__ = ["AnyJudge", "KeyEnv", "Labels", "Model", "Remote", "TriedJudge", "Url", "tried_judge"]

SAMPLE = 100
"""Labelled answers that a judge reads beside those that it is asked to."""
Url = Annotated[
    str,
    typer.Option(
        "--judge",
        help="For --read judge: address of an OpenAI-compatible server whose model says what answers say.",
    ),
]
Model = Annotated[
    str,
    typer.Option(
        "--judge-model", help="Model to ask of the server; empty = the one that it lists."
    ),
]
Labels = Annotated[
    Path | None,
    typer.Option(
        help=f"For --read judge: labelled answers, of which {SAMPLE} are read too; the agreement stands beside the result."
    ),
]
AnyJudge = Annotated[
    bool, typer.Option("--any-judge", help="Go on with a judge that reads known answers wrong.")
]


@dataclass
class TriedJudge:
    """A judge that answers are read by; `failed` and `agreement` say how far it is to be trusted."""

    judge: "AnswerJudge"
    failed: tuple[str, ...]
    agreement: "tuple[Agreement, int] | None" = None

    def __call__(self, tasks: "Sequence[Task]") -> "list[Reading]":
        """Return one reading per task, counting on standard error."""
        of = counted(len(tasks), "answer")
        with notes.status(f"reading {of}") as status:
            return self.judge.read_all(tasks, lambda n: status.update(f"{n} of {of} read"))

    def facts(self) -> dict[str, str]:
        """Return who read and how well, as reports keep it and people read it; never an address or a key."""
        from training.judging.extraction import canaries

        of = len(canaries())
        found = {
            "judge": self.judge.version,
            "judge, known answers": f"{of - len(self.failed)} of {of} read right",
        }
        if self.agreement is not None:
            with_labels, unread = self.agreement
            found["judge, hand labels"] = (
                f"agreement on {with_labels.n} answers ({unread} more not read): correct or not"
                f" {_share(with_labels.correct)}, four verdicts {_share(with_labels.verdicts)}"
            )
        return found

    def marked(self, report: "EvalReport") -> "EvalReport":
        """Return a report that says in its settings who read its answers, and how well."""
        return report.model_copy(update={"settings": {**report.settings, **self.facts()}})

    def tell(self) -> None:
        """Print on standard error how far the judge is to be trusted."""
        notes.print(
            "; ".join(f"{name}: {value}" for name, value in self.facts().items()), soft_wrap=True
        )


def tried_judge(
    read: str,
    url: str,
    model: str = "",
    key_env: str = "",
    allow_remote: bool = False,
    labels: Path | None = None,
    any_judge: bool = False,
    sample: bool = True,
) -> TriedJudge | None:
    """Return the judge that the options name, None where answers are read without one.

    It is asked the canary questions, and with `sample` to read some labelled answers: those of `labels`, else
    those that come with Assay. Its readings are kept in the cache folder. BadConfig for options that do not go
    together and for a judge that is not fit.
    """
    if read != "judge":
        if url:
            raise BadConfig(f"--judge is given, but answers are read by {read!r}; add --read judge")
        return None
    if not url.startswith(("http://", "https://")):
        raise BadConfig(
            f"--read judge needs the address of a server, found {url!r}; add --judge, such as"
            " --judge http://127.0.0.1:8000/v1"
        )
    from lab.settings import from_environment
    from training.judging.extraction import AnswerJudge, failed_canaries, refuse_unless_fit
    from training.judging.settings import HttpSettings

    judge = AnswerJudge(
        HttpSettings(
            base_url=url,
            model=model,
            key_variable=key_env,
            allow_remote=allow_remote,
            cache=from_environment().cache / "judge.sqlite",
        )
    )
    with notes.status("asking the judge what known answers say"):
        tried = TriedJudge(judge, failed_canaries(judge))
    if tried.failed:
        notes.print(
            f"the judge read wrong: {'; '.join(tried.failed)}", style="yellow", soft_wrap=True
        )
    refuse_unless_fit(judge.label, tried.failed, anyway=any_judge)
    if sample:
        with notes.status("reading labelled answers"):
            tried.agreement = _agreement(judge, labels)
    return tried


def _agreement(judge: "AnswerJudge", labels: Path | None) -> "tuple[Agreement, int]":
    """Return how far a judge agrees with the labels on a fixed sample of answers, and how many it cannot read."""
    from evals.jsonl import read_rows
    from evals.readers import LabelRow, compare_readers
    from evals.verifiers.judged import Reading, task_of

    path = labels or Path(str(files("evals").joinpath("labels/dev.jsonl")))
    rows = [row for row in read_rows(path, LabelRow) if row.completion is not None]
    rows = sorted(rows, key=lambda row: hashlib.sha256(row.id.encode()).hexdigest())[:SAMPLE]
    if not rows:
        raise BadConfig(
            f"{path} holds no labelled answer with its text; name another file (--labels)"
        )
    tasks = [task_of(row.ground_truth, row.prompt or "", row.completion or "") for row in rows]
    found = dict(zip(tasks, judge.try_all(tasks), strict=True))
    readings = {task: each for task, each in found.items() if isinstance(each, Reading)}
    read = [row for row, task in zip(rows, tasks, strict=True) if task in readings]
    report = compare_readers(read, ("judge",), lambda asked: [readings[task] for task in asked])
    return report.readers[0], len(rows) - len(read)


def _share(metric: "Metric") -> str:
    if metric.value is None or metric.low is None or metric.high is None:
        return "not known"
    return f"{metric.value:.2f} ({metric.low:.2f} to {metric.high:.2f})"
