"""`assay refiner rescore`: the answers of a report judged again, without a model."""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evals.errors import BadConfig, IncomparableReports
from lab.commands.refiner_graded import graded, other_set, records_named, tables
from lab.commands.refiner_judge import (
    Cache,
    Json,
    KeyEnv,
    Model,
    Remote,
    Votes,
    Word,
    command_of,
    judge_of_answers,
    judge_words,
)
from lab.console import counted, emit, notes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from evals.refiner.answering import Answered
    from evals.refiner.second import OtherSet
    from evals.schema.refinerreports import RefinerReport
    from evals.schema.refining import RefinerRecord

FIRST = re.compile(r"(?P<name>.+) \(first (?P<count>\d+)\)")
"""What a report on the first records alone says of its data."""
EXAMPLE = (
    "Example: assay refiner rescore report.json --judge http://127.0.0.1:8000/v1 --out again.json"
)


def rescore(
    report: Annotated[Path, typer.Argument(help="A report of `assay refiner run`.")],
    judge: Word,
    out: Annotated[Path, typer.Option(help="Where the new report goes, a .json file.")],
    data: Annotated[
        str, typer.Option(help="The records that were answered; as by default those of the report.")
    ] = "",
    items: Annotated[
        str,
        typer.Option(
            help="Items of another writer, judged beside: a JSONL file, second (our own, for refiner-test), or"
            " none; as by default second for refiner-test. Required where the report was judged by any other"
            " set, which would be lost."
        ),
    ] = "",
    model: Model = "",
    key_env: KeyEnv = "",
    allow_remote: Remote = False,
    cache: Cache = None,
    votes: Votes = 1,
    as_json: Json = False,
) -> None:
    """Judge the answers of a report again: by another judge, or by items of another writer too.

    A report keeps every answer in full, so no model is needed; the reward is that of the report. Records
    other than those that were answered are refused.
    """
    from evals.questions.rows import write_whole
    from evals.refiner.report import Origin, build, read_report
    from training.judging.questions import VERSION
    from training.judging.settings import HttpSettings
    from training.runs import public_path
    from training.surroundings import versions

    old = read_report(report)
    first = FIRST.fullmatch(old.data_name)
    source = data or (first["name"] if first else old.data_name)
    records = _records(old, source, int(first["count"]) if first else None)
    others = other_set(items, source, records)
    if not items:
        _refuse_lost(old, others)
    server = HttpSettings(judge, model, key_env, allow_remote, cache=cache, votes=votes)
    asked, mode = judge_of_answers(server)
    rows = graded(_answers(old, records), old.reward, asked, others)
    options = {"data": public_path(data), "items": public_path(items), **judge_words(server)}
    again = command_of("rescore", ("REPORT.json",), {**options, "out": "REPORT.json"})
    origin = Origin(
        data_name=old.data_name,
        chain_name=old.chain_name,
        stage_checksums=old.stage_checksums,
        judge=asked.label,
        judge_mode=mode,
        reward=old.reward,
        settings=old.settings,
        versions={**versions(), "judge prompt": VERSION},
        created_at=datetime.now(UTC),
        command=f"{old.command.partition(' && ')[0]} && {again}",
        other_items=others,
    )
    new = build(rows, records, origin)
    write_whole(out, new.model_dump_json(indent=1) + "\n")
    notes.print(
        f"wrote {out}: {counted(len(rows), 'answer')}, judged by {asked.label}", soft_wrap=True
    )
    emit(new, as_json=as_json, table=tables(new))


def _records(old: "RefinerReport", source: str, count: int | None) -> "Sequence[RefinerRecord]":
    """Return the records that a report is about; IncomparableReports if they are others by now.

    `count`: how many of the first were answered, None for all.
    """
    from evals.refiner.records import records_sha256

    records = records_named(source)[:count]
    if records_sha256(records) != old.data_sha256:
        raise IncomparableReports(
            f"{source} holds other records than those that were answered (sha256 {old.data_sha256[:12]}); name"
            " the file of then with --data, or answer anew: assay refiner run."
        )
    return records


def _refuse_lost(old: "RefinerReport", others: "OtherSet | None") -> None:
    """Raise BadConfig if the report was judged by items of another writer that would be left out now."""
    now = others.name if others else None
    if old.other_items in (None, now):
        return
    fate = f"replaced by those of {now}" if now else "left out"
    raise BadConfig(
        f"the report was judged by the items of {old.other_items} too, and they would be {fate}; name that set"
        " with --items (a JSONL file, or second for our own), or leave it out with --items none."
    )


def _answers(old: "RefinerReport", records: "Sequence[RefinerRecord]") -> "list[Answered]":
    from evals.refiner.answering import Answered

    by_id = {record.id: record for record in records}
    return [
        Answered(row.stage, by_id[row.scored.record_id], row.scored.completion, row.finish_reason)
        for row in old.rows
    ]
