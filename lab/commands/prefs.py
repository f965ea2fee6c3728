"""`assay prefs`: votes and annotations counted, compared between raters, exported, taken in, deleted on request."""

from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from evals.errors import BadConfig, LabError
from evals.io import write_whole
from evals.schema.votes import StagePairCounts
from evals.stats.agreement import NAMES, WEIGHTED_NAMES
from evals.stats.agreement import rater_agreement as agreed
from lab.commands import JsonSettings, LicenceOption, command
from lab.commands.terminal import as_table, emit, end_progress, notes, plural
from lab.services import open_store
from lab.settings import from_environment
from lab.ui.text import say

if TYPE_CHECKING:
    from lab.store.answers import Store

app = typer.Typer(no_args_is_help=True, help="Count votes and annotations, and export them as data sets.")


class AgreementSettings(JsonSettings):
    """Settings of `assay prefs agreement`."""

    project: str = ""
    """A project of annotated answers, as `assay prefs count` names it; else the votes."""


class ExportSettings(AgreementSettings):
    """Settings of `assay prefs export`."""

    out: Annotated[Path, typer.Option()]
    """Folder to write; new, empty or an earlier export."""
    form: Annotated[
        Literal["dpo", "kto", "sft", "arena", "labels", "label-studio", "csv"], typer.Option("--format")
    ] = "dpo"
    """Whose format to write; those behind arena need --project."""
    licence: LicenceOption = None
    """A licence id of the Hub, such as apache-2.0."""


class ImportSettings(JsonSettings):
    """Settings of `assay prefs import`."""

    file: Path
    """What the other program exported."""
    project: Annotated[str, typer.Option()]
    """The project that it goes into, as `assay prefs count` names it."""
    layout: Annotated[Literal["label-studio", "csv"], typer.Option("--format")]
    """Whose file it is."""


class ForgetSettings(JsonSettings):
    """Settings of `assay prefs forget`."""

    rater: str
    """The rater: the identifier, or the hash that exports show."""
    dry_run: bool = False
    """Show what would be deleted; delete nothing."""
    yes: bool = False
    """Do not ask."""


def _store() -> "Store":
    return open_store(from_environment().database_url)


@command(app)
def count(settings: JsonSettings) -> None:
    """Show how many answers and votes are stored, and the projects of annotated answers with how far each is.

    Example: assay prefs count
    """
    from evals.preferences.annotations import progress

    with closing(_store()) as store:
        counts, said = store.counts(), store.annotations
        known = [(each, progress(each, said.items(each.id), said.latest(each.id))) for each in said.projects()]
    told = {"usable": counts.usable, "withdrawn": counts.withdrawn, "votes": plural(counts.votes, "vote")}
    told |= {"raters": plural(counts.raters, "rater"), "answers": plural(counts.answers, "answer")}
    projects = [{"project": one.id, "title": one.title, **done._asdict()} for one, done in known]
    tables = [as_table(say("command.votes", **told), counts.by_stages, *StagePairCounts.model_fields)]
    tables += [as_table("Annotation projects", projects)] if projects else []
    document = counts.model_dump(mode="json") | {"projects": projects}
    emit(document, as_json=settings.as_json, table=Group(*tables))


@command(app)
def board(settings: JsonSettings) -> None:
    """Show the ratings of models by the votes, and what speaks against believing them.

    Five checks: a side that wins as a side, circles, an order that hangs on one rater or on ties, length and
    markdown that win by themselves. Each finds a fault by chance in about one of a hundred boards without any.

    Example: assay prefs board
    """
    from evals.preferences.board import boards

    with closing(_store()) as store:
        found = boards(store.preference_pairs())
    tables: list[RenderableType] = []
    for each in found.boards[: 1 if len(found.boards) == 2 else None]:  # of one kind only: all again
        votes, questions = plural(each.votes, "vote"), plural(each.questions, "question")
        known = {"kind": each.kind, "votes": votes, "questions": questions, "raters": plural(each.raters, "rater")}
        names = ("model", "rank", "rating", "low", "high", "win_rate", "votes", "group")
        tables.append(as_table(say("ratings.caption", **known), each.rows, *names))
    for check in found.checks:
        said = " ".join(say(f"ratings.check.{key}", **check.figures) for key in check.says)
        tables.append(Text(f"{'!' if check.is_fault else ' '} {said}"))
    emit(found, as_json=settings.as_json, table=Group(*tables))


@command(app)
def agreement(settings: AgreementSettings) -> None:
    """Show how far raters agree who were given the same two answers, or annotated the same answers of a project.

    Krippendorff's alpha, Gwet's AC1, Fleiss' and (for two raters) Cohen's kappa, each with n and a 95 %
    interval. 0 is what chance gives, 1 is full agreement. Ratings agree the more the nearer they are. Of a project
    also: how each rater agrees with known labels and with themselves, and how long an answer takes.

    Example: assay prefs agreement
    """
    from evals.preferences.annotations import agreements, check_raters
    from evals.preferences.rows import ratings_of
    from evals.schema.votes import CHOICES

    with closing(_store()) as store:
        if settings.project:
            known = store.annotations.project(settings.project)
            said = store.annotations.latest(settings.project)
            found, checked = agreements(known, said), check_raters(known, store.annotations.items(known.id), said)
            weighted = dict.fromkeys((each.name for each in known.guidelines.dimensions), WEIGHTED_NAMES)
            named = {
                what: {weighted.get(what, NAMES)[name]: each for name, each in figures.items()}
                for what, figures in found.items()
            }
            raters = as_table("Raters: agreement with known labels (gold) and with themselves (itself)", checked)
            tables = Group(as_table(known.title, named), raters)
            emit({**found, "raters": checked}, as_json=settings.as_json, table=tables)
            return
        ratings = list(ratings_of(store.preference_pairs()))
    figures = agreed(ratings, CHOICES)
    raters, units = {each.rater for each in ratings}, {each.unit for each in ratings}
    title = f"{plural(len(raters), 'rater')}, {plural(len(units), 'pair')} of answers"
    document = {"raters": len(raters), "units": len(units), **figures}
    named = {NAMES[name]: each for name, each in figures.items()}
    emit(document, as_json=settings.as_json, table=as_table(title, named))
    for note in dict.fromkeys(each.note for each in figures.values() if each.note):
        about = [NAMES[name] for name, each in figures.items() if each.note == note]
        notes.print(f"{', '.join(about)}: {note}.", soft_wrap=True)


@command(app)
def export(settings: ExportSettings) -> None:
    """Write the votes as a data set with a data card and a statistics file, or the annotations of a project.

    Example: assay prefs export --format dpo --out preferences
    """
    from evals.preferences.rows import FORMATS, export_votes
    from lab.shared.exports import write_export

    out, form = settings.out, settings.form
    with closing(_store()) as store:
        if settings.project:
            _export_project(store, settings)
            return
        if form not in FORMATS:
            known = ", ".join(FORMATS)
            raise BadConfig(f"votes are not written as {form!r}; choose one of {known}, or name a --project.")
        pairs = store.preference_pairs()
    made = export_votes(pairs, form, exported_at=datetime.now(UTC), licence=settings.licence)
    write_export(made, out)
    emit(made.statistics, as_json=settings.as_json, table=str(out))
    if settings.licence is None:
        notes.print("No licence is named in the data card; add one with --license before you publish.")


def _export_project(store: "Store", settings: ExportSettings) -> None:
    from evals.preferences.files import FORMS
    from evals.preferences.files import export as write

    known = next((each for each in FORMS if each == settings.form), None)
    if known is None:
        raise BadConfig(f"annotations are not written as {settings.form!r}; choose one of {', '.join(FORMS)}.")
    project, said = settings.project, store.annotations
    made = write(said.project(project), said.items(project), said.latest(project), known, said.names())
    for name, content in made.files.items():
        write_whole(settings.out / name, content)
    document = {"rows": made.rows, "files": sorted(made.files), "left_out": made.left_out}
    emit(document, as_json=settings.as_json, table=str(settings.out))


@command(app, "import")
def import_(settings: ImportSettings) -> None:
    """Take annotations into a project; a file with one bad row is not taken at all.

    Example: assay prefs import tasks.json --format label-studio --project answers
    """
    from evals.preferences.files import read_annotations

    with closing(_store()) as store:
        said = store.annotations
        known, items = said.project(settings.project), said.items(settings.project)
        found = read_annotations(settings.file, settings.layout, known, items, datetime.now(UTC))
        said.add_items(found.items)
        said.save(found.annotations)
    done = {"annotations": len(found.annotations), "new_answers": len(found.items)}
    emit(done, as_json=settings.as_json, table=known.title)


@command(app)
def forget(settings: ForgetSettings) -> None:
    """Delete every vote, review and graded answer of one rater, on their request. It cannot be undone.

    Exports made before still hold them. Data sets that were published from folders below this one are named with what
    to do about each; docs/publishing.md says it in full.

    Example: assay prefs forget 0f3a9c2b71d84e55a6b0c1d2e3f40516 --dry-run
    """
    from hub.datasets import published_rows

    rater = settings.rater
    with closing(_store()) as store:
        published = published_rows(Path(), {rater, store.hash_rater(rater)})
        if not settings.dry_run and not settings.yes:
            end_progress()
            typer.confirm(f"Delete every vote, review and graded answer of {rater}?", abort=True, err=True)
        kinds = store.belongings(rater) if settings.dry_run else store.forget_rater(rater)
    deleted = sum(kinds.values())
    if not deleted and not any(each["rows"] for each in published):
        raise LabError(say("command.no_rater", rater=rater))
    document = {"rater": rater, "deleted": deleted, "kinds": kinds, "published": published}
    title = "Dry run: nothing was deleted" if settings.dry_run else "Forgotten"
    emit(document, as_json=settings.as_json, table=title)
    for each in published:
        notes.print(say("command.published", **each), soft_wrap=True)
    notes.print("Exports made before still hold these votes: export them again.")
