"""Judge whether an answer says that the data cannot answer, where they cannot.

"The study did not measure that, so it cannot be determined."   abstains
"There is no evidence that the data cannot answer this."         does not
"Spaceflight cannot harm the liver."                             does not
"""

from functools import cache

from evals.schema import AbstainTruth, Claim
from evals.verifiers.agreement import agreements
from evals.verifiers.asked import question_reading
from evals.verifiers.assertion import (
    LIMITS,
    gives_direction,
    parts,
    replies_yes,
    takes_stand,
    takes_up,
)
from evals.verifiers.cues import KNOWS, WITHHOLDING, WITHHOLDS
from evals.verifiers.finding import Finding
from evals.verifiers.grammar import be_words, neutral_words, preposition_words
from evals.verifiers.lexicon import phrases
from evals.verifiers.openness import (
    ABSTENTIONS,
    OPEN,
    Found,
    found_in,
    may_be_open,
)
from evals.verifiers.ranking import STEM, asked_stems
from evals.verifiers.reading import Reading, Sentence

DOMAIN = frozenset(
    word
    for (word,) in phrases(
        "sex; female; females; male; males; age; ages; protein; proteins; series; compound; compounds;"
        " animals; recovery; prices; cost; costs; gut; bacteria; force; strength; behaviour; behavior;"
        " memory; survival; cell; cells; types; drug; drugs; levels; binding; receptor; receptors; orbit;"
        " flown; stress; simulated; sizes; methylation; epigenetic; strain; strains; toxicity; food;"
        " intake; weight; raw; public; cause; causes; causal; causality; overlap; overlaps; lists; kinds;"
        " radiation; human; humans; people; person; persons; patient; patients; astronaut; astronauts; men;"
        " women; clinical; dose; doses; dosing; dosage; duration; durations; treatment; treatments; time;"
        " times; day; days; week; weeks; name; names; named; gene; genes; mechanism; mechanisms; function;"
        " effect; effects; benefit; benefits; safety; safe; health; healthy; outcome; outcomes; phenotype;"
        " transfer; translation; efficacy; kaempferol; kmp; hu; ir; deg; degs; tissue; tissues; expression;"
        " subject; subjects; volunteers; physiology; muscle; exact; optimal; best; answer; direction; such"
    )
)
"""What such questions are about; "no data on bananas" is no answer to any of them."""
KNOWN = frozenset(("tissue", "factor", "pathway", "direction"))
"""Kinds of marks that make what is not known a matter of these studies."""
MIN_WORDS = 2
"""Fewer words than this assert nothing ("ok")."""


def judge_abstention(truth: AbstainTruth, reading: Reading, question: str) -> Finding:
    """Return the verdict: correct = says that it cannot be answered, and takes no stand on it.

    Contradictory = does both. A stand alone is incorrect; so is any other sentence that takes up the
    question. What has nothing to do with it is no claim.
    """
    claims: list[Claim] = []
    silent: set[int] = set()
    for sentence in reading.sentences:
        for match in found_in(ABSTENTIONS, reading, sentence):
            if _is_on_question(reading, sentence, match, question):
                claims.append(_claim(reading, match))
                silent.update(range(match.first, match.last + 1))
    stands = [
        part
        for part in parts(reading)
        if silent.isdisjoint(range(part.first, part.last + 1))
        and takes_stand(reading, part, question)
    ]
    is_torn = bool(stands) or replies_yes(reading) or gives_direction(reading, question)
    if claims and is_torn:
        return Finding(
            "contradictory", "says that the data cannot answer, and answers", tuple(claims)
        )
    if claims:
        return Finding("correct", "says that the data cannot answer", tuple(claims))
    if is_torn or any(_speaks(reading, sentence, question) for sentence in reading.sentences):
        return Finding("incorrect", "answers as if the data could tell")
    return Finding("no_claim", "says nothing on what is asked")


def open_questions(reading: Reading, question: str, may_conclude: bool) -> tuple[Claim, ...]:
    """Return each place where an answer says that the question itself cannot be answered.

    A sentence about a tissue or gene set that was not asked about does not count; with
    `may_conclude`, nor does one about a direction or one that tells of a disagreement.
    """
    if not may_be_open(reading):
        return ()
    found: list[Claim] = []
    for sentence in reading.sentences:
        if not (sentence.cues & KNOWS and sentence.cues & WITHHOLDS):
            continue
        for match in found_in(OPEN, reading, sentence):
            if not _is_elsewhere(sentence, question) and not (
                may_conclude and _concludes(reading, sentence)
            ):
                found.append(_claim(reading, match))
    return tuple(found)


def _is_elsewhere(sentence: Sentence, question: str) -> bool:
    """Say whether a sentence names a tissue or gene set that the question does not."""
    named = [mark.value for mark in sentence.marks if mark.kind in ("tissue", "pathway")]
    if not named:
        return False
    asked = {mark.value for one in question_reading(question).sentences for mark in one.marks}
    return bool(asked) and any(name not in asked for name in named)


def _concludes(reading: Reading, sentence: Sentence) -> bool:
    told = [agreement.first for agreement in agreements(reading)]
    return any(sentence.first <= token <= sentence.last for token in told) or (
        "direction" in reading.words[sentence.first : sentence.last + 1]
    )


def _is_on_question(reading: Reading, sentence: Sentence, match: Found, question: str) -> bool:
    """Say whether what is not known has to do with the question: "no data on bananas" does not."""
    if any(True for _ in found_in(OPEN, reading, sentence)):
        return True
    tokens = range(sentence.first, sentence.last + 1)
    outside = [t for t in tokens if not match.first <= t <= match.last]
    words = [reading.words[token] for token in outside]
    told = [w for w in words if w not in _small() and w not in LIMITS and w not in WITHHOLDING]
    stems = asked_stems(question)
    is_known = not sentence.kinds.isdisjoint(KNOWN)
    return not told or is_known or any(w in DOMAIN or w[:STEM] in stems for w in told)


def _speaks(reading: Reading, sentence: Sentence, question: str) -> bool:
    words = reading.words[sentence.first : sentence.last + 1]
    n_words = sum(word[0].isalpha() for word in words)
    return n_words >= MIN_WORDS and takes_up(reading, sentence, question)


def _claim(reading: Reading, match: Found) -> Claim:
    start, end = reading.span(match.first, match.last)
    return Claim(
        subject="what is asked",
        says="cannot be answered",
        start=start,
        end=end,
        about="abstention",
    )


@cache
def _small() -> frozenset[str]:
    return neutral_words() | be_words() | preposition_words() | {"with", "of", "at", "you"}
