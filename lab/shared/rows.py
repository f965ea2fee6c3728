"""The answers behind a figure: filtered, ordered, a page at a time, all stages side by side, and what people said.

The address says what is shown, so that a link, a reload and Back lead there: `read_place` reads it, `link` writes it.
"""

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import parse_qsl, urlencode

import numpy as np

from evals import questions
from evals.questions.task import Questions
from evals.schema import Example, Grade, OwnTruth, StatedConfidence, Verdict
from evals.stats.calibration import CalibrationSettings, bin_edges
from evals.task import GradedAnswer
from evals.verifiers.line import read_lines
from lab.services import Services
from lab.shared.rating import annotation_facts, notes_with_words
from lab.ui.components import BADGES, Card, Html, as_html, card, number, render, stage_name, term
from lab.ui.text import lines, plural, say

draw = partial(render, "shared/rows.html.jinja")
PER_PAGE = 20
TAG = re.compile(r"</?[a-z_]+(?: [^<>]*)?>")
"""What prompts with passages are full of, left out where only their beginning is shown."""
EDGES: list[float] = bin_edges(np.zeros(1), CalibrationSettings()).tolist()
Place = Mapping[str, str]
"""What the address asks for, by name."""
Option = tuple[str, str]
"""A value of the address, and what it is called."""
Said = Mapping[tuple[str, str, str], Sequence[str]]
"""What people said of an answer, a line each, by question, stage and text."""


def read_place(address: str | None, tab: str) -> dict[str, str]:
    """Return what an address asks of a tab; nothing if it names another.

    >>> read_place("?run=a%20b", "train"), read_place("?tab=ask&answer=1", "train")
    ({'tab': 'train', 'run': 'a b'}, {})
    """
    place = {"tab": tab, **dict(parse_qsl((address or "").lstrip("?")))}
    return place if place["tab"] == tab else {}


def link(place: Place, **changes: object) -> str:
    """Return the address of a place with changes; what is empty is left out.

    >>> link({"tab": "train", "page": "2"}, page="", run="a b")
    '?tab=train&run=a+b'
    """
    return "?" + urlencode({name: value for name, value in {**place, **changes}.items() if value not in ("", None)})


# ---- one answer --------------------------------------------------------------------------------


def question_of(row: Any) -> str:
    """Return what was asked; "" where the row does not hold it."""
    if (example := getattr(row, "example", None)) is not None:
        return example.prompt
    prompt = getattr(row, "prompt", ())
    return prompt[-1].content if prompt else ""


def example_of(row: Any) -> Example | None:
    """Return the question with its truth, where it is known."""
    return getattr(row, "example", None) or questions.find(question_of(row))


def expected_line(row: Any) -> str:
    """Return the right answer in the words of an answer line; "" where none is known."""
    example = example_of(row)
    return (read_lines(example.answer).answer or "") if example else ""


def text_of(row: Any) -> str:
    return getattr(row, "completion", "")


def verdict_of(row: GradedAnswer) -> Verdict | None:
    """Return the verdict, with the claims that it is about; read again where the row does not hold them."""
    grade = row.grade
    if isinstance(grade.detail, Verdict) and grade.detail.read_by:
        return grade.detail
    if grade.verdict is None:
        return None
    example = example_of(row)
    if example is not None:
        (again,) = Questions().grade([example], [text_of(row)])
        if again.verdict == grade.verdict and isinstance(again.detail, Verdict):
            return again.detail.model_copy(update={"reward": grade.reward})
    stated = StatedConfidence(value=grade.confidence, status="missing" if grade.confidence is None else "stated")
    return Verdict.model_construct(
        verdict=grade.verdict, reason=grade.reason, confidence=stated, scores={}, reward=grade.reward
    )


def row_card(
    row: GradedAnswer, *, other: str | None = None, said: Sequence[str] = (), slot: Html | None = None
) -> Html:
    """Return an answer of a report or a run: its text, claims underlined, verdict, reward with its parts, confidence.

    `other` is the text of an answer that this one is compared with word by word, `said` what people said of this one,
    a line each, and `slot` what stands beneath: a place to rate it.
    """
    grade = row.grade
    parts = {"reward": grade.reward, **grade.parts}
    return card(
        Card(
            title=stage_name(row.stage),
            text=text_of(row),
            finish_reason=getattr(row, "finish_reason", None),
            verdict=verdict_of(row),
            other=other,
            expected=expected_line(row),
            reason=grade.reason,
            figures=[
                Html(f"{as_html(term(metric_label(name)))} {number(value, 'open')}")
                for name, value in parts.items()
                if value is not None
            ],
            beneath=draw("beneath", said=said, slot=slot or ""),
        )
    )


def metric_label(name: str) -> str:
    """Return the name of a metric as people read it; one without a line of its own by its own name."""
    return lines().get(f"metric.{name}", name.replace("_", " "))


def judgements_of(services: Services, rows: Collection[Any]) -> Said:
    """Return what people said of these answers: submitted annotations and standing votes."""
    asked = {question_of(row) for row in rows} - {""}
    found: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    store = services.store.annotations
    items = {item.id: item for item in store.items(questions=asked)}
    dimensions = {project.id: project.guidelines.dimensions for project in store.projects()} if items else {}
    for each in store.latest(names=items):
        item = items[each.item]
        if each.state != "submitted":
            continue
        told = [f"{title}: {value}" for title, value in annotation_facts(each, dimensions[item.project])]
        told += [
            f"{say(f'annotate.note.{note.kind}')}: “{words}” {note.comment}".rstrip()
            for note, words in notes_with_words(item, each.notes)
        ]
        told += [f"{say('annotate.corrected')}: {each.corrected}"] if each.corrected else []
        found[item.question, item.stage, item.text].append(" · ".join([*told, *filter(None, [each.comment])]))
    votes: dict[tuple[str, str, str], Counter[str]] = defaultdict(Counter)
    for pair in services.store.preference_pairs(questions=asked):
        for own, other, better in ((pair.left, pair.right, "left"), (pair.right, pair.left, "right")):
            choice = "tie" if own.text == other.text and pair.vote.choice != "both_bad" else pair.vote.choice
            kind = choice if choice in ("tie", "both_bad") else "won" if choice == better else "lost"
            line = say(f"rows.vote.{kind}", stage=stage_name(other.stage))
            votes[own.question, own.stage, own.text][line] += 1
    for key, told in votes.items():
        found[key] += [f"{line} (×{n})" if n > 1 else line for line, n in told.items()]
    return found


# ---- many --------------------------------------------------------------------------------------


def bin_name(confidence: float | None) -> str:
    """Return the bin of the reliability diagram that a confidence is in, in percent.

    >>> bin_name(0.95), bin_name(1.0), bin_name(0.3), bin_name(None)
    ('90-100', '90-100', '20-30', 'none')
    """
    if confidence is None:
        return "none"
    low = bisect_right(EDGES, confidence)
    return f"{10 * low}-{10 * low + 10}"


FACETS: Mapping[str, Callable[[Any], str]] = {
    "verdict": lambda row: row.grade.verdict or "",
    "confidence": lambda row: bin_name(row.grade.confidence),
    "kind": lambda row: getattr(example_of(row), "kind", ""),
    "tissue": lambda row: getattr(example_of(row), "tissue", "") or "",
}
"""What rows are filtered by: the value of each."""


def _high(value: float | None) -> tuple[bool, float]:
    return value is None, -(value or 0.0)


def _low(value: float | None) -> tuple[bool, float]:
    return value is None, value or 0.0


SORTS: Mapping[str, Callable[[Any], Any]] = {
    "worst": lambda row: _worst(row.grade),
    "best": lambda row: _high(row.grade.reward),
    "low": lambda row: _low(row.grade.reward),
    "sure": lambda row: _high(row.grade.confidence),
    "asked": lambda row: 0,
    "advantage-best": lambda row: _high(row.grade.parts.get("advantage")),
    "advantage-worst": lambda row: _low(row.grade.parts.get("advantage")),
}
"""In what order rows stand; those that have no such figure come last."""


def _worst(grade: Grade) -> tuple[bool, float, tuple[bool, float]]:
    """Return the place of an answer where the sure and wrong stand first."""
    is_right, sure = grade.verdict == "correct", grade.confidence or 0.0
    return is_right, sure if is_right else -sure, _low(grade.reward)


@dataclass(frozen=True)
class Behind:
    """What is behind a figure, or was sampled at a step: `rows`, and by their ids the answers that stand `beside` each.

    `back` leads to where it was opened. `choices` are further filters, by the name that they have in the address;
    what they choose has been chosen already. `trivial` are the stages that are baselines, which are shown if asked for.
    """

    title: str
    rows: Sequence[Any]
    beside: Mapping[str, Sequence[Any]]
    back: str = ""
    usual: str = "worst"
    choices: Mapping[str, Sequence[Option]] = field(default_factory=dict)
    trivial: Collection[str] = ()


def chosen_rows(behind: Behind, place: Place) -> list[Any]:
    """Return the rows that the address asks for, in its order."""
    words = place.get("find", "").casefold()
    rows = [
        row
        for row in behind.rows
        if all(_fits(name, place[name], row) for name in FACETS if place.get(name))
        and place.get("row") in (None, row.id)
        and (not words or words in f"{question_of(row)}\n{text_of(row)}".casefold())
    ]
    return sorted(rows, key=SORTS.get(place.get("sort", behind.usual), SORTS[behind.usual]))


def _fits(name: str, wanted: str, row: Any) -> bool:
    """Return whether a row has a value; "85-" asks for a confidence of 85 % or more."""
    if name == "confidence" and re.fullmatch(r"\d+(\.\d+)?-", wanted):
        return row.grade.confidence is not None and 100 * row.grade.confidence >= float(wanted[:-1]) - 1e-3
    return FACETS[name](row) == wanted


def _value_called(name: str, value: str) -> str:
    if name == "verdict":
        return lines().get(f"verdict.{value}", value)
    if name == "confidence":
        low, _, high = value.partition("-")
        key = "range" if high else "none" if value == "none" else "least"
        return say(f"rows.confidence.{key}", low=low, high=high)
    return lines().get(f"group.{value}", value.replace("_", " ").capitalize())


def _filters(behind: Behind, place: Place) -> list[tuple[str, str, list[Option]]]:
    """Return every filter that has something to choose: its name, what is chosen, and the options."""
    found = [(name, place.get(name, ""), [*options]) for name, options in behind.choices.items()]
    for name, value_of in FACETS.items():
        known, wanted = Counter(map(value_of, behind.rows)), place.get(name, "")
        values = sorted(filter(None, {*known, wanted}), key=lambda value: (len(value), value))
        if len(values) > 1 or wanted:
            told = {value: f" ({known[value]})" if value in known else "" for value in values}
            options = [(value, f"{_value_called(name, value)}{told[value]}") for value in values]
            found.append((name, wanted, [("", say("rows.all")), *options]))
    has_advantage = any("advantage" in row.grade.parts for row in behind.rows)
    orders = [(name, say(f"rows.sort.{name}")) for name in SORTS if has_advantage or "advantage" not in name]
    return [*found, ("sort", place.get("sort", behind.usual), orders)]


def rows_page(
    behind: Behind,
    place: Place,
    said: Callable[[Collection[Any]], Said] = lambda _: {},
    slot: Callable[[Any], Html] | None = None,
) -> Html:
    """Return one page of the rows that the address asks for; each opens to the answers side by side.

    `said` gives what people said of answers, `slot` what stands beneath each.
    """
    rows = chosen_rows(behind, place)
    n_pages = max(1, -(-len(rows) // PER_PAGE))
    asked = place.get("page", "1")
    at = min(int(asked), n_pages) if asked.isdecimal() and int(asked) else 1
    here = rows[(at - 1) * PER_PAGE : at * PER_PAGE]
    filters = _filters(behind, place)
    own = {name for name, *_ in filters} | {"find", "baselines", "page", "row"}
    whole = {name: value for name, value in place.items() if name not in own or name in behind.choices}
    is_filtered, whole_count = len(rows) < len(behind.rows), plural(len(behind.rows), "answer")
    beside = [_beside(behind, row, place) for row in here]
    people = said([each for answers in beside for each in answers])
    return draw(
        "page",
        behind=behind,
        count=say("rows.some", n=len(rows), all=whole_count) if is_filtered else whole_count,
        filters=filters,
        hidden=[(name, value) for name, value in place.items() if name not in own],
        place=place,
        out=link(whole) if is_filtered else "",
        rows=[
            _row(row, answers, place, people, slot, is_open=len(here) == 1)
            for row, answers in zip(here, beside, strict=True)
        ],
        pages=[(n, link(place, page=n)) for n in range(1, n_pages + 1)] if n_pages > 1 else [],
        at=at,
        n_texts=sum(bool(text_of(row)) for row in behind.rows),
    )


def _beside(behind: Behind, row: Any, place: Place) -> list[Any]:
    """Return the answers to the same question, the row's own among them; baselines only if they are asked for."""
    wanted = {row.stage, place.get("against")}
    every = behind.beside.get(row.id) or [row]
    return [
        each for each in every if place.get("baselines") or each.stage in wanted or each.stage not in behind.trivial
    ]


def _row(
    row: Any, beside: Sequence[Any], place: Place, people: Said, slot: Callable[[Any], Html] | None, *, is_open: bool
) -> Html:
    against = next((each for each in beside if each.stage == place.get("against")), row)
    grade, example = row.grade, example_of(row)
    cards = [
        row_card(
            each,
            other=None if each is against else text_of(against),
            said=people.get((question_of(each), each.stage, text_of(each)), ()),
            slot=slot(each) if slot else None,
        )
        for each in beside
    ]
    facts = [_value_called("kind", example.kind), (example.tissue or "").capitalize()] if example else []
    by = "rows.key" if example and isinstance(example.ground_truth, OwnTruth) else "rows.expected"
    facts += [say(by, answer=answer)] if (answer := expected_line(row)) else []
    return draw(
        "row",
        verdict=grade.verdict,
        tone=BADGES.get(grade.verdict or "", "quiet"),
        figure="" if grade.verdict or grade.reward is None else number(grade.reward, "open"),
        stated="" if grade.confidence is None else f"{100 * grade.confidence:.0f} %",
        head=TAG.sub(" ", question_of(row)),
        question=question_of(row),
        text=text_of(row),
        facts=[*filter(None, facts)],
        differs=say("rows.differs", stage=stage_name(against.stage)) if len(beside) > 1 else "",
        cards=cards,
        href=link(place, row=row.id, page=""),
        is_open=is_open,
    )
