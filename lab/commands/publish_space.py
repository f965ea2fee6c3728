"""`assay publish space`: a Space from its bundle, with the packages that its app needs."""

from collections.abc import Sequence
from itertools import chain, count
from pathlib import Path
from typing import Annotated

import typer

from lab.commands.publish import (
    CreatePr,
    DryRun,
    Json,
    Public,
    Repo,
    show_plans,
    show_receipts,
    tell,
    warn,
)
from lab.console import notes

BOARD = "leaderboard"


def space(
    name: Annotated[
        str,
        typer.Argument(
            help="lab, leaderboard, arena, reviewer, or a metric: stated_calibration, …"
        ),
    ],
    repo: Repo,
    report: Annotated[
        list[Path] | None,
        typer.Option(
            "--report",
            help="What the leaderboard shows, of one chain or of several side by side; else the reports of"
            " the embedded chain.",
        ),
    ] = None,
    dry_run: DryRun = False,
    public: Public = False,
    create_pr: CreatePr = False,
    tag: Annotated[str | None, typer.Option("--tag", help="Also set a version.")] = None,
    as_json: Json = False,
) -> None:
    """Publish a Space: the whole lab, a leaderboard, an arena for votes, a reviewer, or a metric.

    Its README says what it is told by variables and secrets; set those on the Space's settings page.

    Example: assay publish space arena --repo my-org/arena --dry-run
    Example: assay publish space leaderboard --repo my-org/board --report a/kmp-test.json --report b/kmp-test.json
    """
    from hub.bundles import bundle_folder, pack_space
    from hub.checks import Limits
    from hub.client import connect
    from hub.plan import Target
    from hub.publish import Steps, plan, publish

    folder = bundle_folder(name)
    made = _board(report or []) if name == BOARD else {}
    parcel = pack_space(folder, repo, made, Limits())
    target = Target(repo, tag, public, create_pr)
    planned = plan(connect(), parcel, target)
    if dry_run:
        show_plans([planned], as_json=as_json)
        return
    warn(planned.warnings)
    receipt = publish(connect(), parcel, target, steps=Steps(tell))
    show_receipts([receipt], as_json=as_json)
    notes.print(f"The Space: {receipt.endpoint}/spaces/{repo}", soft_wrap=True)


def _board(files: list[Path]) -> dict[str, bytes]:
    """Return the page of the leaderboard, and beside it the reports that it was written from."""
    from evals.report import load_report
    from lab.board import board_page
    from lab.services import REPORTS, chain_folder
    from lab.settings import EMBEDDED

    paths = files or sorted((chain_folder(EMBEDDED) / REPORTS).glob("*.json"))
    reports = [load_report(path) for path in paths]
    tell(f"writing the page from {len(reports)} reports")
    return {
        "index.html": board_page(reports).encode(),
        **{f"{REPORTS}/{name}": path.read_bytes() for name, path in _named(paths).items()},
    }


def _named(paths: Sequence[Path]) -> dict[str, Path]:
    """Return files by a name for each: one whose name is taken gets the next number that is free."""
    named: dict[str, Path] = {}
    for path in paths:
        names = chain([path.name], (f"{path.stem}-{number}{path.suffix}" for number in count(2)))
        named[next(name for name in names if name not in named)] = path
    return named
