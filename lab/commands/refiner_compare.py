"""`assay refiner compare`: two stages on the same records, metric by metric."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evals.errors import BadConfig
from lab.commands.refiner_judge import Json
from lab.console import emit, table_of

if TYPE_CHECKING:
    from rich.table import Table

    from evals.schema.refinerreports import RefinerComparison

EXAMPLE = "Example: assay refiner compare report.json --stages sft,refiner"


def compare(
    reports: Annotated[list[Path], typer.Argument(help="One report, or two on the same records.")],
    stages: Annotated[str, typer.Option(help="Two stages, such as sft,refiner.")] = "sft,refiner",
    as_json: Json = False,
) -> None:
    """Compare two stages on the same records: difference, 95 % interval, p.

    Differences are second minus first, over whole studies and tissues. Two reports: the first stage of
    the first, the second stage of the second; another judge or other records are refused.

    "rubric by X" has only the items that X wrote (record: whoever wrote the record). "rubric by record
    above X" is how far the record's own items are ahead of those of X: where its difference is above 0,
    X sees less of the gain.
    """
    from evals.refiner.report import compare as compared
    from evals.refiner.report import read_report

    names = [name.strip() for name in stages.split(",") if name.strip()]
    if len(names) != 2 or not 1 <= len(reports) <= 2:
        raise BadConfig(
            f"compare takes two stages and one report or two, found {len(names)} and {len(reports)}; such as"
            " --stages sft,refiner report.json."
        )
    read = [read_report(path) for path in reports]
    found = compared((read[0], names[0]), (read[-1], names[1]))
    emit(found, as_json=as_json, table=_differences(found))


def _differences(found: "RefinerComparison") -> "Table":
    rows = [
        (
            each.metric,
            each.n,
            f"{_number(each.first)}, {_number(each.second)}",
            _number(each.difference, "+.3f"),
            f"{each.interval[0]:+.3f} to {each.interval[1]:+.3f}" if each.interval else "none",
            _number(each.p_permutation),
            _number(each.p_holm),
        )
        for each in found.differences
    ]
    title = (
        f"{found.data_name}: {found.second} minus {found.first}, {found.n} records in"
        f" {found.n_clusters} clusters; judged by {found.judge}"
    )
    columns = ("metric", "n", "first,\nsecond", "difference", "95 % interval", "p", "p, Holm")
    return table_of(title, columns, rows)


def _number(value: float | None, form: str = ".3f") -> str:
    return "none" if value is None else format(value, form)
