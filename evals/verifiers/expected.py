"""What a question accepts as an answer, whatever the kind of its truth: the one shape that readers know.

A choice (of directions, levels, labels), a number, a term, a set of names, or a rubric: docs/verifiers.md says which
kind of truth is read as what. "Cannot be told from these data" competes in every kind.
"""

import re
import tomllib
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeVar

from evals import schema
from evals.facts import load_hallmark, load_terms
from evals.schema import CANNOT_BE_TOLD, Claim, GroundTruth, TermTruth, Tolerance
from evals.wording import GREEK, level

DIRECTIONS = ("up", "down", "missions disagree")
SAME, DIFFERENT = "same direction", "different directions"
LEVELS = ("highly conserved", "moderately conserved", "poorly conserved")
AGREE = "missions agree"
"""Never offered, and wrong where missions disagree."""
ROUNDED_CREDIT = 0.5
"""What a count earns that the truth rounds to at the digits given."""
T = TypeVar("T")
Outcome = Literal["correct", "incorrect", "contradictory", "no_claim"]
BRITISH = re.compile(r"(?<=\w\w)ou(?=r(?:s|ed|ing|al)?\b)|a(?=e[a-z]{2})|\bo(?=e[a-z]{2})|(?<=f)o(?=et)", re.IGNORECASE)
HYPHEN = re.compile(r"(?<=\w)-")
"""One within a name; before a number it is a sign."""
BEFORE_DIGIT = re.compile(r"(?<=[A-Za-z]{2})(?=\d)")
SIGN = re.compile(r"(?<![\w.)])[-−](?=\.?\d)")
TEXT = re.compile(r"\\(?:text|mathrm|textbf|mathbf)\{([^{}]*)\}")
"""Words amid LaTeX."""
_MARKS = str.maketrans(
    {**GREEK, **dict.fromkeys("-_‐‑‒–—", " "), **dict.fromkeys("*`~\"“”„«»'‘’#$\\{}", None), "’": None, " ": " "}
)


class AnswerReading(NamedTuple):
    """What a reader made of an answer. `credit` is what a correct one is worth, 0.5 to 1.

    An incorrect set of names has its F1 / 2 as credit; every other incorrect answer has 0. `is_letter` says that the
    answer names an option by its letter.
    """

    verdict: Outcome
    reason: str
    answer: str | None = None
    claims: tuple[Claim, ...] = ()
    credit: float = 0.0
    is_letter: bool = False


@lru_cache(maxsize=8192)
def claim(subject: str, says: str, start: int, end: int, is_denied: bool = False) -> Claim:
    """Return a claim at a place in an answer. Not validated: a text may hold half a surrogate."""
    return Claim.model_construct(subject=subject, says=says, start=start, end=end, about="answer", is_denied=is_denied)


class Authority(NamedTuple):
    """What verdicts call the source of the right answer, and how they say that it agrees, or cannot tell."""

    name: str
    say: str
    agrees: str
    untold: str
    beyond: str


DATA = Authority("data", "the data say", "as the data do", "the data cannot tell; they say", "the data cannot tell")
KEY = Authority(
    "answer key",
    "the answer key says",
    "as the answer key does",
    "it cannot be told; the answer key says",
    "cannot be told",
)
"""Of a question of one's own."""


@dataclass(frozen=True, slots=True, eq=False)
class Expected:
    """What counts as an answer to one question, and which answer is right.

    `right` is one of `options` (a choice), and `offered` are those that the prompt lists. `wordings` leads
    from each option, or name of a set, to other ways to say it, `by_wording` from each of them, normalised, to
    its option. `accept` are the words of terms, folded; so are those of `others`, by one word each, so that an
    answer is not compared with all. `subjects` are names of what the question is about, as people write them. `has_letters`: the options are A, B, C … in
    their order.
    Compared by identity, so that readers can remember what they make for a question.
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
    others: Mapping[str, tuple[frozenset[str], ...]] = field(default_factory=dict)
    subjects: tuple[str, ...] = ()
    by_wording: Mapping[str, str] = field(default_factory=dict)
    has_letters: bool = False
    is_description: bool = False
    source: Authority = DATA


def cache_by_truth(make: Callable[[GroundTruth], T]) -> Callable[[GroundTruth], T]:
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
def words(name: str) -> Mapping[str, Any]:
    """Return a table of words: `evals/verifiers/words/<name>.toml`."""
    return tomllib.loads(files("evals.verifiers").joinpath(f"words/{name}.toml").read_text(encoding="utf-8"))


@cache
def pattern(name: str) -> re.Pattern[str]:
    """Return a regular expression of `evals/verifiers/words/patterns.toml`."""
    return re.compile(words("patterns")[name].replace("\n", ""), re.IGNORECASE)


@cache
def word_set(table: str, key: str) -> frozenset[str]:
    """Return the words, with blanks between them, under a key of a table."""
    return frozenset(str(words(table)[key]).split())


@cache
def symbols() -> tuple[Mapping[str, tuple[str, ...]], ...]:
    """Return the tables of things with several names: each leads from a name, normalised, to all of the same thing."""
    return tuple(
        {normalise(name): (full, *names) for full, names in table.items() for name in (full, *names)}
        for table in words("units")["symbols"].values()
    )


def _other_names(
    options: tuple[str, ...], aliases: Mapping[str, tuple[str, ...]], has_letters: bool = False
) -> dict[str, tuple[str, ...]]:
    """Return the aliases of options, and their other names where all are of one table of symbols."""
    names = [option for option in options if option != CANNOT_BE_TOLD]
    table = next((each for each in symbols() if all(normalise(name) in each for name in names)), {})
    found = {
        name: tuple(other for other in table.get(normalise(name), ()) if len(other) > 1 or not has_letters)
        for name in names
    }
    return {name: (*aliases.get(name, ()), *found.get(name, ())) for name in options}


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
    parts = "".join(char if char.isalnum() else " " for char in one_spelling(text).casefold()).split()
    return frozenset(map(_stem, set(parts) - word_set("stems", "small")))


def one_spelling(text: str) -> str:
    """Return the text with each letter in its one form (NFKC), digits on the line, and in one spelling: tumour is tumor."""
    text = level(text) if "<" in text or not text.isascii() else text
    return american(text if text.isascii() else unicodedata.normalize("NFKC", text))


def american(text: str) -> str:
    """Return the text with tumor for tumour, hemoglobin for haemoglobin and estrogen for oestrogen."""
    if "our" not in text and "ae" not in text and "oe" not in text and "Oe" not in text:
        return text
    return BRITISH.sub(lambda found: found[0][0] if len(found[0]) > 1 else "", text)


def _stem(word: str) -> str:
    if not word.endswith("ss") and word not in word_set("stems", "whole"):
        for ending in words("stems")["endings"].split():
            if word.endswith(ending) and len(word) - len(ending) >= 3:
                return word[: -len(ending)]
    return word


@lru_cache(maxsize=8192)
def normalise(text: str) -> str:
    """Return a wording as it is compared: lower case, one blank for hyphens and other blanks, no marks."""
    text = one_spelling(text)
    if "\\" in text:
        text = TEXT.sub(r" \1 ", text)
    if "-" in text:
        text = SIGN.sub("minus ", text)
    return " ".join(text.casefold().translate(_MARKS).split()).strip(" .,;:!")


def _phrases(pathway: str) -> tuple[str, ...]:
    row = load_hallmark()[pathway]
    name = fold(row.name)
    phrases = dict.fromkeys((row.about, *load_terms()[pathway]["accept"]))
    return tuple(phrase for phrase in phrases if not fold(phrase) <= name)


@cache_by_truth
def expected_answer(truth: GroundTruth) -> Expected:
    """Return what a question with this truth accepts."""
    made = _expected(truth)
    return replace(made, source=KEY) if isinstance(truth, schema.OwnTruth) else made


def _expected(truth: GroundTruth) -> Expected:
    abstain = _table((CANNOT_BE_TOLD,), {})
    match truth:
        case schema.DirectTruth():
            return _choice(truth.direction.lower(), DIRECTIONS, subjects=_subjects(truth.pathway, truth.tissue))
        case schema.UncertaintyTruth():
            subjects = _subjects(truth.pathway, truth.tissue)
            return _choice(DIRECTIONS[2], DIRECTIONS, extra=(AGREE,), subjects=subjects)
        case schema.ComparisonTruth():
            subjects = _subjects(truth.pathway, *truth.tissue_directions)
            return _choice(SAME if truth.is_consistent else DIFFERENT, (SAME, DIFFERENT), subjects=subjects)
        case schema.ConservationTruth():
            return _choice(truth.level, LEVELS, subjects=(truth.tissue,))
        case schema.LabelTruth():
            aliases, subjects = {truth.value: truth.accept}, _words(truth.subject)
            return _choice(truth.value, (truth.value, *truth.others), aliases, subjects, is_offered=False)
        case schema.ChoiceTruth():
            aliases = _other_names(truth.options, truth.aliases, truth.lettered)
            return replace(_choice(truth.value, truth.options, aliases), has_letters=truth.lettered)
        case (
            schema.AbstainTruth()
            | schema.NumberTruth(value=None)
            | schema.SetTruth(values=())
            | schema.TermTruth(accept=())
        ):
            options = tuple(each for each in words("options") if each not in ("yes", "no", "true", "false"))
            return _choice(CANNOT_BE_TOLD, options, is_offered=False)
        case schema.CountTruth(value=value):
            made = Expected("number", number=float(value), unit="DEGs", by_wording=abstain)
            return replace(made, rounded_credit=ROUNDED_CREDIT, subjects=_words(truth.subject))
        case schema.NumberTruth(value=value, unit=unit, tolerance=tolerance, rounded_credit=credit):
            made = Expected("number", number=value or 0.0, unit=unit, by_wording=abstain)
            return replace(made, tolerance=tolerance, rounded_credit=credit)
        case schema.SetTruth(values=names, aliases=aliases):
            aliases = _other_names(names, aliases)
            table = _table((*names, CANNOT_BE_TOLD), aliases)
            has_letters = all(re.fullmatch("[A-J]", name) for name in (*names, *aliases))
            return Expected("set", values=names, wordings=aliases, by_wording=table, has_letters=has_letters)
        case schema.MechanismTruth():
            asked = _term(terms(truth.pathway), abstain, _subjects(truth.pathway, truth.tissue))
            return replace(asked, is_description=True)
        case schema.TermTruth():
            return _term(truth, abstain)
        case schema.FactsTruth() | schema.RubricTruth():
            return Expected("rubric")


def _choice(
    right: str,
    options: tuple[str, ...],
    aliases: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
    subjects: tuple[str, ...] = (),
    extra: tuple[str, ...] = (),
    is_offered: bool = True,
) -> Expected:
    known = tuple(dict.fromkeys((*options, *extra, CANNOT_BE_TOLD)))
    offered = (*options, CANNOT_BE_TOLD) if is_offered else ()
    wordings = {option: aliases.get(option, ()) for option in known}
    return Expected("choice", right, known, offered, wordings, subjects=subjects, by_wording=_table(known, aliases))


def _term(truth: TermTruth, abstain: Mapping[str, str], subjects: tuple[str, ...] = ()) -> Expected:
    others: dict[str, tuple[frozenset[str], ...]] = {}
    for phrase in filter(None, map(fold, truth.others)):
        word = max(phrase, key=lambda each: (len(each), each))
        others[word] = (*others.get(word, ()), phrase)
    accept = tuple(map(fold, truth.accept))
    return Expected("term", accept=accept, others=others, subjects=subjects, by_wording=abstain)


def _table(options: Iterable[str], aliases: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """Return every wording of the options with its option; an option's own name goes before any alias."""
    options = tuple(options)
    own = {option: (option,) for option in options}
    shared = {option: words("options").get(option.casefold(), ()) for option in options}
    found: dict[str, str] = {}
    for source in (own, aliases, shared):
        for option in options:
            for wording in source.get(option, ()):
                for form in (wording, HYPHEN.sub("", wording), BEFORE_DIGIT.sub(" ", wording)):  # IL-6 and IL6
                    found.setdefault(normalise(form), option)
    for wording, option in list(found.items()):  # "hydrolase" for "hydrolases", "red blood cells" for "red blood cell"
        if len(wording) > 5 and wording[-1] == "s" and wording[-2] not in "sui":
            found.setdefault(f"{wording[:-3]}y" if wording.endswith("ies") else wording[:-1], option)
        elif len(wording) > 3 and wording[-1].isalpha():
            found.setdefault(f"{wording}s", option)
    return found


def _subjects(pathway: str, *tissues: str) -> tuple[str, ...]:
    row = load_hallmark().get(pathway)
    names = (row.name, *row.synonyms) if row else (pathway.removeprefix("HALLMARK_").replace("_", " "),)
    return (*tissues, *map(str.casefold, names))


def _words(subject: str | None) -> tuple[str, ...]:
    return (subject.casefold(),) if subject else ()
