"""`assay data export`: a question set as a folder for lm-evaluation-harness, Inspect or verifiers."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from lab.console import emit, notes, table_of


def export(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SET",
            help="A set's name, a .jsonl, .csv or .yaml file or hub:OWNER/NAME; several with commas.",
        ),
    ],
    tool: Annotated[str, typer.Option("--as", help="lm-eval, inspect or verifiers.")],
    out: Annotated[Path, typer.Option("--out", help="A new folder.")],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document instead of tables.")
    ] = False,
) -> None:
    """Write a question set as a folder that the tool's own command runs, with Assay's grader inside.

    lm-eval and inspect measure the test rows; verifiers trains on the train rows and measures the test rows.
    The folder needs the tool and pydantic, not Assay. Its README.md has the commands. Questions that only a
    judge can grade are left out and counted.

    Example: assay data export codons-and-enzymes --as inspect --out codons
    """
    from evals.questions.export import export_questions
    from evals.questions.sets import load_questions

    parts = [part.strip() for part in source.split(",") if part.strip()]
    examples = [example for part in parts for example in load_questions(part, _from_hub)]
    done = export_questions(examples, source, tool, out)
    rows = [
        (split, kind, n) for split, kinds in done.questions.items() for kind, n in kinds.items()
    ]
    rows += [("left out", reason, n) for reason, n in done.left_out.items()]
    emit(
        done,
        as_json=as_json,
        table=table_of(f"{done.name} for {done.tool}", ("split", "kind", "questions"), rows),
    )
    notes.print(
        f"written to {out}: {len(done.files)} files. To run it, in the folder above:",
        soft_wrap=True,
    )
    for line in done.run:
        notes.print(f"  {line}", soft_wrap=True)


def _from_hub(
    name: str, revision: str | None, config: str | None
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Fetch a set of the Hub; what that needs is slow to import, and imported only for it."""
    from training.questions import from_hub

    return from_hub(name, revision, config)
