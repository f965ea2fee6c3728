"""Judge a name out of several: a class, a tissue, a pattern, a factor, yes or no.

truth "Type A", others "Type B", "Type C":   "Soleus is type A, not type B."      correct
truth "soleus", asked which has more genes:  "Soleus has more genes than liver."  correct
                                             "Soleus has fewer genes than liver." incorrect
"""

from dataclasses import dataclass
from functools import lru_cache

from evals.schema import Claim, LabelTruth
from evals.verifiers.finding import Finding
from evals.verifiers.grammar import degree_words
from evals.verifiers.names import words
from evals.verifiers.reading import Mark, Reading, Sentence, read
from evals.verifiers.scope import Group, Scope
from evals.verifiers.subject import Subject, names_factors, names_tissue, subject_of

YES_NO = frozenset(("yes", "no"))


@dataclass(frozen=True)
class Names:
    """The names in play by their first word, longest first, and what kind of thing they are.

    `kinds` holds "tissue" or "factor" if the names are such: then these do not tell whose name it is.
    """

    by_word: dict[str, list[tuple[tuple[str, ...], bool]]]
    kinds: frozenset[str]


@dataclass(frozen=True, slots=True)
class Mention:
    """A name that an answer asserts, or denies, of the subject or of something else."""

    name: str
    is_right: bool
    is_denied: bool
    is_ours: bool
    mark: Mark


def judge_label(truth: LabelTruth, reading: Reading, question: str) -> Finding:
    """Return the verdict on the names that an answer asserts about the subject."""
    names = names_of(truth.value, truth.accept, truth.others)
    subject = subject_of(truth.subject or "")
    asked = _degree(read(question.replace("?", "."))) if names.kinds else None
    mentions: list[Mention] = []
    for sentence in reading.sentences:
        events = _named(reading, sentence, names)
        if events:
            scope = Scope(reading, sentence, events)
            if not scope.is_hedged_away():
                mentions += _mentions(scope, names, subject, asked, bool(mentions))
    finding = _weigh(truth, mentions)
    claims = tuple(_claim(reading, truth, mention) for mention in mentions)
    return Finding(finding.verdict, finding.reason, claims)


def _weigh(truth: LabelTruth, mentions: list[Mention]) -> Finding:
    subject = truth.subject or "what is asked"
    ours = [mention for mention in mentions if mention.is_ours]
    right = [mention.name for mention in ours if mention.is_right and not mention.is_denied]
    wrong = [mention.name for mention in ours if not mention.is_right and not mention.is_denied]
    denied = [mention.name for mention in ours if mention.is_right and mention.is_denied]
    if right and (wrong or denied):
        return Finding(
            "contradictory", f"{subject}: says {right[0]} and {(wrong or ['not that'])[0]}"
        )
    if right:
        return Finding("correct", f"{subject}: {truth.value}, as in the data")
    if len(set(wrong)) > 1:
        return Finding("contradictory", f"{subject}: says {wrong[0]} and {wrong[-1]}")
    if wrong or denied:
        said = wrong[0] if wrong else f"not {denied[0]}"
        return Finding("incorrect", f"{subject}: {said} stated, {truth.value} in the data")
    return Finding("no_claim", f"{subject}: none of the possible names is asserted")


def _claim(reading: Reading, truth: LabelTruth, mention: Mention) -> Claim:
    subject = (truth.subject or "what is asked") if mention.is_ours else "another subject"
    start, end = reading.span(mention.mark.first, mention.mark.last)
    says = f"not {mention.name}" if mention.is_denied else mention.name
    return Claim(subject=subject, says=says, start=start, end=end)


def _mentions(
    scope: Scope, names: Names, subject: Subject, asked: str | None, has_answer: bool
) -> list[Mention]:
    """Return the names a sentence asserts or denies.

    Where the question asks for one end of a ranking, a name at the other end is denied, and a name
    that only comes with a figure after the answer was given is a detail.
    """
    found: list[Mention] = []
    for group in scope.groups():
        is_ours = ("tissue" in names.kinds or names_tissue(group, subject)) and (
            "factor" in names.kinds or names_factors(scope, group, subject)
        )
        degree = _degree_of(scope, group, names) if asked else None
        if asked and degree is None and (has_answer or found) and _is_detail(scope, group):
            continue
        for event in group.events:
            if scope.is_conditional(event) or scope.is_contrasted(event):
                continue
            is_denied = scope.is_negated(event) != (degree is not None and degree != asked)
            found.append(Mention(event.value, event.form == "right", is_denied, is_ours, event))
    return found


def _is_detail(scope: Scope, group: Group) -> bool:
    clauses = {scope.clause(event.first) for event in group.events}
    tokens = range(scope.sentence.first, scope.sentence.last + 1)
    return any(scope.reading.words[t][0].isdigit() and scope.clause(t) in clauses for t in tokens)


def _named(reading: Reading, sentence: Sentence, names: Names) -> list[Mark]:
    """Return the longest names at each place of a sentence; yes and no count only as its opening."""
    found: list[Mark] = []
    token = sentence.first
    while token <= sentence.last:
        step = 1
        for phrase, is_right in names.by_word.get(reading.words[token], ()):
            last = token + len(phrase) - 1
            if phrase[0] in YES_NO and len(phrase) == 1 and token > sentence.first:
                continue
            if last <= sentence.last and tuple(reading.words[token : last + 1]) == phrase:
                found.append(
                    Mark("name", " ".join(phrase), "right" if is_right else "other", token, last)
                )
                step = len(phrase)
                break
        token += step
    return found


@lru_cache(maxsize=256)
def names_of(value: str, accept: tuple[str, ...], others: tuple[str, ...]) -> Names:
    """Return the names in play, as words."""
    table: dict[str, list[tuple[tuple[str, ...], bool]]] = {}
    for name, is_right in [*((n, True) for n in (value, *accept)), *((n, False) for n in others)]:
        phrase = words(name)
        table.setdefault(phrase[0], []).append((phrase, is_right))
    for listed in table.values():
        listed.sort(key=lambda entry: -len(entry[0]))
    kinds = {mark.kind for sentence in read(value).sentences for mark in sentence.marks}
    return Names(table, frozenset(kinds & {"tissue", "factor"}))


# ---- rankings -------------------------------------------------------------------------------


def _degree(reading: Reading) -> str | None:
    """Return which end of a ranking a question asks for; None if it names both or none."""
    ends = {end for s in reading.sentences for end in _ends(reading, s.first, s.last)}
    return ends.pop() if len(ends) == 1 else None


def _degree_of(scope: Scope, group: Group, names: Names) -> str | None:
    """Return the end of the ranking that the clauses of a group speak of."""
    ends: set[str] = set()
    for clause in {scope.clause(event.first) for event in group.events}:
        first = scope.starts[clause]
        after = (
            scope.starts[clause + 1] - 1 if clause + 1 < len(scope.starts) else scope.sentence.last
        )
        ends.update(_ends(scope.reading, first, after))
    return ends.pop() if len(ends) == 1 else None


def _ends(reading: Reading, first: int, last: int) -> list[str]:
    degrees = degree_words()
    return [degrees[word] for word in reading.words[first : last + 1] if word in degrees]
