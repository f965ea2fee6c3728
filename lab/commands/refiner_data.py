"""`assay data refiner`: questions with passages and rubrics, for answers that cite."""

from pathlib import Path
from typing import Annotated

import typer

from lab.console import emit, notes, table_of

FILES = ("train.jsonl", "test.jsonl", "README.md", "statistics.json")


def refiner(
    out: Annotated[Path, typer.Option("--out", help=f"Folder for {', '.join(FILES)}.")],
    seed: Annotated[int, typer.Option(help="Chooses records, passages beside, and order.")] = 0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document instead of a table.")
    ] = False,
) -> None:
    """Write questions with passages to cite, rubric items and reference answers (synthetic).

    Made from the study figures and from invented studies; some have no answer in
    their passages. Eye, thymus and what the KMP test asks are in no training row.
    """
    from evals.questions.rows import write_whole
    from evals.refiner.bank import refiner_bank
    from evals.refiner.records import as_jsonl
    from evals.refiner.statistics import card, statistics_of

    bank = refiner_bank(seed)
    splits = {
        name: (records, as_jsonl(records))
        for name, records in (("train", bank.train), ("test", bank.test))
    }
    statistics = statistics_of(splits, seed)
    for name, (_, text) in splits.items():
        write_whole(out / f"{name}.jsonl", text)
    write_whole(out / "README.md", card(statistics))
    write_whole(out / "statistics.json", statistics.model_dump_json(indent=1) + "\n")
    rows = [
        (what.replace("_", " "), *(getattr(statistics.splits[s], what) for s in ("train", "test")))
        for what in ("records", "unanswerable", "groups", "passages", "rubric_items")
    ]
    emit(
        statistics,
        as_json=as_json,
        table=table_of("refiner records (synthetic)", ("what", "train", "test"), rows),
    )
    notes.print(f"written to {out}: {', '.join(FILES)}", soft_wrap=True)
