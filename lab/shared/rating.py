"""The panel that an answer is rated on, wherever it stands: ratings, thumbs, notes on its words, a better answer."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, get_args

import gradio as gr

from evals.errors import LabError
from evals.questions import find, is_held_out
from evals.schema.votes import Annotation, AnnotationItem, Dimension, Note, NoteKind, State, VerdictLabel
from evals.verifiers.line import read_lines
from lab.page import Painted, show_errors
from lab.services import Services
from lab.shared.rater import DIMENSIONS, KINDS, RATED, Opened, Rater
from lab.ui.components import CHOSEN, QUIET, Html, clicks, empty, notice, pieces, render, stage_name
from lab.ui.text import say
from lab.visitors import Door, Visitor

draw = partial(render, "shared/rating.html.jinja")
"""Gives a note the words that are selected in the answer of its panel."""


def quoted_notes(item: AnnotationItem, notes: Sequence[Note]) -> list[tuple[Note, str]]:
    """Return notes with the words that they are on."""
    return [(note, item.text[note.start : note.end]) for note in notes]


def words_of(said: Annotation, dimensions: Sequence[Dimension]) -> list[tuple[str, str]]:
    """Return what an annotation says, by title, in words."""
    rows = [(each.title, str(said.ratings[each.name])) for each in dimensions if each.name in said.ratings]
    rows += [(say("annotate.thumb"), say(f"annotate.thumb.{said.thumb}"))] if said.thumb else []
    rows += [(say("annotate.verdict"), say(f"verdict.{said.verdict}"))] if said.verdict else []
    return rows + ([(say("annotate.reasons"), ", ".join(said.reasons))] if said.reasons else [])


@dataclass(frozen=True)
class AnnotationPanel:
    """The widgets of a panel. `item` holds the id of what is rated, None = nothing; `adjudicating` who speaks."""

    services: Services
    is_named: bool
    item: gr.State
    adjudicating: gr.State
    line: gr.HTML
    answer: gr.HTML
    parts: Sequence[gr.Column]
    ratings: Sequence[gr.Radio]
    thumb: gr.Radio
    verdict: gr.Dropdown
    reasons: gr.CheckboxGroup
    corrected: gr.Textbox
    comment: gr.Textbox

    @property
    def typed(self) -> list[Any]:
        """The widgets that hold what is said."""
        return [*self.ratings, self.thumb, self.verdict, self.reasons, self.corrected, self.comment]

    @property
    def outputs(self) -> list[Any]:
        """What most events set."""
        return [self.item, self.adjudicating, self.line, self.answer, *self.parts, *self.typed]

    def view(self, opened: Opened) -> Html:
        """Return the answer with its notes; its stage and verdict are shown once they can sway nobody any more."""
        item, said = opened.item, opened.said
        is_told, has_key = said.state == "submitted" or said.is_adjudication, self.shows_key(opened)
        return draw(
            "answer",
            item=item.model_copy(update={"stage": stage_name(item.stage)}),
            pieces=pieces(item.text, [(note.start, note.end, note.kind) for note in said.notes]),
            notes=quoted_notes(item, said.notes),
            state=said.state,
            is_named=self.is_named or is_told,
            known=self.known(item, has_key=has_key),
            verdict=item.verdict if is_told and has_key else None,
        )

    def shows_key(self, opened: Opened) -> bool:
        """Return whether the right answer may be seen: where raters are checked, only by who settles, and of no checked answer."""
        if opened.item.gold:
            return False
        is_queue = opened.project.id != RATED and not opened.said.is_adjudication
        return not (is_queue and any(each.gold for each in self.services.store.annotations.items(opened.project.id)))

    def known(self, item: AnnotationItem, *, has_key: bool) -> list[tuple[str, str]]:
        """Return what is known of the question, to be opened: its options and, with `has_key`, its right answer."""
        if (example := find(item.question)) is None:
            return []
        options = ", ".join(getattr(example.ground_truth, "options", ()))
        key = (read_lines(example.answer).answer or "") if has_key else ""
        return [(say(f"annotate.{name}"), text) for name, text in (("options", options), ("key", key)) if text]

    def rater(self, visitor: Visitor | None, is_adjudicating: bool = False) -> Rater:
        """Return who is at work."""
        return Rater(self.services, visitor, is_adjudicating)

    def nothing(self, text: str) -> Painted:
        """Show that there is nothing to rate, and why."""
        hidden = {part: gr.Column(visible=False) for part in self.parts}
        return {self.item: None, self.line: "", self.answer: empty(text)} | hidden

    def show(self, opened: Opened, line: str = "") -> Painted:
        """Show an answer and what this rater said of it so far."""
        said, guidelines = opened.said, opened.project.guidelines
        trains = "held_out" if is_held_out(opened.item.question, opened.item.example_id) else "info"
        page: Painted = {
            self.item: opened.item.id,
            self.adjudicating: said.is_adjudication,
            self.line: line,
            self.answer: self.view(opened),
            **{part: gr.Column(visible=True) for part in self.parts},
            self.thumb: said.thumb,
            self.verdict: said.verdict or "",
            self.reasons: gr.CheckboxGroup(
                choices=[*guidelines.reasons], value=[*said.reasons], visible=bool(guidelines.reasons)
            ),
            self.corrected: gr.Textbox(value=said.corrected or "", info=say(f"annotate.corrected.{trains}")),
            self.comment: said.comment,
        }
        for at, radio in enumerate(self.ratings):
            each = guidelines.dimensions[at] if at < len(guidelines.dimensions) else None
            if each is None:
                page[radio] = gr.Radio(visible=False, value=None)
                continue
            steps = [(str(step), step) for step in range(each.low, each.high + 1)]
            given = said.ratings.get(each.name)
            page[radio] = gr.Radio(steps, value=given, label=each.title, info=each.guideline or None, visible=True)
        return page

    def read(self, opened: Opened, typed: Sequence[Any]) -> dict[str, Any]:
        """Return what the widgets say, by field of the annotation."""
        names = [each.name for each in opened.project.guidelines.dimensions]
        ratings = {
            name: int(value) for name, value in zip(names, typed[:DIMENSIONS], strict=False) if value is not None
        }
        thumb, verdict, reasons, corrected, comment = typed[DIMENSIONS:]
        corrected = str(corrected or "").strip()
        said = {"thumb": thumb or None, "verdict": verdict or None, "reasons": tuple(reasons or ())}
        return {
            "ratings": ratings,
            **said,
            "corrected": corrected if corrected and corrected != opened.item.text.strip() else None,
            "comment": str(comment or "").strip(),
        }

    def keep(
        self, visitor: Visitor | None, item: str | None, adjudicating: bool, typed: Sequence[Any], state: State | None
    ) -> Opened:
        """Keep what the widgets say. Raises LabError."""
        return self.rater(visitor, adjudicating).say_of(item, state, lambda opened: self.read(opened, typed))


def build_panel(
    services: Services,
    door: Door,
    name: str,
    *,
    is_named: bool,
    here: Sequence[Any] = (),
    advance: Callable[..., Painted] | None = None,
    also: Sequence[Any] = (),
) -> AnnotationPanel:
    """Lay out a panel and wire it. Ids and endpoints begin with `name`; `is_named` shows stages from the start.

    `advance(visitor, skipped, *here)` gives what to show after an answer was submitted, discarded or skipped (then
    `skipped` is its id), or the one that `at` names; it may set `also`. Without it the answer stays.
    """
    item, adjudicating = gr.State(None), gr.State(False)
    with gr.Column(elem_classes="rate-panel", elem_id=f"{name}-panel"):
        line = gr.HTML(elem_id=f"{name}-notice")
        with gr.Row(elem_classes="composer"):
            with gr.Column(scale=6, min_width=300):
                answer = gr.HTML(js_on_load=clicks("annotate"), elem_id=f"{name}-answer")
                with gr.Column(visible=False) as tools:
                    remark = gr.Textbox(
                        label=say("annotate.remark"), info=say("annotate.select"), elem_id=f"{name}-remark"
                    )
                    with gr.Row(elem_classes="actions"):
                        marks = {
                            kind: gr.Button(
                                say(f"annotate.note.{kind}"),
                                size="sm",
                                elem_id=f"{name}-note-{kind}",
                                elem_classes=f"note-mark {kind}",
                            )
                            for kind in KINDS
                        }
                    corrected = gr.Textbox(
                        label=say("annotate.corrected"),
                        info=say("annotate.corrected.info"),
                        lines=3,
                        max_lines=12,
                        elem_id=f"{name}-corrected",
                    )
                    copy = gr.Button(say("annotate.copy"), size="sm", elem_id=f"{name}-copy")
            with gr.Column(scale=5, min_width=300, visible=False, elem_classes="rate-fields") as fields:
                with gr.Row(elem_classes="actions"):
                    submit = gr.Button(say("annotate.submit"), variant="primary", elem_id=f"{name}-submit")
                    skip = gr.Button(say("annotate.skip"), visible=advance is not None, elem_id=f"{name}-skip")
                    discard = gr.Button(say("annotate.discard"), elem_id=f"{name}-discard")
                    undo = gr.Button(say("annotate.undo"), elem_id=f"{name}-undo")
                thumbs = [(say(f"annotate.thumb.{each}"), each) for each in ("up", "down")]
                thumb = gr.Radio(thumbs, label=say("annotate.thumb"), elem_id=f"{name}-thumb")
                ratings = [
                    gr.Radio([], visible=False, elem_id=f"{name}-rating-{at}", elem_classes="rate-steps")
                    for at in range(DIMENSIONS)
                ]
                reasons = gr.CheckboxGroup([], label=say("annotate.reasons"), elem_id=f"{name}-reasons")
                labels = [(say(f"verdict.{each}"), each) for each in get_args(VerdictLabel)]
                verdict = gr.Dropdown(
                    [(say("annotate.verdict.none"), ""), *labels],
                    value="",
                    label=say("annotate.verdict"),
                    info=say("annotate.verdict.info"),
                    elem_id=f"{name}-verdict",
                )
                comment = gr.Textbox(label=say("annotate.comment"), lines=2, max_lines=6, elem_id=f"{name}-comment")
    panel = AnnotationPanel(
        services=services,
        is_named=is_named,
        item=item,
        adjudicating=adjudicating,
        line=line,
        answer=answer,
        parts=(tools, fields),
        ratings=ratings,
        thumb=thumb,
        verdict=verdict,
        reasons=reasons,
        corrected=corrected,
        comment=comment,
    )

    @show_errors(line)
    def on_change(visitor: Visitor | None, item: str | None, adjudicating: bool, *typed: Any) -> Painted:
        opened = panel.keep(visitor, item, adjudicating, typed, None)
        told = {line: notice(say(f"annotate.kept.{opened.said.state}"))}
        is_left = advance is not None and opened.said.state != "draft"  # Submit was faster: the next one is shown
        return {line: gr.skip()} if is_left else {**told, answer: panel.view(opened)}

    @show_errors(line)
    def on_note(
        kind: NoteKind, visitor: Visitor | None, item: str | None, adjudicating: bool, comment: str, span: str
    ) -> Painted:
        opened = panel.rater(visitor, adjudicating).note(item, span, kind, comment or "")
        return {line: "", answer: panel.view(opened), remark: ""}

    @show_errors(line)
    def on_drop(visitor: Visitor | None, item: str | None, adjudicating: bool, event: gr.EventData) -> Painted:
        place = str(event._data.get("id"))
        opened = panel.rater(visitor, adjudicating).drop_note(item, int(place) if place.isdecimal() else -1)
        return {line: "", answer: panel.view(opened)}

    @show_errors(line)
    def on_end(state: State, visitor: Visitor | None, item: str | None, adjudicating: bool, *given: Any) -> Painted:
        typed, elsewhere = given[: len(panel.typed)], given[len(panel.typed) :]
        opened = panel.keep(visitor, item, adjudicating, typed, state)
        told = notice(say(f"annotate.kept.{state}"), "good")
        return panel.show(opened, told) if advance is None else {**advance(visitor, None, *elsewhere), line: told}

    def on_skip(visitor: Visitor | None, item: str | None, *elsewhere: Any) -> Painted:
        return advance(visitor, item, *elsewhere) if advance else {line: gr.skip()}

    @show_errors(line)
    def on_undo(visitor: Visitor | None, item: str | None, adjudicating: bool, *elsewhere: Any) -> Painted:
        told = notice(say("annotate.undone"), "good")
        opened = panel.rater(visitor, adjudicating).undo(item, is_queue=advance is not None)
        if advance is None:
            return panel.show(opened, told)
        return {**advance(visitor, None, *elsewhere, at=opened.item.id), line: told}

    @show_errors(line)
    def on_copy(visitor: Visitor | None, item: str | None) -> Painted:
        return {corrected: panel.rater(visitor).open(item).item.text}

    about = [door.known, item, adjudicating]
    picked = [each.input for each in (*ratings, thumb, verdict, reasons)]
    changes = [*picked, corrected.blur, comment.blur]
    gr.on(changes, on_change, [*about, *panel.typed], [line, answer], api_name=f"{name}_draft", **CHOSEN)
    for kind, button in marks.items():
        span = gr.Textbox(visible=False, value=name)
        noted = [line, answer, remark]
        asked = [*about, remark, span]
        button.click(partial(on_note, kind), asked, noted, js="assaySpan", api_name=f"{name}_note_{kind}", **QUIET)
    answer.click(on_drop, about, [line, answer], api_name=f"{name}_drop_note", **QUIET)
    ends: dict[gr.Button, State] = {submit: "submitted", discard: "discarded"}
    for button, state in ends.items():
        given = [*about, *panel.typed, *here]
        button.click(partial(on_end, state), given, [*panel.outputs, *also], api_name=f"{name}_{state}", **QUIET)
    skip.click(on_skip, [door.known, item, *here], [*panel.outputs, *also], api_name=f"{name}_skip", **QUIET)
    undo.click(on_undo, [*about, *here], [*panel.outputs, *also], api_name=f"{name}_undo", **QUIET)
    copy.click(on_copy, [door.known, item], [corrected, line], api_name=f"{name}_copy", **QUIET)
    return panel


def build_rating(
    services: Services,
    door: Door,
    tab: str,
    name: str,
    clicked: Callable[..., Any],
    shown: gr.State,
    found: Callable[[Visitor | None, str], Sequence[AnnotationItem]],
) -> None:
    """Lay out and wire a fold in which answers are rated where they stand, and the thumbs on their cards.

    `clicked` listens to the cards; `found` gives the answers that are shown together with one, by its name in `shown`
    or on its card. Ids and endpoints of the panel begin with `name`.
    """
    line, told = gr.HTML(elem_id=f"{tab}-thumb"), gr.Textbox(visible=False)
    with gr.Accordion(say(f"{tab}.rate"), open=False, elem_id=f"{tab}-rate") as fold:
        which = gr.Radio([], label=say("annotate.which"), visible=False, elem_id=f"{tab}-rate-which")
        panel = build_panel(services, door, name, is_named=True)

    def on_open(visitor: Visitor | None, shown: str | None) -> Painted:
        try:
            if not (items := found(visitor, shown) if shown else ()):  # a report may have been made anew meanwhile
                return {which: gr.Radio(visible=False), **panel.nothing(say("annotate.none_shown"))}
            names = Rater(services, visitor).rate(items)
        except LabError as error:
            return {which: gr.Radio(visible=False), **panel.nothing(str(error))}
        stages = [(stage_name(each.stage), each.id) for each in items]
        first = f"{RATED}:{shown}" if f"{RATED}:{shown}" in names[1:] else names[-1]
        return {which: gr.Radio(stages, value=first, visible=True), **on_which(visitor, first)}

    def on_which(visitor: Visitor | None, item: str | None) -> Painted:
        try:
            return panel.show(Rater(services, visitor).open(item))
        except LabError as error:
            return panel.nothing(str(error))

    @show_errors(line)
    def on_thumb(visitor: Visitor | None, event: gr.EventData) -> Painted:
        asked = event._data
        name, rater = str(asked.get("id")), Rater(services, visitor)
        rater.rate([each for each in found(visitor, name) if each.id == f"{RATED}:{name}"])
        if asked.get("do") == "rate":
            return {fold: gr.Accordion(open=True), shown: name, told: f"{tab}-rate", **on_open(visitor, name)}
        said = rater.thumb(f"{RATED}:{name}", "up" if asked.get("do") == "up" else "down").said
        return {line: notice(say(f"annotate.thumbed.{said.thumb}")), told: f"{name} {said.thumb}"}

    opened = [which, *panel.outputs]
    gr.on([fold.expand, shown.change], on_open, [door.known, shown], opened, api_name=f"{name}_answers", **CHOSEN)
    which.input(on_which, [door.known, which], panel.outputs, api_name=f"{name}_answer", **CHOSEN)
    shown.change(lambda: "", None, line, api_visibility="private", **QUIET)
    thumbed = clicked(on_thumb, door.known, [line, told, fold, shown, *opened], api_name=f"{name}_thumb", **QUIET)
    thumbed.then(None, told, None, js="assayThumb")
