"""The panel that an answer is rated on, wherever it stands: ratings, thumbs, notes on its words, a better answer."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, get_args

import gradio as gr

from evals.errors import LabError
from evals.questions import find, is_held_out
from evals.schema.votes import Annotation, AnnotationItem, Dimension, Note, NoteKind, State, VerdictLabel
from evals.verifiers.line import read_lines
from lab.page import Painted, event
from lab.services import Services
from lab.session import Door, Visitor
from lab.shared.rater import DIMENSIONS, KINDS, RATED, Opened, Rater
from lab.ui.components import CHOSEN, QUIET, Html, clicks, empty, notice, pieces, render, stage_name
from lab.ui.text import say

draw = partial(render, "shared/rating.html.jinja")


def notes_with_words(item: AnnotationItem, notes: Sequence[Note]) -> list[tuple[Note, str]]:
    """Return notes with the words that they are on."""
    return [(note, item.text[note.start : note.end]) for note in notes]


def annotation_facts(said: Annotation, dimensions: Sequence[Dimension]) -> list[tuple[str, str]]:
    """Return what an annotation says, by title, in words."""
    rows = [(each.title, str(said.ratings[each.name])) for each in dimensions if each.name in said.ratings]
    rows += [(say("annotate.thumb"), say(f"annotate.thumb.{said.thumb}"))] if said.thumb else []
    rows += [(say("annotate.verdict"), say(f"verdict.{said.verdict}"))] if said.verdict else []
    return rows + ([(say("annotate.reasons"), ", ".join(said.reasons))] if said.reasons else [])


class RatingPanel:
    """A panel to rate an answer on: `item` holds the id of what is rated, None = nothing; `adjudicating` who speaks."""

    def __init__(
        self,
        services: Services,
        door: Door,
        name: str,
        *,
        shows_stages: bool,
        here: Sequence[Any] = (),
        advance: Callable[..., Painted] | None = None,
        also: Sequence[Any] = (),
    ) -> None:
        """Lay it out and wire it. Ids and endpoints begin with `name`; `shows_stages` says who wrote from the start.

        `advance(visitor, skipped, *here)` gives what to show after an answer was submitted, discarded or skipped (then
        `skipped` is its id), or the one that `at` names; it may set `also`. Without it the answer stays.
        """
        self.services, self.shows_stages, self.advance = services, shows_stages, advance
        self.item, self.adjudicating = gr.State(None), gr.State(False)
        with gr.Column(elem_classes="rate-panel", elem_id=f"{name}-panel"):
            self.line = gr.HTML(elem_id=f"{name}-notice")
            with gr.Row(elem_classes="composer"):
                with gr.Column(scale=6, min_width=300):
                    self.answer = gr.HTML(js_on_load=clicks("annotate"), elem_id=f"{name}-answer")
                    with gr.Column(visible=False) as tools:
                        self.remark = gr.Textbox(
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
                        self.corrected = gr.Textbox(
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
                    self.thumb = gr.Radio(thumbs, label=say("annotate.thumb"), elem_id=f"{name}-thumb")
                    self.ratings = [
                        gr.Radio([], visible=False, elem_id=f"{name}-rating-{at}", elem_classes="rate-steps")
                        for at in range(DIMENSIONS)
                    ]
                    self.reasons = gr.CheckboxGroup([], label=say("annotate.reasons"), elem_id=f"{name}-reasons")
                    labels = [(say(f"verdict.{each}"), each) for each in get_args(VerdictLabel)]
                    self.verdict = gr.Dropdown(
                        [(say("annotate.verdict.none"), ""), *labels],
                        value="",
                        label=say("annotate.verdict"),
                        info=say("annotate.verdict.info"),
                        elem_id=f"{name}-verdict",
                    )
                    self.comment = gr.Textbox(
                        label=say("annotate.comment"), lines=2, max_lines=6, elem_id=f"{name}-comment"
                    )
        self.parts = (tools, fields)
        self.typed = [*self.ratings, self.thumb, self.verdict, self.reasons, self.corrected, self.comment]
        self.outputs = [self.item, self.adjudicating, self.line, self.answer, *self.parts, *self.typed]
        about, wire = [self.item, self.adjudicating], partial(event, door=door, shows=self.line)
        picked = [each.input for each in (*self.ratings, self.thumb, self.verdict, self.reasons)]
        changes = [*picked, self.corrected.blur, self.comment.blur]
        wire(changes, self.on_change, [*about, *self.typed], [self.line, self.answer], f"{name}_draft", **CHOSEN)
        for kind, button in marks.items():
            asked = [*about, self.remark, gr.Textbox(visible=False, value=name)]
            noted: dict[str, Any] = {"outputs": [self.line, self.answer, self.remark], "js": "assaySpan", **QUIET}
            wire(button.click, partial(self.on_note, kind), asked, api_name=f"{name}_note_{kind}", **noted)
        wire(self.answer.click, self.on_drop, about, [self.line, self.answer], f"{name}_drop_note", **QUIET)
        ends: dict[gr.Button, State] = {submit: "submitted", discard: "discarded"}
        moved = [*self.outputs, *also]
        for button, state in ends.items():
            given = [*about, *self.typed, *here]
            wire(button.click, partial(self.on_end, state), given, moved, f"{name}_{state}", **QUIET)
        wire(skip.click, self.on_skip, [self.item, *here], moved, f"{name}_skip", **QUIET)
        wire(undo.click, self.on_undo, [*about, *here], moved, f"{name}_undo", **QUIET)
        wire(copy.click, self.on_copy, [self.item], [self.corrected, self.line], f"{name}_copy", **QUIET)

    # ---- what it shows ---------------------------------------------------------------------

    def view(self, opened: Opened) -> Html:
        """Return the answer with its notes; its stage and verdict are shown once they can sway nobody any more."""
        item, said = opened.item, opened.said
        is_told, has_key = said.state == "submitted" or said.is_adjudication, self.shows_key(opened)
        return draw(
            "answer",
            item=item.model_copy(update={"stage": stage_name(item.stage)}),
            pieces=pieces(item.text, [(note.start, note.end, note.kind) for note in said.notes]),
            notes=notes_with_words(item, said.notes),
            state=said.state,
            is_named=self.shows_stages or is_told,
            known=self.question_facts(item, has_key=has_key),
            verdict=item.verdict if is_told and has_key else None,
        )

    def shows_key(self, opened: Opened) -> bool:
        """Return whether the right answer may be seen: where raters are checked, only by who settles, and of no checked answer."""
        if opened.item.gold:
            return False
        is_queue = opened.project.id != RATED and not opened.said.is_adjudication
        return not (is_queue and any(each.gold for each in self.services.store.annotations.items(opened.project.id)))

    def question_facts(self, item: AnnotationItem, *, has_key: bool) -> list[tuple[str, str]]:
        """Return what is known of the question, to be opened: its options and, with `has_key`, its right answer."""
        if (example := find(item.question)) is None:
            return []
        options = ", ".join(getattr(example.ground_truth, "options", ()))
        key = (read_lines(example.answer).answer or "") if has_key else ""
        return [(say(f"annotate.{name}"), text) for name, text in (("options", options), ("key", key)) if text]

    def show_nothing(self, text: str) -> Painted:
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

    # ---- what is said on it ----------------------------------------------------------------

    def rater(self, visitor: Visitor | None, is_adjudicating: bool = False) -> Rater:
        """Return who is at work."""
        return Rater(self.services, visitor, is_adjudicating)

    def read_fields(self, opened: Opened, typed: Sequence[Any]) -> dict[str, Any]:
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

    def save(
        self, visitor: Visitor | None, item: str | None, adjudicating: bool, typed: Sequence[Any], state: State | None
    ) -> Opened:
        """Keep what the widgets say. Raises LabError."""
        return self.rater(visitor, adjudicating).annotate(item, state, lambda opened: self.read_fields(opened, typed))

    def on_change(self, visitor: Visitor | None, item: str | None, adjudicating: bool, *typed: Any) -> Painted:
        opened = self.save(visitor, item, adjudicating, typed, None)
        told = {self.line: notice(say(f"annotate.kept.{opened.said.state}"))}
        is_left = self.advance is not None and opened.said.state != "draft"  # Submit was faster: the next one is shown
        return {self.line: gr.skip()} if is_left else {**told, self.answer: self.view(opened)}

    def on_note(
        self, kind: NoteKind, visitor: Visitor | None, item: str | None, adjudicating: bool, comment: str, span: str
    ) -> Painted:
        opened = self.rater(visitor, adjudicating).add_note(item, span, kind, comment or "")
        return {self.line: "", self.answer: self.view(opened), self.remark: ""}

    def on_drop(self, visitor: Visitor | None, item: str | None, adjudicating: bool, event: gr.EventData) -> Painted:
        place = str(event._data.get("id"))
        opened = self.rater(visitor, adjudicating).remove_note(item, int(place) if place.isdecimal() else -1)
        return {self.line: "", self.answer: self.view(opened)}

    def on_end(
        self, state: State, visitor: Visitor | None, item: str | None, adjudicating: bool, *given: Any
    ) -> Painted:
        typed, elsewhere = given[: len(self.typed)], given[len(self.typed) :]
        opened = self.save(visitor, item, adjudicating, typed, state)
        told, n = say(f"annotate.kept.{state}"), len(self.rater(visitor).items_of_same_text(opened.item))
        told = notice(f"{told} {say('annotate.kept.alike', n=n)}" if n > 1 else told, "good")
        if self.advance is None:
            return self.show(opened, told)
        return {**self.advance(visitor, None, *elsewhere), self.line: told}

    def on_skip(self, visitor: Visitor | None, item: str | None, *elsewhere: Any) -> Painted:
        return self.advance(visitor, item, *elsewhere) if self.advance else {self.line: gr.skip()}

    def on_undo(self, visitor: Visitor | None, item: str | None, adjudicating: bool, *elsewhere: Any) -> Painted:
        told = notice(say("annotate.undone"), "good")
        opened = self.rater(visitor, adjudicating).undo(item, is_queue=self.advance is not None)
        if self.advance is None:
            return self.show(opened, told)
        return {**self.advance(visitor, None, *elsewhere, at=opened.item.id), self.line: told}

    def on_copy(self, visitor: Visitor | None, item: str | None) -> Painted:
        return {self.corrected: self.rater(visitor).open(item).item.text}


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
        panel = RatingPanel(services, door, name, shows_stages=True)

    def on_open(visitor: Visitor | None, shown: str | None, rated: str | None = None) -> Painted:
        """Show the answers beside one that is shown; of one that is open the thumb alone, or what is typed would go."""
        try:
            if not (items := found(visitor, shown) if shown else ()):  # a report may have been made anew meanwhile
                return {which: gr.Radio(visible=False), **panel.show_nothing(say("annotate.none_shown"))}
            if rated in (names := (rater := Rater(services, visitor)).add_items(items)):
                return {panel.thumb: rater.open(rated).said.thumb}
        except LabError as error:
            return {which: gr.Radio(visible=False), **panel.show_nothing(str(error))}
        stages = [(stage_name(each.stage), each.id) for each in items]
        first = f"{RATED}:{shown}" if f"{RATED}:{shown}" in names[1:] else names[-1]
        return {which: gr.Radio(stages, value=first, visible=True), **on_which(visitor, first)}

    def on_which(visitor: Visitor | None, item: str | None) -> Painted:
        try:
            return panel.show(Rater(services, visitor).open(item))
        except LabError as error:
            return panel.show_nothing(str(error))

    def on_thumb(visitor: Visitor | None, rated: str | None, event: gr.EventData) -> Painted:
        asked = event._data
        name, rater = str(asked.get("id")), Rater(services, visitor)
        rater.add_items([each for each in found(visitor, name) if each.id == f"{RATED}:{name}"])
        if asked.get("do") == "rate":
            return {fold: gr.Accordion(open=True), shown: name, told: f"{tab}-rate", **on_open(visitor, name, rated)}
        said = rater.set_thumb(f"{RATED}:{name}", "up" if asked.get("do") == "up" else "down").said
        page = {line: notice(say(f"annotate.thumbed.{said.thumb}")), told: f"{name} {said.thumb}"}
        return page | ({panel.thumb: said.thumb} if rated == f"{RATED}:{name}" else {})

    opened, rated = [which, *panel.outputs], panel.item
    event([fold.expand, shown.change], on_open, [shown, rated], opened, f"{name}_answers", door=door, **CHOSEN)
    event(which.input, on_which, [which], panel.outputs, f"{name}_answer", door=door, **CHOSEN)
    shown.change(lambda: "", None, line, api_visibility="private", **QUIET)
    changed = [line, told, fold, shown, *opened]
    thumbed = event(clicked, on_thumb, [rated], changed, f"{name}_thumb", door=door, shows=line, **QUIET)
    thumbed.then(None, told, None, js="assayThumb")
