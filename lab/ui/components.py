"""Parts of the page: answers as cards, notices, tables, figures with their intervals, sampling fields; its look.

HTML comes from `*.html.jinja`. Every value goes through `escape`; lines of a template are joined.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import cache, partial
from html import escape as _escape
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import gradio as gr
import jinja2
from gradio.themes.utils import fonts, sizes
from markdown_it import MarkdownIt

from evals.schema import Answer, Metric, Verdict
from evals.schema.votes import Thumb
from lab.ui.text import DOCS, lines, page, say

if TYPE_CHECKING:
    from lab.engine import Finish, Status, Waiting

LAB = Path(__file__).parents[1]


class Html(str):
    """Text that is markup already; any other string is escaped before it is shown."""

    __slots__ = ()

    def __html__(self) -> str:
        """Return the text as it is: templates ask whether it is markup."""
        return self


def escape(text: object) -> str:
    """Return text that shows as itself, also where a template would read `{{` or `${` in it."""
    escaped = _escape(str(text), quote=True)
    return escaped.replace("{", "&#123;").replace("}", "&#125;").replace("$", "&#36;")


def as_html(text: object) -> Html:
    """Return `text` as it may stand in a page: `<b>` becomes `&lt;b&gt;`, Html stays as it is."""
    return text if isinstance(text, Html) else Html(escape(text))


def markdown(text: str) -> Html:
    """Return what somebody wrote in Markdown, as HTML: of its own markup only folds and code, no pictures, no formulas."""
    made = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image").render(text)
    made = re.sub("&lt;(/?(?:details|summary|code))&gt;", r"<\1>", made)
    return Html(made.replace("{", "&#123;").replace("}", "&#125;").replace("$", "&#36;"))


class _Joined(jinja2.BaseLoader):
    def get_source(self, environment: jinja2.Environment, template: str) -> tuple[str, str, None]:
        """Return a template without line ends and indentation: the page shows none."""
        file = LAB / template
        return re.sub(r"\n\s*", "", file.read_text(encoding="utf-8")), str(file), None


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=_Joined(),
        autoescape=True,
        finalize=lambda value: value if hasattr(value, "__html__") else as_html(value),
        undefined=jinja2.StrictUndefined,
    )


def render(template: str, part: str, **values: Any) -> Html:
    """Return one macro of a template, such as `render("review/view.html.jinja", "paper", article=...)`."""
    return Html(
        getattr(
            _environment().get_template(template, globals={"say": say, "term": term, "meaning": meaning}).module, part
        )(**values)
    )


draw = partial(render, "ui/components.html.jinja")
LONGEST_ANSWER = 512
SHORTEST_ANSWER = 8
HIGHEST_TEMPERATURE = 2.0
BRIEF_SECONDS = 0.1
"""A shorter wait for the first word is not told."""
AT_ONCE = 40
"""How many visitors may wait for the model at one button; a thread is held for each."""

ANSWERING: dict[str, Any] = {"show_progress": "hidden", "trigger_mode": "once", "concurrency_limit": AT_ONCE}
"""An event that waits for the model: the page shows how far it is, and a second click waits."""

QUIET: dict[str, Any] = {"show_progress": "hidden", "queue": False}
"""An event that answers at once."""
CHOSEN: dict[str, Any] = {**QUIET, "trigger_mode": "always_last"}
"""A choice, which may be made anew before the first is answered: the last one counts."""

Tone = Literal["info", "problem", "good"]
BADGES = {"correct": "good", "incorrect": "bad", "contradictory": "bad", "no_claim": "quiet", "unscored": "quiet"}
"""The colour of a verdict; `unscored` where no rule can grade the answer."""


@dataclass(frozen=True)
class Card:
    """One answer as it is shown, while it is written and later. A blind one tells nothing that names its stage.

    `other` is an answer that this one is compared with, word by word; `expected` what the truth says, for telling right
    claims from wrong ones. `waits` says why nothing is there yet; `waited` are the seconds until the first word of any
    answer, `seconds` those from there on. `worth` is what the stated confidence was worth, `below` why it is too low. `reason` and `figures` stand below; `beneath` comes last: ratings, a place to rate.
    """

    title: str
    text: str = ""
    meaning: str = ""
    stage: str = ""
    state: Literal["waiting", "writing", "done"] = "done"
    finish_reason: "Finish | None" = None
    n_tokens: int | None = None
    seconds: float | None = None
    waits: str = ""
    waited: float | None = None
    verdict: Verdict | None = None
    is_blind: bool = False
    other: str | None = None
    expected: str = ""
    reason: str = ""
    figures: Sequence[str] = ()
    worth: str = ""
    below: str = ""
    beneath: str = ""


def stage_name(stage: str) -> str:
    """Return a stage's name as people write it: "Base", "SFT"; the source of its confidence follows a space, its chain "@".

    >>> stage_name("dpo-2"), stage_name("base"), stage_name("grpo likelihood"), stage_name("sft@my-run")
    ('DPO-2', 'Base', 'GRPO likelihood', 'SFT (my-run)')
    """
    stage, _, chain = stage.partition("@")
    stage, *source = stage.split(" ")
    name = stage.upper() if stage.split("-")[0] in {"sft", "dpo", "grpo", "kto"} else stage.capitalize()
    return " ".join([name, *source, *([f"({chain})"] if chain else [])])


def stage_card(stage: str) -> Card:
    """Return the card of a stage that has written nothing so far."""
    meaning = lines().get(f"stage.{stage}", say("stage.other"))
    return Card(stage_name(stage), meaning=meaning, stage=stage, state="waiting")


def card_of(answer: Answer) -> Card:
    """Return the card of a stored answer: how long it took is not stored."""
    known = {"text": answer.text, "finish_reason": answer.finish_reason, "verdict": answer.verdict}
    return replace(stage_card(answer.stage), state="done", **known)


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


def cards(shown: Sequence[Card], note: str = "") -> Html:
    """Return answers side by side, under each other where the page is narrow."""
    return draw("cards", rows=map(card, shown), is_busy=any(one.state != "done" for one in shown), note=note)


def card(one: Card) -> Html:
    """Return one answer, what was read of it marked."""
    return draw("card", card=one, pieces=pieces(one.text, _marks(one)), foot=_foot(one))


def empty(text: str) -> str:
    return f'<div class="empty"><p>{escape(text)}</p></div>'


def notice(text: str, tone: Tone = "info") -> str:
    """Return one line that tells how things stand; read aloud by screen readers. "" hides it."""
    if not text:
        return ""
    role = "alert" if tone == "problem" else "status"
    return f'<p class="notice {tone}" role="{role}">{escape(sentence(text))}</p>'


def lead(name: str) -> str:
    """Return what a tab is for, with a link to its tutorial."""
    path = f"tutorials/{say(f'tutorial.{name}')}.md"
    title = document_title(path) if (DOCS / path).is_file() else ""
    link = f' <a href="docs/{path}" target="_blank">{escape(title)}</a>' if title else ""
    return f'<p class="lead">{escape(page(name))}{link}</p>'


def document_title(path: str) -> str:
    with (DOCS / path).open(encoding="utf-8") as file:
        return file.readline().strip("# \n")


def heading(text: str) -> str:
    return f"<h3>{escape(text)}</h3>"


def thumbs(name: str, given: Thumb | None = None, *, can_open: bool = False) -> Html:
    """Return the buttons that call an answer good or bad at once; `name` is its id, without that of its project.

    `can_open` adds one that opens the panel.
    """
    return draw("thumbs", id=name, given=given, can_open=can_open)


def question(text: str) -> Html:
    return draw("question", text=text)


def waiting_line(waiting: "Waiting") -> str:
    """Return why there is no answer yet, in one line."""
    if (status := waiting.status).state == "loading":
        return say("line.loading", percent=f"{status.share:.0%}", message=status.message)
    return say("line.next") if waiting.position == 1 else say("line.place", position=waiting.position)


def model_pill(status: "Status") -> Html:
    return draw("pill", status=status, words=say(f"model.{status.state}", percent=f"{status.share:.0%}"))


def model_problem(status: "Status") -> str:
    """Return what went wrong with the model and what to do, or which base stands in for another."""
    if status.substitutions:
        return notice("; ".join(status.substitutions))
    return draw("trouble", remedy=sentence(status.message)) if status.state == "failed" else ""


def header() -> Html:
    return draw("header")


def keys() -> Html:
    return draw("keys", rows=[line.split(" | ") for line in page("keys").splitlines()])


def pieces(text: str, spans: Iterable[tuple[int, int, str]]) -> list[tuple[str, str]]:
    """Return a text in pieces, each with the kinds of the spans that cover it; spans may overlap.

    >>> pieces("abcd", [(0, 2, "x"), (1, 3, "y")])
    [('a', 'x'), ('b', 'x y'), ('c', 'y'), ('d', '')]
    """
    known = [(start, end, kind) for start, end, kind in spans if 0 <= start < end <= len(text)]
    cuts = sorted({0, len(text), *(place for start, end, _ in known for place in (start, end))})
    return [
        (text[a:b], " ".join(sorted({kind for start, end, kind in known if start <= a and b <= end})))
        for a, b in pairwise(cuts)
    ]


def _marks(card: Card) -> list[tuple[int, int, str]]:
    """Return what was read of a text as the answer, behind `Answer:` or in free text, and what differs from another."""
    if card.state != "done" or card.is_blind:
        return []
    marks = differing(card.other, card.text) if card.other is not None else []
    verdict = card.verdict
    if verdict is None:
        from evals.verifiers.line import read_lines

        read = read_lines(card.text)
        return [*marks, (read.start, read.end, "claim")]
    for claim in verdict.claims if verdict.read_by else ():
        is_right = claim.says.casefold() == card.expected.casefold() and not claim.is_denied
        tone = "good" if is_right else BADGES[verdict.verdict]
        marks.append((claim.start, claim.end, f"claim {tone}"))
    return marks


ALIKE = 0.3
"""Share of words in common from which on it says something which of them differ."""


def differing(first: str, second: str) -> list[tuple[int, int, str]]:
    """Return the runs of words of the second text that the first does not have there; none where all differs.

    >>> differing("goes up in liver", "goes down in liver")
    [(5, 9, 'differs')]
    """
    words = [[(found[0], found.span()) for found in re.finditer(r"\S+", text)] for text in (first, second)]
    matched = SequenceMatcher(None, *([word for word, _ in each] for each in words), autojunk=False)
    if matched.ratio() < ALIKE:
        return []
    changed = [(a, b) for tag, _, _, a, b in matched.get_opcodes() if tag in ("insert", "replace")]
    return [(words[1][a][1][0], words[1][b - 1][1][1], "differs") for a, b in changed]


def _foot(card: Card) -> dict[str, object] | None:
    """Return what stands below a complete answer whose stage is known."""
    if card.state != "done" or card.is_blind:
        return None
    verdict = card.verdict
    if verdict is None:
        from evals.verifiers import stated_confidence

        stated = stated_confidence(card.text)
    else:
        stated = verdict.confidence
    percent = f"{stated.value:.0%}" if stated.value is not None else ""
    kind, reason = "", sentence(card.reason)
    if verdict is not None:
        kind = "unscored" if verdict.reward is None else verdict.verdict
        reason = sentence(verdict.reason)
        if kind != "unscored" and verdict.read_by in ("text", "letter", "judge"):
            reason = f"{reason} ({say(f'verdict.read.{verdict.read_by}')})"
    figures: list[str] = [] if card.n_tokens is None else [Html(f"{card.n_tokens} {term('tokens')}")]
    figures += [say("answer.waited", seconds=card.waited)] if card.waited and card.waited >= BRIEF_SECONDS else []
    figures += [] if card.seconds is None else [say("answer.seconds", seconds=card.seconds)]
    figures += [*card.figures]
    figures += [say(f"answer.{card.finish_reason}")] if card.finish_reason in {"length", "cancelled"} else []
    said = say(f"confidence.{stated.status}", percent=percent)
    badge = BADGES.get(kind, "")
    return {"kind": kind, "badge": badge, "reason": reason, "status": stated.status, "said": said, "figures": figures}


Scale = Literal["share", "points", "number", "open"]
"""Percent, percentage points, a number from 0 to 1, a number without an upper end."""


@dataclass(frozen=True)
class Column:
    """The heading of a column that the rows are sorted by, or would be at the address `href`."""

    text: str
    sort: Literal["ascending", "descending", ""] = ""
    href: str = ""

    def __str__(self) -> str:
        return self.text


def meaning(name: object) -> str:
    """Return what a figure of that name means, arrows and capitals aside; "" of what has no definition, or is markup already.

    >>> meaning("AUROC ↑")
    'Chance that a correct answer states a higher confidence than a wrong one. 0.5 is no better than tossing a coin.'
    """
    return "" if isinstance(name, Html) else lines().get(f"means.{str(name).strip(' ↑↓').lower()}", "")


def term(words: object, name: str = "") -> object:
    """Return the name of a figure so that the pointer, the focus or a tap shows what it means (`lab/ui/text/definitions.json`).

    `words` without a definition stay as they are; `name` is that of the figure where they say more.
    """
    means = meaning(name or words)
    href = words.href if isinstance(words, Column) else ""
    means = f"{means} {say('leaderboard.sort', metric=words)}".strip() if href else means
    return draw("definition", words=words, means=means, href=href) if means else words


def with_terms(text: str) -> Html:
    """Return a text in which [names] of figures say what they mean; other brackets stay."""

    def known(found: re.Match[str]) -> str:
        return str(term(found[1])) if meaning(found[1]) else found[0]

    return Html(re.sub(r"\[([^]]+)\]", known, as_html(text)))


def grid(caption: str, columns: Sequence[object], rows: Sequence[Sequence[object]]) -> Html:
    """Return a table, each row headed by its first cell; ValueError for a row of another length."""
    cells = [(row[0], list(zip(columns, row, strict=True))[1:]) for row in rows]
    return draw("grid", caption=with_terms(caption), columns=columns, rows=cells)


def measure(metric: Metric | None, scale: Scale = "share", band: float | None = None, href: str = "") -> Html:
    """Return a number with interval, n and a bar, shaded up to `band`; without a value a dash and why, never a zero.

    `href` leads to the answers behind it.
    """
    if metric is None:
        return Html('<span class="assay-missing">not measured</span>')
    if metric.value is None:
        reason = as_html(metric.note or "undefined")
        return Html(f'<span class="assay-missing">– <small>{reason}</small></span>')
    figure, n = opening(number(metric.value, scale), href, metric.n), f"n\u00a0=\u00a0{metric.n}"
    if metric.low is None or metric.high is None:
        from evals.report import CONSTANT

        told = say("metric.constant") if metric.note == CONSTANT else metric.note
        return stack_figure(figure, f"{n} · {told}" if told else n)
    left, middle, right = (100 * min(max(x, 0.0), 1.0) for x in (metric.low, metric.value, metric.high))
    bar = "" if scale == "open" else draw("range", left=left, middle=middle, right=right, band=band)
    return stack_figure(figure, f"{interval(metric.low, metric.high, scale)} · {n}", last=bar)


def opening(figure: str, href: str, n: int) -> str:
    """Return a figure that opens the `n` answers behind it; the bare one where there is nowhere to go."""
    return draw("opening", figure=figure, href=href, told=say("rows.open", figure=figure, n=n)) if href else figure


def stack_figure(figure: str, *lines: object, last: str = "", tone: str = "") -> Html:
    """Return a figure with small lines beneath it and, at the end, what it comes to."""
    return draw("stacked", figure=figure, lines=lines, last=last, tone=tone)


def emphasis(text: str) -> Html:
    return Html(f"<em>{as_html(text)}</em>")


def number(value: float, scale: Scale, plus: bool = False) -> str:
    """Return "62.6 %", "−6.8 points" or "0.213"; `plus` writes the sign of positive values too."""
    return f"{_figure(value, scale, plus)}{UNITS[scale]}"


def interval(low: float, high: float, scale: Scale, plus: bool = False) -> str:
    """Return "53.3 to 71.2 %", "−6.9 to 21.3 points" or "0.150 to 0.280"."""
    return f"{_figure(low, scale, plus)} to {number(high, scale, plus)}"


UNITS = {"share": " %", "points": " points", "number": "", "open": ""}


def _figure(value: float, scale: Scale, plus: bool) -> str:
    text = f"{value:.3f}" if scale in ("number", "open") else f"{100 * value:.1f}"
    sign = "+" if plus and value > 0 and text.strip("0.") else ""
    return sign + text.replace("-", "−" if text.strip("-0.") else "")


def tiles(facts: Sequence[tuple[object, object]]) -> Html:
    return draw("tiles", facts=facts)


Sampled = tuple[gr.Number, gr.Slider, gr.Slider]


@dataclass(frozen=True)
class Range:
    """What may be chosen; `about` says what the length is that of."""

    shortest: int = SHORTEST_ANSWER
    longest: int = LONGEST_ANSWER
    step: int = 8
    hottest: float = HIGHEST_TEMPERATURE
    about: str = "ask.length.info"


def sampling_fields(seed: int, max_new_tokens: int, temperature: float, choices: Range | None = None) -> Sampled:
    """Lay out the three widgets, with these values at first, and return them."""
    within = choices or Range()
    length: dict[str, Any] = {"label": say("ask.length"), "info": say(within.about)}
    heat: dict[str, Any] = {"label": say("ask.temperature"), "info": say("ask.temperature.info")}
    return (
        gr.Number(seed, label=say("ask.seed"), info=say("ask.seed.info"), precision=0, minimum=0),
        gr.Slider(within.shortest, within.longest, max_new_tokens, step=within.step, **length),
        gr.Slider(0, within.hottest, temperature, step=0.1, **heat),
    )


# ---- the look, light and dark, with fonts that come from our own server --------------------------


ASSETS = Path(__file__).parent / "assets"
ROUTE = "lab-assets"


class Theme(gr.themes.Base):
    """Paper and ink with one green accent, from assets/theme.json. Colours of our own classes stand in lab.css."""

    def __init__(self) -> None:
        given = json.loads((ASSETS / "theme.json").read_text(encoding="utf-8"))
        ink, teal = (gr.themes.Color(*given[name], name=name) for name in ("ink", "teal"))
        super().__init__(
            primary_hue=teal,
            secondary_hue=teal,
            neutral_hue=ink,
            spacing_size=sizes.spacing_md,
            radius_size=sizes.radius_md,
            text_size=sizes.Size("11px", "12px", "13px", "15px", "16px", "22px", "26px"),
            font=tuple(map(fonts.Font, ("Source Sans 3", "ui-sans-serif", "system-ui"))),
            font_mono=tuple(map(fonts.Font, ("ui-monospace", "Menlo", "monospace"))),
        )
        self.name = "assay"
        pairs = given["light and dark"]
        dark = {f"{name}_dark": colours[1] for name, colours in pairs.items()}
        super().set(**{name: colours[0] for name, colours in pairs.items()}, **dark, **given["both"])


def script(function: str, *values: object) -> str:
    """Return what an event calls of assets/lab.js: a function, with these values before its own."""
    return f"{function}.bind({', '.join(map(json.dumps, (None, *values)))})"


def clicks(tab: str) -> str:
    """Return the script that tells the lab of clicks on a tab's cards; focus stays where it was."""
    return (ASSETS / f"{tab}-clicks.js").read_text(encoding="utf-8")
