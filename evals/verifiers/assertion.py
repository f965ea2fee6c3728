"""Tell whether an answer takes a stand on a question that the data cannot answer.

question "Is kaempferol guaranteed to keep astronauts healthy?"
    "It protects astronauts.", "Yes.", "Take 50 mg per day."        a stand
    "The data only cover mice.", "A trial would be needed."          a limit, no stand
    "My cat likes tuna."                                             another matter
"""

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from evals.verifiers.direction import statements
from evals.verifiers.genes import GENES
from evals.verifiers.grammar import be_words, neutral_words
from evals.verifiers.lexicon import phrases
from evals.verifiers.number import Number, numbers
from evals.verifiers.ranking import STEM, asked_stems
from evals.verifiers.reading import Reading, Sentence
from evals.verifiers.reply import reply_of


def _words(listed: str) -> frozenset[str]:
    return frozenset(word for (word,) in phrases(listed))


LIMITS = _words(
    "study; studies; data; dataset; table; tables; figures; counts; evidence; information; results;"
    " experiment; experiments; mice; mouse; rodent; rodents; animal; animals; only; limited; limit;"
    " limits; limitation; limitations; measured; tested; trial; trials; need; needs; needed; require;"
    " requires; required; further; future; would; should; could; may; might; perhaps; possible;"
    " possibly; unknown; unclear; open; speculative; speculation; uncertain; depends; depend; question;"
    " questions; caution; careful; cautious; claim; hypothesis; remains; remain; not; no; never; cannot;"
    " without; beyond; outside; nothing; none; neither; nor; hardly; lacks; lack; lacking; missing;"
    " insufficient; why; because; important; interesting; worth; relevant; honest; reason; if; whether;"
    " impossible; unable; unlikely; unanswered; ask; wonder; suppose; imagine; whatever"
)
"""A sentence with one of these tells of what is not known, or of what the study is."""
SURE = _words(
    "definitely; certainly; undoubtedly; surely; proves; proven; proved; prove; guaranteed; guarantees;"
    " obviously; doubtless; confirms; confirm"
)
AMOUNTS = _words(
    "mg; milligram; milligrams; g; gram; grams; kg; ug; mcg; microgram; micrograms; ml; capsule; capsules;"
    " tablet; tablets; pill; pills; day; days; week; weeks; month; months; hour; hours; year; years;"
    " percent; times; fold; dose; doses; usd; dollars; euros; per; daily; a"
)
"""A figure with one of these behind it is an amount: "50 mg a day"."""
DOSES = _words(
    "mg; milligram; milligrams; gram; grams; ug; mcg; microgram; micrograms; capsule; capsules; pills"
)
DESCRIBING = _words(
    "mice; mouse; study; studies; data; table; tables; experiment; experiments; no; not; never; tested; would; if"
)
"""With one of these a dose describes what was done, or is denied."""
PRONOUNS = frozenset(("it", "this", "that"))
SHORT = 4
"""An answer of so few words with a figure is that figure."""
LEAST = 3
"""Fewer words than this take no stand by themselves."""
TURNS = frozenset(
    (
        "but",
        "however",
        "yet",
        "still",
        "nevertheless",
        "nonetheless",
        "although",
        "though",
        "whereas",
    )
)


class Part(NamedTuple):
    """Tokens first..last of a sentence: a stretch between turns ("but", ";", ":")."""

    sentence: Sentence
    first: int
    last: int


def parts(reading: Reading) -> Iterator[Part]:
    """Yield the stretches of an answer that can each say something else, in order."""
    words, gaps = reading.words, reading.gaps
    for sentence in reading.sentences:
        first = sentence.first
        for start in sentence.starts:
            if start > first and (
                words[start] in TURNS or ":" in gaps[start] or " - " in gaps[start]
            ):
                yield Part(sentence, first, start - 1)
                first = start
        yield Part(sentence, first, sentence.last)


def takes_stand(reading: Reading, part: Part, question: str) -> bool:
    """Say whether a stretch answers the question after all."""
    words = reading.words[part.first : part.last + 1]
    if _is_label(words):
        return True
    figures = _figures(reading, part)
    if DESCRIBING.isdisjoint(words) and any(_is_dose(reading, figure) for figure in figures):
        return True
    is_plain = LIMITS.isdisjoint(words) and not any(word.endswith("n't") for word in words)
    if not is_plain:
        return False
    return (
        (not SURE.isdisjoint(words) and _relates(words, question))
        or any(_is_amount(reading, part, figure) for figure in figures)
        or (len(words) >= LEAST and _affirms(words, question))
    )


def gives_direction(reading: Reading, question: str) -> bool:
    """Say whether an answer gives a direction, of nothing that the question does not name."""
    stems = asked_stems(question)
    return any(
        stated.says in ("UP", "DOWN")
        and not stated.is_negated
        and _is_asked((*stated.tissues, *filter(None, (stated.pathway,))), stems)
        for stated in statements(reading)
    )


def _is_asked(named: tuple[str, ...], stems: frozenset[str]) -> bool:
    return not named or any(name.lower()[:STEM] in stems for name in named)


def replies_yes(reading: Reading) -> bool:
    """Say whether an answer is a plain yes."""
    reply = reply_of(reading)
    return reply is not None and reply.is_yes


def takes_up(reading: Reading, sentence: Sentence, question: str) -> bool:
    """Say whether a sentence has to do with the question: it shares a telling word with it."""
    stems = asked_stems(question)
    words = reading.words[sentence.first : sentence.last + 1]
    told = [word for word in words if word not in _small() and word[0].isalpha()]
    shared = [word for word in told if word[:STEM] in stems and len(word) > 2]
    return bool(shared) and (len(told) > len(shared) or len(words) > SHORT)


def _affirms(words: list[str], question: str) -> bool:
    """Say whether words state something of the question's subject, more than what it is."""
    stems = asked_stems(question)
    shared = [
        place
        for place, word in enumerate(words)
        if word[:STEM] in stems and len(word) > 2 and word not in AMOUNTS
    ]
    told = [word for word in words if word not in _small() and not word[0].isdigit()]
    if not told or not (shared or words[0] in PRONOUNS):
        return False
    is_definition = any(
        word in be_words() and words[place + 1 : place + 2] in (["a"], ["an"], ["the"], ["one"])
        for place, word in enumerate(words[:6])
    )
    return not is_definition or sum(place > 1 for place in shared) > 0


def _relates(words: list[str], question: str) -> bool:
    stems = asked_stems(question)
    return (
        words[0] in PRONOUNS or any(word[:STEM] in stems for word in words) or len(words) <= SHORT
    )


def _figures(reading: Reading, part: Part) -> list[Number]:
    found = numbers(reading, part.sentence)
    return [figure for figure in found if part.first <= figure.first <= part.last]


def _is_amount(reading: Reading, part: Part, figure: Number) -> bool:
    """Say whether a figure is an amount, a count of genes, or the whole of a short answer."""
    words = reading.words
    if words[figure.first] in ("no", "none", "not", "one"):
        return False
    after = words[figure.last + 1 : min(figure.last + 3, part.last + 1)]
    if after and (after[0] in AMOUNTS or not GENES.isdisjoint(after)):
        return True
    if figure.unit or reading.gaps[figure.first].endswith(("$", "€", "£")):
        return True
    is_said = figure.first > part.first and words[figure.first - 1] in be_words() and not after
    return is_said or (
        part.last - part.first < SHORT and part.sentence.first == part.first and not after
    )


def _is_dose(reading: Reading, figure: Number) -> bool:
    return not DOSES.isdisjoint(reading.words[figure.last + 1 : figure.last + 2])


def _is_label(words: list[str]) -> bool:
    """Say whether a class is given: "it is Type A"."""
    return any(
        word in ("type", "class")
        and words[place + 1 : place + 2] in (["a"], ["b"], ["c"])
        and bool(be_words() & set(words[:place]) or words[:place] == [])
        and "not" not in words[:place]
        for place, word in enumerate(words)
    )


@cache
def _small() -> frozenset[str]:
    return neutral_words() | be_words()
