"""`assay eval readers`: how far each way of reading answers agrees with labels that were given by hand."""

from pathlib import Path
from typing import Annotated

import typer

from lab.commands import answer_judge
from lab.console import counted, emit, notes
from lab.figures import confusion_table, kind_table, misread_table, readers_table


def readers(
    labels: Annotated[
        Path, typer.Argument(help="JSONL: rows of `assay eval verify` with a label.")
    ],
    texts: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the files that hold the texts, where the labels only name them."
        ),
    ] = None,
    read: Annotated[
        list[str] | None,
        typer.Option(
            help="answer, text, auto, or judge (--judge); may be given several times. The first three if not given."
        ),
    ] = None,
    judge: answer_judge.Url = "",
    judge_model: answer_judge.Model = "",
    key_env: answer_judge.KeyEnv = "",
    allow_remote: answer_judge.Remote = False,
    any_judge: answer_judge.AnyJudge = False,
    show: Annotated[
        bool, typer.Option("--show", help="List every answer that is read otherwise.")
    ] = False,
    draws: Annotated[int, typer.Option(min=1, help="Draws behind each interval.")] = 10_000,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same figures.")] = 0,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON document on standard output.")
    ] = False,
) -> None:
    """Hold each way of reading answers against labels: correct or not, four verdicts, who took what for what.

    A row is one of `assay eval verify` with "label": a verdict, or a list of
    verdicts that are all acceptable. "labelled_twice": what two labellers said;
    their agreement stands below. A reader of answer lines is held against the
    answers that have one. Intervals resample questions.

    Example: assay eval readers evals/labels/dev.jsonl

    Example: assay eval readers evals/labels/biorlhf.jsonl --texts BioRLHF --show
    """
    from evals.jsonl import read_rows
    from evals.readers import LabelRow, check_way, compare_readers, with_texts
    from evals.verifiers import READINGS

    ways = [check_way(way) for way in dict.fromkeys(read or READINGS)]
    way = "judge" if "judge" in ways else "auto"
    tried = answer_judge.tried_judge(
        way, judge, judge_model, key_env, allow_remote, any_judge=any_judge, sample=False
    )
    rows = with_texts(read_rows(labels, LabelRow, key=lambda row: row.id), texts)
    with notes.status(f"reading {counted(len(rows), 'answer')}"):
        found = compare_readers(rows, ways, tried, draws=draws, seed=seed)
    if tried is not None:
        tried.tell()
    emit(found, as_json=as_json)
    if as_json:
        return
    tables = [readers_table(found)]
    for each in found.readers:
        if each.n:
            tables += [
                confusion_table(each),
                kind_table(each),
                *([misread_table(each)] if show else []),
            ]
    for table in tables:
        emit(found, as_json=False, table=table)
