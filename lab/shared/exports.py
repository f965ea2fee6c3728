"""Data sets that leave the lab: votes and annotations as a folder or zip file, and as what a run is trained on."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Literal
from zipfile import ZIP_DEFLATED, ZipFile

from evals.errors import LabError
from evals.io import write_whole
from evals.preferences.files import Form, FormatFiles, export
from evals.preferences.rows import CARD, FORMATS, ROWS, STATISTICS, Export, Trainable, export_votes
from evals.schema.votes import ExportFormat
from lab.services import Services
from lab.ui.components import Html, as_html, heading, notice
from lab.ui.text import lines, plural, say

if TYPE_CHECKING:
    import gradio as gr

VOTE_FORMS: tuple[ExportFormat, ...] = ("dpo", "kto", "sft", "arena")
NEWEST_VOTES = 2000
"""Votes that pages read, the newest."""
GUIDELINES_TEXT = Path(__file__).parents[1] / "ui" / "text" / "guidelines.md"


def files_of(export: Export) -> dict[str, str]:
    """Return the files of a data set of votes; the statistics last: they mark a folder as a finished export."""
    from hub.cards import with_mark  # late: the page comes up without what draws figures of cards
    from hub.cards.dataset import GUIDELINES, dataset_card

    statistics = export.statistics
    card = dataset_card(statistics, FORMATS[statistics.format].row, guidelines=GUIDELINES)
    return {
        ROWS: export.lines.decode(),
        GUIDELINES: GUIDELINES_TEXT.read_text(encoding="utf-8"),
        CARD: with_mark(str(card)),
        STATISTICS: statistics.model_dump_json(indent=1) + "\n",
    }


def may_train(services: Services, name: str | None) -> bool:
    """Return whether somebody signed in by a name may start training from the page."""
    from lab.shared.runner import why_not_here

    return services.role_of(name) == "admin" and not why_not_here(services.settings.training)


def training_offers(found: Sequence[Trainable], *, has_buttons: bool, title: str = "trainable") -> Html:
    """Return what votes or annotations can train, a line for each stage, with what is left out and why.

    Its buttons are heard by `hear_offers`.
    """
    said = []
    for each in found:
        rows = plural(each.rows, "answer" if each.stage == "kto" else "preference pair")
        key = f"trainable.{each.stage}" if each.rows else f"trainable.{each.stage}.none"
        line = as_html(say(key, rows=rows, good=each.good, graded=each.graded))
        left = left_out_reasons(each.left_out.items())
        words = as_html(say(f"trainable.train.{each.stage}"))
        button = f'<button type="button" data-do="train" data-id="{each.stage}">{words}</button>'
        said.append(f"<li>{line} ({as_html(left)}){button if has_buttons and each.rows else ''}</li>")
    return Html(f'{heading(say(title))}<ul class="assay-sentences assay-offers">{"".join(said)}</ul>')


def left_out_reasons(left_out: Iterable[tuple[str, int]]) -> str:
    """Return what was left out of a data set, and why."""
    known = lines()
    reasons = ", ".join(
        say(key, n=n) if (key := f"preferences.reason.{reason}") in known else f"{n} {reason}"
        for reason, n in left_out
        if n
    )
    return say("preferences.left_out", listed=reasons) if reasons else say("preferences.left_out.none")


def write_export(export: Export, folder: Path) -> None:
    """Write a data set of votes into `folder`, over an earlier export.

    LabError if the folder holds anything else, or a card that somebody edited.
    """
    from hub.cards import write_card

    if folder.is_dir() and any(folder.iterdir()) and not (folder / STATISTICS).exists():
        raise LabError(say("preferences.other_files", folder=folder, card=CARD))
    files = files_of(export)
    write_card(folder / CARD, files.pop(CARD))
    for name, content in files.items():
        write_whole(folder / name, content)


def zip_files(name: str, files: Mapping[str, str], folder: Path) -> Path:
    """Return a zip file in `folder` that holds a folder of files, both of this name."""
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder) as scratch:
        unfinished = Path(scratch) / "unfinished.zip"
        with ZipFile(unfinished, "w", ZIP_DEFLATED) as archive:
            for file, content in files.items():
                archive.writestr(f"{name}/{file}", content)
        return unfinished.replace(folder / f"{name}.zip")


def votes_file(services: Services, form: ExportFormat, folder: Path) -> tuple[str, str]:
    """Return a line and a zip file of all votes in the format `form`; LabError if no vote gives a row."""
    made = export_votes(services.store.preference_pairs(), form, services.now())
    counts = made.statistics
    rows, votes = plural(counts.rows, "row"), plural(counts.votes, "vote")
    line = say("preferences.made", rows=rows, votes=votes, left_out=left_out_reasons(counts.left_out.items()))
    return notice(line, "good"), str(zip_files(f"preferences-{form}", files_of(made), folder))


def annotations_of(services: Services, project: str | None, form: Form) -> FormatFiles:
    """Return what is said in a project as files of a format; LabError where there is nothing to write."""
    if not project:
        raise LabError(say("annotate.no_project_yet"))
    store = services.store.annotations
    return export(store.project(project), store.items(project), store.latest(project), form, store.names())


def annotations_file(services: Services, project: str, form: Form, folder: Path) -> tuple[str, str]:
    """Return a line and the file of what is said in a project, several in a zip; LabError where there is nothing to write."""
    made = annotations_of(services, project, form)
    (name, text), *others = made.files.items()
    written = zip_files(f"annotations-{form}", made.files, folder) if others else folder / name
    if not others:
        write_whole(written, text)
    left = "; ".join(f"{n} {why}" for why, n in made.left_out.items() if n)
    line = say("export.made", name=written.name, held=plural(made.rows, "row"))
    return notice(f"{line} {say('annotate.left_out', listed=left) if left else ''}".strip(), "good"), str(written)


def training_address(services: Services, stage: str = "dpo", files: Mapping[str, str] | None = None) -> str:
    """Write all votes, or these files, as a data set for a stage beside the runs; return where the form to train on it is.

    LabError where nothing can be trained from this page, or no vote prefers an answer.
    """
    from lab.shared.rows import link  # late: `assay prefs export` goes without the page
    from lab.shared.runner import why_not_here

    settings = services.settings.training
    if why := why_not_here(settings):
        raise LabError(why)
    folder = settings.runs[0] / "preferences" / f"{(now := services.now()):%Y-%m-%d-%H%M%S}"
    if files is None:
        write_export(export_votes(services.store.preference_pairs(), form_for(stage), now), folder)
    for name, content in (files or {}).items():
        write_whole(folder / name, content)
    return link({"tab": "train", "stage": stage, "data": str(folder / ROWS)})


def form_for(stage: str) -> Literal["dpo", "kto"]:
    """Return the format of rows that a stage learns from: answers alone for KTO, pairs for DPO and a reward model."""
    return "kto" if stage == "kto" else "dpo"


def hear_offers(services: Services, offers: "gr.HTML", api_name: str, chosen: "gr.Dropdown | None" = None) -> None:
    """Wire the buttons of `training_offers`: votes, or the annotations of a project, become data, and Train's form opens."""
    import gradio as gr

    told, address = gr.HTML(elem_id=f"{api_name}-told"), gr.Textbox(visible=False, label=say("report.address"))

    def on_offer(clicked: gr.EventData, project: str | None = None) -> tuple[str, str]:
        stage = str(getattr(clicked, "id", ""))
        try:
            files = None if chosen is None else annotations_of(services, project, form_for(stage)).files
            return training_address(services, stage, files), ""
        except LabError as error:
            return "", notice(str(error), "problem")

    made = offers.click(on_offer, chosen, [address, told], api_name=api_name, show_progress="hidden")
    made.then(None, address, None, js="assayFollow")
