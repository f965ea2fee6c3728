"""What the page shows, as HTML. Every word of a visitor or a model goes through `escape` here.

Nothing is ever read as markdown or HTML: an answer with a script in it shows the script.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape as _escape
from typing import Literal

from evals.schema import Answer, StatedConfidence, Verdict
from evals.verifiers import stated_confidence
from evals.verifiers.line import read_lines
from lab.answers import Draft, stage_name
from lab.engine import Status, Waiting
from lab.wording import lines, page, say

Tone = Literal["info", "problem", "good"]
BADGES = {
    "correct": "good",
    "incorrect": "bad",
    "contradictory": "bad",
    "no_claim": "quiet",
    "unscored": "quiet",
}
"""The colour of a verdict; `unscored` where no rule can grade the answer."""


@dataclass(frozen=True)
class Card:
    """One answer as it is shown. A blind one tells nothing that names its stage."""

    title: str
    text: str
    meaning: str = ""
    state: Literal["waiting", "writing", "done"] = "done"
    finish_reason: str | None = None
    n_tokens: int | None = None
    seconds: float | None = None
    verdict: Verdict | None = None
    is_blind: bool = False


def escape(text: object) -> str:
    """Return text that shows as itself, also where a template would read `{{` or `${` in it."""
    escaped = _escape(str(text), quote=True)
    return escaped.replace("{", "&#123;").replace("}", "&#125;").replace("$", "&#36;")


def sentence(text: str) -> str:
    """Return a message as a sentence of its own: errors begin in lower case. Files and names keep theirs.

    >>> sentence("port 7860 is taken"), sentence("long.pdf has 500 pages"), sentence("")
    ('Port 7860 is taken', 'long.pdf has 500 pages', '')
    >>> sentence("mTORC1 signaling in eye: UP"), sentence("p53 pathway in eye: DOWN")
    ('mTORC1 signaling in eye: UP', 'p53 pathway in eye: DOWN')
    """
    first = text.partition(" ")[0].rstrip(".,:;…")
    is_name = re.search(r"[./\d]|.[A-Z]", first)
    return text if is_name else text[:1].upper() + text[1:]


def card_of(draft: Draft) -> Card:
    """Return the card of an answer with everything that is known about it."""
    return Card(
        title=stage_name(draft.stage),
        meaning=meaning_of(draft.stage),
        text=draft.text,
        state="done" if draft.finish_reason else "writing" if draft.text else "waiting",
        finish_reason=draft.finish_reason,
        n_tokens=draft.n_tokens,
        seconds=draft.seconds,
        verdict=draft.verdict,
    )


def card_of_stored(answer: Answer) -> Card:
    """Return the card of an answer from the store; how long it took is not kept."""
    return Card(
        title=stage_name(answer.stage),
        meaning=meaning_of(answer.stage),
        text=answer.text,
        finish_reason=answer.finish_reason,
        verdict=answer.verdict,
    )


def meaning_of(stage: str) -> str:
    """Return one line on what a stage is."""
    return lines().get(f"stage.{stage}", say("stage.other"))


def cards(shown: Sequence[Card], note: str = "") -> str:
    """Return answers side by side, under each other where the page is narrow."""
    busy = any(card.state != "done" for card in shown)
    inner = "".join(_card(card) for card in shown)
    foot = f'<p class="cards-note">{escape(note)}</p>' if note else ""
    return f'<div class="cards" aria-busy="{str(busy).lower()}">{inner}</div>{foot}'


def empty(text: str) -> str:
    """Return what stands where answers will be."""
    return f'<div class="empty"><p>{escape(text)}</p></div>'


def notice(text: str, tone: Tone = "info") -> str:
    """Return one line that tells how things stand; read aloud by screen readers. "" hides it."""
    if not text:
        return ""
    role = "alert" if tone == "problem" else "status"
    return f'<p class="notice {tone}" role="{role}">{escape(sentence(text))}</p>'


def lead(name: str) -> str:
    """Return the line that says what a tab is for."""
    return f'<p class="lead">{escape(page(name))}</p>'


def heading(text: str) -> str:
    """Return a small heading over a group."""
    return f"<h3>{escape(text)}</h3>"


def question(text: str, source: str = "") -> str:
    """Return the question that two answers are about."""
    tag = f"<span>{escape(source)}</span>" if source else ""
    return f'<blockquote class="question">{escape(text)}{tag}</blockquote>'


def reveal(line: str, asked: str, shown: Sequence[Card]) -> str:
    """Return the vote and the names in one line that opens to the two answers."""
    return (
        f'<details class="revealed"><summary role="status">{escape(line)}</summary>'
        f"{question(asked)}{cards(shown)}</details>"
    )


def waiting_line(waiting: Waiting) -> str:
    """Return why there is no answer yet, in one line."""
    if waiting.status.state == "loading":
        status = waiting.status
        return say("line.loading", percent=_percent(status.share), message=status.message)
    if waiting.position == 1:
        return say("line.next")
    return say("line.place", position=waiting.position)


def model_pill(status: Status) -> str:
    """Return the state of the model in two or three words."""
    words = say(f"model.{status.state}", percent=_percent(status.share))
    title = escape(status.message)
    return (
        f'<span class="pill {status.state}" role="status" title="{title}">'
        f'<i style="--share:{status.share:.2f}"></i>{escape(words)}</span>'
    )


def model_problem(status: Status) -> str:
    """Return what went wrong with the model and what to do, or which base stands in for another."""
    if status.substitutions:
        return notice("; ".join(status.substitutions))
    if status.state != "failed":
        return ""
    lead_line, remedy = escape(say("model.failed.lead")), escape(sentence(status.message))
    return f'<div class="trouble" role="alert"><strong>{lead_line}</strong><p>{remedy}</p></div>'


def header() -> str:
    """Return the name of the lab and what it is."""
    return (
        f'<div class="brand"><h1>{escape(say("title"))}</h1><p>{escape(say("tagline"))}</p></div>'
    )


def keys() -> str:
    """Return the list of keys, shown by `?`."""
    rows = (line.split(" | ") for line in page("keys").splitlines())
    items = "".join(
        f"<dt>{''.join(f'<kbd>{escape(key)}</kbd>' for key in names.split())}</dt>"
        f"<dd>{escape(what)}</dd>"
        for names, what in rows
    )
    return (
        '<dialog id="keys" aria-label="Keys"><form method="dialog"><h2>Keys</h2>'
        f"<dl>{items}</dl><button>Close</button></form></dialog>"
    )


def _card(card: Card) -> str:
    meaning = f"<p>{escape(card.meaning)}</p>" if card.meaning else ""
    return (
        f'<article class="card" data-state="{card.state}" data-title="{escape(card.title)}">'
        f"<header><h3>{escape(card.title)}</h3>{meaning}</header>{_text(card)}{_foot(card)}</article>"
    )


def _text(card: Card) -> str:
    if card.state == "waiting":
        return f'<div class="answer quiet">{escape(say("answer.waiting"))}</div>'
    if card.state == "done" and not card.text.strip():
        return f'<div class="answer quiet">{escape(say("answer.empty"))}</div>'
    return f'<div class="answer" dir="auto">{_marked(card)}</div>'


def _marked(card: Card) -> str:
    """Return a text with what was read of it as the answer marked: behind `Answer:`, or in free text."""
    spans = [] if card.state != "done" or card.is_blind else _spans(card)
    parts, at = [], 0
    for start, end in spans:
        parts += [escape(card.text[at:start]), f"<mark>{escape(card.text[start:end])}</mark>"]
        at = end
    return "".join((*parts, escape(card.text[at:])))


def _spans(card: Card) -> list[tuple[int, int]]:
    """Return where the answer stands in the text, in order and apart from each other."""
    if card.verdict is None:
        lines = read_lines(card.text)
        found = {(lines.start, lines.end)}
    else:
        claims = card.verdict.claims if card.verdict.read_by else ()
        found = {(claim.start, claim.end) for claim in claims}
    spans: list[tuple[int, int]] = []
    for start, end in sorted(found):
        if (spans[-1][1] if spans else 0) <= start < end <= len(card.text):
            spans.append((start, end))
    return spans


def _foot(card: Card) -> str:
    if card.state != "done" or card.is_blind:
        return ""
    verdict = card.verdict
    chip = _confidence(verdict.confidence if verdict else stated_confidence(card.text))
    badge = reason = ""
    if verdict is not None:
        kind = "unscored" if verdict.reward is None else verdict.verdict
        badge = f'<span class="badge {BADGES[kind]}">{escape(say(f"verdict.{kind}"))}</span>'
        told = sentence(verdict.reason)
        if kind != "unscored" and verdict.read_by in ("text", "judge"):
            told = f"{told} ({say(f'verdict.read.{verdict.read_by}')})"
        reason = f'<p class="reason">{escape(told)}</p>'
    return f"<footer><p>{badge}{chip}</p>{reason}{_figures(card)}</footer>"


def _confidence(stated: StatedConfidence) -> str:
    percent = _percent(stated.value) if stated.value is not None else ""
    words = say(f"confidence.{stated.status}", percent=percent)
    return f'<span class="chip {stated.status}">{escape(words)}</span>'


def _figures(card: Card) -> str:
    parts = []
    if card.n_tokens is not None:
        parts.append(f"{card.n_tokens} tokens")
    if card.seconds is not None:
        parts.append(f"{card.seconds:.1f} s")
    if card.finish_reason in {"length", "cancelled"}:
        parts.append(say(f"answer.{card.finish_reason}"))
    return f'<p class="figures">{escape(" · ".join(parts))}</p>' if parts else ""


def _percent(share: float) -> str:
    return f"{100 * share:.0f}%"
