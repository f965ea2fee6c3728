"""Annotate tab: projects of answers, a queue for each rater, agreement, disagreements to settle, training on them."""

from collections.abc import Mapping, Sequence
from textwrap import shorten
from typing import Any

import gradio as gr

from evals.errors import LabError
from evals.preferences.annotations import (
    RUBRICS,
    RaterCheck,
    agreements,
    check_raters,
    disagreements,
    rubric_text,
    settle_annotations,
    with_checks,
)
from evals.preferences.rows import trainable_annotations
from evals.questions import is_held_out
from evals.schema import Metric
from evals.stats.agreement import NAMES, WEIGHTED_NAMES, agreement_level
from lab.page import Managing, Painted, choosing, event, manage_panel, name_field, show_errors
from lab.services import Services
from lab.session import Door, Visitor, session_of
from lab.shared.exports import hear_offers, may_train, training_offers
from lab.shared.rater import (
    Opened,
    Queue,
    Rater,
    item_of_answer,
    items_of_report,
    new_project,
    parse_guidelines,
    read_count,
)
from lab.shared.rating import RatingPanel, annotation_facts, draw, notes_with_words
from lab.ui.components import (
    CHOSEN,
    QUIET,
    Html,
    clicks,
    empty,
    grid,
    interval,
    lead,
    markdown,
    measure,
    notice,
    number,
    stage_name,
    with_terms,
)
from lab.ui.text import plural, say

FEWEST_SHOWN = 2
"""Raters from whom on there is an agreement to show."""


def build(services: Services, door: Door, tab: gr.Tab) -> None:
    """Lay out the tab inside the `gr.Blocks` that is currently open."""
    gr.HTML(lead("annotate"))
    skipped, drawn = gr.State([]), gr.State(())
    with gr.Row(elem_classes="composer rate-form"):
        project = gr.Dropdown([], label=say("annotate.project"), elem_id="annotate-project", scale=2, min_width=200)
        roles = [(say("annotate.role.rater"), "rater"), (say("annotate.role.adjudicator"), "adjudicator")]
        listed = gr.Dropdown([], label=say("annotate.listed"), elem_id="annotate-listed", scale=3, min_width=260)
        back = gr.Button(say("annotate.back"), size="sm", elem_id="annotate-back", scale=0, min_width=110)
        role = gr.Radio(
            roles, value="rater", label=say("annotate.role"), elem_id="annotate-role", scale=3, min_width=330
        )
    meter = gr.HTML(elem_id="annotate-progress")
    others = gr.HTML(elem_id="annotate-others")

    def turn(
        visitor: Visitor | None,
        left: str | None,
        project: str | None,
        role: str,
        passed: Sequence[str],
        at: str | None = None,
    ) -> Painted:
        """Show the next answer of the queue, or the one that `at` names; `left` is one that was skipped."""
        if not project:
            return panel.show_nothing("") | {meter: empty(say("annotate.no_project_yet")), others: ""}
        later = [*(name for name in passed if name != left), *([left] if left else [])]
        rater = Rater(services, visitor, is_adjudicating=role == "adjudicator")
        try:
            queue = rater.queue(project)
            opened = rater.open(at) if at else queue.next(later)
            page = panel.show(opened) if opened else panel.show_nothing(say(f"annotate.{role}.done"))
            done, text = queue.progress()
            page |= {meter: draw("meter", done=done, text=text), others: _others(queue, opened) if opened else ""}
            page[listed] = gr.Dropdown(queue.choices(), value=opened.item.id if opened else None)
        except LabError as error:
            page = panel.show_nothing(str(error)) | {others: ""}
        return page | {skipped: later}

    here = [project, role, skipped]
    panel = RatingPanel(
        services, door, "annotate", shows_stages=False, here=here, advance=turn, also=[meter, others, listed, skipped]
    )
    outputs = [*panel.outputs, meter, others, listed, skipped]
    with gr.Accordion(say("annotate.guidelines"), open=False, elem_id="annotate-guidelines"):
        guidelines = gr.HTML()
    name_field(door, "annotate")

    def on_listed(visitor: Visitor | None, at: str | None, *here: Any) -> Painted:
        return turn(visitor, None, *here, at=at)

    def on_back(visitor: Visitor | None, at: str | None, project: str | None, role: str, passed: Any) -> Painted:
        if not project:
            return {listed: gr.skip()}
        known = [name for _, name in Rater(services, visitor, role == "adjudicator").queue(project).choices()]
        return turn(visitor, None, project, role, passed, at=known[known.index(at) - 1] if at in known else None)

    for trigger, act, name in ((choosing(listed), on_listed, "answer"), (back.click, on_back, "back")):
        event(trigger, act, [listed, *here], outputs, f"annotate_{name}", door=door, shows=panel.line, **QUIET)

    def on_select(project: str | None, role: str, request: gr.Request) -> tuple[gr.Dropdown, str]:
        found = project_choices(services)
        known, linked = [name for _, name in found], request.query_params
        if project not in known:  # the page was just opened: as its address says
            project, role = linked.get("project"), linked.get("role") or role
        project = project if project in known else next(iter(known), None)
        return gr.Dropdown(choices=found, value=project), role if role in ("rater", "adjudicator") else "rater"

    tab.select(on_select, [project, role], [project, role], api_name="annotate_projects", **QUIET)
    disputes, agreement = _agreement(services, project)

    def on_dispute(visitor: Visitor | None, project: str, clicked: gr.EventData) -> Painted:
        if not project:
            return {role: gr.skip()}
        waiting = Rater(services, visitor, is_adjudicating=True).queue(project).waiting
        others = [each.id for each in waiting if each.id != clicked.id]
        shown = {role: "adjudicator", drawn: (visitor, project, "adjudicator")}
        return shown | turn(visitor, None, project, "adjudicator", others)

    named = {"api_name": "annotate_dispute", "door": door, "shows": panel.line}
    event(disputes.click, on_dispute, [project], [role, drawn, *outputs], **named, **QUIET)
    with gr.Row(elem_classes="composer", elem_id="annotate-manage") as manage:
        with gr.Column(scale=6, min_width=300, elem_classes="rate-form"):
            _projects(services, door, tab, project)
        with gr.Column(scale=5, min_width=300):
            offers, managing = _files(services, project)

    def on_admin(request: gr.Request) -> gr.Row:
        return gr.Row(visible=services.role_of(request.username) == "admin")

    def on_offers(project: str | None, request: gr.Request) -> str:
        """Show an admin what the annotations of this project can train."""
        store = services.store.annotations
        known = next((each for each in store.projects() if each.id == project), None)
        if known is None or services.role_of(request.username) != "admin":
            return ""
        found = trainable_annotations(known, settle_annotations(store.items(known.id), store.latest(known.id)))
        has_buttons = may_train(services, request.username)
        return training_offers(found, has_buttons=has_buttons, title="trainable.said")

    def on_here(
        visitor: Visitor | None, project: str | None, role: str, passed: Any, shown: Any, request: gr.Request
    ) -> Painted:
        """Show a project to who is at the page, unless it is shown: painting it again would take away what is typed.

        Where a choice and a reply meet, Gradio may report the same change again after each update, without end.
        """
        is_opening = visitor is None or (not shown and not project and project_choices(services))
        if is_opening or (visitor, project, role) == shown:
            return {others: gr.skip()}
        is_here = shown and shown[:2] == (visitor, project)
        page = turn(visitor, None, project, role, passed if is_here else ()) | {drawn: (visitor, project, role)}
        if is_here:
            return page
        known = services.store.annotations.project(project) if project else None
        page |= managing.show(known.title if known else "", may=bool(known))
        page |= {guidelines: markdown(known.guidelines.text) if known else "", agreement: gr.Accordion(open=False)}
        return page | {offers: on_offers(project, request)}

    painted = [*outputs, guidelines, agreement, offers, drawn, *managing.outputs]
    changes = [project.change, role.change, door.known.change]
    placed = gr.on(changes, None, [project, role], None, js="assayPlaceProject")  # a reload opens what is shown
    event(placed.success, on_here, [*here, drawn], painted, "annotate_project", door=door, **CHOSEN)
    tab.select(on_admin, None, manage, api_visibility="private", **QUIET)
    tab.select(on_offers, project, offers, api_visibility="private", **QUIET)


def _others(queue: Queue, opened: Opened) -> str:
    """Return what every rater said of an answer that is to be settled."""
    if not queue.rater.is_adjudicating:
        return ""
    dimensions = opened.project.guidelines.dimensions
    rows = [
        (each, annotation_facts(each, dimensions), notes_with_words(opened.item, each.notes))
        for each in queue.said
        if each.item == opened.item.id and each.state == "submitted" and not each.is_adjudication
    ]
    return draw("said", rows=rows)


def project_choices(services: Services) -> list[tuple[str, str]]:
    """Return the projects to choose from, the newest first."""
    return [(project.title, project.id) for project in services.store.annotations.projects()]


def _agreement(services: Services, project: gr.Dropdown) -> tuple[gr.HTML, gr.Accordion]:
    """Lay out and wire how far raters agree; return what is clicked where an answer in dispute is named, and its fold."""
    with gr.Accordion(say("annotate.agreement"), open=False, elem_id="annotate-agreement") as fold:
        table = gr.HTML(js_on_load=clicks("annotate"))

    def on_open(project: str | None, request: gr.Request) -> str:
        if not project:
            return empty(say("annotate.no_project_yet"))
        store = services.store.annotations
        known, said = store.project(project), store.latest(project)
        found, checked = agreements(known, said, draws=1000), Html()
        if services.role_of(request.username) == "admin":
            checked = _raters_table(check_raters(known, store.items(project), said), store.names())
        if len({each.rater for each in said if each.state == "submitted"}) < FEWEST_SHOWN or not found:
            return Html(empty(say("annotate.agreement.none")) + checked)
        titles = {each.name: each.title for each in known.guidelines.dimensions}
        settled = settle_annotations(store.items(project), said)
        done = {"n": len(settled), "settled": sum(each.by is not None for each in settled)}
        open_ = [(each.item.id, shorten(each.item.question, 90)) for each in settled if disagreements(known, each)]
        told = {titles.get(what) or say(f"annotate.{what}"): figures for what, figures in found.items()}
        tables = []
        for names, key in ((WEIGHTED_NAMES, "numbers"), (NAMES, "words")):
            rows = [
                [titles.get(what) or say(f"annotate.{what}"), *(measure(figures[each], "open") for each in names)]
                for what, figures in found.items()
                if (what in titles) == (key == "numbers")
            ]
            columns = [say("annotate.agreement.what"), *names.values()]
            tables += [grid(say(f"annotate.agreement.{key}", **done), columns, rows)] if rows else []
        return Html(
            draw("agreement", sentence=with_terms(agreement_sentence(told)), disputes=open_, tables=tables) + checked
        )

    fold.expand(on_open, project, table, api_name="annotate_agreement", **QUIET)
    return table, fold


def _raters_table(checked: Sequence[RaterCheck], names: Mapping[str, str]) -> Html:
    """Return how each rater agrees with known labels and with themselves, and how long an answer takes; nothing of nobody."""
    rows = [
        (
            names.get(each.rater, each.rater[:6]),
            each.submitted,
            *(measure(figure, "share") if figure.n else "–" for figure in (each.gold, each.itself)),
            "–" if each.seconds is None else f"{each.seconds:.0f} s",
        )
        for each in checked
    ]
    return grid(say("annotate.raters"), say("annotate.raters.columns").split(" | "), rows) if rows else Html()


def agreement_sentence(found: Mapping[str, Mapping[str, Metric]]) -> str:
    """Return what the raters agree on, and how far, by Krippendorff's alpha of each thing that they rate."""
    parts = []
    for title, figures in found.items():
        alpha = figures["krippendorff_alpha"]
        figure = "" if alpha.value is None else f"[alpha] {number(alpha.value, 'open')}"
        figure += "" if alpha.low is None or alpha.high is None else f", {interval(alpha.low, alpha.high, 'open')}"
        level = say(f"annotate.agreement.{agreement_level(alpha)}", n=plural(alpha.n, "answer"))
        parts.append(say("annotate.agreement.part", title=title, level=level, figure=f" ({figure})" if figure else ""))
    return say("annotate.agreement.sentence", parts="; ".join(parts))


def _projects(services: Services, door: Door, tab: gr.Tab, project: gr.Dropdown) -> None:
    """Lay out and wire how projects are made."""
    with gr.Accordion(say("annotate.new"), open=False, elem_id="annotate-new") as fold:
        title = gr.Textbox(label=say("annotate.new.title"), elem_id="annotate-title")
        source = gr.Dropdown(
            [(say("annotate.new.asked"), "")], value="", label=say("annotate.new.source"), elem_id="annotate-source"
        )
        stages = gr.CheckboxGroup([], label=say("annotate.new.stages"), visible=False, elem_id="annotate-stages")
        with gr.Row():
            n = gr.Number(30, precision=0, minimum=1, label=say("annotate.new.n"), info=say("annotate.new.n.info"))
            raters = gr.Number(2, precision=0, minimum=1, maximum=20, label=say("annotate.new.raters"))
        with gr.Row():
            percent: dict[str, Any] = {"value": 0, "precision": 0, "minimum": 0, "maximum": 100}
            gold = gr.Number(label=say("annotate.new.gold"), info=say("annotate.new.gold.info"), **percent)
            again = gr.Number(label=say("annotate.new.again"), info=say("annotate.new.again.info"), **percent)
        rubrics = [(say(f"annotate.rubric.{each}"), each) for each in RUBRICS]
        rubric = gr.Radio(rubrics, value=RUBRICS[0], label=say("annotate.rubric"), elem_id="annotate-rubric")
        with gr.Accordion(say("annotate.rubric.edit"), open=False):
            typed = gr.Textbox(
                rubric_text(RUBRICS[0]), label=say("annotate.rubric.toml"), lines=12, elem_id="annotate-rubric-text"
            )
        make = gr.Button(say("annotate.new.make"), variant="primary", size="sm", elem_id="annotate-make")
        made = gr.HTML()

    def on_open() -> gr.Dropdown:
        found = [
            (say("annotate.new.asked"), ""),
            *((each.data_name, each.data_name) for each in services.reports().reports),
        ]
        return gr.Dropdown(choices=found)  # a choice made meanwhile stays

    def on_first() -> Any:
        return (gr.skip(), gr.skip()) if project_choices(services) else (gr.Accordion(open=True), on_open())

    def on_source(name: str) -> gr.CheckboxGroup:
        report = next((each for each in services.reports().reports if each.data_name == name), None)
        found = list(report.stage_checksums) if report else []
        return gr.CheckboxGroup([(stage_name(each), each) for each in found], value=found, visible=bool(found))

    @show_errors(made)
    def on_make(
        visitor: Visitor | None,
        title: str,
        name: str,
        stages: list[str],
        n: float | None,
        raters: float | None,
        typed: str,
        gold: float | None,
        again: float | None,
    ) -> Painted:
        known = new_project(services, title or "", raters, parse_guidelines(typed))
        n_asked = read_count("annotate.new.n", n)
        report = next((each for each in services.reports().reports if each.data_name == name), None)
        if report is not None:
            items = items_of_report(report, known, stages, n_asked)
        elif visitor is None:
            raise LabError(say("annotate.nobody"))
        else:
            asked = services.store.answers(session_of(services, visitor, "ask"), n_asked)
            items = [item_of_answer(each, known.id) for each in asked]
        if not items:
            raise LabError(say("annotate.new.empty"))
        services.store.annotations.make(known, with_checks(items, (gold or 0) / 100, (again or 0) / 100))
        line = say("annotate.new.made", title=known.title, held=plural(len(items), "answer"))
        if n_held := sum(is_held_out(each.question, each.example_id) for each in items):
            line += " " + say("annotate.new.held_out", n=n_held)
        return {made: notice(line, "good"), project: gr.Dropdown(choices=project_choices(services), value=known.id)}

    fold.expand(on_open, None, source, api_name="annotate_sources", **QUIET)
    tab.select(on_first, None, [fold, source], api_visibility="private", **QUIET)
    source.change(on_source, source, stages, api_name="annotate_stages", **QUIET)
    rubric.input(rubric_text, rubric, typed, api_name="annotate_rubric", **QUIET)
    given = [door.known, title, source, stages, n, raters, typed, gold, again]
    make.click(on_make, given, [made, project], api_name="annotate_make", **QUIET)


def _files(services: Services, project: gr.Dropdown) -> tuple[gr.HTML, Managing]:
    """Lay out and wire what a project can train, and how it is renamed and deleted, and return both; Data exports it."""
    if services.is_local:
        gr.HTML(f'<p class="rate-onward"><a href="?tab=data">{say("annotate.export")}</a></p>')
    offers = gr.HTML(elem_id="annotate-offers", js_on_load=clicks("annotate"))
    hear_offers(services, offers, "annotate_train", project)
    panel = manage_panel("annotate-project")

    def goes(name: str | None) -> str:
        """Return what deleting a project takes away."""
        known = services.store.annotations.project(name or "")
        n = {"answers": plural(len(services.store.annotations.items(known.id)), "answer")}
        n["said"] = plural(len(services.store.annotations.latest(known.id)), "annotation")
        return say("annotate.goes", title=known.title, **n)

    def on_drop(name: str | None) -> Painted:
        """Delete a project with its answers and annotations."""
        known = services.store.annotations.project(name or "")
        services.store.annotations.delete(known.id)
        found = project_choices(services)
        shown = gr.Dropdown(choices=found, value=found[0][1] if found else None)
        return {panel.line: notice(say("annotate.deleted", title=known.title), "good"), project: shown}

    def on_rename(name: str | None, title: str) -> Painted:
        """Give a project another title."""
        known = services.store.annotations.project(name or "")
        named = known.model_copy(update={"title": title.strip()})
        if not named.title:
            raise LabError(say("annotate.no_title"))
        services.store.annotations.keep_project(named)
        line = notice(say("manage.renamed", title=named.title), "good")
        return {panel.line: line, project: gr.Dropdown(choices=project_choices(services))}  # one chosen meanwhile stays

    panel.wire([project], goes, {"annotate_rename": on_rename, "annotate_drop": on_drop}, [project])
    return offers, panel
