"""`assay data check | new | import`: question sets of one's own, looked at, begun and brought in."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evals.errors import BadConfig, LabError
from lab.console import emit, notes, table_of

if TYPE_CHECKING:
    from evals.questions.checking import SetReport
    from evals.questions.sets import Raw

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")]


def check(
    file: Annotated[
        str, typer.Argument(help="A .jsonl, .csv or .yaml file, a set's name, or hub:OWNER/NAME.")
    ],
    as_json: Json = False,
) -> None:
    """Say what is wrong with a question set, what is in it, and what answers without a model would score.

    Every bad row is named with its line, its field and what to do; exit code 1 if there is one. Warnings
    tell of groups or near-duplicates in several splits, of prompts that give the answer away, and of
    training rows without an explanation. Tricks (one constant answer, the question itself, the first
    option) should score no better than chance.

    Example: assay data check my-questions.yaml
    """
    from evals.questions import checking
    from evals.questions.sets import QuestionSet, file_of, load_questions

    path = file_of(file)
    if path is not None:
        report = checking.check(path)
    else:
        rows = load_questions(file, fetch)
        report = checking.report_on(QuestionSet(rows, (), (), is_own=True), file)
    emit(report, as_json=as_json)
    if not as_json:
        _show(report)
    if report.faults:
        rows = len({fault.line for fault in report.faults})
        notes.print(
            f"error: {rows} of {report.rows} rows of {report.file} cannot be used, so none is; mend them and check again",
            style="red",
        )
        raise typer.Exit(1)


def fetch(
    name: str, revision: str | None, config: str | None
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Return the rows of a data set of the Hub. Imports datasets when it is called."""
    from training.questions import from_hub

    return from_hub(name, revision, config)


def know(sources: Iterable[str]) -> None:
    """Let Ask, pairs and preferences know the questions of these sets; LabError for a set with errors."""
    from evals.questions import load_questions, register

    register([row for source in sources for row in load_questions(source, fetch)])


def new(
    out: Annotated[
        Path | None, typer.Option("--out", help="A new .yaml file; without it, it is printed.")
    ] = None,
) -> None:
    """Write a small question set with comments on every field, to be changed into one's own. It runs as it is.

    Example: assay data new --out my-questions.yaml
    """
    import sys

    from evals.questions.rows import write_whole
    from evals.questions.sets import EXAMPLES

    text = (EXAMPLES.parent / "example.yaml").read_text(encoding="utf-8")
    if out is None:
        sys.stdout.write(text)
        return
    if out.suffix not in (".yaml", ".yml"):
        raise BadConfig(f"{out} would hold YAML; give it a name that ends in .yaml")
    if out.exists():
        raise LabError(f"{out} is there already and is left as it is; choose another name")
    write_whole(out, text)
    notes.print(f"wrote {out}; look at it with: assay data check {out}", soft_wrap=True)


def import_set(
    file: Annotated[
        Path,
        typer.Argument(help="A .jsonl, .json, .csv, .tsv, .yaml or .parquet file of a benchmark."),
    ],
    out: Annotated[Path, typer.Option("--out", help="The question set to write, a .jsonl file.")],
    layout: Annotated[str, typer.Option(help="multiple-choice.")] = "multiple-choice",
    split: Annotated[
        str | None,
        typer.Option(
            help="train, dev or test for all rows. Else their field `split`, or 70, 10, 20 % by group."
        ),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            help="The field that groups questions on the same facts. Else each is its own."
        ),
    ] = None,
    source: Annotated[
        str | None, typer.Option(help="Where the questions come from. Else the file's name.")
    ] = None,
    licence: Annotated[
        str | None, typer.Option("--licence", "--license", help="Kept with every row.")
    ] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave out rows that cannot be used, and name them.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Turn a multiple-choice file into a question set.

    The fields of the rows tell how they are laid out: `question` with `options` or `choices` (a list, or an
    object by letter), or A, B, C, D, or opa … opd, or a correct answer and incorrect ones; the answer as index,
    letter or text. Where the right answer always comes first, options are shuffled, the same way every time.

    Example: assay data import test.jsonl --layout multiple-choice --split test --out medical.jsonl
    """
    import json

    from evals.questions import checking
    from evals.questions.importing import Options, import_rows
    from evals.questions.rows import write_whole
    from evals.questions.sets import SPLITS, examples_of

    if out.suffix != ".jsonl":
        raise BadConfig(f"{out} would hold JSONL; give it a name that ends in .jsonl")
    if split is not None and split not in SPLITS:
        raise BadConfig(f"there is no split {split!r}; use one of {', '.join(SPLITS)}")
    options = Options(split, group, source, licence, skip_bad)
    rows, skipped = import_rows(_rows(file), layout, file.stem, options)
    for each in skipped:
        notes.print(f"left out: {each}", soft_wrap=True)
    write_whole(out, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    report = checking.report_on(examples_of(enumerate(rows, 1), file.stem), out.name)
    emit(report, as_json=as_json)
    if not as_json:
        _show(report)
    notes.print(f"wrote {out}: {len(rows)} questions", soft_wrap=True)


def _rows(file: Path) -> "list[Raw]":
    """Return the rows of a benchmark's file; LabError for one that cannot be read."""
    from evals.errors import BadRow
    from evals.jsonl import first_of, read_text
    from evals.questions.sets import raw_rows

    if file.suffix == ".parquet":
        import pyarrow
        import pyarrow.parquet as pq

        try:
            return list(enumerate(pq.read_table(file).to_pylist(), 1))
        except (OSError, pyarrow.ArrowException) as error:
            raise LabError(
                f"{file} cannot be read as parquet ({str(error).splitlines()[0]})"
            ) from None
    if file.suffix == ".json":
        import json

        try:
            document: Any = json.loads(read_text(file))
        except ValueError as error:
            raise LabError(
                f"{file} is no JSON ({error}); give a list of objects, or JSONL"
            ) from None
        if not isinstance(document, list) or not all(isinstance(row, dict) for row in document):
            raise LabError(f"{file} holds no list of objects; give a list of rows, or JSONL")
        return list(enumerate(document, 1))
    rows, faults = raw_rows(file)
    if faults:
        raise first_of([BadRow(file, each.line, each.field, each.problem) for each in faults])
    return rows


def _show(report: "SetReport") -> None:
    if report.faults:
        rows = [
            (each.line, each.id or "", each.field, each.problem, each.remedy)
            for each in report.faults
        ]
        columns = ("line", "id", "field", "what is wrong", "what to do")
        emit(None, as_json=False, table=table_of(f"Bad rows of {report.file}", columns, rows))
    if report.warnings:
        told = [
            (each.check, each.problem, ", ".join(each.rows), each.remedy)
            for each in report.warnings
        ]
        columns = ("", "what was found", "rows, such as", "what to do")
        emit(None, as_json=False, table=table_of("To look at", columns, told))
    counts = [
        *(("split", name, n) for name, n in report.splits.items()),
        *(("kind of truth", name, n) for name, n in report.kinds.items()),
        *(("choices", name, n) for name, n in report.options.items()),
        *(("licence", name, n) for name, n in report.licences.items()),
        ("groups", "", report.groups),
        ("with explanation", "", report.explained),
    ]
    emit(
        None,
        as_json=False,
        table=table_of(f"{report.file}: {report.rows} rows", ("by", "", "n"), counts),
    )
    scores = [
        (each.policy, f"{each.correct} of {each.n}", f"{each.accuracy:.2f}")
        for each in report.scores
    ]
    title = f"What answers without a model score on {report.scored_on} rows"
    emit(None, as_json=False, table=table_of(title, ("policy", "right", "share"), scores))
