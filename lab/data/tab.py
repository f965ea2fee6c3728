"""Data tab: question sets brought, checked, frozen and run on all stages; what people said, as files."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from textwrap import shorten
from typing import Any

import gradio as gr
from gradio.utils import get_upload_folder

from evals.errors import LabError
from evals.io import data_sha256, write_whole
from evals.preferences.files import FORMS
from evals.questions.layouts import FILES, ROLES, SEVERAL, WAYS
from evals.questions.sets import EXAMPLES, SPLITS, right_answer
from evals.schema import OwnTruth
from evals.schema.questions import RowFault, Sampling
from lab.jobs import Job
from lab.page import Download, Painted, choosing, event, show_errors
from lab.services import Services
from lab.session import Door, Visitor
from lab.shared import work
from lab.shared.exports import VOTE_FORMS, annotations_file, votes_file
from lab.shared.rows import link
from lab.shared.sets import OpenSet, QuestionSets, as_jsonl, column_names, is_question_set, is_table
from lab.ui.components import (
    CHOSEN,
    QUIET,
    as_html,
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
    term,
    tiles,
)
from lab.ui.text import plural, say

LISTED = 6
SHOWN = 110
"""Characters of a question in the list."""
FIRST, SHOWN_CELL, MOST_COLUMNS = 5, 60, 12
"""Rows of a file that are shown as they stand, characters of a cell, columns."""
MOST_PASTED = 1_000_000
TEMPLATE = EXAMPLES / "template.xlsx"
BATCHES = 10
LOOK_SECONDS = 1.5


def build(services: Services, door: Door, tab: gr.Tab) -> None:
    """Lay out the tab inside the `gr.Blocks` that is currently open."""
    work.register_batches(services)
    gr.HTML(lead("data"))
    with gr.Row(elem_classes="composer rate-form"):
        picked = gr.Dropdown([], label=say("questions.set"), elem_id="questions-set", scale=3)
    told = gr.HTML(elem_id="questions-told")
    with gr.Accordion(say("questions.bring"), open=True, elem_id="questions-bring") as bring:
        with gr.Row(elem_classes="rate-form"):
            types = [*FILES, ".parquet"]
            file = gr.UploadButton(say("questions.file"), file_types=types, size="sm", elem_id="questions-file")
            gr.DownloadButton(say("questions.template"), str(TEMPLATE), size="sm", elem_id="questions-template")
            example = gr.Button(say("questions.example"), size="sm", elem_id="questions-example")
        with gr.Row(elem_classes="rate-form"):
            cells: dict[str, Any] = {"label": say("questions.cells"), "placeholder": say("questions.cells.info")}
            pasted = gr.Textbox(
                **cells, lines=3, max_lines=8, max_length=MOST_PASTED, elem_id="questions-cells", scale=3
            )
            paste = gr.Button(say("questions.paste"), size="sm", elem_id="questions-paste")
        with gr.Row(elem_classes="rate-form"):
            about: dict[str, Any] = {"label": say("questions.hub"), "info": say("questions.hub.info")}
            hub = gr.Textbox(**about, elem_id="questions-hub", max_length=200, scale=3)
            fetch = gr.Button(say("questions.fetch"), size="sm", elem_id="questions-fetch")
    with gr.Accordion(say("questions.sheet"), open=True, visible=False, elem_id="questions-sheet") as sheet:
        of_sheet = gr.Dropdown([], label=say("questions.of_sheet"), visible=False, elem_id="questions-of-sheet")
        first = gr.HTML()
        with gr.Column(visible=False) as mapping:
            with gr.Row(elem_classes="rate-form"):
                roles = {role: _role_field(role) for role in ROLES[:4]}
            with gr.Row(elem_classes="rate-form"):
                roles |= {role: _role_field(role) for role in ROLES[4:]}
            with gr.Row(elem_classes="rate-form"):
                ways = [(say("questions.way"), ""), *((say(f"questions.way.{way}"), way) for way in WAYS)]
                way = gr.Dropdown(ways, value="", label=say("questions.ways"), elem_id="questions-way")
                again = gr.Button(say("questions.again"), size="sm", elem_id="questions-again")
                unnamed = gr.Button(say("questions.unnamed"), size="sm", elem_id="questions-unnamed")
    with gr.Column(visible=False, elem_classes="assay-panel", elem_id="questions-mend") as mend:
        meant = gr.CheckboxGroup([], label=say("questions.meant"), elem_id="questions-meant")
        take = gr.Button(say("questions.take"), size="sm", elem_id="questions-take")
    state = gr.HTML(empty(say("questions.none")), elem_id="questions-state")
    with gr.Accordion(say("questions.check"), open=False, elem_id="questions-check") as check:
        checked = gr.HTML()
    cannot = gr.Checkbox(False, label=say("questions.cannot"), info=say("questions.cannot.info"), visible=False)
    with gr.Row(elem_id="questions-versions"):
        freeze = gr.Button(say("questions.freeze"), size="sm", interactive=False, elem_id="questions-freeze")
        export = gr.Button(say("questions.export"), size="sm", interactive=False, elem_id="questions-export")
        file_made = gr.DownloadButton(visible="hidden", elem_id="questions-file-made")
    with gr.Column(visible=False, elem_classes="assay-panel", elem_id="questions-one-split") as one_split:
        offered = gr.HTML()
        with gr.Row():
            divide = gr.Button(say("questions.split"), variant="primary", size="sm", elem_id="questions-split")
            as_it_is = gr.Button(say("questions.as_it_is"), size="sm", elem_id="questions-as-it-is")
    with gr.Accordion(say("questions.manage"), open=False, visible=False, elem_id="questions-manage") as manage:
        with gr.Row(elem_classes="rate-form"):
            title = gr.Textbox(label=say("questions.title"), max_length=100, elem_id="questions-title", scale=3)
            rename = gr.Button(say("questions.rename"), size="sm", elem_id="questions-rename")
            duplicate = gr.Button(say("questions.duplicate"), size="sm", elem_id="questions-duplicate")
            delete = gr.Button(say("questions.delete"), size="sm", elem_id="questions-delete")
        goes = gr.HTML()
        with gr.Row():
            drop_draft = gr.Button(say("questions.drop"), variant="stop", size="sm", visible=False)
            drop_version = gr.Button(say("questions.drop"), variant="stop", size="sm", visible=False)
            keep = gr.Button(say("questions.keep"), size="sm", visible=False)

    def page_of(known: OpenSet | None) -> Painted:
        """Return the page of a set, or of none: how its file was read, its questions, what can be done with it."""
        is_draft = known is not None and known.version is None
        asked: Painted = {drop_draft: gr.Button(visible=False), drop_version: gr.Button(visible=False)}
        asked |= {keep: gr.Button(visible=False), goes: "", one_split: gr.Column(visible=False)}
        asked |= {check: gr.Accordion(open=False), checked: "", freeze: gr.Button(interactive=is_draft)}
        asked |= {export: gr.Button(interactive=known is not None), manage: gr.Accordion(visible=known is not None)}
        if known is None:
            hidden = {
                sheet: gr.Accordion(visible=False),
                mend: gr.Column(visible=False),
                cannot: gr.Checkbox(visible=False),
            }
            return {**asked, **hidden, state: empty(say("questions.none"))}
        brought = known.brought
        fields: Painted = {sheet: gr.Accordion(visible=brought is not None)}
        if brought is not None:
            names = column_names(brought.rows)
            is_mapped = is_table(brought.rows) and not is_question_set(brought.rows)
            fields |= {first: _first_rows(known), mapping: gr.Column(visible=is_mapped)}
            several = len(brought.sheets) > 1
            fields |= {of_sheet: gr.Dropdown(choices=[*brought.sheets], value=brought.sheet or None, visible=several)}
            fields |= {each: _role_choice(role, names, known.columns) for role, each in roles.items()}
            is_named = say("questions.place", n=1) not in names
            fields |= {way: brought.answers_from or "", unnamed: gr.Button(visible=is_named)}
        listed = [(_suggested(each), each.line) for each in known.faults if each.suggestion is not None]
        fields |= {mend: gr.Column(visible=bool(listed))}
        fields |= {meant: gr.CheckboxGroup(choices=listed, value=[line for _, line in listed])}
        own = [row.truth for row in known.rows if isinstance(row.truth, OwnTruth)]
        is_offered = any(not truth.answerable for truth in own)
        fields |= {cannot: gr.Checkbox(value=is_offered, visible=bool(own), interactive=is_draft)}
        fields |= {title: gr.Textbox(value=known.title, interactive=is_draft), rename: gr.Button(interactive=is_draft)}
        return {**asked, **fields, state: _state(known)}

    shown = [
        state,
        freeze,
        export,
        check,
        checked,
        sheet,
        of_sheet,
        first,
        mapping,
        *roles.values(),
        way,
        unnamed,
        mend,
        meant,
        cannot,
    ]
    shown += [one_split, offered, manage, title, rename, goes, drop_draft, drop_version, keep]

    @show_errors(told)
    def on_pick(visitor: Visitor | None, name: str | None) -> Painted:
        """Show a set: how its file was read, its splits, and its first questions."""
        return page_of(QuestionSets(services, visitor).open(name) if name else None)

    @show_errors(told)
    def opened(visitor: Visitor | None, make: Callable[[QuestionSets], tuple[OpenSet | None, str]]) -> Painted:
        """Choose the set that `make` gives, and tell of it; or say what is wrong."""
        sets = QuestionSets(services, visitor)
        known, line = make(sets)
        page = {told: notice(line, "good"), bring: gr.Accordion(open=known is None), **page_of(known)}
        return page | {picked: gr.Dropdown(choices=sets.choices(), value=known.id if known else None)}

    def brought(known: OpenSet) -> tuple[OpenSet, str]:
        bad = say("questions.left_out", rows=plural(len({each.line for each in known.faults}), "bad row"))
        line = say("questions.brought", title=known.title, held=plural(len(known.rows), "question"))
        return known, " ".join(filter(None, [line, bad if known.faults else ""]))

    def on_file(visitor: Visitor | None, path: str) -> Painted:
        """Make a draft of a question set in a file."""
        try:
            return opened(visitor, lambda sets: brought(sets.bring(Path(path))))
        finally:
            Path(path).unlink(missing_ok=True)

    def on_paste(visitor: Visitor | None, text: str) -> Painted:
        """Make a draft of cells that were copied from a spreadsheet."""
        return opened(visitor, lambda sets: brought(sets.paste(text)))

    def on_fetch(visitor: Visitor | None, name: str) -> Painted:
        """Make a draft of a data set of the Hub, or of a set that comes with Assay, by name."""
        return opened(visitor, lambda sets: brought(sets.bring_named(name or "")))

    def on_example(visitor: Visitor | None) -> Painted:
        return opened(visitor, lambda sets: brought(sets.bring_named("codons-and-enzymes")))

    def on_sheet(visitor: Visitor | None, name: str | None, chosen: str) -> Painted:
        """Read another sheet of a draft's file."""
        return opened(visitor, lambda sets: brought(sets.choose_sheet(name, chosen)))

    def on_again(visitor: Visitor | None, name: str | None, way: str, *named: Any) -> Painted:
        """Read the file of a draft with these columns."""
        chosen = {role: [each] if isinstance(each, str) else each for role, each in zip(ROLES, named, strict=True)}
        columns = {role: tuple(filter(None, each or ())) for role, each in chosen.items()}
        changes = {"columns": {role: each for role, each in columns.items() if each}, "answers_from": way or None}
        return opened(visitor, lambda sets: brought(sets.read_again(name, **changes)))

    def on_unnamed(visitor: Visitor | None, name: str | None) -> Painted:
        """Read the file of a draft as one whose first row names no columns."""
        return opened(visitor, lambda sets: brought(sets.name_by_place(name)))

    def on_take(visitor: Visitor | None, name: str | None, lines: list[int]) -> Painted:
        """Take what was suggested for bad rows of a draft, by their lines."""
        return opened(visitor, lambda sets: brought(sets.mend(name, lines)))

    @show_errors(told)
    def on_cannot(visitor: Visitor | None, name: str | None, is_offered: bool) -> Painted:
        """Say of a draft whether some of its questions cannot be answered."""
        return page_of(QuestionSets(services, visitor).offer_cannot_tell(name, is_offered))

    def frozen(known: OpenSet) -> tuple[OpenSet, str]:
        return known, say("questions.frozen", name=known.name, sha256=known.sha256[:12])

    @show_errors(told)
    def on_freeze(visitor: Visitor | None, name: str | None) -> Painted:
        """Keep the draft as the next version of its title; where all questions have one split, offer others first."""
        known = QuestionSets(services, visitor).open(name)
        splits = {row.split for row in known.rows}
        if len(splits) == 1 and len({row.group for row in known.rows}) > 1:
            (split,) = splits
            line = say(f"questions.one_split.{split}", held=plural(len(known.rows), "question"))
            return {offered: notice(line), one_split: gr.Column(visible=True)}
        return on_as_it_is(visitor, name)

    def on_as_it_is(visitor: Visitor | None, name: str | None) -> Painted:
        """Keep the draft as the next version of its title, whatever its splits."""
        return opened(visitor, lambda sets: frozen(sets.freeze(name)))

    def on_split(visitor: Visitor | None, name: str | None) -> Painted:
        """Give the questions of a draft to train, dev and test by group, and keep it as the next version of its title."""
        return opened(visitor, lambda sets: frozen(sets.freeze(sets.split(name).id)))

    def on_rename(visitor: Visitor | None, name: str | None, title: str) -> Painted:
        """Give a draft another title."""
        return opened(visitor, lambda sets: (sets.rename(name, title), say("questions.renamed", title=title.strip())))

    def on_duplicate(visitor: Visitor | None, name: str | None) -> Painted:
        """Make a draft of a set."""
        return opened(visitor, lambda sets: brought(sets.duplicate(name)))

    @show_errors(told)
    def on_delete(visitor: Visitor | None, name: str | None) -> Painted:
        """Say what deleting a set takes away, and ask."""
        known = QuestionSets(services, visitor).open(name)
        what = "draft" if known.version is None else "version"
        line = say(f"questions.goes.{what}", name=known.name, held=plural(len(known.rows), "question"))
        asked: Painted = {
            drop_draft: gr.Button(visible=what == "draft"),
            drop_version: gr.Button(visible=what != "draft"),
        }
        return asked | {goes: notice(line), keep: gr.Button(visible=True)}

    def on_drop_draft(visitor: Visitor | None, name: str | None) -> Painted:
        """Delete a draft of one's own."""
        return opened(visitor, lambda sets: (None, say("questions.deleted", name=sets.delete(name, is_draft=True))))

    def on_drop_version(visitor: Visitor | None, name: str | None) -> Painted:
        """Delete a frozen version."""
        return opened(visitor, lambda sets: (None, say("questions.deleted", name=sets.delete(name, is_draft=False))))

    def on_export(visitor: Visitor | None, name: str | None) -> str:
        """Write a set as a JSONL file."""
        known = QuestionSets(services, visitor).open(name)
        target = Path(get_upload_folder()) / "questions" / known.id / f"{work.file_name(known.name)}.jsonl"
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
        page: Painted = {bring: gr.Accordion(open=not found)}
        if visitor and name and name not in known:  # drafts are listed once the visitor is known
            page |= {told: notice(say("questions.gone"), "problem")}
        shown = gr.Dropdown(choices=found, value=name) if name in known else gr.Dropdown(choices=found)
        return page | {picked: shown}

    def on_known(visitor: Visitor | None, name: str | None, request: gr.Request) -> Painted:
        is_here = request.query_params.get("tab") in ("data", "questions")
        return on_select(visitor, name, request) if is_here else {picked: gr.skip()}

    tab.select(on_select, [door.known, picked], [picked, bring, told], api_name="questions", **QUIET)
    door.known.change(on_known, [door.known, picked], [picked, bring, told], api_visibility="private", **QUIET)
    picked.change(None, picked, None, js="assayPlaceSet")
    picked.change(on_pick, [door.known, picked], [told, *shown], api_name="questions_open", **QUIET)
    page, one = [picked, told, bring, *shown], [picked]
    on = partial(event, outputs=page, door=door)
    file.upload(on_file, [door.known, file], page, api_name="questions_draft_bring", show_progress="hidden")
    on(paste.click, on_paste, [pasted], api_name="questions_draft_paste")
    example.click(on_example, door.known, page, api_visibility="private", **QUIET)
    on([fetch.click, hub.submit], on_fetch, [hub], api_name="questions_draft_fetch")
    on(choosing(of_sheet), on_sheet, [picked, of_sheet], api_name="questions_draft_sheet")
    on(again.click, on_again, [picked, way, *roles.values()], api_name="questions_draft_read")
    on(unnamed.click, on_unnamed, one, api_name="questions_draft_unnamed")
    on(take.click, on_take, [picked, meant], api_name="questions_draft_mend")
    on(cannot.input, on_cannot, [picked, cannot], api_name="questions_draft_cannot", **QUIET)
    on(freeze.click, on_freeze, one, api_name="questions_draft_freeze", **QUIET)
    on(as_it_is.click, on_as_it_is, one, api_name="questions_draft_freeze_as_it_is", **QUIET)
    on(divide.click, on_split, one, api_name="questions_draft_split", **QUIET)
    on(rename.click, on_rename, [picked, title], api_name="questions_draft_rename", **QUIET)
    on(duplicate.click, on_duplicate, one, api_name="questions_draft_duplicate", **QUIET)
    on(delete.click, on_delete, one, **QUIET)
    on(drop_draft.click, on_drop_draft, one, api_name="questions_draft_delete", **QUIET)
    on(drop_version.click, on_drop_version, one, api_name="questions_delete", **QUIET)
    on(keep.click, on_pick, one, **QUIET)
    made = export.click(on_export, [door.known, picked], file_made, api_name="questions_export", **QUIET)
    made.success(None, None, None, js=script("assayClickSoon", "#questions-file-made"))
    check.expand(on_check, [door.known, picked], [checked], api_name="questions_check", show_progress="hidden")
    _batches(services, door, tab, picked)
    _build_exports(services, tab)


def _role_field(role: str) -> gr.Dropdown:
    is_many = role in SEVERAL
    label = say(f"questions.role.{role}")
    return gr.Dropdown([], label=label, multiselect=is_many, elem_id=f"questions-role-{role}")


def _role_choice(role: str, names: Sequence[str], columns: Mapping[str, Sequence[str]]) -> gr.Dropdown:
    """Return the columns to choose from for what a role holds, with those that it was read from."""
    mine = [*columns.get(role, ())]
    if role in SEVERAL:
        return gr.Dropdown(choices=[*names], value=mine)
    return gr.Dropdown(
        choices=[(say("questions.role.none"), ""), *((each, each) for each in names)], value="".join(mine[:1])
    )


def _first_rows(known: OpenSet) -> str:
    """Return the first rows of a draft's file as they stand there, under what was unclear in reading it."""
    if (brought := known.brought) is None:
        return ""
    names = column_names(brought.rows)[:MOST_COLUMNS]
    rows = [
        [line, *(shorten(str(row.get(name, "")), SHOWN_CELL, placeholder="…") for name in names)]
        for line, row in brought.rows[:FIRST]
    ]
    caption = say("questions.first", first=len(rows), n=len(brought.rows))
    columns = [say("questions.line"), *map(as_html, names)]  # what a file calls its columns is defined there
    return notice(known.note) + grid(caption, columns, rows)


def _suggested(fault: RowFault) -> str:
    return say("questions.suggested", line=fault.line, field=fault.field, problem=fault.problem, meant=fault.suggestion)


def _state(known: OpenSet) -> str:
    splits = [row.split for row in known.rows]
    facts: list[tuple[object, object]] = [(say("questions.n"), len(known.rows))]
    for each in SPLITS:
        sha256 = data_sha256(known.examples(each))[:12] if known.version and each in splits else ""
        told = say("questions.of_split", split=each, sha256=sha256) if sha256 else each
        facts.append((term(told, each), splits.count(each)))
    if known.version is None:
        facts.append((say("questions.is_draft"), say("questions.not_yet")))
    else:
        facts.append((say("questions.is_frozen", sha256=known.sha256[:12]), f"v{known.version}"))
    bad = len({each.line for each in known.faults})
    told = notice(say("questions.bad_rows", rows=plural(bad, "row"))) if bad else ""
    if set(splits) == {"test"}:
        told += notice(say("questions.held_out"))
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
    faults = [
        [each.line, each.id or "", each.field, each.problem, each.remedy or say("questions.mend")]
        for each in report.faults
    ]
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
        gr.HTML(heading(say("batch")) + f"<p>{say('batch.about', n=work.TOGETHER)}</p>")
        with gr.Row(elem_classes="rate-form"):
            stages = gr.CheckboxGroup([], label=say("batch.stages"), elem_id="batch-stages")
            splits = [(say(f"batch.split.{each}"), each) for each in (*SPLITS, "all")]
            split = gr.Dropdown(splits, value="test", label=say("batch.split"), elem_id="batch-split")
        with gr.Accordion(say("batch.settings"), open=False, elem_id="batch-settings"):
            seed, length, heat = sampling_fields(0, Sampling.max_new_tokens, 0.0)
        ask = gr.Button(say("batch.ask"), variant="primary", size="sm", interactive=False, elem_id="batch-ask")
        line = gr.HTML(elem_id="batch-line")
        table = gr.HTML(empty(say("batch.none")), elem_id="batch-table")
    timer = gr.Timer(LOOK_SECONDS, active=False)
    seen = [table, timer]

    def on_tick() -> Painted:
        """Return how far the batches are."""
        found = [job for job in services.jobs.all() if job.kind == work.KIND][:BATCHES]
        shown = grid(say("batch.table"), say("batch.columns").split(" | "), [_cells(job) for job in found])
        busy = any(not job.is_over for job in found)
        return {table: shown if found else empty(say("batch.none")), timer: gr.Timer(active=busy)}

    def on_open(named: Sequence[str], name: str | None) -> Painted:
        found = list(_stages(services))
        value = [each for each in named if each in found] or found
        is_frozen = name in {id for id, *_ in services.store.documents("question_set").titles("")}
        ready = {ask: gr.Button(interactive=is_frozen), line: "" if is_frozen else notice(say("batch.freeze"))}
        return on_tick() | ready | {stages: gr.CheckboxGroup([(stage_name(each), each) for each in found], value=value)}

    @show_errors(line)
    def on_ask(
        visitor: Visitor | None, name: str | None, split: str, stages: list[str], seed: Any, length: Any, heat: Any
    ) -> Painted:
        """Ask all questions of a version of all these stages, as long work that outlives this page."""
        sets = QuestionSets(services, visitor)
        if not name:
            raise LabError(say("batch.draft"))
        work.start_batch(services, sets.open(name), split, stages, (seed, length, heat), sets.owner)
        return on_tick() | {line: notice(say("batch.started"), "good")}

    shown = [*seen, stages, ask, line]
    gr.on([tab.select, picked.change], on_open, [stages, picked], shown, api_visibility="private", **QUIET)
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
    choosing(what)(on_what, what, seen[1:], api_visibility="private", **CHOSEN)
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
