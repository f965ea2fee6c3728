"""What a question accepts as an answer, whatever the kind of its truth: the one shape that readers know.

    direct, uncertainty   choice of up, down, missions disagree
    comparison            choice of same direction, different directions
    conservation          choice of three levels
    label                 choice among the right name and those it competes with
    abstain               choice whose right answer is that the data cannot tell
    count                 number of genes
    mechanism             term: what the gene set stands for, in words that the question does not hold
    facts                 rubric

"Cannot be told from these data" competes in every kind.
"""

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib.resources import files
from typing import Literal, NamedTuple, TypeVar

from evals.facts import load_hallmark, load_terms
from evals.schema import (
    CANNOT_BE_TOLD,
    AbstainTruth,
    ChoiceTruth,
    Claim,
    ComparisonTruth,
    ConservationTruth,
    CountTruth,
    DirectTruth,
    FactsTruth,
    GroundTruth,
    LabelTruth,
    MechanismTruth,
    NumberTruth,
    RubricTruth,
    SetTruth,
    TermTruth,
    Tolerance,
    UncertaintyTruth,
)

DIRECTIONS = ("up", "down", "missions disagree")
SAME, DIFFERENT = "same direction", "different directions"
LEVELS = ("highly conserved", "moderately conserved", "poorly conserved")
AGREE = "missions agree"
"""Never offered, and wrong where missions disagree."""
ROUNDED_CREDIT = 0.5
"""What a count earns that the truth rounds to at the digits given."""
T = TypeVar("T")
Outcome = Literal["correct", "incorrect", "contradictory", "no_claim"]


class Finding(NamedTuple):
    """What a reader made of an answer. `credit` is what a correct one is worth, 0.5 to 1.

    An incorrect set of names has its F1 / 2 as credit; every other incorrect answer has 0.
    """

    verdict: Outcome
    reason: str
    answer: str | None = None
    claims: tuple[Claim, ...] = ()
    credit: float = 0.0


@dataclass(frozen=True, slots=True)
class Expected:
    """What counts as an answer to one question, and which answer is right.

    `right` is one of `options` (a choice), and `offered` are those that the prompt lists. `wordings` leads
    from each option, or name of a set, to other ways to say it. `accept` and `others` are the words of terms,
    folded. `subjects` are names of what the question is about; all are in lower case as people write them.
    """

    kind: Literal["choice", "number", "set", "term", "rubric"]
    right: str = ""
    options: tuple[str, ...] = ()
    offered: tuple[str, ...] = ()
    wordings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    number: float = 0.0
    unit: str | None = None
    tolerance: Tolerance | None = None
    rounded_credit: float = 0.0
    values: tuple[str, ...] = ()
    accept: tuple[frozenset[str], ...] = ()
    others: tuple[frozenset[str], ...] = ()
    rivals: Mapping[str, tuple[frozenset[str], ...]] = field(default_factory=dict)
    """`others` by one of their words each, so that a line is not compared with all of them."""
    subjects: tuple[str, ...] = ()
    by_wording: Mapping[str, str] = field(default_factory=dict)
    """From a wording, normalised, to its option; filled in by `_with_wordings`."""


def kept_by_truth(make: Callable[[GroundTruth], T]) -> Callable[[GroundTruth], T]:
    """Return the function, remembering what it made of each truth object.

    By identity: truths hold dicts and so have no hash, and a reward asks about the same row often.
    """
    known: dict[int, tuple[GroundTruth, T]] = {}

    def made(truth: GroundTruth) -> T:
        found = known.get(id(truth))
        if found is not None and found[0] is truth:
            return found[1]
        if len(known) > 8192:
            known.clear()
        known[id(truth)] = (truth, value := make(truth))
        return value

    return made


@cache
def terms(pathway: str) -> TermTruth:
    """Return what a gene set stands for, as the truth of a question: its own phrases, and those of other sets."""
    accept, row = _phrases(pathway), load_hallmark()[pathway]
    fits = {*accept, *load_terms()[pathway].get("near", ())}
    own = fold(" ".join((row.name, *row.synonyms, *accept)))
    rivals = {
        phrase: None
        for other in load_terms()
        if other != pathway
        for phrase in _phrases(other)
        if not fold(phrase) <= own and not any(fold(phrase) >= fold(each) for each in fits)
    }
    return TermTruth(accept=accept, others=(*load_terms()[pathway].get("against", ()), *rivals))


@lru_cache(maxsize=65536)
def fold(text: str) -> frozenset[str]:
    """Return the words of a phrase without their endings: "making fat cells" -> {mak, fat, cell}."""
    words = "".join(char if char.isalnum() else " " for char in text.casefold()).split()
    return frozenset(word if word in WHOLE else _stem(word) for word in words if word not in SMALL)


SMALL = frozenset(
    [
        "a",
        "an",
        "the",
        "of",
        "and",
        "or",
        "in",
        "to",
        "for",
        "from",
        "by",
        "with",
        "that",
        "this",
        "is",
        "are",
        "its",
        "it",
        "as",
    ]
)
WHOLE = frozenset(("fate",))
"""Words whose stem would be another word: the fate of cells is no fat."""
ENDINGS = (
    "ations",
    "ation",
    "ating",
    "ates",
    "ate",
    "ings",
    "ing",
    "ies",
    "ion",
    "ed",
    "es",
    "s",
    "e",
    "y",
)


def _stem(word: str) -> str:
    for ending in () if word.endswith("ss") else ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


def normalised(text: str) -> str:
    """Return a wording as it is compared: lower case, one blank for hyphens and other blanks, no marks."""
    if "-" in text:
        text = SIGN.sub("minus ", text)
    return " ".join(text.casefold().translate(_MARKS).split()).strip(" .,;:!")


SIGN = re.compile(r"(?<![\w.)])[-−](?=\.?\d)")


_MARKS = str.maketrans(
    {
        **dict.fromkeys("-_‐‑‒–—", " "),
        **dict.fromkeys("*`~\"“”„«»'‘’#$\\{}", None),
        "’": None,
        " ": " ",
    }
)


@cache
def shared_wordings() -> Mapping[str, tuple[str, ...]]:
    """Return the wordings of options that many questions share (words/options.toml)."""
    text = files("evals.verifiers").joinpath("words/options.toml").read_text(encoding="utf-8")
    return {option: tuple(words) for option, words in tomllib.loads(text).items()}


def _phrases(pathway: str) -> tuple[str, ...]:
    """Return what a set stands for, in phrases that say more than its own name does."""
    row = load_hallmark()[pathway]
    name = fold(row.name)
    phrases = dict.fromkeys((row.about, *load_terms()[pathway]["accept"]))
    return tuple(phrase for phrase in phrases if not fold(phrase) <= name)


@kept_by_truth
def expected(truth: GroundTruth) -> Expected:
    """Return what a question with this truth accepts."""
    match truth:
        case DirectTruth():
            return _choice(
                truth.direction.lower(), DIRECTIONS, subjects=_subjects(truth.pathway, truth.tissue)
            )
        case UncertaintyTruth():
            subjects = _subjects(truth.pathway, truth.tissue)
            return _choice(DIRECTIONS[2], DIRECTIONS, extra=(AGREE,), subjects=subjects)
        case ComparisonTruth():
            right = SAME if truth.is_consistent else DIFFERENT
            subjects = _subjects(truth.pathway, *truth.tissue_directions)
            return _choice(right, (SAME, DIFFERENT), subjects=subjects)
        case ConservationTruth():
            return _choice(truth.level, LEVELS, subjects=(truth.tissue,))
        case LabelTruth():
            options = (truth.value, *truth.others)
            return _choice(
                truth.value, options, (), {truth.value: truth.accept}, _words(truth.subject)
            )
        case ChoiceTruth():
            return _choice(truth.value, truth.options, aliases=truth.aliases)
        case AbstainTruth() | NumberTruth(value=None) | SetTruth(values=()) | TermTruth(accept=()):
            return _choice(
                CANNOT_BE_TOLD,
                tuple(each for each in shared_wordings() if each not in ("yes", "no")),
                (),
            )
        case CountTruth():
            return Expected(
                kind="number",
                number=float(truth.value),
                unit="DEGs",
                rounded_credit=ROUNDED_CREDIT,
                subjects=_words(truth.subject),
                by_wording=_table((CANNOT_BE_TOLD,), {}),
            )
        case NumberTruth():
            return Expected(
                kind="number",
                number=truth.value or 0.0,
                unit=truth.unit,
                tolerance=truth.tolerance,
                rounded_credit=truth.rounded_credit,
                by_wording=_table((CANNOT_BE_TOLD,), {}),
            )
        case SetTruth():
            return Expected(
                kind="set",
                values=truth.values,
                wordings=truth.aliases,
                by_wording=_table((*truth.values, CANNOT_BE_TOLD), truth.aliases),
            )
        case MechanismTruth():
            return _term(terms(truth.pathway), _subjects(truth.pathway, truth.tissue))
        case TermTruth():
            return _term(truth, ())
        case FactsTruth() | RubricTruth():
            return Expected(kind="rubric")


def _choice(
    right: str,
    options: tuple[str, ...],
    offered: tuple[str, ...] | None = None,
    aliases: Mapping[str, tuple[str, ...]] | None = None,
    subjects: tuple[str, ...] = (),
    extra: tuple[str, ...] = (),
) -> Expected:
    known = tuple(dict.fromkeys((*options, *extra, CANNOT_BE_TOLD)))
    return Expected(
        kind="choice",
        right=right,
        options=known,
        offered=(*(options if offered is None else offered), CANNOT_BE_TOLD)
        if offered != ()
        else (),
        wordings={option: (aliases or {}).get(option, ()) for option in known},
        subjects=subjects,
        by_wording=_table(known, aliases or {}),
    )


def _term(truth: TermTruth, subjects: tuple[str, ...]) -> Expected:
    return Expected(
        kind="term",
        accept=tuple(map(fold, truth.accept)),
        others=tuple(map(fold, truth.others)),
        rivals=_by_word(map(fold, truth.others)),
        subjects=subjects,
        by_wording=_table((CANNOT_BE_TOLD,), {}),
    )


def _by_word(phrases: Iterable[frozenset[str]]) -> dict[str, tuple[frozenset[str], ...]]:
    found: dict[str, tuple[frozenset[str], ...]] = {}
    for phrase in phrases:
        if phrase:
            word = max(phrase, key=lambda each: (len(each), each))
            found[word] = (*found.get(word, ()), phrase)
    return found


def _table(options: Iterable[str], aliases: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """Return every wording of the options with its option; an option's own name goes before any alias."""
    found: dict[str, str] = {}
    shared = shared_wordings()
    options = tuple(options)
    for option in options:
        found.setdefault(normalised(option), option)
    for option in options:
        for word in aliases.get(option, ()):
            found.setdefault(normalised(word), option)
    for option in options:
        for word in shared.get(option.casefold(), ()):
            found.setdefault(normalised(word), option)
    return found


def _subjects(pathway: str, *tissues: str) -> tuple[str, ...]:
    row = load_hallmark().get(pathway)
    names = (
        (row.name, *row.synonyms) if row else (pathway.removeprefix("HALLMARK_").replace("_", " "),)
    )
    return (*tissues, *(name.casefold() for name in names))


def _words(subject: str | None) -> tuple[str, ...]:
    return (subject.casefold(),) if subject else ()
