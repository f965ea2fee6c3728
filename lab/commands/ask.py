"""`assay ask`: one question to a chain, every stage answering as it writes."""

import threading
from dataclasses import asdict
from typing import Annotated, Literal

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.text import Text

from evals.model import Sampling
from evals.questions import find
from evals.schema import Completion, Record, StatedConfidence, Verdict
from evals.verifiers import stated_confidence, verify
from lab.commands import HostedModels, Json
from lab.commands.chain import BaseOption, progress_shown
from lab.commands.data import know
from lab.commands.terminal import emit, notes
from lab.settings import comma_separated, from_environment

app = typer.Typer()


class Answered(Record):
    """One stage's answer with what it says about itself and, for a known question, what is true."""

    completion: Completion
    confidence: StatedConfidence
    verdict: Verdict | None


@app.command()
def ask(
    question: Annotated[str, typer.Argument(help="What to ask.")],
    chain: Annotated[str, typer.Option(help="embedded, a run folder, or base:embedded.")] = "embedded",
    base: BaseOption = None,
    stage: Annotated[str, typer.Option(help="Stages with commas between, or all.")] = "all",
    max_new_tokens: Annotated[int, typer.Option(help="Longest answer, in tokens.")] = 128,
    temperature: Annotated[float, typer.Option(help="0 = always the likeliest token.")] = 0.0,
    seed: Annotated[int, typer.Option(help="Same seed, same draws.")] = 0,
    questions: Annotated[
        str | None, typer.Option(help="Question sets of your own, with commas: a question of theirs gets a verdict.")
    ] = None,
    dtype: Annotated[
        Literal["bfloat16", "float32"], typer.Option(help="float32 is slower and repeats exactly.")
    ] = "bfloat16",
    hosted: HostedModels = None,
    as_json: Json = False,
) -> None:
    """Ask a question; every stage answers as it writes.

    Example: assay ask "Which direction does glycolysis take in the thymus?" --stage base,sft
    """
    from training.models.chain import load_chain
    from training.serve.hosted import with_hosted

    settings = from_environment()
    know(settings.questions if questions is None else comma_separated(questions))
    sampling = Sampling(max_new_tokens=max_new_tokens, temperature=temperature, seed=seed)
    with progress_shown() as progress:
        loaded = with_hosted(load_chain(chain, dtype, progress, base=base, cache=settings.cache), hosted or ())
    for substitution in loaded.substitutions:
        notes.print(f"note: {substitution}")
    stages = loaded.stages if stage == "all" else tuple(stage.split(","))
    pieces = loaded.stream(loaded.messages(question), stages, sampling, threading.Event())
    written: dict[str, Completion] = {}
    with Live(console=Console(quiet=as_json), auto_refresh=False, transient=True) as screen:
        for piece in pieces:
            text = (written[piece.stage].text if piece.stage in written else "") + piece.text
            end = piece.finish_reason or "cancelled"
            if piece.note:
                notes.print(f"{piece.stage}: {piece.note}")
            written[piece.stage] = Completion(stage=piece.stage, text=text, n_tokens=piece.n_tokens, finish_reason=end)
            shown = {each: written[each].text if each in written else "" for each in stages}
            panels = (Panel(_printable(text), title=each, title_align="left") for each, text in shown.items())
            screen.update(Group(*panels), refresh=True)
    example = find(question)
    answers: list[Answered] = []
    for completion in (written[each] for each in stages):
        verdict = verify(example, completion.text) if example else None
        stated = verdict.confidence if verdict else stated_confidence(completion.text)
        answers.append(Answered(completion=completion, confidence=stated, verdict=verdict))
    told = {**asdict(sampling), "dtype": loaded.dtype}
    asked = {"question": question, "chain": loaded.manifest.name, "settings": told, "answers": answers}
    emit(asked, as_json=as_json, table=Group(*map(_panel, answers)))


def _panel(answer: Answered) -> Panel:
    stated = answer.confidence
    notice = f"confidence: {stated.status}" if stated.value is None else f"{stated.value:.0%} sure"
    if answer.verdict:
        is_scored = answer.verdict.reward is not None
        verdict = answer.verdict.verdict if is_scored else "not scored"
        notice += f" · {verdict}: {answer.verdict.reason}"
        if is_scored and answer.verdict.read_by == "text":
            notice += " (read from the text: it has no answer line)"
    if answer.completion.finish_reason == "length":
        notice += " · cut at the length limit"
    said, title = _printable(answer.completion.text), answer.completion.stage
    return Panel(said, title=title, title_align="left", subtitle=Text(notice), subtitle_align="left")


def _printable(text: str) -> Text:
    """Return text that cannot steer the terminal: control characters are shown as a mark."""
    return Text("".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in text))
