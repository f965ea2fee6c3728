"""`assay prefs`: how many votes there are, and the data set they make."""

from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from evals.schema import Metric
from lab.console import counted, emit, notes, table_of

app = typer.Typer(no_args_is_help=True, help="Count votes and export them as a data set.")

Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]


class Format(StrEnum):
    """The formats of `lab.export`, as the command line offers them."""

    DPO = "dpo"
    KTO = "kto"
    SFT = "sft"
    ARENA = "arena"


@app.command()
def count(as_json: Json = False) -> None:
    """Show how many answers and votes are stored.

    Example: assay prefs count
    """
    from lab.services import open_store
    from lab.settings import from_environment

    store = open_store(from_environment().database_url)
    counts = store.counts()
    store.close()
    rows = [
        (
            f"{pair.first}, {pair.second}",
            pair.first_chosen,
            pair.second_chosen,
            pair.ties,
            pair.both_bad,
        )
        for pair in counts.by_stages
    ]
    columns = ("stages", "first preferred", "second preferred", "tie", "both bad")
    title = (
        f"{counted(counts.votes, 'vote')} by {counted(counts.raters, 'rater')}, "
        f"{counted(counts.answers, 'answer')} stored; "
        f"{counts.usable} make a preference pair, {counts.withdrawn} withdrawn"
    )
    emit(counts, as_json=as_json, table=table_of(title, columns, rows))


@app.command()
def agreement(as_json: Json = False) -> None:
    """Show how far raters agree who were given the same two answers.

    Krippendorff's alpha, Gwet's AC1, Fleiss' and (for two raters) Cohen's kappa, each with n and a 95 %
    interval. 0 is what chance gives, 1 is full agreement.

    Example: assay prefs agreement
    """
    from evals.agreement import NAMES
    from evals.agreement import agreement as agreed
    from lab.outcomes import CHOICES, ratings_of
    from lab.services import open_store
    from lab.settings import from_environment

    store = open_store(from_environment().database_url)
    ratings = list(ratings_of(store.preference_pairs()))
    store.close()
    figures = agreed(ratings, CHOICES)
    rows = [(NAMES[name], *_shown(figure), figure.n) for name, figure in figures.items()]
    raters, units = ({each[place] for each in ratings} for place in (1, 0))
    title = f"{counted(len(raters), 'rater')}, {counted(len(units), 'pair')} of answers"
    document = {
        "raters": len(raters),
        "units": len(units),
        **{name: figure.model_dump() for name, figure in figures.items()},
    }
    columns = ("figure", "value", "95 % interval", "pairs rated twice")
    emit(document, as_json=as_json, table=table_of(title, columns, rows))
    for note in dict.fromkeys(figure.note for figure in figures.values() if figure.note):
        about = [NAMES[name] for name, figure in figures.items() if figure.note == note]
        notes.print(f"{', '.join(about)}: {note}.", soft_wrap=True)


def _shown(figure: Metric) -> tuple[str, str]:
    """Return a figure and its interval as text, a dash where there is none."""
    value = "–" if figure.value is None else f"{figure.value:.3f}"
    has_interval = figure.low is not None and figure.high is not None
    return value, f"{figure.low:.2f} to {figure.high:.2f}" if has_interval else "–"


@app.command()
def export(
    out: Annotated[Path, typer.Option(help="Folder to write; new, empty or an earlier export.")],
    form: Annotated[
        Format, typer.Option("--format", help="Whose row format to write.", case_sensitive=False)
    ] = Format.DPO,
    licence: Annotated[
        str | None, typer.Option("--license", help="Licence for the card, such as cc-by-4.0.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write the votes as a data set with a data card and a statistics file.

    Example: assay prefs export --format dpo --out preferences
    """
    from lab.export import build_export, write_export
    from lab.services import open_store
    from lab.settings import from_environment

    store = open_store(from_environment().database_url)
    pairs = store.preference_pairs()
    store.close()
    made = build_export(pairs, form.value, exported_at=datetime.now(UTC), licence=licence)
    write_export(made, out)
    statistics = made.statistics
    rows = [("votes", statistics.votes)]
    rows += [
        (f"left out: {reason.replace('_', ' ')}", n) for reason, n in statistics.left_out.items()
    ]
    rows += [("rows", statistics.rows), ("raters", statistics.raters)]
    emit(statistics, as_json=as_json, table=table_of(str(out), ("", "count"), rows))
    if licence is None:
        notes.print(
            "No licence is named in the data card; add one with --license before you publish."
        )
