"""`assay refiner export`: answers that people rated and corrected in the lab, as rows for training."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from lab.console import emit, notes, table_of

EXAMPLE = "Example: assay refiner export --format sft --out refined.jsonl"


class Format(StrEnum):
    """The forms of `lab.refine_exports`, as the command line offers them."""

    SFT = "sft"
    DPO = "dpo"
    PAIRS = "pairs"


def export(
    out: Annotated[Path, typer.Option(help="The JSONL file to write.")],
    form: Annotated[
        Format,
        typer.Option(
            "--format",
            help="sft: records whose reference is the answer; dpo: prompt, chosen, rejected; pairs: record,"
            " better, worse.",
            case_sensitive=False,
        ),
    ] = Format.SFT,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
) -> None:
    """Write the answers that people corrected or rated good in the lab's Refine tab.

    The rows of sft are what `assay train sft` takes as records; those of dpo what `assay train dpo`
    takes; those of pairs what `assay refiner items` takes. Records that are kept for testing, and
    answers that are not well formed, are left out and counted.
    """
    from lab.refine_desk import held_out
    from lab.refine_exports import export as rows_of
    from lab.refine_exports import write
    from lab.services import open_store
    from lab.settings import from_environment

    store = open_store(from_environment().database_url)
    worked = store.workbench.everything()
    store.close()
    rows = rows_of(worked, form.value, held_out())
    write(rows, out)
    document = {"format": form.value, "file": str(out), "rows": rows.n, "left_out": rows.left_out}
    counts = [(f"left out: {why.replace('_', ' ')}", n) for why, n in rows.left_out.items()]
    table = table_of(str(out), ("", "count"), [("rows", rows.n), *counts])
    emit(document, as_json=as_json, table=table)
    notes.print(f"from {len(worked)} answered records in the lab", soft_wrap=True)
