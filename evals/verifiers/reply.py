"""Read a plain yes or no: where an answer opens with one, or says "The answer is yes".

"Yes, it matches."  "**No**"  "The answer to this question is no."    replies
"No idea."  "No genes change."  "Yes and no."  "No doubt it does."    none
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from evals.verifiers.reading import Reading, Sentence

YES = frozenset(("yes", "yeah", "yep", "indeed", "correct", "right", "true", "affirmative"))
NO = frozenset(("no", "nope", "incorrect", "wrong", "false", "untrue"))
LONE = frozenset(("yes", "no", "yeah", "yep", "nope"))
"""Words that reply by themselves before a comma; "right, …" and "true, …" may open anything."""
LEADS = frozenset(
    (
        "the",
        "my",
        "answer",
        "answers",
        "short",
        "final",
        "to",
        "this",
        "that",
        "your",
        "question",
        "is",
        "would",
        "be",
        "clearly",
        "simply",
        "a",
        "clear",
        "so",
        "it",
        "conclusion",
        "indeed",
    )
)
"""Words that may lead in a reply: "The answer to this question is yes"."""
LONGEST_LEAD = 8
LATER_DENIALS = frozenset(
    ("not", "never", "if", "whether", "that", "wrong", "false", "would", "say", "says", "said")
)
"""After one of these, "the answer is yes" further on in a sentence is no reply."""
MIXED = frozenset(("and", "or", "but"))
AFTER = frozenset(
    ("the", "it", "they", "there", "this", "that", "in", "kmp", "hu", "ir", "at", "under")
)
"""Words that may follow "yes" or "no" without a comma: "No it is not"."""


FALSE = frozenset(
    ("wrong", "wrongly", "false", "falsely", "incorrect", "incorrectly", "untrue", "mistaken")
)
NAMING = frozenset(("named", "word", "words", "phrase", "term", "expression"))
"""After one of these a name is only mentioned: "the word soleus"."""
PROFORMS = frozenset(("it", "they", "this", "that"))
AUXILIARIES = frozenset(("does", "is", "do", "has", "was", "did", "are"))
POLITE = frozenset(("can", "will", "could", "would", "am", "have", "shall"))


class Reply(NamedTuple):
    """A yes or no at tokens first..last."""

    is_yes: bool
    first: int
    last: int


def replies(reading: Reading) -> list[Reply]:
    """Return every plain yes and no of an answer, in order."""
    found: list[Reply] = []
    for sentence in reading.sentences:
        reply = _reply(reading, sentence)
        if reply is not None:
            found.append(reply)
        found += _later(reading, sentence, reply)
    return found


def _later(reading: Reading, sentence: Sentence, first: Reply | None) -> Iterator[Reply]:
    """Yield what a sentence replies further on: "…, but the answer is yes"."""
    words = reading.words
    start = sentence.first if first is None else first.last + 1
    said = words[start : sentence.last + 1]
    if "answer" not in said or not sentence.kinds.isdisjoint(("condition", "hedge")):
        return
    for token in range(start + said.index("answer") + 1, sentence.last + 1):
        if words[token] in LONE and words[token - 1] in ("is", "be", "clearly"):
            is_end = token == sentence.last or reading.gaps[token + 1] != " "
            if is_end and LATER_DENIALS.isdisjoint(words[start:token]):
                yield Reply(words[token] in YES, token, token)


def reply_of(reading: Reading) -> Reply | None:
    """Return the reply of an answer; None where it gives none, or both yes and no."""
    found = replies(reading)
    return found[0] if len({reply.is_yes for reply in found}) == 1 else None


def is_voided(reading: Reading, sentence: Sentence, first: int, last: int) -> bool:
    """Say whether what stands at tokens first..last is called false at once, or only named as a word.

    "soleus: false", "r = 0.6 is the wrong value", "Some call it conserved, wrongly", "the word soleus"
    """
    words, gaps = reading.words, reading.gaps
    if not NAMING.isdisjoint(words[max(sentence.first, first - 3) : first]):
        return True
    if last >= sentence.last:
        return False
    if (":" in gaps[last + 1] or "=" in gaps[last + 1]) and words[last + 1] in NO | {"none"}:
        return True
    ends = [start for start in sentence.starts if start > last]
    clause = words[last + 1 : ends[0] if ends else sentence.last + 1]
    is_last_word = words[sentence.last] in FALSE and sentence.last in sentence.starts
    return is_last_word or (not FALSE.isdisjoint(clause) and "not" not in clause)


def _reply(reading: Reading, sentence: Sentence) -> Reply | None:
    words, gaps = reading.words, reading.gaps
    token = sentence.first
    if "if" in words[token : sentence.last + 1]:
        return None
    if words[token] in PROFORMS and sentence.last - token in (1, 2):
        return _proform(words, sentence)
    if words[sentence.last] in LONE and words[sentence.last - 1] in (
        "so",
        "hence",
        "therefore",
        "thus",
    ):
        return Reply(words[sentence.last] in YES, sentence.last, sentence.last)
    if words[token] not in LONE:
        token = _after_lead(words, sentence)
    if token > sentence.last:
        return None
    word = words[token]
    if word not in YES and word not in NO:
        return None
    is_last = token == sentence.last
    if token == sentence.first and word not in LONE and not is_last:
        return None
    if not is_last and not _stands_apart(words, gaps[token + 1], token, sentence):
        return None
    return Reply(word in YES, token, token)


def _after_lead(words: Sequence[str], sentence: Sentence) -> int:
    """Return the token behind "The answer is", the first one where nothing leads in."""
    token = sentence.first
    end = min(sentence.last, token + LONGEST_LEAD)
    while token <= end and words[token] in LEADS:
        token += 1
    lead = words[sentence.first : token]
    is_lead = not lead or "answer" in lead or set(lead) <= {"indeed", "so", "clearly", "simply"}
    return token if is_lead else sentence.last + 1


def _proform(words: Sequence[str], sentence: Sentence) -> Reply | None:
    """Return the reply of a sentence such as "It does not"."""
    said = list(words[sentence.first + 1 : sentence.last + 1])
    is_short = said[0].removesuffix("n't") in AUXILIARIES and said[1:] in ([], ["not"])
    is_yes = len(said) == 1 and not said[0].endswith("n't")
    return Reply(is_yes, sentence.first, sentence.last) if is_short else None


def _stands_apart(words: Sequence[str], gap: str, token: int, sentence: Sentence) -> bool:
    """Say whether a yes or no is not part of a phrase: unlike "no genes", "yes and no", "yes, no"."""
    following = words[token + 1]
    ahead = set(words[token + 1 : min(token + 4, sentence.last + 1)])
    if following in LONE:
        return set(words[token : sentence.last + 1]) == {words[token]}
    if following in MIXED and ahead & LONE:
        return False
    if following in ("good", "great", "thanks") or (following == "i" and ahead & POLITE):
        return False
    if ":" in gap and following in NO:
        return False
    if gap.strip():
        return True
    return following in AFTER
