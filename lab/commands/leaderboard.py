"""`assay leaderboard`: models and trivial baselines of several reports in one table."""

from pathlib import Path
from typing import Annotated

import typer

from evals.errors import LabError
from lab.console import emit, notes
from lab.standings import save_standings, standings_table


def leaderboard(
    reports: Annotated[
        list[Path] | None,
        typer.Argument(help="Reports on the same questions; those of the embedded chain if none."),
    ] = None,
    order: Annotated[str, typer.Option(help="The metric that the table is ordered by.")] = "reward",
    group: Annotated[str, typer.Option(help="all, unaided, or a kind such as direct.")] = "unaided",
    out: Annotated[
        Path | None, typer.Option(help="A folder for leaderboard.md and leaderboard.json.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON document on standard output.")
    ] = False,
) -> None:
    """Show models and baselines in one table per set of questions, with n, intervals and ranks.

    A rank is one more than the number of entries that are shown to be better: the paired 95 % interval
    excludes zero and p, corrected for all pairs, is below 0.05. Reports of different verifiers are
    not mixed.

    Example: assay leaderboard reports/*.json --order accuracy --out board
    """
    from evals.leaderboard import standings
    from evals.report import instrument, load_report
    from lab.services import REPORTS, chain_folder
    from lab.settings import EMBEDDED

    folder = chain_folder(EMBEDDED) / REPORTS
    paths = reports or sorted(folder.glob("*.json"))
    if not paths:
        raise LabError(
            "there is no report to show; make one with `assay eval run --out REPORT.json` and name it"
        )
    read = [load_report(path) for path in paths]
    for path, report in zip(paths, read, strict=True):
        if report.versions != instrument():
            notes.print(
                f"note: {path} was judged by another version of the verifiers; `assay eval rescore"
                f" {path}` brings it up to date"
            )
    found = standings(read, group, order)
    if out is not None:
        for path in save_standings(found, out):
            notes.print(f"wrote {path}")
    emit(found, as_json=as_json)
    for board in () if as_json else found:
        emit(board, as_json=False, table=standings_table(board))
