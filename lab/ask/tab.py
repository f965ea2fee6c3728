"""Ask tab: one question, with evidence or without, every stage's answer side by side as it is written, kept for replay."""

from collections.abc import Generator, Iterator, Sequence
from functools import partial
from pathlib import Path

import gradio as gr

from evals.errors import LabError
from evals.schema.questions import Sampling
from evals.schema.votes import AnnotationItem
from lab.ask import evidence as cited
from lab.ask.session import ask, begin_answer, earlier, examples, find_earlier, find_going, show_earlier
from lab.page import DocumentPane, Painted, choosing, earlier_list, event, stage_choice, stops, with_visitor
from lab.services import Services
from lab.session import Door, View, Visitor
from lab.settings import EMBEDDED, REFINER
from lab.shared.rater import RATED, item_of_answer
from lab.shared.rating import build_rating
from lab.shared.rows import read_place
from lab.shared.runs import chain_of, choices_of_chains
from lab.ui.components import ANSWERING, QUIET, clicks, empty, heading, lead, notice, sampling_fields, script
from lab.ui.text import say


def build(services: Services, door: Door, tab: gr.Tab) -> None:
    """Lay out the tab inside the `gr.Blocks` that is currently open."""
    gr.HTML(lead("ask"))
    if services.settings.chain == EMBEDDED:
        gr.HTML(notice(say("ask.demonstration")), elem_id="ask-demonstration")
    with gr.Row(elem_classes="composer"):
        with gr.Column(scale=3, min_width=320):
            hint = say("ask.placeholder")
            question = gr.Textbox(
                label=say("ask.question"), placeholder=hint, lines=3, max_lines=8, elem_id="ask-question"
            )
            with gr.Accordion(say("ask.evidence"), open=False, elem_id="ask-evidence-fold") as fold:
                if services.refiner == REFINER:
                    gr.HTML(notice(say("ask.evidence.demonstration")), elem_id="ask-evidence-demonstration")
                evidence = _passages("ask.evidence", "ask.evidence.text", 6)
                types = [".txt", ".md"]
                file = gr.UploadButton(
                    say("ask.evidence.file"), file_types=types, size="sm", elem_id="ask-evidence-file"
                )
                rubric = _passages("ask.rubric", "ask.rubric", 2)
            with gr.Row(elem_classes="actions"):
                start = gr.Button(say("ask.ask"), variant="primary", elem_id="ask-button")
                stopping = gr.Button(say("ask.stop"), visible=False, elem_id="ask-stop")
        with gr.Column(scale=1, min_width=240, elem_classes="settings"):
            chain = gr.Dropdown([], label=say("ask.chain"), visible=False, elem_id="ask-chain")
            with gr.Accordion(say("ask.settings"), open=False, elem_id="ask-settings"):
                settings = sampling_fields(0, Sampling.max_new_tokens, Sampling.temperature)
            stages = gr.State(())
            stage_choice(services, stages, "ask")
    line = gr.HTML(elem_id="ask-notice")
    blank = empty(say("ask.empty"))  # answers to another question do not stand under an example
    answers = gr.HTML(blank, js_on_load=clicks("annotate"), elem_id="ask-answers")
    chosen = earlier_list("ask", "ask.history.pick")
    pane, linked = DocumentPane(line, answers, gr.State(None), [start], stopping, chosen), gr.JSON(visible=False)

    def stored(visitor: Visitor | None, name: str) -> Sequence[AnnotationItem]:
        if kept := cited.find_refinement(services, visitor, name):
            return cited.items_of(kept)
        return [item_of_answer(each, RATED) for each in find_earlier(services, visitor, name).answers]

    def on_example() -> gr.Accordion:
        return gr.Accordion(open=True)

    build_rating(services, door, "ask", "rate", answers.click, pane.kept, stored)
    form = [question, evidence, rubric, answers]
    with gr.Row(elem_classes="examples"):
        for group, rows in examples().items():
            with gr.Column(min_width=260):
                gr.HTML(heading(group))
                for row in rows:  # a click fills the form in the browser, without a round trip
                    filled = script("assayValue", [row.prompt, "", "", blank])
                    gr.Button(row.prompt, size="sm").click(None, None, form, js=filled)
        with gr.Column(min_width=260):
            gr.HTML(heading(say("examples.evidence")))
            for record in cited.evidence_examples():
                filled = script("assayValue", [*cited.form_values(record), blank])
                each = gr.Button(record.asked, size="sm")
                each.click(None, None, form, js=filled).then(on_example, None, fold, api_visibility="private", **QUIET)
    with gr.Accordion(say("ask.history"), open=False, elem_id="ask-history") as history:
        chosen.render()

    def on_ask(
        visitor: Visitor | None,
        question: str,
        seed: float,
        length: float,
        temperature: float,
        chain: str | None = None,
        stages: Sequence[str] = (),
        evidence: str = "",
        rubric: str = "",
    ) -> Iterator[Painted]:
        def write(asker: Visitor, name: str) -> Generator[View]:
            if (evidence or "").strip():
                most = cited.USUAL if length == Sampling.max_new_tokens else length
                record = cited.record_of(question, evidence, rubric)
                return cited.answer(services, asker, record, (seed, most, temperature), name)
            return ask(services, asker, question, (seed, length, temperature), chain, stages, name)

        said = (question, seed, length, temperature, evidence, rubric)
        yield from map(pane.paint, begin_answer(services, visitor, said, write))

    def on_tab(address: str) -> Painted:
        """Show the chains that can be asked, the one of the address chosen."""
        known, wanted = choices_of_chains(services), read_place(address, "ask").get("chain", "")
        value = wanted if wanted in {name for _, name in known} else ""
        page: Painted = {chain: gr.Dropdown(choices=known, value=value, visible=len(known) > 1), asked_of: value}
        try:
            chain_of(services, wanted)  # the lab's own may be named by its folder, too
        except LabError as error:
            page |= {line: notice(str(error), "problem")}
        return page

    def on_chain(chosen: str | None) -> str:
        return chosen or ""

    def on_file(path: str) -> Painted:
        """Put a text file into the box of evidence."""
        try:
            return {evidence: Path(path).read_text(encoding="utf-8")[: cited.LONGEST], fold: gr.Accordion(open=True)}
        except UnicodeDecodeError:
            raise LabError(say("ask.evidence.unreadable", file=Path(path).name)) from None
        finally:
            Path(path).unlink(missing_ok=True)

    def on_show(visitor: Visitor | None, chosen: str | None) -> Painted:
        if not chosen:
            return {line: gr.skip()}
        if kept := cited.find_refinement(services, visitor, chosen):
            said, passages, wanted = cited.form_values(kept.record)
            how = kept.answers[0].origin
            sampled = (how.seed, how.max_new_tokens, how.temperature) if how else (0, cited.USUAL, 0.0)
            asked = (said, *sampled, passages, wanted)
            page = pane.paint(cited.refinement_view(services, visitor, kept)) | {fold: gr.Accordion(open=True)}
            return page | dict(zip(typed, asked, strict=True))
        entry = find_earlier(services, visitor, chosen)
        first = entry.first
        asked = (first.question, first.seed, first.max_new_tokens, first.temperature, "", "")
        return pane.paint(show_earlier(services, visitor, entry)) | dict(zip(typed, asked, strict=True))

    def on_open(visitor: Visitor | None, shown: str | None, request: gr.Request) -> Painted:
        name = None if shown else request.query_params.get("answer")
        if going := find_going(services, visitor, name):
            return {linked: going.typed, fold: gr.Accordion(open=bool(going.typed[-2]))}
        page = on_show(visitor, name)
        return page | {linked: [page.pop(field) for field in typed if field in page]}

    def on_watch(visitor: Visitor | None, shown: str | None, request: gr.Request) -> Iterator[Painted]:
        """Show what is being written of the question that the address names: the page was loaded again."""
        name = None if shown else request.query_params.get("answer")
        going = find_going(services, visitor, name)
        yield from map(pane.paint, going.views) if going else [{line: gr.skip()}]
        if name and not going:  # it has ended in between
            yield {each: value for each, value in on_show(visitor, name).items() if each not in typed}

    def find(visitor: Visitor | None) -> list[tuple[str, str]]:
        plain = [(entry.first.asked_at, entry.label, entry.first.id) for entry in earlier(services, visitor)]
        kept = [(each.made_at, cited.refinement_label(each), each.id) for each in cited.refinements(services, visitor)]
        return [(label, name) for _, label, name in sorted([*plain, *kept], reverse=True)]

    typed = [question, *settings, evidence, rubric]
    address = gr.Textbox(visible=False, label=say("report.address"))
    asked_of = gr.State("")
    tab.select(on_tab, address, [chain, asked_of, line], js="assayAddress", api_name="chains", **QUIET)
    choosing(chain)(on_chain, chain, asked_of, js="assayPlaceChain", api_name="chain", **QUIET)
    on = partial(event, door=door, shows=pane)
    asking = with_visitor(door, start.click, question.submit)
    given = [question, *settings, asked_of, stages, evidence, rubric]
    asked = on(asking.then, on_ask, given, pane.outputs, "ask", **ANSWERING)
    event(file.upload, on_file, [file], [evidence, fold, line], "read_evidence", shows=line, **QUIET)
    seen = [*pane.outputs, *typed, fold]
    on(choosing(chosen), on_show, [chosen], seen, "earlier", trigger_mode="always_last")
    followed = on(door.known.change, on_open, [pane.kept], [*pane.outputs, linked, fold])
    filled = followed.then(None, [linked, *typed], typed, js="assayTypedStays")
    watched = on(filled.then, on_watch, [pane.kept], [*pane.outputs, fold])
    stops(services, door, "ask", stopping, "stop")
    opened = with_visitor(door, history.expand).then
    pane.list_earlier(door, find, say("ask.history.none"), opened, [asked, watched])


def _passages(name: str, label: str, lines: int) -> gr.Textbox:
    return gr.Textbox(
        "",
        label=say(label),
        info=say(f"{name}.info"),
        placeholder=say(f"{name}.placeholder"),
        lines=lines,
        max_lines=12,
        elem_id=name.replace(".", "-"),
    )
