"""What tabs are built of: events that show their errors, the pane of a document, stopping, files to download."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.utils import get_upload_folder

from evals.errors import LabError
from lab.services import Services
from lab.session import Door, Tab, View, Visitor, meet_early, name_visitor, stop
from lab.ui.components import CHOSEN, QUIET, as_html, notice, script, stage_name, term
from lab.ui.text import say

Painted = dict[Any, Any]
"""What changes on the page, by component."""
Act = Callable[..., Any]


@dataclass(frozen=True)
class DocumentPane:
    """Where a document is shown; while it is written, `starts` are locked and `stopping` is there. `kept`: its id.

    `earlier` lists those before it, locked until what is written has ended and is listed too.
    """

    line: gr.HTML
    cards: gr.HTML
    kept: gr.State
    starts: Sequence[gr.Button]
    stopping: gr.Button
    earlier: gr.Dropdown
    paper: gr.HTML | None = None

    @property
    def shown(self) -> list[Any]:
        return [self.line, *([self.paper] if self.paper else []), self.cards, self.kept]

    @property
    def outputs(self) -> list[Any]:
        return [*self.shown, *self.starts, self.stopping, self.earlier]

    def show(self, view: View) -> Painted:
        name = view.kept or view.going  # the address says it (lab.js)
        cards = f'<div data-kept="{name}">{view.cards}</div>' if name else view.cards
        page: Painted = {self.line: view.notice, self.cards: cards, self.kept: view.kept}
        return page | ({self.paper: view.paper} if self.paper else {})

    def paint(self, view: View) -> Painted:
        """Return the same with the buttons as they stand at this moment."""
        return self.show(view) | self.buttons(is_busy=view.is_busy)

    def buttons(self, *, is_busy: bool) -> Painted:
        starts: Painted = {start: gr.Button(interactive=not is_busy) for start in self.starts}
        locked = {self.earlier: gr.Dropdown(interactive=False)} if is_busy else {}
        return starts | locked | {self.stopping: gr.Button(visible=is_busy)}

    def list_earlier(
        self,
        door: Door,
        find: Callable[[Visitor | None], list[tuple[str, str]]],
        nothing: str,
        opened: Any,
        ended: Sequence[Any],
        api_name: str = "",
    ) -> None:
        """Fill the list with what `find` gives when it is `opened`, and once an event that writes has `ended`."""

        def on_list(visitor: Visitor | None) -> gr.Dropdown:
            return choices(lambda: find(visitor), nothing)

        def on_end(visitor: Visitor | None) -> gr.Dropdown:
            return choices(lambda: find(visitor), nothing, interactive=True)

        event(opened, on_list, [], [self.earlier], api_name, door=door, **QUIET)
        for each in ended:
            event(each.then, on_end, [], [self.earlier], door=door, **QUIET)


def show_errors(shows: gr.HTML | DocumentPane) -> Callable[[Act], Act]:
    """Decorate what an event calls, a function or a generator: a LabError is shown as a notice, and the rest of the page stays.

    In a pane the buttons that a stream locked work again, so its outputs must be those of `pane.outputs`.
    """

    def problem(error: LabError) -> Painted:
        words = notice(str(error), "problem")
        return (
            {shows.line: words, **shows.buttons(is_busy=False)} if isinstance(shows, DocumentPane) else {shows: words}
        )

    def decorate(act: Act) -> Act:
        @wraps(act)
        def answer(*given: Any, **known: Any) -> Painted:
            try:
                return act(*given, **known)
            except LabError as error:
                return problem(error)

        @wraps(act)
        def stream(*given: Any, **known: Any) -> Iterator[Painted]:
            try:
                yield from act(*given, **known)
            except LabError as error:
                yield problem(error)

        return stream if inspect.isgeneratorfunction(act) else answer

    return decorate


def event(
    trigger: Any,
    act: Act,
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    api_name: str = "",
    *,
    door: Door | None = None,
    shows: gr.HTML | DocumentPane | None = None,
    **options: Any,
) -> Any:
    """Wire an event of the page, `button.click` or several of them in a list, and return it, to go on with `.then`.

    With a `door` the visitor is given first. `shows` is where a LabError is told (`show_errors`). Without `api_name` the
    event is private. `options` are Gradio's: `QUIET`, `CHOSEN`, `ANSWERING`, or nothing but a hidden progress bar.
    """
    name: dict[str, Any] = {"api_name": api_name} if api_name else {"api_visibility": "private"}
    told = act if shows is None else show_errors(shows)(act)
    given = [door.known, *inputs] if door else [*inputs]
    wire = (lambda *wired, **how: gr.on([*trigger], *wired, **how)) if isinstance(trigger, list) else trigger
    return wire(told, given, [*outputs], **{"show_progress": "hidden"} | name | options)


def choosing(*lists: gr.Dropdown) -> Any:
    """Return the trigger of a choice in `lists`, each with an `elem_id`; Gradio's `input` also reports a list that is only left."""
    names = [each.elem_id for each in lists]
    return gr.on([each.input for each in lists], None, js=script("assayChosen", names)).success


def earlier_list(tab: Tab, label: str) -> gr.Dropdown:
    """Return the list of a tab's earlier documents, to render where it belongs."""
    return gr.Dropdown(label=say(label), choices=[], elem_id=f"{tab}-earlier", render=False)


def choices(find: Callable[[], list[tuple[str, str]]], nothing: str, **options: Any) -> gr.Dropdown:
    """Return the list to choose from that `find` gives; beside an empty one stands `nothing`, or the LabError."""
    try:
        found = find()
    except LabError as error:
        return gr.Dropdown(choices=[], value=None, info=str(error), **options)
    return gr.Dropdown(choices=found, value=None, info=None if found else nothing, **options)


def with_visitor(door: Door, *starts: Any) -> Any:
    """Say first who the visitor is, which a page that just opened may not know; go on with `.then`."""
    known = [door.known, door.remembered]
    return gr.on([*starts], meet_early, known, known, api_visibility="private", **QUIET)


def name_field(door: Door, tab: str) -> None:
    """Lay out where visitors say what they are called; who signed in sees their name."""
    with gr.Accordion(say("name"), open=False, elem_id=f"{tab}-name"):
        name = gr.Textbox(label=say("name.label"), info=say("name.info"), max_length=80)

    def on_name(remembered: object, said: str, request: gr.Request) -> tuple[Visitor, object]:
        return name_visitor(remembered, said, request)

    def on_met(visitor: Visitor | None) -> gr.Textbox:
        called = visitor.name if visitor else ""
        is_typed = called.startswith("name:") or not called
        return gr.Textbox(value=visitor.called if visitor else "", interactive=is_typed)

    naming: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
    gr.on([name.submit, name.blur], on_name, [door.remembered, name], [door.known, door.remembered], **naming)
    door.known.change(on_met, door.known, name, **naming)


def stage_choice(services: Services, chosen: gr.State, tab: Tab) -> None:
    """Lay out which stages of the lab's own chain answer on this page, kept in `chosen`; none named = all."""
    with gr.Accordion(say(f"{tab}.stages"), open=False, elem_id=f"{tab}-stages") as fold:
        box = gr.CheckboxGroup(label=say("stages.chosen"), info=say("stages.info"))

    def on_expand(chosen: Sequence[str]) -> gr.CheckboxGroup:
        try:
            stages = services.engine.chain().stages
        except LabError as error:
            return gr.CheckboxGroup(choices=[], value=[], info=str(error))
        kept = [each for each in stages if each in chosen] or list(stages)
        return gr.CheckboxGroup([(stage_name(each), each) for each in stages], value=kept, info=say("stages.info"))

    fold.expand(on_expand, chosen, box, api_name=f"{tab}_stages", **QUIET)
    box.input(tuple, box, chosen, api_name=f"{tab}_stages_chosen", **CHOSEN)


def stops(services: Services, door: Door, tab: Tab, button: gr.Button, api_name: str) -> None:
    """Let a button end what this page is waiting for in a tab."""

    def on_stop(visitor: Visitor | None) -> None:
        stop(services, visitor, tab)

    button.click(on_stop, door.known, None, api_name=api_name, **QUIET)


@dataclass(frozen=True)
class Download:
    """A choice of formats, the button that makes a file, and where it is told and given."""

    form: gr.Radio
    make: gr.Button
    made: gr.HTML
    file: gr.DownloadButton

    @property
    def outputs(self) -> list[Any]:
        return [self.made, self.file]

    def give(self, folder: str, write: Callable[[Path], tuple[str, str | None]]) -> Painted:
        """Show the line and the file that `write` gives, in a folder that Gradio serves files from; or its LabError."""
        try:
            line, file = write(Path(get_upload_folder()) / folder)
        except LabError as error:
            line, file = notice(str(error), "problem"), None
        return {self.made: line, self.file: gr.DownloadButton(value=file, visible=file is not None)}


@dataclass(frozen=True)
class Managing:
    """Where a thing is renamed, or deleted once the page has said what goes."""

    fold: gr.Accordion
    title: gr.Textbox
    rename: gr.Button
    delete: gr.Button
    goes: gr.HTML
    drop: gr.Button
    keep: gr.Button
    line: gr.HTML

    @property
    def outputs(self) -> list[Any]:
        return [self.fold, self.title, self.goes, self.drop, self.keep, self.line]

    def ask(self, goes: str) -> Painted:
        """Say what goes, with a button for it and one against; "" asks no more."""
        return {self.goes: notice(goes)} | {each: gr.Button(visible=bool(goes)) for each in (self.drop, self.keep)}

    def show(self, title: str, *, may: bool) -> Painted:
        """Show what a thing is called now, for who may change it, with no question open."""
        return self.ask("") | {self.fold: gr.Accordion(visible=may), self.title: title}

    def wire(
        self, given: Sequence[Any], goes: Act, changes: Mapping[str, Act], outputs: Sequence[Any], **options: Any
    ) -> list[Any]:
        """Wire the buttons for the thing that `given` names, and return the two events that change it.

        `goes` says what would be deleted. `changes` are, by their API names, what renames, which is given the title too,
        and what deletes; they paint `outputs` and the line.
        """

        def on_delete(*known: Any) -> Painted:
            return self.ask(goes(*known)) | {self.line: ""}

        def on_keep() -> Painted:
            return self.ask("")

        how: dict[str, Any] = {"shows": self.line, **QUIET, **options}
        event(self.keep.click, on_keep, [], [self.goes, self.drop, self.keep], **QUIET)
        event(self.delete.click, on_delete, given, [self.goes, self.drop, self.keep, self.line], **how)
        painted = list(dict.fromkeys([*outputs, self.line]))
        pressed = (self.rename, [*given, self.title]), (self.drop, given)
        return [
            event(button.click, act, known, painted, name, **how)
            for (button, known), (name, act) in zip(pressed, changes.items(), strict=True)
        ]


def manage_panel(task: str) -> Managing:
    """Lay out a fold that renames and deletes."""
    with gr.Accordion(say("manage"), open=False, visible=False, elem_id=f"{task}-manage") as fold:
        with gr.Row(elem_classes="rate-form"):
            title = gr.Textbox(label=say("manage.title"), max_length=100, elem_id=f"{task}-title", scale=3)
            rename = gr.Button(say("questions.rename"), size="sm", elem_id=f"{task}-rename")
            delete = gr.Button(say("questions.delete"), size="sm", elem_id=f"{task}-delete")
        goes = gr.HTML()
        with gr.Row():
            stopping: dict[str, Any] = {"variant": "stop", "size": "sm", "visible": False}
            drop = gr.Button(say("questions.drop"), elem_id=f"{task}-drop", **stopping)
            keep = gr.Button(say("questions.keep"), size="sm", visible=False)
    line = gr.HTML(elem_id=f"{task}-managed")
    return Managing(fold, title, rename, delete, goes, drop, keep, line)


def chart(name: str) -> gr.Plot:
    """Lay out a chart below its title and what it shows, `name` and `name`.alt in lab/ui/text."""
    with gr.Column(min_width=320):
        title, about = as_html(term(say(name))), as_html(say(f"{name}.alt"))
        gr.HTML(f'<h3 class="assay-chart-title">{title}</h3><p class="assay-chart-alt">{about}</p>')
        elem_id = f"{name.split('.')[0]}-{name.split('.')[-1]}"
        return gr.Plot(show_label=False, elem_id=elem_id, elem_classes="assay-plot")
