"""`assay ask`: one question to a chain, every stage answering as it writes."""

import threading
from dataclasses import asdict
from typing import Literal

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.text import Text

from evals.questions import find
from evals.schema import Completion, Record, StatedConfidence, Verdict
from evals.schema.questions import Sampling
from evals.verifiers import stated_confidence, verify
from lab.commands import HostedModels, JsonSettings, command
from lab.commands.data import register_question_sets
from lab.commands.terminal import emit, end_progress, notes, progress_shown
from lab.settings import comma_separated, from_environment

app = typer.Typer()


class StageReply(Record):
    """One stage's answer with what it says about itself and, for a known question, what is true."""

    completion: Completion
    confidence: StatedConfidence
    verdict: Verdict | None


class AskSettings(JsonSettings):
    """Settings of `assay ask`."""

    question: str
    """What to ask."""
    chain: str = "embedded"
    """embedded, a run folder, or base:embedded."""
    base: str | None = None
    """The base model, if it is not where the chain says."""
    stage: str = "all"
    """Stages with commas between, or all."""
    max_new_tokens: int = 96
    """Maximum answer length, in tokens."""
    temperature: float = 0.0
    """0 = always the likeliest token."""
    seed: int = 0
    """Same seed, same draws."""
    questions: str | None = None
    """Question sets of your own, with commas: a question of theirs gets a verdict."""
    dtype: Literal["bfloat16", "float32"] | None = None
    """float32 repeats exactly. Default: bfloat16, or float32 on a processor that only imitates it."""
    hosted: HostedModels = None
    """A model on a server, as a stage: NAME=URL#MODEL, or a TOML file with prices and budgets. The question is sent there.
    Its key: ASSAY_KEY_NAME."""


@command(app)
def ask(settings: AskSettings) -> None:
    """Ask a question; every stage answers as it writes.

    Example: assay ask "Which direction does glycolysis take in the thymus?" --stage base,sft
    """
    from training.models.chain import load_chain
    from training.serve.hosted import with_hosted

    lab, question = from_environment(), settings.question
    register_question_sets(lab.questions if settings.questions is None else comma_separated(settings.questions))
    sampling = Sampling(settings.max_new_tokens, settings.temperature, seed=settings.seed)
    with progress_shown() as progress:
        loaded = load_chain(settings.chain, settings.dtype, progress, base=settings.base, cache=lab.cache)
    loaded = with_hosted(loaded, settings.hosted or ())
    for substitution in loaded.substitutions:
        notes.print(f"note: {substitution}")
    stages = loaded.stages if settings.stage == "all" else tuple(settings.stage.split(","))
    pieces = loaded.stream(loaded.messages(question), stages, sampling, threading.Event())
    written: dict[str, Completion] = {}
    console, most = Console(quiet=settings.as_json), len(stages) * settings.max_new_tokens
    with Live(console=console, auto_refresh=False, transient=True) as screen, progress_shown("answering") as progress:
        if console.is_terminal and not settings.as_json:
            end_progress()
        for piece in pieces:
            text = (written[piece.stage].text if piece.stage in written else "") + piece.text
            end = piece.finish_reason or "cancelled"
            if piece.note:
                notes.print(f"{piece.stage}: {piece.note}")
            written[piece.stage] = Completion(stage=piece.stage, text=text, n_tokens=piece.n_tokens, finish_reason=end)
            shown = {each: written[each].text if each in written else "" for each in stages}
            panels = (Panel(_printable(text), title=each, title_align="left") for each, text in shown.items())
            screen.update(Group(*panels), refresh=True)
            n_tokens = sum(each.n_tokens for each in written.values())
            progress(n_tokens / most, f"{n_tokens} tokens written")
    example = find(question)
    answers: list[StageReply] = []
    for completion in (written[each] for each in stages):
        verdict = verify(example, completion.text) if example else None
        stated = verdict.confidence if verdict else stated_confidence(completion.text)
        answers.append(StageReply(completion=completion, confidence=stated, verdict=verdict))
    told = {**asdict(sampling), "dtype": loaded.dtype}
    asked = {"question": question, "chain": loaded.manifest.name, "settings": told, "answers": answers}
    emit(asked, as_json=settings.as_json, table=Group(*map(_panel, answers)))


def _panel(answer: StageReply) -> Panel:
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
    said = Group(_printable(answer.completion.text), Text(notice, style="dim"))
    return Panel(said, title=answer.completion.stage, title_align="left")


def _printable(text: str) -> Text:
    """Return text that cannot steer the terminal: control characters are shown as a mark."""
    return Text("".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in text))
