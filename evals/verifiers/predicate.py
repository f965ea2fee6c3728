"""What an answer says of the gene set, less what it only mentions beside it.

"It stands for fat cells", "fewer fat cells form"        said of the set
"I like fat cells", "my cat has fat cells"               said of a person
"Fat cell differentiation.", "Fat cells, lipids."        said of nothing: only named
"I think that fewer fat cells form"                      said of the set: the person tells it
"""

from collections.abc import Container, Sequence
from itertools import pairwise

from evals.verifiers.embedding import ASSERTING, SUBJECTS
from evals.verifiers.grammar import be_words, neutral_words
from evals.verifiers.reading import Reading, Sentence
from evals.verifiers.tokens import word_set

PEOPLE = word_set("i we you he she everyone everybody somebody someone nobody people one's")
OBJECTS = word_set("me us him her you myself yourself")
OWNERS = word_set("my our your his her")
NO_TELLING = word_set(
    "like have had has do did does can could must will would go get am is are be study studies studied read reads"
)
"""Small words that, as the verb of a person, tell nothing: "I like fat cells"."""
AUXILIARIES = word_set(
    "would could should can may might will must do did have had am are 'd also then now still"
)
TELLING = ASSERTING | word_set(
    "think thought suspect assume expect interpret take read call explain describe propose"
)
JOINTS = word_set(
    "and but so that because since while as when if then therefore what why thus which"
)
"""A person begins a clause, or follows one of these: "type I" is none."""
SUBJECT = word_set("it this that these those they such there here")
"""After one of these a verb follows, known or not."""
NAMES = frozenset(("pathway", "tissue"))
LESSER = word_set(
    "has have had show shows showed do does did go goes indicates suggests"
    " less fewer lower more higher reduced weaker stronger stands stand represents represent"
)
"""A phrase with one of these, or a form of "be", says something without another verb."""
LISTED = word_set(
    "keyword keywords tag tags hint hints buzzword buzzwords topic topics phrase phrases words vocabulary synonym synonyms see cf"
    " mention mentions mentioning say says think imagine let consider recall remember google search"
)
"""What only mentions what follows: "keywords: fat cells"."""


def predicated(
    reading: Reading, sentence: Sentence, spoken: Sequence[str], listed: Container[str]
) -> list[str]:
    """Return the words of a sentence, "" for each that is not said of the gene set.

    `spoken` are the words less what is denied; `listed` are the words of the set's matter.
    """
    first, words = sentence.first, reading.words
    is_mention = words[first] in LISTED and "that" not in spoken
    if is_mention or _is_bare(sentence, spoken, listed):
        return [""] * len(spoken)
    said = list(spoken)
    for start, end in pairwise([*sentence.starts, sentence.last + 1]):
        for token in range(start, end):
            if _is_aside(words, token, start, end):
                said[token - first : end - first] = [""] * (end - token)
                break
    return said


def _is_bare(sentence: Sentence, spoken: Sequence[str], listed: Container[str]) -> bool:
    """Say whether a sentence holds nothing but names of the matter, with no more said of them."""
    if "direction" in sentence.kinds or "changed" in sentence.kinds or spoken[0] in SUBJECT:
        return False
    small = neutral_words()
    if not LESSER.isdisjoint(spoken) or not be_words().isdisjoint(spoken):
        return False
    named = {t for m in sentence.marks if m.kind in NAMES for t in range(m.first, m.last + 1)}
    return all(
        word in small or word in listed or token in named
        for token, word in enumerate(spoken, sentence.first)
    )


def _is_aside(words: Sequence[str], token: int, start: int, end: int) -> bool:
    """Say whether what follows a word in its clause is no more than what a person does or has."""
    word = words[token]
    if word in OBJECTS and token > start and words[token - 1] not in TELLING | neutral_words():
        return True
    if word in OWNERS:
        owned = words[token + 1 : end]
        return bool(owned) and owned[0] not in TELLING | SUBJECTS | neutral_words()
    is_led = token == start or words[token - 1] in JOINTS
    if word not in PEOPLE or not is_led or (word == "i" and words[token + 1 : token + 2] == ["e"]):
        return False
    token += 1
    while token < end and (words[token] in AUXILIARIES or words[token].endswith("ly")):
        token += 1
    if token >= end or words[token] in TELLING:
        return False
    return words[token] in NO_TELLING or words[token] not in neutral_words()
