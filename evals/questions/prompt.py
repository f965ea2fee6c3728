"""What a model is told before a question: explain, then end with an answer line and a confidence line.

    Answer: up / down / missions disagree / cannot be told from these data
    Confidence: N%

What may stand behind `Answer:` follows from the wording of the question and from the options that its
record lists, never from which of them is right: `answer_form` sees no truth.
"""

import re
from functools import cache, lru_cache

from evals.facts import load_hallmark
from evals.schema import (
    CANNOT_BE_TOLD,
    ChoiceTruth,
    Example,
    GroundTruth,
    Message,
    NumberTruth,
    OwnTruth,
    RubricTruth,
    SetTruth,
    TermTruth,
)
from evals.verifiers.expected import DIFFERENT, DIRECTIONS, LEVELS, SAME

ANSWER = "{answer}"
"""Stands in a chain's system prompt for what may stand behind `Answer:`; a prompt without it is used as it is."""

SYSTEM_PROMPT = (
    "Answer the biology question: explain in one or two short sentences, then end with two lines of the"
    f" form:\nAnswer: {ANSWER}\nConfidence: N%"
)
"""What every stage is told, in training, evaluation and the lab, with the question's own options filled in."""

SURE = 95
"""Percent that an answer states where it is the definition or stands in the tables (`kmp.toml`, DEFINED and TABLE)."""
OR_NOT = f"or {CANNOT_BE_TOLD}"
PHRASE = f"a few words, {OR_NOT}"
OPEN = f"a name, a number, yes or no, {OR_NOT}"

STANDS_FOR = re.compile(r"\bstand(?:s)? for\b|\bwhich process\b|\bset is about\b|\bis measured when\b", re.IGNORECASE)
SEVERAL = re.compile(r"\bmouse \w+(?:, \w+)* and \w+\b|\bbetween tissues\b", re.IGNORECASE)
FLIGHT = re.compile(r"\b(?:space)?fl(?:ight|own|ew)\b|\bmissions?\b", re.IGNORECASE)
CONSERVED = re.compile(r"\bpathway responses?\b|\bgene set scores of\b", re.IGNORECASE)


def with_answer(explanation: str, answer: str, level: int) -> str:
    """Return an answer in its one documented form: explanation, answer line, confidence line."""
    return with_confidence_line("\n".join(part for part in (explanation, f"Answer: {answer}") if part), level)


def with_confidence_line(text: str, level: int) -> str:
    """Return an answer in its one documented form: the text, then a last line "Confidence: N%"."""
    return f"{text}\nConfidence: {level}%"


def choices(options: tuple[str, ...], *, answerable: bool = False) -> str:
    """Return options as the prompt lists them, with the answer that is open unless all have one: "a / b / cannot …"."""
    return " / ".join(options if answerable else dict.fromkeys((*options, CANNOT_BE_TOLD)))


def answer_form(question: str, truth: GroundTruth | None = None) -> str:
    """Return what the prompt says may stand behind `Answer:`.

    Of `truth` only what the question's record shows to whoever answers is used: the options of a choice
    and the unit of a number. Everything else follows from the wording.
    """
    match truth:
        case ChoiceTruth():
            return choices(truth.options, answerable=truth.answerable)
        case OwnTruth(answerable=True):
            return answer_form(question, truth.model_copy(update={"answerable": False})).removesuffix(f", {OR_NOT}")
        case NumberTruth():
            return f"a number{f' ({truth.unit})' if truth.unit else ''}, {OR_NOT}"
        case SetTruth():
            return f"names with commas between them, {OR_NOT}"
        case TermTruth():
            return PHRASE
        case RubricTruth():
            return OPEN
        case _:
            return _by_wording(question)


def system_prompt(template: str, question: str, truth: GroundTruth | None = None) -> str:
    """Return a chain's system prompt for one question; a template without `{answer}` comes back unchanged."""
    return template.replace(ANSWER, answer_form(question, truth)) if ANSWER in template else template


def conversation(example: Example, template: str = SYSTEM_PROMPT) -> tuple[Message, ...]:
    """Return what the model is shown: the system text with the question's options, unless empty, then the question.

    Where the system text has no place for options, as that of an imported chain, they stand behind the question.
    """
    told = system_prompt(template, example.prompt, example.ground_truth)
    asked = Message(role="user", content=example.prompt + _options_behind(example, told))
    return (Message(role="system", content=told), asked) if told else (asked,)


def _options_behind(example: Example, told: str) -> str:
    """Return a line with the options, or the unit, that neither the system text nor the question names."""
    truth, form = example.ground_truth, answer_form(example.prompt, example.ground_truth)
    if isinstance(truth, NumberTruth):
        needed = (truth.unit,) if truth.unit else ()
    else:
        needed = truth.options if isinstance(truth, ChoiceTruth) else tuple(form.split(" / ")[:-1])
    shown = f"{told}\n{example.prompt}".casefold()
    if all(re.search(rf"(?<!\w){re.escape(each.casefold())}(?!\w)", shown) for each in needed):
        return ""
    return f"\n\nAnswer with {form}." if isinstance(truth, NumberTruth) else f"\n\nAnswer with one of: {form}."


@lru_cache(maxsize=4096)
def _by_wording(question: str) -> str:
    if not _gene_set_named().search(question):
        return choices(LEVELS) if CONSERVED.search(question) else OPEN
    if STANDS_FOR.search(question):
        return PHRASE
    if not FLIGHT.search(question):
        return OPEN
    return choices((SAME, DIFFERENT)) if SEVERAL.search(question) else choices(DIRECTIONS)


@cache
def _gene_set_named() -> re.Pattern[str]:
    """Return a pattern that finds the name of a Hallmark gene set, or a synonym of it."""
    names = {name for row in load_hallmark().values() for name in (row.name, *row.synonyms)}
    return re.compile(
        rf"(?<!\w)(?:{'|'.join(map(re.escape, sorted(names, key=len, reverse=True)))})(?!\w)", re.IGNORECASE
    )
