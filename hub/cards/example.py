"""One prompt of a run's own task and data, for its card: as its report asked it, its question bank or its rows hold it."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from evals.errors import LabError
from evals.papers import demonstration
from evals.questions import conversation, load_questions
from evals.refine.bank import refiner_bank
from evals.refine.prompt import messages
from evals.review.prompt import conversation as review_conversation
from evals.review.prompt import head_of, request, sections_of
from evals.schema import Message
from evals.schema.reports import EvalReport, Report

PLAIN = "What can you help me with?"
ROLES = {"human": "user", "gpt": "assistant"}
"""ShareGPT's names of who speaks."""


class SamplePrompt(NamedTuple):
    """A prompt, where it comes from ("" = from nowhere), and what the stage answered and how that was judged, where a report holds it."""

    messages: tuple[Message, ...]
    source: str
    answer: str | None = None
    verdict: str = ""


def example_of(
    task: str, stage: str, system_prompt: str, data: Sequence[str], reports: Iterable[Report[Any]]
) -> SamplePrompt:
    """Return a prompt of a run, a plain one where neither its reports nor its data are here; `data` are names and paths."""
    for report in reports:
        if isinstance(report, EvalReport) and (row := next((r for r in report.rows if r.stage == stage), None)):
            return SamplePrompt(row.prompt, report.data_name, row.completion, row.verdict.verdict.replace("_", " "))
    if task == "review":
        paper = next(each for each in demonstration() if each.split == "test").article
        methods = [f"## {name}\n{text}" for name, text in sections_of(paper) if name == "Methods"]
        text = request("\n\n".join((head_of(paper), *methods)))
        return SamplePrompt(review_conversation(text), "an invented paper")
    if task == "refine" and any(name.startswith("refiner-") for name in data):
        return SamplePrompt(messages(refiner_bank().test[0], system_prompt), "refiner-test")
    told = (Message(role="system", content=system_prompt),) if system_prompt else ()
    for name in data:
        try:
            return SamplePrompt(conversation(load_questions(name.split("[")[0])[0], system_prompt), name)
        except (LabError, OSError):
            pass
        if turns := _first_turns(Path(name)):
            return SamplePrompt((*(told if turns[0].role != "system" else ()), *turns), Path(name).name)
    return SamplePrompt((*told, Message(role="user", content=PLAIN)), "")


def _first_turns(file: Path) -> tuple[Message, ...]:
    """Return what the first row of a JSONL file asks, in TRL's or ShareGPT's form; nothing of another file."""
    try:
        file = next(iter(sorted(file.glob("*.jsonl"))), file) if file.is_dir() else file
        with file.open(encoding="utf-8") as lines:
            row = json.loads(next(lines))
        turns = row.get("prompt") or row.get("messages") or row.get("conversations") or row.get("question") or []
        turns = [{"role": "user", "content": turns}] if isinstance(turns, str) else turns
        said = [(each.get("role") or each["from"], each.get("content") or each["value"]) for each in turns]
        found = [Message(role=ROLES.get(role, role), content=text) for role, text in said]
    except (OSError, ValueError, StopIteration, AttributeError, KeyError, TypeError):
        return ()
    while found and found[-1].role == "assistant":
        found.pop()
    return tuple(found)
