r"""Read the last lines of an answer: `Answer: …` and `Confidence: N%`.

    "It falls in two missions.\n**Answer:** Down.\nConfidence: 80%"   ->  answer "Down", confidence 0.8
    "<think>Answer: up</think>\nAnswer: down"                         ->  answer "down"
    "so it falls: \\boxed{down}", "<answer>down</answer>"             ->  answer "down"
    "> Answer: up\nIt cannot be told."                                ->  no answer line

Thought blocks and quoted lines are left out first. What is marked as the answer (tags, the key of JSON, a box where there
is no line) is an answer line. The last one counts; with an earlier one that says something else it is contradictory. Behind
the colon only the question's own options, number or term are looked for.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from string import ascii_uppercase
from typing import NamedTuple

from evals.schema import CANNOT_BE_TOLD, Claim, StatedConfidence
from evals.verifiers.expected import TEXT, AnswerReading, Expected, claim, fold, normalise, pattern, word_set
from evals.verifiers.expected import words as words_of
from evals.verifiers.numbers import SHARE, Number, numbers_in, unit_of
from evals.verifiers.text.lexicon import excludes, reply_at, tokens
from evals.wording import FIGURE, MISSING, plain, share_of

ANSWER, CONFIDENCE, BEHIND_ANSWER, BEFORE_ANSWER, IS = (
    "|".join(str(words_of("labels")[key]).split()) for key in ("answer", "confidence", "beside", "before", "is")
)
LINE = re.compile(
    rf"^[^A-Za-z0-9\n>]{{0,12}}(?:\d{{1,2}}[.)] *)?[*_]{{0,3}}(?:(?:(?:my |the |your )?final|(?:die )?(?:{BEFORE_ANSWER})) )?"
    rf"(?:(?P<answer>{ANSWER})|{CONFIDENCE})(?: line| level| (?:{BEHIND_ANSWER}))?[^\w\n]{{0,4}}?[:=：][ \t]*(?P<value>.*)$",
    re.IGNORECASE | re.MULTILINE,
)
COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
BOXED = re.compile(r"(.?)\\boxed\{((?:[^{}]|\{[^{}]*\})*)\}")
LABEL = "\nAnswer:"
AGAIN = re.compile(r"(?<=\S)\s*\n[ \t*#_>`]*(?:[a-z]+ )?(?:question|q)\b(?:[^\n:]{0,12}:|[ \d*]*(?=\n))", re.IGNORECASE)
"""Behind an answer: a base model asks again, or something else."""
SAYS_ANSWER = re.compile(r"\b(?:answer|option|choice) (?:is|would be)\b", re.IGNORECASE)
TAG = re.compile(r"[\[<](/?)(?:final[ _]?)?answer[\]>](?=(\s*(?:final )?answer\b)?)", re.IGNORECASE)
"""Around an answer: "<answer>down</answer>", "[ANSWER]B[/ANSWER]"."""
KEYED = re.compile(
    r"([{,]\s*\"(?:final[ _]?)?answer(?:[ _](?:choice|option|letter))?\"\s*:)"
    r"(?:(\s*(?:\"(?:[^\"\\]|\\.)*\"|\[[^\]]*\]|[^,}\"\[]*))(?:\s*[,}]|\Z))?",
    re.IGNORECASE,
)
""" `{"answer_choice": "C", "reasoning": "…"}`: the key, and its value up to the next one."""
BELOW = re.compile(
    r"(?:[ \t]*\n)+((?:(?![^\n]{0,40}\b(?:answer|confidence)\b)[^\n]{0,1000}\S[^\n]*(?:\n|\Z))+)", re.IGNORECASE
)
"""The lines below an empty answer line, up to a blank one."""
SHORT = 100
"""Characters of such lines that are an answer; more are a text."""
BULLETED = re.compile(r"^(?:[-*•–+]|\d{1,2}[.)])[ \t]+(?=\S)")
ASIDE = re.compile(r"\((?!\s*(?:or|also|maybe|perhaps|possibly)\b)[^()]*\)", re.IGNORECASE)
"""What stands in brackets, but for another answer: "TP53 (or MDM2)"."""
QUOTED = re.compile(r"^[ \t]{0,3}>.*$", re.MULTILINE)
MARKS = " \t*_`~\"'“”‘’|#$\\{}()[]<>"
PERCENT = re.compile(rf"(?:about |around |~|≈)?(?P<figure>{FIGURE})(?!.*\d)")
RANGE = re.compile(r"\d ?%? ?(?:-|~|to) ?\d")
TEMPLATE = frozenset(("", "…", "...", "n%", "answer", "your answer", "option", "<answer>", "the answer"))
HEDGE = re.compile(r"\b(?:don t|do not|dont) know\b|\bnot sure\b|\bunsure\b|\bdepends\b")
BREAK = re.compile(
    r"\b(?:but|however|so|(?:it|they|there|one) (?=is|are|has|have|was|were|contains|uses|carries))\b|[,;:.()]"
)
NOTHING = "(?!)"
PIECE = re.compile(r"[,;()]|\bbut\b|\b(?=(?:rather than|instead of|in place of|as opposed to)\b)")
APART = re.compile(r"[,;:()/|\n—–]|\s-\s|\.\s|\b(?:but|or|and|maybe|perhaps|if)\b")
MORE = re.compile(
    r"(?:\W*(?:\band\b|\bor\b|[,;/&+])\W*(?:option |choice )?\(?[A-Za-z](?![\w'’]))+[\W_]*$", re.IGNORECASE
)
BEHIND = re.compile(r"\s*[().:;,\]}*$–—-]")
OF_SET = re.compile(r"(?<![\w'’-])(?:[B-HJ]|[AI](?=[\s*)]*(?:\Z|\n|(?:and|or|is|are)\b)|[\s*]*[).:,;*]))(?![\w'’+-])")
"""A letter that is an option's, not an article."""
CALLED_RIGHT = re.compile(
    rf"{pattern('stated_set').pattern}[^\n]*|\b[A-J]\b(?:(?:\W|\band\b|\bor\b)*\b[A-J]\b){{0,9}}\W* (?:is|are) (?:both |all )?(?:correct|right|true)\b",
    re.I,
)
LISTED = re.compile(r"^([A-J])[.):] ", re.MULTILINE)
SET_DENIED = re.compile(rf"(?:(?:\W|\band\b|\bor\b)*\b[A-J]\b){{0,9}}{pattern('is_wrong').pattern}")
ALTERNATIVE = re.compile(r"[,;/|\n]|\b(?:or|vs|versus|and|plus|as well as)\b|&", re.IGNORECASE)
BULLET = r"[ \t]*(?:[-*•]|\d+[.)])\s"
NOT_NAME = re.compile(
    rf"^{BULLET}|\b(?:the|a|an|also|then|finally|both|either|but|even|maybe|perhaps|possibly|probably)\b|[:.–—].*$",
    re.IGNORECASE,
)
PARTS = pattern("parts")
NAMED = re.compile(r"\s*the( \w+){1,2}\s*$", re.IGNORECASE)
EITHER = re.compile(r"[;/|\n]|\b(?:or|vs|versus)\b", re.IGNORECASE)


Reader = Callable[[Expected, str, str], AnswerReading]


class LastAnswer(NamedTuple):
    """The text behind the last "Answer:", where that label ends (`at`), and where the text ends."""

    text: str
    at: int
    end: int


def last_answer(text: str) -> LastAnswer | None:
    r"""Return the last answer line of a text that is not empty; None if there is none.

    >>> last_answer("It falls.\nAnswer: Down.\nConfidence: 80%")
    LastAnswer(text='Down.', at=17, end=23)
    """
    lines = [each for each in LINE.finditer(text) if each["answer"] and each["value"].strip()]
    if not lines:
        return None
    last, start = lines[-1]["value"].strip(), lines[-1].start("value")
    return LastAnswer(last, len(text[:start].rstrip()), start + len(last))


class Lines(NamedTuple):
    """What the last lines hold. `answer` None = there is no answer line; `start` and `end` are its place.

    `also` is what an earlier answer line says otherwise. `explanation` is what stands before the first line and behind the last.
    """

    answer: str | None
    also: str | None
    start: int
    end: int
    confidence: StatedConfidence
    explanation: str


def read_lines(text: str) -> Lines:
    """Return the answer line, the confidence line and the explanation of an answer. Time is linear in its length."""
    text = without_thought(text)
    if ">" in text:
        text = blank(QUOTED, blank(COMMENT, text))
    text = mark_answers(text)
    answer = also = None
    start = end = last = 0
    first: int | None = None
    confidence = MISSING
    for line in LINE.finditer(text):
        value, at, last = line["value"].strip(), line.start("value"), line.end()
        if first is None:
            first = line.start()
        if line["answer"]:
            if beside := pattern("beside").search(value):
                confidence = _confidence(value[beside.end() :], confidence)
                value = value[: beside.start()]
            elif (bare := BULLETED.sub("", value)) != value or not value.strip(MARKS):
                items, last = _items(text, last)
                value = ", ".join([*([bare] if value.strip(MARKS) else []), *items]) if items else value
                if not value.strip(MARKS) and (below := BELOW.match(text, last)):
                    if len(below[1]) > SHORT:
                        continue
                    value, last = ", ".join(below[1].split("\n")).strip(" ,"), below.end()
                    at = below.start(1)
                if answer and not value.strip(MARKS):
                    continue
            if answer is not None and answer.casefold() != value.casefold():
                also = answer
            answer, start, end = value, at, max(at, min(last, at + len(value)))
        else:
            confidence = _confidence(value, confidence)
    explanation = text if first is None else f"{text[:first]}\n{text[last:]}"
    return Lines(answer, also, start, end, confidence, explanation.strip())


def mark_answers(text: str) -> str:
    """Return the text with an answer line for all that is marked as the answer, without what is asked behind it.

    Places stay where they were.
    """
    if "\\" in text:
        text = TEXT.sub(lambda found: f"{found[1]:>{len(found[0]) - 1}} ", text)
    if "[/" in text or "</" in text:
        text = TAG.sub(lambda tag: ("\n" if tag[1] or tag[2] else LABEL).rjust(len(tag[0])), text)
    if "{" in text:
        text = KEYED.sub(lambda key: f"{LABEL.rjust(len(key[1]))}{key[2] or ''}".ljust(len(key[0]), "\n"), text)
    if "\\boxed" in text:
        label, end = ("       ", " ") if _answers(text) else (LABEL, "\n")
        text = BOXED.sub(lambda box: f"{(box[1] + label)[-7 - len(box[1]) :]}{box[2]}{end}", text)
    again = AGAIN.search(text)
    if again is None:
        return text
    before, behind = text[: again.start()], text[again.end() :]
    return before if _answers(before) or SAYS_ANSWER.search(before) or not _answers(behind) else text


def _answers(text: str) -> bool:
    """Say whether a text has an answer line that is not empty."""
    return any(line["answer"] and line["value"].strip(MARKS) for line in LINE.finditer(text))


def _items(text: str, end: int) -> tuple[list[str], int]:
    """Return the bulleted lines that follow an answer line, empty or itself the first of them, and where they end."""
    items = []
    while item := pattern("item").match(text, end):
        items.append(item[1].strip())
        end = item.end()
    return items, end


def blank(pattern: re.Pattern[str], text: str) -> str:
    """Return the text with blanks for what a pattern finds, so that places stay where they were."""
    return pattern.sub(lambda found: " " * len(found[0]), text)


def without_thought(text: str) -> str:
    """Return the text with everything up to the last closing thought mark blanked, and what an open one starts.

    Places stay where they were, so offsets are those of the text that came in.
    """
    if "<" not in text and "◁" not in text and "[" not in text:
        return text
    closed, opened = 0, None
    for mark in pattern("thought").finditer(text):
        if "/" in mark[0] or mark[2]:
            closed, opened = mark.end(), None
        elif opened is None:
            opened = mark.start()
    kept = text[closed : len(text) if opened is None else opened]
    return " " * (closed - 1) + "\n" + kept if closed else kept


def read_answer_line(expected: Expected, question: str, lines: Lines, read: Reader) -> AnswerReading:
    """Return the reading of the answer line; no_claim where nothing in it can be checked."""
    reading = _read_values(expected, question, lines.answer or "", lines.also, read)
    if not reading.claims:
        return reading
    return reading._replace(claims=_claims([each.says for each in reading.claims], lines.start, lines.end))


@lru_cache(maxsize=4096)
def _read_values(expected: Expected, question: str, value: str, also: str | None, read: Reader) -> AnswerReading:
    """Return the reading of the last answer line and of an earlier, different one (`also`); cached, for models repeat themselves."""
    says = normalise(value)
    if says in TEMPLATE or value.strip(MARKS + ".…") == "":
        return AnswerReading("no_claim", "the answer line is empty")
    if len(value) >= len(question) - 2 > 20 and normalise(question).strip(" ?") in says:
        return AnswerReading("no_claim", "it repeats the question")
    reading = read(expected, question, value)
    if also is None:
        return reading
    other = read(expected, question, also)
    is_same = other.verdict == reading.verdict and (reading.verdict == "correct" or other.answer == reading.answer)
    if not is_same and "no_claim" not in (other.verdict, reading.verdict):
        return AnswerReading(
            "contradictory", f"two answer lines: {also!r} and {value!r}", reading.answer, reading.claims
        )
    return other if reading.verdict == "no_claim" else reading


def read_short(expected: Expected, question: str, text: str, read: Reader) -> AnswerReading:
    """Return what a text of a few words says, as if it stood on an answer line."""
    says = normalise(text)
    is_sentence = "confidence" in says or (expected.kind == "choice" and says not in expected.by_wording)
    if (
        is_sentence
        or (expected.kind != "number" and excludes(text))
        or says in TEMPLATE
        or says.endswith("?")
        or HEDGE.search(says)
        or fold(says) <= fold(question)
    ):
        return AnswerReading("no_claim", "it says nothing of the question")
    reading = read(expected, question, text)
    return reading._replace(claims=_claims([each.says for each in reading.claims], 0, len(text)))


def read_value(expected: Expected, question: str, value: str) -> AnswerReading:
    """Return what a line says but for numbers."""
    match expected.kind:
        case "choice":
            return _choice(expected, question, value)
        case "term":
            return _term(expected, question, value)
        case "set":
            return _set(expected, question, value)
        case _:
            return AnswerReading("no_claim", "a free answer; a judge can grade it", value)


def _claims(says: Iterable[str], start: int = 0, end: int = 0) -> tuple[Claim, ...]:
    return tuple(claim("answer line", each, start, end) for each in says)


def _choice(expected: Expected, question: str, value: str) -> AnswerReading:
    says = normalise(value)
    option = expected.by_wording.get(says)
    if option is not None:
        return _verdict(expected, option)
    letters = read_letters(value, n_lettered(expected)) if expected.has_letters or len(value) < 24 else None
    if letters and expected.has_letters:
        return letters_verdict(expected, *letters)
    asserted, denied = options_in(says, expected.by_wording)
    if expected.right == CANNOT_BE_TOLD and not expected.offered:
        return _abstention(expected, question, value, asserted)
    if len(asserted) == 1:
        return _verdict(expected, asserted[0])
    if not asserted and letters:
        return letters_verdict(expected, *letters)
    if not asserted and (option := _yes_or_no(expected, value)):
        return _verdict(expected, option)
    if not asserted:
        what = f"it only denies {', '.join(denied)}" if denied else "it names no option of the question"
        return AnswerReading("no_claim", what)
    if {*(expected.offered or expected.options)} - {CANNOT_BE_TOLD} <= {*asserted}:
        return AnswerReading("no_claim", "it repeats the options of the question")
    if not expected.offered and expected.right not in asserted:
        return _verdict(expected, asserted[0])
    return contradictory_reading(asserted)


def _yes_or_no(expected: Expected, value: str) -> str | None:
    """Return the option that a reply in other words stands for where they are yes and no: "absolutely not"."""
    if "yes" not in expected.by_wording or "no" not in expected.by_wording:
        return None
    parts = [*tokens(plain(value).text), "."]
    word, _, end = reply_at(parts) or ("", 0, 0)
    return expected.by_wording[word] if word and parts[end] in ".,;:-(" else None


def n_lettered(expected: Expected) -> int:
    """Return how many options a letter can name: "cannot be told", which we add, has none."""
    return len(expected.options) - (expected.options[-1:] == (CANNOT_BE_TOLD,))


def read_letters(value: str, n_options: int) -> tuple[list[int], str] | None:
    """Return the options, 0 .. n_options - 1, that a line names by letter, and the text behind; None where it names none.

    "C", "(c)", "Option C", "The answer is C.", "C) spleen", "A or C"; "a" and "I" before another word are words.
    """
    found = pattern("letter").fullmatch(value.strip(MARKS + ".:;,-–—"))
    if found is None or ord(found["letter"].lower()) - ord("a") >= n_options:
        return None
    first, rest = found["letter"], found["rest"]
    if rest and not MORE.match(rest) and not BEHIND.match(rest) and (first.islower() or first in "AI"):
        return None
    letters = [first, *re.findall(r"(?<![\w'’])[A-Za-z](?![\w'’])", more[0])] if (more := MORE.match(rest)) else [first]
    return [ord(each.lower()) - ord("a") for each in letters], "" if more else behind_letter(rest)


def behind_letter(rest: str) -> str:
    """Return the sentence behind a letter, without what parts them; a minus belongs to a number."""
    return re.split(r"[.;]\s", rest.strip(MARKS + ".:;,"))[0]


def letters_verdict(expected: Expected, letters: list[int], rest: str, start: int = 0, end: int = 0) -> AnswerReading:
    """Return the verdict on options named by letter; no_claim, but marked `is_letter`, where the question has no letters."""
    if not expected.has_letters:
        return AnswerReading(
            "no_claim", "it names a letter, and the options of this question have none", is_letter=True
        )
    named = list(dict.fromkeys(expected.options[each] for each in letters if each < n_lettered(expected)))
    named = list(dict.fromkeys((*named, *options_in(normalise(rest), expected.by_wording)[0])))
    reading = _verdict(expected, named[0]) if len(named) == 1 else contradictory_reading(named)
    return reading._replace(is_letter=True, claims=_claims([each.says for each in reading.claims], start, end))


def _abstention(expected: Expected, question: str, value: str, asserted: list[str]) -> AnswerReading:
    says = normalise(value)
    if CANNOT_BE_TOLD in asserted:
        if len(asserted) > 1 and (says.count("/") > 1 or says.count(",") > 1):
            return AnswerReading("no_claim", "it repeats the options of the question")
        beside = asserted[1:] if asserted[0] == CANNOT_BE_TOLD else asserted[:1]
        if beside := beside or _beside(expected, question, value):
            return contradictory_reading([CANNOT_BE_TOLD, *beside])
        return _verdict(expected, CANNOT_BE_TOLD)
    if fold(says) <= fold(question) or HEDGE.search(says):
        return AnswerReading("no_claim", "it says nothing of the question")
    return _verdict(expected, says)


def _beside(expected: Expected, question: str, value: str) -> list[str]:
    """Return what a line answers beside "cannot be told": "4 or cannot be told". A reason for it is no answer."""
    no_answer = word_set("stems", "denial") | word_set("stems", "explains")
    rest = _pattern(frozenset(expected.by_wording)).sub(",", value.casefold())
    return [
        piece
        for piece in map(normalise, APART.split(rest))
        if not fold(piece) <= fold(question)
        and (any(numbers_in(piece)) or (len(piece.split()) <= 4 and no_answer.isdisjoint(piece.split())))
    ]


def options_in(says: str, by_wording: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Return the options that a normalised text asserts, and those that it only denies, in order.

    >>> options_in("not up but down", {"up": "up", "down": "down"})
    (['down'], ['up'])
    """
    asserted: dict[str, None] = {}
    denied: dict[str, None] = {}
    for found in _pattern(frozenset(by_wording)).finditer(says):
        wording = found[1] or found[2]
        option = by_wording.get(wording) or by_wording[wording.removesuffix("s")]
        (denied if is_denied(says, found.start()) else asserted)[option] = None
    return list(asserted), [option for option in denied if option not in asserted]


def is_denied(text: str, at: int) -> bool:
    """Return whether one of the four words before a place denies it: "neither up nor down"."""
    return not word_set("stems", "denial").isdisjoint(
        BREAK.split(text[:at].replace("in place of", "instead of"))[-1].split()[-4:]
    )


@lru_cache(maxsize=4096)
def _pattern(wordings: frozenset[str]) -> re.Pattern[str]:
    """Return a pattern for any of the wordings as whole words, the longest first, with a plural s.

    A single letter stands for an option at the start alone, or behind "option": "a" is an article too.
    """
    ordered = sorted(wordings, key=lambda wording: (-len(wording), wording))
    words = "|".join(re.escape(each) for each in ordered if len(each) > 1) or NOTHING
    letters = "|".join(re.escape(each) for each in ordered if len(each) == 1) or NOTHING
    return re.compile(
        rf"(?<![\w+])((?:{words})(?:(?<=\w{{4}})s)?)(?!\w)(?!(?<=\bup) to\b)"
        rf"|(?:^|(?<=\boption )|(?<=\bchoice )|(?<= and )|(?<= or )|(?<= is )|(?<= has )|(?<= uses )|(?<= contains ))\(?({letters})"
        r"(?=$|[).:,]| and | or | (?:instead of|rather than|in place of) )"
    )


def contradictory_reading(asserted: list[str]) -> AnswerReading:
    return AnswerReading("contradictory", f"it names {' and '.join(asserted)}", " / ".join(asserted), _claims(asserted))


def _verdict(expected: Expected, option: str) -> AnswerReading:
    if option == expected.right:
        return AnswerReading("correct", f"{option}, as {expected.source.say}", option, _claims([option]), 1.0)
    return AnswerReading(
        "incorrect", f"it says {option}; {expected.source.say} {expected.right}", option, _claims([option])
    )


def number_verdict(expected: Expected, found: list[Number], start: int = 0, end: int = 0) -> AnswerReading:
    """Return the verdict on the numbers that an answer states from `start` to `end`."""
    credits = [max(_credit(expected, each) for each in _meant(expected, number)) for number in found]
    shown = " and ".join(dict.fromkeys(f"{number.value:,.10g}" for number in found))
    claims = _claims([shown], start, end)
    truth = f"{expected.number:,.10g}" + (f" {expected.unit}" if expected.unit else "")
    if all(credits):
        return AnswerReading(
            "correct", f"{shown}; {expected.source.say} {truth}", shown, claims, max(0.5, min(credits))
        )
    if any(credits):
        return AnswerReading("contradictory", f"it names {shown}; {expected.source.say} {truth}", shown, claims)
    return AnswerReading("incorrect", f"it says {shown}; {expected.source.say} {truth}", shown, claims)


def _meant(expected: Expected, number: Number) -> list[Number]:
    """Return what a number may mean: a bare share is also per cent (0.25 = 25 %), "25 %" also 0.25 where no unit is asked for.

    Of what is counted there are no thousandths: "4.110 genes" are 4110. "18,015 g/mol" are 18.015 where there are decimals.
    """
    asked = unit_of(expected.unit) if expected.unit else None
    if (number.is_share and expected.unit is None) or (
        not number.is_share and asked == SHARE and 0 < number.value <= 1
    ):
        scale = 0.01 if number.is_share else 100.0
        return [number, number._replace(value=number.value * scale, step=number.step * scale)]
    if asked is None and abs(number.step - 0.001) < 1e-9 and expected.number == int(expected.number):
        return [number, number._replace(value=number.value * 1000, step=1.0)]
    if number.is_grouped and expected.number != int(expected.number):
        return [number, number._replace(value=number.value / 1000, step=number.step / 1000)]
    return [number]


def _credit(expected: Expected, number: Number) -> float:
    """Return 1 for the number within its tolerance, less for one that it rounds to, 0 for another."""
    off, size = abs(number.value - expected.number), abs(expected.number)
    allowed = 1e-9 * (size or 1.0)
    if (tolerance := expected.tolerance) is not None:
        allowed += (tolerance.absolute or 0.0) + (tolerance.relative or 0.0) * size
    if off <= allowed:
        return 1.0
    is_rounded = number.digits >= 2 and off <= number.step / 2 and off <= 0.05 * size
    return expected.rounded_credit if is_rounded else 0.0


def false_abstention(expected: Expected, says: str, truth: str) -> AnswerReading:
    """Return the verdict on "cannot be told" where it can: incorrect."""
    return AnswerReading("incorrect", f"it says that {expected.source.untold} {truth}", says, _claims([says]))


def _term(expected: Expected, question: str, value: str) -> AnswerReading:
    says = normalise(value)
    if says in expected.by_wording:
        return false_abstention(expected, says, "what it is")
    asserted, denied = _parts(value)
    is_whole = fold(value) in expected.accept  # "No gene", "but-3-enoic acid"
    words = fold(value if is_whole else ", ".join(asserted))
    if not words:
        return AnswerReading("no_claim", "it only denies" if denied else "it says nothing")
    right = any(map(words.issuperset, expected.accept))
    wrong = any(each <= words for word in words & expected.others.keys() for each in expected.others[word])
    claims = _claims([value])
    if options_in(says, expected.by_wording)[0]:
        return (
            contradictory_reading([CANNOT_BE_TOLD, value])
            if right or wrong
            else false_abstention(expected, says, "what it is")
        )
    if right and wrong:
        return AnswerReading("contradictory", "it names what is right and what competes with it", value, claims)
    if right and (beside := alternatives(expected, question, value)):
        return AnswerReading("contradictory", f"it names what is right and also {', '.join(beside)}", value, claims)
    if right:
        return AnswerReading("correct", f"as {expected.source.say}", value, claims, 1.0)
    if words <= fold(question) | fold("hallmark gene set pathway process signaling genes"):
        return AnswerReading("no_claim", "its words are all in the question")
    return AnswerReading("incorrect", "it is something else", value, claims)


def alternatives(expected: Expected, question: str, value: str) -> list[str]:
    """Return what a line names beside an accepted term: "hinge, active site or lid" -> hinge, lid.

    A clause that explains ("where the substrate binds") is no alternative. A description may have parts, so only "or" and
    the like offer another one there; its competing terms are known.
    """
    known = fold(question).union(*expected.accept)
    asserted = ", ".join(_parts(ASIDE.sub(" ", value))[0])
    pieces = (EITHER if expected.is_description else ALTERNATIVE).split(asserted)
    return [
        piece.strip()
        for piece in pieces
        if (words := fold(piece)) - known
        and not any(map(words.issuperset, expected.accept))
        and (normalise(piece).split()[0] not in word_set("stems", "explains") or NAMED.match(piece))
    ]


def _parts(value: str) -> tuple[list[str], list[str]]:
    """Return what a phrase asserts and what it denies: "mitochondria, not glycolysis"."""
    pieces = PIECE.split(value)
    denied = [piece for piece in pieces if pattern("denied_piece").match(piece)]
    return [piece for piece in pieces if piece not in denied], denied


def _set(expected: Expected, question: str, value: str) -> AnswerReading:
    says = normalise(value)
    asserted, _ = options_in(says, expected.by_wording)
    if CANNOT_BE_TOLD in asserted:
        beside = [each for each in asserted if each != CANNOT_BE_TOLD]
        return (
            contradictory_reading([CANNOT_BE_TOLD, *beside])
            if beside
            else false_abstention(expected, says, ", ".join(expected.values))
        )
    if expected.has_letters and (letters := letters_of_set(value, last_letter(expected, question))):
        return set_verdict(expected, letters, _claims(letters))
    named = names_in(expected, question, ", ".join(_parts(without_asides(value))[0]))
    return set_verdict(expected, named, _claims(named))


def last_letter(expected: Expected, question: str) -> str:
    """Return the last letter that an option of a question with several right ones has."""
    return max((*expected.values, *expected.wordings, *LISTED.findall(question)))


def letters_of_set(text: str, last: str) -> list[str]:
    """Return the letters by which a text names several options up to the last, those that it calls right where it calls some so.

    >>> letters_of_set("A and C are correct; B is false.", "D"), letters_of_set("BD", "D"), letters_of_set("A. an enzyme", "D")
    (['A', 'C'], ['B', 'D'], ['A'])
    >>> letters_of_set("All except B and D", "D"), letters_of_set("all of the above", "C")
    (['A', 'C'], ['A', 'B', 'C'])
    """
    said = re.sub(rf"\A\W*{pattern('stated_set').pattern}", "", text, flags=re.IGNORECASE)
    if every := pattern("all_set").match(said):
        others = OF_SET.findall(every["rest"])
        if every["but"] or not others:
            return [letter for letter in ascii_uppercase if letter <= last and letter not in others]
    if re.fullmatch(r"\W*[A-J]{2,10}\W*", said):
        return sorted({*filter(str.isalpha, said)})
    parts = [found[0] for found in CALLED_RIGHT.finditer(text)] or [text]
    named = ((part, found) for part in parts for found in OF_SET.finditer(part))
    return sorted({found[0] for part, found in named if not SET_DENIED.match(part, found.end())})


def names_in(expected: Expected, question: str, text: str) -> list[str]:
    """Return the names that a list gives, in alphabetical order, known ones by their value; blanks may part them too.

    A part with words such as "both" and "in" is a sentence: of its words only known names count.
    """
    known, names = expected.by_wording, set()
    listed, *explained = re.split(
        r"[.!?;]\s+(?=(?:these|they|this|those|it|both|all|each)\b)", text, flags=re.IGNORECASE
    )
    text = ". ".join(
        [listed, *(each for each in explained if options_in(normalise(each), known)[0] or ADDS.search(each))]
    )
    for part in re.split(rf"{PARTS.pattern}|[\n|]|\.\s|(?:^|\s)[-*•]\s", text, flags=re.IGNORECASE):
        name = normalise(part).strip("… ")
        name = name if name in known else normalise(NOT_NAME.sub(" ", part)).strip("… ") or name
        words = name.split()
        if name not in known and len(words) > 1 and not known.keys().isdisjoint(words):
            is_sentence = not (word_set("subjects", "function") | word_set("subjects", "pronouns")).isdisjoint(words)
            kept = (each for each in words if each in known or not (is_sentence or fold(each) <= fold(question)))
            names |= {known.get(each, each) for each in kept}
        elif name and words[0] not in word_set("stems", "explains"):
            names.add(known.get(name, name))
    return sorted(names)


ADDS = re.compile(r"\b(?:also|too|plus|as well)\b", re.IGNORECASE)


def without_asides(text: str) -> str:
    """Return a list without what stands in brackets, and without the items that brackets deny."""
    return ASIDE.sub(" ", pattern("denied_item").sub(" ", text))


def set_verdict(expected: Expected, named: list[str], claims: tuple[Claim, ...]) -> AnswerReading:
    """Return the verdict on the names that an answer gives, in alphabetical order."""
    if not named:
        return AnswerReading("no_claim", "it names nothing")
    wanted, shown = set(expected.values), ", ".join(named)
    if wanted == {*named}:
        return AnswerReading("correct", f"the same names as the {expected.source.name}", shown, claims, 1.0)
    f1 = 2 * len(wanted & {*named}) / (len(named) + len(expected.values))
    return AnswerReading(
        "incorrect",
        f"F1 {f1:.2f} against the {expected.source.name}'s {', '.join(expected.values)}",
        shown,
        claims,
        f1 / 2,
    )


def _confidence(value: str, before: StatedConfidence) -> StatedConfidence:
    """Return what a confidence line states; lines that state different values make none."""
    stated = _percent(value)
    if stated is MISSING:
        return before
    if before is MISSING or before.value == stated.value:
        return stated
    return StatedConfidence.model_construct(value=None, status="invalid", quote=value)


@lru_cache(maxsize=4096)
def _percent(value: str) -> StatedConfidence:
    shown = ASIDE.sub(" ", value).strip(MARKS + ".")
    if normalise(shown) in TEMPLATE:
        return MISSING
    found = PERCENT.match(shown.casefold())
    share = None if found is None or RANGE.search(found["figure"]) else share_of(found["figure"])
    status = "invalid" if share is None else "stated"
    return StatedConfidence.model_construct(value=share, status=status, quote=f"Confidence: {value}")
