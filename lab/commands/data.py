"""`assay data`: write the questions, rebuilt from the fact tables, as JSONL files."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lab.console import emit, notes, table_of

if TYPE_CHECKING:
    from evals.questions.statistics import DataStatistics
    from evals.schema import Example

app = typer.Typer(
    no_args_is_help=True,
    help="Write training and test questions, rebuilt from the fact tables, as JSONL files.",
)

Out = Annotated[
    Path, typer.Option("--out", help="Folder for train.jsonl, test.jsonl, statistics.json.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of a table.")]


@app.command(epilog="Example: assay data kmp --out data/kmp --seed 7")
def kmp(
    out: Out,
    seed: Annotated[int, typer.Option(help="Chooses wordings and order.")] = 0,
    drill: Annotated[int, typer.Option(help="How often each row is there, 1 to 20.")] = 1,
    as_json: Json = False,
) -> None:
    """Write the questions about the kaempferol mouse study: training rows and 20 test questions."""
    from evals.questions import kmp_test, kmp_training

    statistics = _write(
        out, "kmp", {"seed": seed, "drill": drill}, kmp_training(seed, drill), kmp_test()
    )
    _report(statistics, out, as_json=as_json)


@app.command(epilog="Example: assay data pathways --out data/pathways --hold-out eye,thymus")
def pathways(
    out: Out,
    hold_out: Annotated[
        str, typer.Option(help="Tissues kept for the test, with commas between; '' keeps none.")
    ] = "eye,thymus",
    seed: Annotated[int, typer.Option(help="Order of the training rows; 0 = table order.")] = 0,
    as_json: Json = False,
) -> None:
    """Write the questions about gene sets in spaceflown mice, split by tissue."""
    import random

    from evals.questions import pathway_heldout, pathway_training

    tissues = tuple(dict.fromkeys(name.strip() for name in hold_out.split(",") if name.strip()))
    train = list(pathway_training(tissues))
    if seed:
        random.Random(seed).shuffle(train)
    settings: dict[str, int | str] = {"seed": seed, "hold_out": ",".join(tissues)}
    statistics = _write(out, "pathways", settings, tuple(train), pathway_heldout(tissues))
    _report(statistics, out, as_json=as_json)


def _write(
    out: Path,
    name: str,
    settings: dict[str, int | str],
    train: "tuple[Example, ...]",
    test: "tuple[Example, ...]",
) -> "DataStatistics":
    """Write the three files, each whole, and return the statistics. They come last, as the seal."""
    from evals.questions.rows import as_jsonl, write_whole
    from evals.questions.statistics import DataStatistics, split_statistics, versions

    texts = {"train": as_jsonl(train), "test": as_jsonl(test)}
    statistics = DataStatistics(
        name=name,
        settings=settings,
        splits={
            "train": split_statistics(train, texts["train"]),
            "test": split_statistics(test, texts["test"]),
        },
        versions=versions(),
    )
    for split, text in texts.items():
        write_whole(out / f"{split}.jsonl", text)
    write_whole(out / "statistics.json", statistics.model_dump_json(indent=1) + "\n")
    return statistics


def _report(statistics: "DataStatistics", out: Path, *, as_json: bool) -> None:
    """Print what was written, by kind and by tissue."""
    train, test = statistics.splits["train"], statistics.splits["test"]
    rows: list[tuple[str, str, int, int]] = []
    for group, of_train, of_test in (
        ("kind", train.kinds, test.kinds),
        ("tissue", train.tissues, test.tissues),
    ):
        for name in dict.fromkeys((*of_train, *of_test)):
            rows.append((group, name, of_train.get(name, 0), of_test.get(name, 0)))
    rows.append(("total", "", train.rows, test.rows))
    table = table_of(f"{statistics.name} questions", ("by", "name", "train", "test"), rows)
    emit(statistics, as_json=as_json, table=table)
    notes.print(f"written to {out}: train.jsonl, test.jsonl, statistics.json", soft_wrap=True)
