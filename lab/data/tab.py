"""Data tab: question sets brought, checked, frozen and run on all stages; what people said, as files."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from textwrap import shorten
from typing import Any

import gradio as gr
from gradio.utils import get_upload_folder

from evals.errors import LabError
from evals.io import data_sha256, write_whole
from evals.preferences.files import FORMS
from evals.questions.layouts import FILES
from evals.questions.sets import SPLITS, right_answer
from evals.schema.questions import Sampling
from lab.exports import VOTE_FORMS, annotations_file, votes_file
from lab.jobs import Job
from lab.page import Download, Painted, event, show_errors
from lab.services import Services
from lab.shared import batch
from lab.shared.rows import link
from lab.shared.sets import OpenSet, QuestionSets, as_jsonl
from lab.ui.components import (
    CHOSEN,
    QUIET,
    draw,
    emphasis,
    empty,
    grid,
    heading,
    lead,
    notice,
    sampling_fields,
    script,
    stage_name,
    tiles,
)
from lab.ui.text import plural, say
from lab.visitors import Door, Visitor

LISTED = 6
SHOWN = 110
"""Characters of a question in the list."""
BATCHES = 10
LOOK_SECONDS = 1.5


def build(services: Services, door: Door, tab: gr.Tab) -> None:
    """Lay out the tab inside the `gr.Blocks` that is currently open."""
    batch.register(services)
    gr.HTML(lead("data"))
    with gr.Row(elem_classes="composer rate-form"):
        picked = gr.Dropdown([], label=say("questions.set"), elem_id="questions-set", scale=3)
    told = gr.HTML(elem_id="questions-told")
    state = gr.HTML(empty(say("questions.none")), elem_id="questions-state")
    with gr.Accordion(say("questions.bring"), open=True, elem_id="questions-bring") as bring:
        with gr.Row(elem_classes="rate-form"):
            types = [*FILES, ".parquet"]
            file = gr.UploadButton(say("questions.file"), file_types=types, size="sm", elem_id="questions-file")
            example = gr.Button(say("questions.example"), size="sm", elem_id="questions-example")
        with gr.Row(elem_classes="rate-form"):
            about: dict[str, Any] = {"label": say("questions.hub"), "info": say("questions.hub.info")}
            hub = gr.Textbox(**about, elem_id="questions-hub", max_length=200, scale=3)
            fetch = gr.Button(say("questions.fetch"), size="sm", elem_id="questions-fetch")
    with gr.Accordion(say("questions.check"), open=False, elem_id="questions-check") as check:
        checked = gr.HTML()
    with gr.Row(elem_id="questions-versions"):
        freeze = gr.Button(say("questions.freeze"), size="sm", elem_id="questions-freeze")
        export = gr.Button(say("questions.export"), size="sm", elem_id="questions-export")
        file_made = gr.DownloadButton(visible="hidden", elem_id="questions-file-made")

    def on_pick(visitor: Visitor | None, name: str | None) -> Painted:
        """Show a set: its splits, and its first questions."""
        page: Painted = {check: gr.Accordion(open=False), checked: "", state: empty(say("questions.none"))}
        known, wrong = None, {}
        try:
            known = QuestionSets(services, visitor).open(name) if name else None
        except LabError as error:
            wrong = {told: notice(str(error), "problem")}
        is_draft = known is not None and known.version is None
        page |= {freeze: gr.Button(interactive=is_draft), export: gr.Button(interactive=known is not None)}
        return page | wrong | ({state: _state(known)} if known else {})

    @show_errors(told)
    def opened(visitor: Visitor | None, make: Callable[[QuestionSets], tuple[OpenSet, str]]) -> Painted:
        """Choose the set that `make` gives, and tell of it; or say what is wrong."""
        sets = QuestionSets(services, visitor)
        known, line = make(sets)
        told_of = {told: notice(line, "good"), bring: gr.Accordion(open=False)}
        return told_of | {picked: gr.Dropdown(choices=sets.choices(), value=known.id)}

    def brought(known: OpenSet) -> tuple[OpenSet, str]:
        bad = say("questions.left_out", rows=plural(len({each.line for each in known.faults}), "bad row"))
        line = say("questions.brought", title=known.title, held=plural(len(known.rows), "question"))
        return known, " ".join(filter(None, [line, known.note, bad if known.faults else ""]))

    def on_file(visitor: Visitor | None, path: str) -> Painted:
        """Make a draft of a question set in a file."""
        try:
            return opened(visitor, lambda sets: brought(sets.bring(Path(path))))
        finally:
            Path(path).unlink(missing_ok=True)

    def on_fetch(visitor: Visitor | None, name: str) -> Painted:
        """Make a draft of a data set of the Hub, or of a set that comes with Assay, by name."""
        return opened(visitor, lambda sets: brought(sets.bring_named(name or "")))

    def on_example(visitor: Visitor | None) -> Painted:
        return opened(visitor, lambda sets: brought(sets.bring_named("codons-and-enzymes")))

    def on_freeze(visitor: Visitor | None, name: str | None) -> Painted:
        """Keep the draft as the next version of its title."""

        def make(sets: QuestionSets) -> tuple[OpenSet, str]:
            known = sets.freeze(name)
            return known, say("questions.frozen", name=known.name, sha256=known.sha256[:12])

        return opened(visitor, make)

    def on_export(visitor: Visitor | None, name: str | None) -> str:
        """Write a set as a JSONL file."""
        known = QuestionSets(services, visitor).open(name)
        target = Path(get_upload_folder()) / "questions" / known.id / f"{batch.file_name(known.name)}.jsonl"
        write_whole(target, as_jsonl(known))
        return str(target)

    @show_errors(checked)
    def on_check(visitor: Visitor | None, name: str | None) -> Painted:
        """Say what is wrong with a set, what to look at, and what answers without a model would score."""
        return {checked: _check_tables(QuestionSets(services, visitor).open(name))}

    def on_select(visitor: Visitor | None, name: str | None, request: gr.Request) -> Painted:
        """Return the sets to choose from, and the one that the address names."""
        found = QuestionSets(services, visitor).choices()
        known = [id for _, id in found]
        name = name if name in known else request.query_params.get("set")
        return {
            picked: gr.Dropdown(choices=found, value=name) if name in known else gr.Dropdown(choices=found),
            bring: gr.Accordion(open=not found),
        }

    def on_known(visitor: Visitor | None, name: str | None, request: gr.Request) -> Painted:
        is_here = request.query_params.get("tab") in ("data", "questions")
        return on_select(visitor, name, request) if is_here else {picked: gr.skip()}

    tab.select(on_select, [door.known, picked], [picked, bring], api_name="questions", **QUIET)
    door.known.change(on_known, [door.known, picked], [picked, bring], api_visibility="private", **QUIET)
    picked.change(None, picked, None, js="assayPlaceSet")
    shown = [told, state, freeze, export, check, checked]
    picked.change(on_pick, [door.known, picked], shown, api_name="questions_open", **QUIET)
    sets = [picked, told, bring]
    file.upload(on_file, [door.known, file], sets, api_name="questions_draft_bring", show_progress="hidden")
    example.click(on_example, door.known, sets, api_visibility="private", **QUIET)
    gr.on([fetch.click, hub.submit], on_fetch, [door.known, hub], sets, api_name="questions_draft_fetch")
    freeze.click(on_freeze, [door.known, picked], sets, api_name="questions_draft_freeze", **QUIET)
    made = export.click(on_export, [door.known, picked], file_made, api_name="questions_export", **QUIET)
    made.success(None, None, None, js=script("assayClickSoon", "#questions-file-made"))
    check.expand(on_check, [door.known, picked], [checked], api_name="questions_check", show_progress="hidden")
    _batches(services, door, tab, picked)
    _build_exports(services, tab)


def _state(known: OpenSet) -> str:
    splits = [row.split for row in known.rows]
    facts: list[tuple[object, object]] = [(say("questions.n"), len(known.rows))]
    for each in SPLITS:
        sha256 = data_sha256(known.examples(each))[:12] if known.version and each in splits else ""
        facts.append((say("questions.of_split", split=each, sha256=sha256) if sha256 else each, splits.count(each)))
    if known.version is None:
        facts.append((say("questions.is_draft"), say("questions.not_yet")))
    else:
        facts.append((say("questions.is_frozen", sha256=known.sha256[:12]), f"v{known.version}"))
    bad = len({each.line for each in known.faults})
    told = notice(say("questions.bad_rows", rows=plural(bad, "row"))) if bad else ""
    listed = [
        [
            row.id,
            row.truth.kind,
            row.split,
            *(shorten(each, SHOWN, placeholder="…") for each in (row.prompt, right_answer(row.truth) or "–")),
        ]
        for row in known.rows[:LISTED]
    ]
    caption = say("questions.listed", first=len(listed), n=len(known.rows))
    return heading(known.title) + tiles(facts) + told + grid(caption, say("questions.columns").split(" | "), listed)


def _check_tables(known: OpenSet) -> str:
    """Return the check of a set as tables: bad rows of its file, what to look at, what tricks would score."""
    from evals.questions.checking import report_on
    from evals.questions.sets import QuestionSet

    report = report_on(QuestionSet(known.examples(), known.faults, is_own=True), known.name)
    faults = [[each.line, each.id or "", each.field, each.problem, each.remedy] for each in report.faults]
    warned = [[each.check, each.problem, each.remedy, ", ".join(each.rows)] for each in report.warnings]
    scores = [[each.policy, f"{each.correct} of {each.n}", f"{each.accuracy:.2f}"] for each in report.scores]
    tables = [
        grid(say(f"questions.{name}", on=report.scored_on), say(f"questions.{name}.columns").split(" | "), rows)
        for name, rows in (("faults", faults), ("warned", warned), ("scores", scores))
        if rows
    ]
    return "".join(tables) if faults or warned else notice(say("questions.clean"), "good") + "".join(tables)


# ---- asked of all stages -------------------------------------------------------------------------


def _batches(services: Services, door: Door, tab: gr.Tab, picked: gr.Dropdown) -> None:
    """Lay out and wire the batch: what is asked of whom, how far it is, what becomes of its answers."""
    with gr.Column(elem_classes="assay-panel", elem_id="questions-batch"):
        gr.HTML(heading(say("batch")) + f"<p>{say('batch.about', n=batch.TOGETHER)}</p>")
        with gr.Row(elem_classes="rate-form"):
            stages = gr.CheckboxGroup([], label=say("batch.stages"), elem_id="batch-stages")
            splits = [(say(f"batch.split.{each}"), each) for each in (*SPLITS, "all")]
            split = gr.Dropdown(splits, value="test", label=say("batch.split"), elem_id="batch-split")
        with gr.Accordion(say("batch.settings"), open=False, elem_id="batch-settings"):
            seed, length, heat = sampling_fields(0, Sampling.max_new_tokens, 0.0)
        ask = gr.Button(say("batch.ask"), variant="primary", size="sm", elem_id="batch-ask")
        line = gr.HTML(elem_id="batch-line")
        table = gr.HTML(empty(say("batch.none")), elem_id="batch-table")
    timer = gr.Timer(LOOK_SECONDS, active=False)
    seen = [table, timer]

    def on_tick() -> Painted:
        """Return how far the batches are."""
        found = [job for job in services.jobs.all() if job.kind == batch.KIND][:BATCHES]
        shown = grid(say("batch.table"), say("batch.columns").split(" | "), [_cells(job) for job in found])
        busy = any(not job.is_over for job in found)
        return {table: shown if found else empty(say("batch.none")), timer: gr.Timer(active=busy)}

    def on_open(named: Sequence[str]) -> Painted:
        found = list(_stages(services))
        value = [each for each in named if each in found] or found
        return on_tick() | {stages: gr.CheckboxGroup([(stage_name(each), each) for each in found], value=value)}

    @show_errors(line)
    def on_ask(
        visitor: Visitor | None, name: str | None, split: str, stages: list[str], seed: Any, length: Any, heat: Any
    ) -> Painted:
        """Ask all questions of a version of all these stages, as long work that outlives this page."""
        sets = QuestionSets(services, visitor)
        if not name:
            raise LabError(say("batch.draft"))
        batch.start(services, sets.open(name), split, stages, (seed, length, heat), sets.owner)
        return on_tick() | {line: notice(say("batch.started"), "good")}

    gr.on([tab.select, picked.change], on_open, stages, [*seen, stages], api_visibility="private", **QUIET)
    timer.tick(on_tick, None, seen, api_name="questions_batches", **QUIET)
    given = [door.known, picked, split, stages, seed, length, heat]
    ask.click(on_ask, given, [*seen, line], api_name="questions_batch", **QUIET)


# ---- what people said ----------------------------------------------------------------------------

VOTES = "votes"


def _build_exports(services: Services, tab: gr.Tab) -> None:
    """Lay out and wire the files of votes and annotations."""
    with gr.Column(elem_classes="assay-panel", elem_id="data-said"):
        gr.HTML(heading(say("data.said")) + f"<p>{say('data.said.about')}</p>")
        with gr.Row(elem_classes="rate-form"):
            what = gr.Dropdown([], label=say("data.said.what"), elem_id="data-said-what")
        panel = Download(
            gr.Radio([], label=say("preferences.format"), elem_id="data-said-format"),
            gr.Button(say("export.make"), size="sm", interactive=False, elem_id="data-said-make"),
            gr.HTML(elem_id="data-said-message"),
            gr.DownloadButton(say("export.download"), visible=False, elem_id="data-said-download"),
        )

    def on_select(chosen: str | None) -> Painted:
        """List what can be exported: the votes, and each project of annotations."""
        projects = [
            (say("data.said.project", title=each.title), each.id) for each in services.store.annotations.projects()
        ]
        listed = [(say("data.said.votes", n=services.store.counts().votes), VOTES), *projects]
        value = chosen if chosen in {name for _, name in listed} else VOTES
        ready = {what: gr.Dropdown(choices=listed, value=value), panel.make: gr.Button(interactive=True)}
        return {**ready, **on_what(value)}

    def on_what(chosen: str | None) -> Painted:
        name, forms = ("preferences.format", VOTE_FORMS) if chosen == VOTES else ("annotate.export", FORMS)
        choices = [(say(f"{name}.{form}"), form) for form in forms]
        return {
            panel.form: gr.Radio(choices, value=forms[0]),
            panel.made: "",
            panel.file: gr.DownloadButton(visible=False),
        }

    def on_make(chosen: str | None, form: Any) -> Painted:
        """Make a file of votes or annotations in the chosen form."""
        if chosen == VOTES:
            return panel.give("exports", partial(votes_file, services, form))
        return panel.give("annotations", partial(annotations_file, services, chosen or "", form))

    seen = [what, panel.form, *panel.outputs]
    tab.select(on_select, what, [*seen, panel.make], api_visibility="private", **QUIET)
    what.input(on_what, what, seen[1:], api_visibility="private", **CHOSEN)
    event(panel.make.click, on_make, [what, panel.form], panel.outputs, "export_said")


def _stages(services: Services) -> Sequence[str]:
    """Return the stages that can be asked: of the chain in memory, or as they stand on disk while it loads."""
    from training.models.manifest import BASE_STAGE, read_chain

    try:
        return services.engine.chain().stages
    except LabError:
        pass
    try:
        return (BASE_STAGE, *(each.name for each in read_chain(services.settings.chain).manifest.stages))
    except LabError:
        return ()


def _cells(job: Job) -> list[object]:
    far = f"{job.done} of {job.total}" if job.total else "–"
    report = ""
    if job.state == "done" and job.result:
        address = link({"tab": "results"}, questions=job.result["name"])
        report = draw("opening", figure=say("batch.report"), href=address, told=say("batch.report.of", title=job.title))
    doing = job.error or (job.line if not job.is_over else "")
    return [job.title, emphasis(say(f"job.{job.state}")), far, report or doing or "–"]
