"""A paper and the concerns about it as HTML."""

from collections.abc import Sequence

from evals.confidence import read_confidence
from evals.schema import Article
from evals.schema.reviewruns import ABSTRACT, DraftConcern, Place
from evals.schema.reviews import UNKNOWN
from lab.commands.tables import counted
from lab.ui.components import empty, escape
from lab.ui.text import say

TONES = {"major": "bad", "minor": "quiet", "optional": "quiet"}
CLICKS = """
element.addEventListener('click', (event) => {
  const button = event.target.closest('[data-do]');
  if (!button) return;
  const id = button.dataset.id;
  if (button.dataset.do === 'show') { window.assayShowPlace(button.dataset.place); return; }
  element.dataset.last = `[data-do="${button.dataset.do}"][data-id="${id}"]`;
  trigger('click', { do: button.dataset.do, id });
  if (button.dataset.do === 'edit') document.querySelector('#review-edit-text textarea')?.focus();
});
watch('value', () => {
  const last = element.dataset.last;
  const button = last && element.querySelector(last);
  if (button) button.focus({ preventScroll: true });
});
"""
"""A click on a button of a card: shown at once, or told to the lab.

The focus stays where it was; the editor takes it when a concern is to be edited.
"""


def paper(article: Article | None, concerns: Sequence[DraftConcern] = ()) -> str:
    """Return the paper as it was read, each place of a concern marked; without a paper, what to do."""
    if article is None:
        return empty(say("review.empty"))
    marks = places_of(concerns)
    texts = [(ABSTRACT, "Abstract", article.abstract), *_sections(article)]
    body = "".join(
        f"<details open><summary>{escape(name or 'Section')}<span>{_words(text)}</span></summary>"
        f'<div class="paper-text">{_marked(text, marks.get(section, []))}</div></details>'
        for section, name, text in texts
        if text.strip()
    )
    title = escape(article.title.strip() or article.origin.file or article.id)
    return f'<article class="paper"><h3>{title}</h3>{_facts(article)}{body}</article>'


def concerns(shown: Sequence[DraftConcern], *, is_busy: bool = False) -> str:
    """Return the concerns as a list of cards; while they are being written they cannot be changed."""
    if not shown:
        return "" if is_busy else empty(say("review.concerns.empty"))
    marked = {each.id: _mark_of(each, shown) for each in shown}
    items = "".join(_card(number, each, marked[each.id], is_busy=is_busy) for number, each in enumerate(shown, 1))
    return f'<ol class="concerns" aria-busy="{str(is_busy).lower()}">{items}</ol>'


def read_only(shown: Sequence[DraftConcern]) -> str:
    """Return concerns as a plain list, for a blind comparison: nothing tells who wrote them."""
    items = "".join(
        f'<li class="concern"><header>{_labels(each)}</header><p>{escape(each.text)}</p></li>' for each in shown
    )
    return f'<ol class="concerns">{items}</ol>' if shown else empty(say("answer.empty"))


def places_of(concerns: Sequence[DraftConcern]) -> dict[int, list[tuple[Place, str]]]:
    """Return the places to mark by section, in order; of places that overlap the first has the mark."""
    found: dict[int, list[tuple[Place, str]]] = {}
    for each in sorted(
        (each for each in concerns if each.place is not None),
        key=lambda each: (each.place.start, -each.place.end) if each.place else (0, 0),
    ):
        if each.place is None:
            continue
        mine = found.setdefault(each.place.section, [])
        if not mine or mine[-1][0].end <= each.place.start:
            mine.append((each.place, each.id))
    return found


def _mark_of(concern: DraftConcern, shown: Sequence[DraftConcern]) -> str | None:
    """Return the id of the concern whose mark covers this one's place; its own where it has one."""
    if concern.place is None:
        return None
    for place, name in places_of(shown).get(concern.place.section, []):
        if place.start <= concern.place.start < place.end:
            return name
    return None


def _sections(article: Article) -> list[tuple[int, str, str]]:
    return [(number, each.name, each.text) for number, each in enumerate(article.sections)]


def _marked(text: str, marks: Sequence[tuple[Place, str]]) -> str:
    parts, at = [], 0
    for place, name in marks:
        parts.append(escape(text[at : place.start]))
        inside = escape(text[place.start : place.end])
        parts.append(f'<mark id="place-{escape(name)}" tabindex="-1">{inside}</mark>')
        at = place.end
    return "".join([*parts, escape(text[at:])])


def _facts(article: Article) -> str:
    origin = article.origin
    counts = (
        (len(article.sections), "section"),
        (origin.pages or 0, "page"),
        (len(article.figures), "figure"),
        (len(article.references), "reference"),
    )
    known = [counted(n, noun) for n, noun in counts if n]
    notes = "".join(f"<li>{escape(note)}</li>" for note in origin.notes)
    listed = f'<ul class="paper-notes" aria-label="{say("review.notes")}">{notes}</ul>' if notes else ""
    return f'<p class="paper-facts">{escape(" · ".join(known))}</p>{listed}'


def _words(text: str) -> str:
    return f"{len(text.split()):,} words"


def _card(number: int, concern: DraftConcern, mark: str | None, *, is_busy: bool) -> str:
    decision = concern.decision
    badge = ""
    if decision != "open":
        tone = "good" if decision == "accepted" else "bad"
        badge = f'<span class="badge {tone}">{say(f"review.decision.{decision}")}</span>'
    buttons = "" if is_busy else _buttons(number, concern)
    return (
        f'<li class="concern" data-decision="{decision}" data-concern="{escape(concern.id)}">'
        f'<header><span class="concern-number">{number}</span>{_labels(concern)}{_whose(concern)}{badge}'
        f'</header><p class="concern-text" dir="auto">{escape(concern.text)}</p>'
        f"{_place(number, concern.place, mark)}{_before(concern)}{buttons}</li>"
    )


def _labels(concern: DraftConcern) -> str:
    """Return category, severity and, where the words state one, confidence."""
    category = concern.category.replace("_", " ")
    severity = "severity unknown" if concern.severity == UNKNOWN else concern.severity
    stated = read_confidence(concern.text)
    confidence = ""
    if stated.value is not None:
        words = say("confidence.stated", percent=f"{100 * stated.value:.0f}%")
        confidence = f'<span class="chip stated">{escape(words)}</span>'
    return (
        f'<span class="badge {TONES.get(concern.severity, "quiet")}">{escape(severity)}</span>'
        f'<span class="chip">{escape(category)}</span>{confidence}'
    )


def _whose(concern: DraftConcern) -> str:
    words = "review.by_person" if concern.by == "person" else "review.edited"
    if concern.by == "model" and concern.before is None:
        return ""
    return f'<span class="chip">{say(words)}</span>'


def _place(number: int, place: Place | None, mark: str | None) -> str:
    if place is None:
        return f'<p class="concern-place none">{say("review.unanchored")}</p>'
    kind = say("review.quoted" if place.is_quoted else "review.shared")
    page = f", page {place.page}" if place.page else ""
    return (
        f'<p class="concern-place"><button type="button" data-do="show" data-place="{escape(mark or "")}"'
        f' aria-label="{say("review.show")}: {number}">{escape(kind)}{page}: '
        f"<q>{escape(_shortened(place.quote))}</q></button></p>"
    )


def _before(concern: DraftConcern) -> str:
    if concern.before is None:
        return ""
    return f'<p class="concern-before">{escape(say("review.before", text=concern.before.text))}</p>'


def _buttons(number: int, concern: DraftConcern) -> str:
    pressed = {"accept": concern.decision == "accepted", "reject": concern.decision == "rejected"}
    made = []
    for action in ("accept", "reject", "edit", "up", "down", "delete"):
        state = f' aria-pressed="{str(pressed[action]).lower()}"' if action in pressed else ""
        made.append(
            f'<button type="button" data-do="{action}" data-id="{escape(concern.id)}"{state}'
            f' aria-label="{say(f"review.{action}")}: {number}">{_face(action)}</button>'
        )
    return f'<p class="concern-buttons">{"".join(made)}</p>'


def _face(action: str) -> str:
    return {"up": "↑", "down": "↓"}.get(action, say(f"review.{action}"))


def _shortened(quote: str, longest: int = 90) -> str:
    line = " ".join(quote.split())
    return line if len(line) <= longest else line[: longest - 1] + "…"
