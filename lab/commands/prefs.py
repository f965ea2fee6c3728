"""`assay prefs`: votes and annotations counted, compared between raters, exported, taken in, deleted on request."""

from contextlib import closing
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Group

from evals.errors import BadConfig, LabError
from evals.io import write_whole
from evals.stats.agreement import NAMES, WEIGHTED_NAMES
from evals.stats.agreement import agreement as agreed
from lab.commands import DryRun, Json, Licence
from lab.commands.terminal import counted, emit, figure, notes, table_of
from lab.services import open_store
from lab.settings import from_environment
from lab.ui.text import say

if TYPE_CHECKING:
    from lab.store.answers import Store

app = typer.Typer(no_args_is_help=True, help="Count votes and annotations, and export them as data sets.")

Project = Annotated[str, typer.Option("--project", help="A project of annotated answers: `assay prefs projects`.")]


def _store() -> "Store":
    return open_store(from_environment().database_url)


@app.command()
def count(as_json: Json = False) -> None:
    """Show how many answers and votes are stored.

    Example: assay prefs count
    """
    with closing(_store()) as store:
        counts = store.counts()
    rows = [
        (f"{pair.first}, {pair.second}", pair.first_chosen, pair.second_chosen, pair.ties, pair.both_bad)
        for pair in counts.by_stages
    ]
    columns = ("stages", "first preferred", "second preferred", "tie", "both bad")
    known = {"usable": counts.usable, "withdrawn": counts.withdrawn, "votes": counted(counts.votes, "vote")}
    known |= {"raters": counted(counts.raters, "rater"), "answers": counted(counts.answers, "answer")}
    title = say("command.votes", **known)
    emit(counts, as_json=as_json, table=table_of(title, columns, rows))


@app.command()
def board(as_json: Json = False) -> None:
    """Rate the stages by the votes: Bradley-Terry with ties, overall and for each kind of question.

    Ratings have 95 % intervals over questions (over raters too, from ten on); 400 points more are odds of ten to one.
    A rank counts who is shown to be better. Votes on equal texts, and on answers that name who wrote them, count nowhere.

    Example: assay prefs board
    """
    from lab.compare.board import boards

    with closing(_store()) as store:
        found = boards(store.preference_pairs())
    columns = ("model", "rank", "rating", "95 % interval", "win rate", "votes", "group")
    tables = []
    for each in found.boards:
        rows = []
        for row in each.rows:
            span, share = f"{row.low:.0f} to {row.high:.0f}", f"{row.win_rate:.0%}"
            rows.append((row.model, row.rank, f"{row.rating:.0f}", span, share, row.votes, row.group))
        title = f"{each.kind}: {counted(each.votes, 'vote')}, {counted(each.raters, 'rater')}"
        tables.append(table_of(title, columns, rows))
    emit(found, as_json=as_json, table=Group(*tables))
    for reason, n in found.left_out.items():
        if n:
            notes.print(f"Left out: {say(f'preferences.reason.{reason}', n=n)}.")
    if any(row.group > 1 for each in found.boards for row in each.rows):
        notes.print("Ratings of different groups cannot be compared: no votes connect them.")


@app.command()
def projects(as_json: Json = False) -> None:
    """Show the projects of answers that people annotate, and how far each is.

    Example: assay prefs projects
    """
    from evals.annotations import progress

    with closing(_store()) as store:
        said = store.annotations
        known = [(each, progress(each, said.items(each.id), said.standing(each.id))) for each in said.projects()]
    rows = [(one.title, one.id, done.items, done.complete, f"{done.submitted} of {done.wanted}") for one, done in known]
    table = table_of("Annotation projects", ("title", "project", "answers", "complete", "annotations"), rows)
    document = [{"project": one.id, "title": one.title, **done._asdict()} for one, done in known]
    emit(document, as_json=as_json, table=table)


@app.command()
def agreement(project: Project = "", as_json: Json = False) -> None:
    """Show how far raters agree who were given the same two answers, or annotated the same answers of a project.

    Krippendorff's alpha, Gwet's AC1, Fleiss' and (for two raters) Cohen's kappa, each with n and a 95 %
    interval. 0 is what chance gives, 1 is full agreement. Ratings agree the more the nearer they are.

    Example: assay prefs agreement
    """
    from evals.annotations import agreements
    from lab.store.outcomes import CHOICES, ratings_of

    with closing(_store()) as store:
        if project:
            known = store.annotations.project(project)
            found = agreements(known, store.annotations.standing(project))
            weighted = dict.fromkeys((each.name for each in known.guidelines.dimensions), WEIGHTED_NAMES)
            rows = [
                (what, weighted.get(what, NAMES)[name], figure(each.value), each.n)
                for what, figures in found.items()
                for name, each in figures.items()
            ]
            columns = ("rated", "figure", "value", "answers rated twice")
            emit(found, as_json=as_json, table=table_of(known.title, columns, rows))
            return
        ratings = list(ratings_of(store.preference_pairs()))
    figures = agreed(ratings, CHOICES)
    spans = {name: "–" if each.low is None else f"{each.low:.2f} to {each.high:.2f}" for name, each in figures.items()}
    rows = [(NAMES[name], figure(each.value), spans[name], each.n) for name, each in figures.items()]
    raters, units = {each.rater for each in ratings}, {each.unit for each in ratings}
    title = f"{counted(len(raters), 'rater')}, {counted(len(units), 'pair')} of answers"
    document = {"raters": len(raters), "units": len(units), **figures}
    columns = ("figure", "value", "95 % interval", "pairs rated twice")
    emit(document, as_json=as_json, table=table_of(title, columns, rows))
    for note in dict.fromkeys(each.note for each in figures.values() if each.note):
        about = [NAMES[name] for name, each in figures.items() if each.note == note]
        notes.print(f"{', '.join(about)}: {note}.", soft_wrap=True)


@app.command()
def export(
    out: Annotated[Path, typer.Option(help="Folder to write; new, empty or an earlier export.")],
    form: Annotated[
        Literal["dpo", "kto", "sft", "arena", "reward", "labels", "label-studio", "csv", "json"],
        typer.Option("--format", help="Whose format to write; those behind arena need --project."),
    ] = "dpo",
    project: Project = "",
    licence: Licence = None,
    as_json: Json = False,
) -> None:
    """Write the votes as a data set with a data card and a statistics file, or the annotations of a project.

    Example: assay prefs export --format dpo --out preferences
    """
    from lab.compare.export import FORMATS, build_export, write_export

    with closing(_store()) as store:
        if project:
            _export_project(store, project, form, out, as_json=as_json)
            return
        if form not in FORMATS:
            known = ", ".join(FORMATS)
            raise BadConfig(f"votes are not written as {form!r}; choose one of {known}, or name a --project.")
        pairs = store.preference_pairs()
    made = build_export(pairs, form, exported_at=datetime.now(UTC), licence=licence)
    write_export(made, out)
    statistics = made.statistics
    rows = [("votes", statistics.votes)]
    rows += [(f"left out: {reason.replace('_', ' ')}", n) for reason, n in statistics.left_out.items()]
    rows += [("rows", statistics.rows), ("raters", statistics.raters)]
    emit(statistics, as_json=as_json, table=table_of(str(out), ("", "count"), rows))
    if licence is None:
        notes.print("No licence is named in the data card; add one with --license before you publish.")


def _export_project(store: "Store", project: str, form: str, out: Path, *, as_json: bool) -> None:
    from evals.annotations.formats import FORMS
    from evals.annotations.formats import export as write

    known = next((each for each in FORMS if each == form), None)
    if known is None:
        raise BadConfig(f"annotations are not written as {form!r}; choose one of {', '.join(FORMS)}.")
    said = store.annotations
    made = write(said.project(project), said.items(project), said.standing(project), known)
    for name, content in made.files.items():
        write_whole(out / name, content)
    rows = [("rows", made.rows), *((f"left out: {why}", n) for why, n in made.left_out.items())]
    document = {"rows": made.rows, "files": sorted(made.files), "left_out": made.left_out}
    emit(document, as_json=as_json, table=table_of(str(out), ("", "count"), rows))


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(help="What the other program exported.")],
    project: Annotated[str, typer.Option("--project", help="The project that it goes into: `assay prefs projects`.")],
    layout: Annotated[Literal["label-studio", "csv"], typer.Option("--format", help="Whose file it is.")],
    as_json: Json = False,
) -> None:
    """Take annotations into a project; a file with one bad row is not taken at all.

    Example: assay prefs import tasks.json --format label-studio --project answers
    """
    from evals.annotations.formats import read_annotations

    with closing(_store()) as store:
        said = store.annotations
        known, items = said.project(project), said.items(project)
        found = read_annotations(file, layout, known, items, datetime.now(UTC))
        said.add_items(found.items)
        said.save(found.annotations)
    done = {"annotations": len(found.annotations), "new_answers": len(found.items)}
    emit(done, as_json=as_json, table=table_of(known.title, ("", "count"), [*done.items()]))


@app.command()
def forget(
    rater: Annotated[str, typer.Argument(help="The rater: the identifier, or the hash that exports show.")],
    dry_run: DryRun = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: Json = False,
) -> None:
    """Delete every vote, review and graded answer of one rater, on their request. It cannot be undone.

    Exports made before still hold them. Data sets that were published from folders below this one are named with what
    to do about each; docs/publishing.md says it in full.

    Example: assay prefs forget 0f3a9c2b71d84e55a6b0c1d2e3f40516 --dry-run
    """
    from hub.datasets import published_rows

    with closing(_store()) as store:
        names = {rater, store.hash_rater(rater)}
        published = published_rows(Path(), names)
        if not dry_run and not yes:
            typer.confirm(f"Delete every vote, review and graded answer of {rater}?", abort=True, err=True)
        gone = store.belongings(rater) if dry_run else store.forget_rater(rater)
    if not gone.total and not any(each["rows"] for each in published):
        raise LabError(say("command.no_rater", rater=rater))
    kinds = asdict(gone)
    rows = [("here", kind.replace("_", " "), n) for kind, n in kinds.items()]
    rows += [(f"{each['repo']} on the Hub, from {each['folder']}", "rows", each["rows"]) for each in published]
    document = {"rater": rater, "deleted": gone.total, "kinds": kinds, "published": published}
    title = "Dry run: nothing was deleted" if dry_run else "Forgotten"
    emit(document, as_json=as_json, table=table_of(title, ("where", "what", "count"), rows))
    for each in published:
        notes.print(say("command.published", **each), soft_wrap=True)
    notes.print("Exports made before still hold these votes: export them again.")
