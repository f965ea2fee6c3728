"""What `assay data check` tells of a question set: what is wrong, what to look at, and what tricks would score."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from evals.io import group_by
from evals.questions.prompt import answer_form
from evals.questions.sets import QuestionSet, name_counts, normalise_question, right_answer
from evals.questions.task import baseline_answers
from evals.schema import CANNOT_BE_TOLD, AbstainTruth, ChoiceTruth, Example, Record
from evals.schema.questions import RowFault
from evals.schema.record import Share
from evals.verifiers import verify
from evals.verifiers.expected import fold
from evals.verifiers.score import SCORED

CONSTANT = "constant answer"
LEAST = 4
"""Rows from which "always" means something."""
ALIKE = 0.7
"""Share of the words of two questions, rare ones weighing more, from which they are near-duplicates."""
RAREST = 3
FEW = 3
"""Questions from which "all of them" is no chance."""
ENOUGH = 12
"""Questions from which a share is compared with chance."""
LONGEST = "longest option"
LISTED = 20
"""Places that a warning names."""
MONTH = "jan|feb|mar|mrz|mär|märz|apr|may|mai|mag|jun|jul|aug|sep|sept|oct|okt|ott|nov|dec|dez|dic"
SPREADSHEET = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"\d{{1,2}}[-./ ]\s?(?:{MONTH})\.?(?:[-./ ]+\d{{2,4}})?",
        rf"(?:{MONTH})\.?[-./ ]\s?\d{{1,4}}",
        r"(?:19|20)\d\d-\d\d-\d\d(?: 00:00:00)?",
        r"\d{1,2}[./]\d{1,2}[./](?:19|20)\d\d",
        r"\d(?:[.,]\d+)?E[+]\d{1,3}",
    )
)
"""What Excel and others make of SEPT2, MARCH1, DEC1 and of names such as 2310009E13, in the languages that use it."""
NAMED = {"value", "options", "values", "accept", "others", "aliases", "subject"}
"""Fields of a truth that hold names."""
SHOWN = 5
SHOWN_PROMPT = 240
"""Characters of a question that are shown of the first row of an import."""


class Warned(Record):
    """Something to look at: what was found, in which rows (the first few), what it means and what to do."""

    check: str
    problem: str
    remedy: str
    rows: tuple[str, ...] = ()


class Score(Record):
    """How many of n questions an answer that needs no model gets right."""

    policy: str
    correct: int
    n: int
    accuracy: Share


class SetReport(Record):
    """What is in a question set. `scores` are over the test rows, or all rows where none is for testing."""

    file: str
    rows: int
    faults: tuple[RowFault, ...]
    warnings: tuple[Warned, ...]
    splits: dict[str, int]
    kinds: dict[str, int]
    options: dict[str, int]
    groups: int
    explained: int
    licences: dict[str, int]
    scored_on: str
    scores: tuple[Score, ...]


class ImportReport(SetReport):
    """A set that was imported: its layout, how answer columns were read, which fields were not, and the first row."""

    layout: str
    answers: dict[str, str]
    unread: list[str]
    first: dict[str, Any]


def row_lines(row: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return a row of a set as lines of a table: the question's beginning and end, its options, what is right."""
    prompt, truth = str(row["prompt"]), row["truth"]
    cut = prompt if len(prompt) <= SHOWN_PROMPT else f"{prompt[: SHOWN_PROMPT // 2]} … {prompt[-SHOWN_PROMPT // 2 :]}"
    right = next((truth[name] for name in ("value", "values", "accept", "items") if name in truth), None)
    unit = f" {truth['unit']}" if truth.get("unit") else ""
    told = " / ".join(map(str, right)) if isinstance(right, list) else f"{right}{unit}"
    lines = [("question", cut), *(("option", str(each)) for each in truth.get("options", ()))]
    return [
        *lines,
        (f"right ({truth['kind']})", told or CANNOT_BE_TOLD),
        ("split, group", f"{row['split']}, {row['group']}"),
    ]


def report_on(found: QuestionSet, name: str) -> SetReport:
    """Return everything there is to say about a set that was read."""
    rows = found.examples
    test = tuple(row for row in rows if row.split == "test")
    train = tuple(row for row in rows if row.split == "train")
    return SetReport(
        file=name,
        rows=len(rows) + len({fault.line for fault in found.faults}),
        faults=found.faults,
        warnings=tuple(warnings_on(rows, found.lines)),
        splits=name_counts(row.split for row in rows),
        kinds=name_counts(row.ground_truth.kind for row in rows),
        options=name_counts(
            f"{len(row.ground_truth.options)} options" for row in rows if isinstance(row.ground_truth, ChoiceTruth)
        ),
        groups=len({row.cluster for row in rows}),
        explained=sum(bool(row.answer) and not row.answer.startswith("Answer:") for row in rows),
        licences=name_counts(row.licence or "not given" for row in rows),
        scored_on="test" if test else "all",
        scores=trick_scores(test or rows, train if test else ()),
    )


def trick_scores(asked: Sequence[Example], train: Sequence[Example]) -> tuple[Score, ...]:
    """Return what answers that need no model score on the rows that verifiers score.

    `train` are training rows that are not asked; without any, nothing is said of what is frequent in training.
    """
    scored = [row for row in asked if row.ground_truth.kind in SCORED]
    if not scored:
        return ()
    known = Counter(answer for row in train or scored if (answer := right_answer(row.ground_truth)))
    most = min(known, key=lambda answer: (-known[answer], answer)) if known else ""
    answers = {f"{CONSTANT} ({most})": [f"Answer: {most}"] * len(scored)} if most else {}
    answers |= tricks(scored) | baseline_answers(scored, train)
    scores = []
    for policy, texts in answers.items():
        verdicts = [verify(row, text, read="answer").verdict for row, text in zip(scored, texts, strict=True)]
        right, n = verdicts.count("correct"), len(scored)
        scores.append(Score(policy=policy, correct=right, n=n, accuracy=right / n))
    return tuple(scores)


def tricks(rows: Sequence[Example]) -> dict[str, list[str]]:
    """Return answers that read the options and not the question, by name of the trick; "" where one has nothing to say.

    The longest option; the place in its list at which the right one stands most often; all terms, or all names of
    sets, on one line.
    """
    options = [row.ground_truth.options if isinstance(row.ground_truth, ChoiceTruth) else () for row in rows]
    found: dict[str, list[str]] = {}
    if any(options):
        found[LONGEST] = [max(each, key=len, default="") for each in options]
        places = Counter(_place(row) for row in rows)
        del places[None]
        place = min(places, key=lambda each: (-places[each], each or 0), default=0) or 0
        found[f"always option {place + 1} of the list"] = [each[place] if place < len(each) else "" for each in options]
    for kind, words in (("term", "all terms on one line"), ("set", "all names of sets on one line")):
        mine = [row.ground_truth for row in rows if row.ground_truth.kind == kind]
        named = [name for truth in mine for name in (*getattr(truth, "accept", ())[:1], *getattr(truth, "values", ()))]
        if len(mine) > 1:
            line = ", ".join(dict.fromkeys(named))
            found[words] = [line if row.ground_truth.kind == kind else "" for row in rows]
    return {name: [f"Answer: {each}" if each else "" for each in lines] for name, lines in found.items()}


def _place(row: Example) -> int | None:
    """Return the place of the right option in its list, from 0."""
    truth = row.ground_truth
    is_listed = isinstance(truth, ChoiceTruth) and truth.value in truth.options
    return truth.options.index(truth.value) if is_listed else None


def warnings_on(rows: Sequence[Example], lines: Sequence[int] = ()) -> Iterable[Warned]:
    """Yield what to look at before a set is used; `lines` are those of the rows in their file."""
    yield from _leaks(rows)
    yield from _spreadsheet_damage(rows, lines)
    asked = group_by(rows, lambda row: (normalise_question(row.prompt), answer_form(row.prompt, row.ground_truth)))
    twice = [row.id for alike in asked.values() if len(alike) > 1 for row in alike]
    if twice:
        yield _warning("asked twice", f"{len(twice)} rows ask the same as another", "keep one of each", twice)
    yield from _answers_given_away(rows)
    train = [row for row in rows if row.split == "train"]
    bare = [row.id for row in train if row.answer.startswith("Answer:")]
    if bare:
        problem = f"{len(bare)} of {len(train)} training rows have no explanation"
        remedy = "write one or two sentences: SFT without them teaches the answer line alone; GRPO needs none"
        yield _warning("explanation", problem, remedy, bare)
    unscored = [row.id for row in rows if row.ground_truth.kind not in SCORED]
    if unscored:
        problem = f"{len(unscored)} rows are graded by a judge alone: no verdict, no reward, in no accuracy"
        yield _warning("judge", problem, "make them a choice, number, set or term if they can be", unscored)
    against = [row.id for row in rows if row.ground_truth.kind in SCORED and verify(row, row.answer).scores["V3"] == 0]
    if against:
        problem = f"explanations in which a wrong option is read as the answer: {len(against)}"
        yield _warning("contradiction", problem, "name the right answer, and no other option", against)
    if rows and all(row.split != "test" for row in rows):
        remedy = "mark some groups with split: test, or every figure is of rows that may be trained on"
        yield _warning("splits", "no row is for testing", remedy, [])


def _leaks(rows: Sequence[Example]) -> Iterable[Warned]:
    splits: dict[str, dict[str, str]] = {}
    for row in rows:
        splits.setdefault(row.cluster, {}).setdefault(row.split, row.id)
    torn = {group: found for group, found in splits.items() if len(found) > 1}
    if torn:
        named = ", ".join(list(torn)[:SHOWN])
        problem = f"groups that stand in several splits ({len(torn)}): {named}"
        remedy = "what is tested has been trained on; give all rows of a group the same split"
        yield _warning("group leak", problem, remedy, [row for found in torn.values() for row in found.values()])
    near = near_duplicates(rows)
    if near:
        shown = "; ".join(f"{one} ~ {other}" for one, other in near[:SHOWN])
        problem = f"{len(near)} pairs of questions in different splits are near-duplicates: {shown}"
        remedy = "reword them, or give both the same group and split"
        yield _warning("near-duplicate", problem, remedy, [name for pair in near for name in pair])


def near_duplicates(rows: Sequence[Example]) -> list[tuple[str, str]]:
    """Return pairs of rows in different splits that ask nearly the same.

    Words weigh log(1 + n / rows with the word), so that questions of one template, which differ in the word
    that counts, are no duplicates. Rows are compared that share one of their three rarest words.
    """
    words, forms = [fold(row.prompt) for row in rows], [answer_form(row.prompt, row.ground_truth) for row in rows]
    seen = Counter(word for each in words for word in each)
    weight = {word: math.log(1 + len(rows) / count) - math.log(2) + 0.01 for word, count in seen.items()}
    places: dict[str, list[int]] = {}
    found: list[tuple[str, str]] = []
    for here, row in enumerate(rows):
        rare = sorted(words[here], key=lambda word: (seen[word], word))[:RAREST]
        for there in {place for word in rare for place in places.get(word, ())}:
            if rows[there].split == row.split or forms[there] != forms[here]:
                continue
            shared = sum(weight[word] for word in words[here] & words[there])
            if shared >= ALIKE * sum(weight[word] for word in words[here] | words[there]):
                found.append((rows[there].id, row.id))
        for word in rare:
            places.setdefault(word, []).append(here)
    return found


def _answers_given_away(rows: Sequence[Example]) -> Iterable[Warned]:
    """Yield prompts whose form tells the answer, and right options that always stand at one place."""
    scored = (row for row in rows if row.ground_truth.kind in SCORED)
    for form, members in group_by(scored, lambda row: answer_form(row.prompt, row.ground_truth)).items():
        answers = {right_answer(row.ground_truth) for row in members}
        if len(members) >= LEAST and len(answers) == 1:
            problem = f"all {len(members)} questions whose prompt offers {form!r} have the answer {answers.pop()!r}"
            remedy = "ask some of them the other way round, or add options that are right elsewhere"
            if any(isinstance(row.ground_truth, AbstainTruth) for row in members):
                remedy = "give them the kind of the other questions, with value: cannot be told"
            told = f"the prompt gives it away; {remedy}"
            yield _warning("always right", problem, told, [row.id for row in members])
    yield from _tells_of_options(rows)


def _tells_of_options(rows: Sequence[Example]) -> Iterable[Warned]:
    """Yield what the options alone tell of the right one: its place, and that it is the longest."""
    placed = [(row, row.ground_truth, place) for row in rows if (place := _place(row)) is not None]
    choices = [(row, truth, place) for row, truth, place in placed if isinstance(truth, ChoiceTruth)]
    if len({truth.options for _, truth, _ in choices}) < 2:
        return  # the same options each time: their place says nothing
    chance = sum(1 / len(truth.options) for _, truth, _ in choices) / len(choices)
    at = Counter(place for _, _, place in choices)
    place, n = min(at.items(), key=lambda each: (-each[1], each[0]))
    if _is_far_above(n, len(choices), chance):
        mine = [row.id for row, _, here in choices if here == place]
        problem = f"the right option is number {place + 1} of its list in {n} of {len(choices)} questions"
        yield _warning("same place", problem, "shuffle the options of each row", mine)
    longest = [row.id for row, truth, here in choices if here == _longest(truth.options)]
    if _is_far_above(len(longest), len(choices), chance):
        problem = f"the right option is longer than all others in {len(longest)} of {len(choices)} questions"
        yield _warning("longest option", problem, "make wrong options as long and as exact as the right one", longest)


def _longest(options: Sequence[str]) -> int | None:
    """Return the place of the option that is longer than all others."""
    lengths = [len(option) for option in options]
    return lengths.index(max(lengths)) if lengths.count(max(lengths)) == 1 else None


def _is_far_above(n: int, of: int, chance: float) -> bool:
    """Return whether n hits are far more than chance: all of FEW or more, or three standard errors and ten points more."""
    if n == of >= FEW:
        return True
    return of >= ENOUGH and n / of >= chance + 0.1 and n - of * chance >= 3 * math.sqrt(of * chance * (1 - chance))


def _spreadsheet_damage(rows: Sequence[Example], lines: Sequence[int]) -> Iterable[Warned]:
    """Yield names that a spreadsheet made into dates or numbers, by line."""
    dates: list[tuple[str, str]] = []
    for row, line in zip(rows, lines or range(1, len(rows) + 1), strict=True):
        where = f"line {line}" if lines else row.id
        for name in _names(row):
            if any(each.fullmatch(name.strip()) for each in SPREADSHEET):
                dates.append((row.id, f"{where} {name.strip()!r}"))
    if dates:
        problem = f"names that a spreadsheet makes of gene symbols ({len(dates)}): {_name_places(dates)}"
        remedy = (
            "2-Sep may have been SEPTIN2, 1-Mar MARCHF1 or MTARC1, 2.31E+13 a RIKEN clone: write what it was, in a"
            " column that is formatted as text"
        )
        yield _warning("spreadsheet", problem, remedy, [row for row, _ in dates])


def _name_places(found: Sequence[tuple[str, str]]) -> str:
    told = "; ".join(dict.fromkeys(each for _, each in found[:LISTED]))
    return told if len(found) <= LISTED else f"{told}; and {len(found) - LISTED} further"


def _names(row: Example) -> set[str]:
    """Return the names that a row is about and that its truth holds."""
    truth = row.ground_truth.model_dump(include=NAMED)
    return {*row.subject, *_texts(truth)}


def _texts(value: Any) -> list[str]:
    """Return the texts in a value, at any depth."""
    if isinstance(value, str):
        return [value]
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return [text for each in inside for text in _texts(each)]


def _warning(check: str, problem: str, remedy: str, rows: Sequence[str]) -> Warned:
    return Warned(check=check, problem=problem, remedy=remedy, rows=tuple(dict.fromkeys(rows))[:SHOWN])
