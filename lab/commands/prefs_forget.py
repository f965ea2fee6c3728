"""`assay prefs forget`: one rater's votes deleted, here and in the data set that an arena pushes to."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evals.errors import LabError
from lab.console import emit, notes, table_of

if TYPE_CHECKING:
    from evals.schema.publishing import Removal
    from lab.tally import Belongings

RECEIPTS = Path("forgotten")


def forget(
    rater: Annotated[
        str, typer.Argument(help="The rater: the identifier, or the hash that exports show.")
    ],
    repo: Annotated[
        str | None,
        typer.Option("--repo", help="Also from the data set that an arena pushes votes to."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be deleted; write nothing anywhere.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    receipts: Annotated[
        Path, typer.Option(help="Where the receipt of a removal on the Hub is kept.")
    ] = RECEIPTS,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON document on standard output.")
    ] = False,
) -> None:
    """Delete every vote, review and graded answer of one rater, on their request. It cannot be undone.

    Data sets that were exported before still hold them: export again, and publish the new version. With
    --repo the lines in an arena's data set are removed too, by one commit; there each start of the
    arena has hashes of its own, so give the one that stands in its rows. Earlier revisions on the Hub
    stay readable until you squash its history; the command for that is told at the end.

    Example: assay prefs forget 0f3a9c2b71d84e55a6b0c1d2e3f40516 --repo my-org/votes --dry-run
    """
    from lab.services import open_store
    from lab.settings import from_environment

    store = open_store(from_environment().database_url)
    try:
        names = {rater, store.hash_rater(rater)}
        if dry_run:
            planned = _planned(repo, names) if repo else None
            _show(rater, store.belongings(rater), planned, as_json=as_json)
            notes.print("This was a dry run: nothing was written.")
            return
        if not yes:
            typer.confirm(
                f"Delete every vote, review and graded answer of {rater}?", abort=True, err=True
            )
        removed = _removed(repo, names, receipts) if repo else None
        gone = store.forget_rater(rater)
    finally:
        store.close()
    _show(rater, gone, removed, as_json=as_json)
    notes.print("Exports made before still hold these votes: export and publish again.")
    if removed and removed.revision:
        _tell_of_history(removed)


def _planned(repo: str, names: set[str]) -> "Removal":
    from hub.client import connect
    from hub.removal import plan_removal

    return plan_removal(connect(), repo, names)


def _removed(repo: str, names: set[str], receipts: Path) -> "Removal":
    """Remove the lines on the Hub and keep the receipt, if there was anything to remove."""
    from hub.client import connect
    from hub.receipts import write_removal
    from hub.removal import remove

    removed = remove(connect(), repo, names, lambda words: notes.print(words, soft_wrap=True))
    if removed.revision:
        notes.print(f"wrote {write_removal(removed, receipts)}", soft_wrap=True)
    return removed


def _show(rater: str, here: "Belongings", removal: "Removal | None", *, as_json: bool) -> None:
    """Show what goes, or would go, by place and kind; LabError if that is nothing at all."""
    if not here.total and not (removal and removal.votes):
        raise LabError(
            f"there is nothing of a rater {rater!r}: no votes, no reviews, no graded answers. Exports show each"
            " rater as 32 hexadecimal digits in the column rater; give that, or the identifier the votes were"
            " cast with."
        )
    kinds = asdict(here)
    document = {"rater": rater, "deleted": here.total, "kinds": kinds, "removal": removal}
    rows = [("here", kind.replace("_", " "), count) for kind, count in kinds.items()]
    if removal is not None:
        rows += [(removal.repo, path, lines) for path, lines in removal.files.items()]
        rows.append((removal.repo, "votes in all", removal.votes))
    emit(document, as_json=as_json, table=table_of("Forgotten", ("where", "what", "count"), rows))
    if removal is not None and removal.unreadable:
        notes.print(
            f"{removal.repo} holds {removal.unreadable} lines that are no votes; they stay, look at them.",
            soft_wrap=True,
        )


def _tell_of_history(removed: "Removal") -> None:
    from hub.removal import SQUASH

    notes.print(
        f"Earlier revisions of {removed.repo}, and tags, still hold these votes. To make one revision of all,"
        f" which cannot be undone either: {SQUASH.format(repo=removed.repo)}",
        soft_wrap=True,
        markup=False,
    )
