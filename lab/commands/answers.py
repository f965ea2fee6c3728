"""`assay eval run --answers`: answers that were made elsewhere are graded as a model's own, for any task."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import AliasChoices, Field

from evals.errors import BadConfig
from evals.io import read_rows
from evals.report import build_report, instrument, save_report
from evals.run import baseline_rows, graded
from evals.schema import Record
from evals.schema.reports import Report
from evals.task import StageAnswer, Task
from lab.commands import Json, refiner, review
from lab.commands.review.scores import Encoders
from lab.commands.terminal import counted, emit, notes, summary_table
from lab.results.batch import training_rows
from lab.results.evaluations import command_line, public


class AnswerRow(Record):
    """An answer to the example `id`; answers of several stages may stand in one file."""

    id: str
    answer: str = Field(validation_alias=AliasChoices("answer", "completion", "text"))
    stage: str = ""


def run(
    answers: Annotated[
        Path, typer.Option(help="JSONL: id, answer and, for several systems, stage; of reviews article_id, concerns.")
    ],
    data: Annotated[str, typer.Option(help="What was answered: a set of the task, or a file of it.")],
    out: Annotated[Path, typer.Option(help="Where the report goes, a .json file.")],
    task: Annotated[str, typer.Option("--task", help="questions, review or refine.")] = "questions",
    name: Annotated[str, typer.Option(help="What the system is called; the file's name if not given.")] = "",
    encoder: Encoders = "embedded",
    threshold: Annotated[
        str | None, typer.Option(help="Of reviews: similarity from which concerns agree, or auto.")
    ] = None,
    retrieve_from: Annotated[
        Path | None, typer.Option(help="Of reviews: articles whose concerns BM25 may borrow, such as train.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same figures.")] = 0,
    as_json: Json = False,
) -> None:
    r"""Grade answers that were made elsewhere, and write the report that `assay eval run` would.

    A row: {"id": "kmp-1", "answer": "Answer: liver\nConfidence: 80%", "stage": "gpt"}; `completion` or `text` in
    place of `answer` is taken as well. Every example needs an answer of every stage, "" for none; answers to other
    examples are refused. Of reviews, a row is {"article_id": "elife:1", "concerns": ["..."]}, papers without a row
    count as not answered, and `assay review score` has more options. Refined answers are held against their evidence
    by words; `assay refiner score` takes a judge.

    Example: assay eval run --answers answers.jsonl --data kmp-test --out reports/other.json

    Example: assay eval run --task review --answers clean.jsonl --data test.jsonl --out score.json
    """
    if task == "review":
        return review.scores.score(
            reference=papers_of(data),
            predictions=answers,
            encoder=encoder,
            threshold=threshold,
            retrieve_from=retrieve_from,
            name=name or None,
            seed=seed,
            out=out,
            as_json=as_json,
        )
    examples, of, baselines, about = _questions(data) if task == "questions" else _records(data)
    rows = read_rows(answers, AnswerRow, key=lambda row: f"{row.id} {row.stage}")
    said = answers_of(rows, [of.id_of(each) for each in examples], name or answers.stem, answers)
    found = graded(of, [each for _ in said for each in examples], [each for one in said.values() for each in one])
    report: Report[Any] = build_report(
        examples,
        (*found, *baselines),
        type(of),
        data_name=public(data),
        chain_name=name or answers.stem,
        stage_checksums={},
        settings={"answers": answers.name},
        created_at=datetime.now(UTC),
        command=command_line(task=task, answers=answers, data=data, out=out),
        versions=instrument(),
        **about,
    )
    save_report(report, out)
    notes.print(f"wrote {out}: {counted(len(found), 'answer')} to {counted(len(examples), 'example')}")
    emit(report, as_json=as_json, table=summary_table(report))


def answers_of(
    rows: Sequence[AnswerRow], ids: Sequence[str], name: str, path: Path
) -> Mapping[str, Sequence[StageAnswer]]:
    """Return the answers of each stage in the order of `ids`; BadConfig for ids that were not asked and for missing ones."""
    if unknown := [row.id for row in rows if row.id not in set(ids)]:
        raise BadConfig(
            f"{path} answers {unknown[0]!r} ({len(unknown)} such rows), which --data does not ask; name its data set"
        )
    found: dict[str, dict[str, StageAnswer]] = {}
    for row in rows:
        stage = row.stage or name
        found.setdefault(stage, {})[row.id] = StageAnswer(stage, row.answer, "stop")
    for stage, said in found.items():
        if missing := [each for each in ids if each not in said]:
            raise BadConfig(
                f"{path} has no answer of {stage!r} to {missing[0]!r} ({len(missing)} of {len(ids)} are missing);"
                ' write a row for each, "" where nothing was answered'
            )
    return {stage: [said[each] for each in ids] for stage, said in found.items()}


def papers_of(data: str) -> Path:
    """Return the file of papers that were reviewed: the one named, or the test papers of a folder."""
    path = Path(data)
    return path / "test.jsonl" if path.is_dir() else path


def _questions(data: str) -> tuple[Sequence[Any], Task[Any], Sequence[Any], dict[str, Any]]:
    from evals.questions.sets import load_questions
    from evals.questions.task import Questions
    from training.data.tables import from_hub

    examples, of = load_questions(data, from_hub, part="test"), Questions()
    return examples, of, baseline_rows(of, examples, training_rows(data)), {}


def _records(data: str) -> tuple[Sequence[Any], Task[Any], Sequence[Any], dict[str, Any]]:
    from evals.refine.task import Refine
    from evals.schema.refiner import RewardConfig

    examples, of = refiner.records_named(data), Refine()
    about = {"judge": of.label, "judge_mode": "no language model", "reward": RewardConfig()}
    return examples, of, baseline_rows(of, examples), about
