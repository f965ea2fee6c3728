"""Judge a name out of several: a class, a tissue, a pattern, a factor, yes or no.

truth "Type A", others "Type B", "Type C":   "Soleus is type A, not type B."      correct
truth "soleus", asked which has more genes:  "Soleus has more genes than liver."  correct
                                             "Soleus has fewer genes than liver." incorrect
"""

from collections.abc import Iterator
from dataclasses import dataclass

from evals.schema import Claim, LabelTruth
from evals.verifiers.asked import asks_back, question_reading
from evals.verifiers.candidates import Names, named, names_of, without_alternatives
from evals.verifiers.finding import Finding
from evals.verifiers.ranking import (
    OPPOSITE,
    asked_degree,
    asked_stems,
    clause_of,
    degree_of,
    is_denied_after,
    is_foreign,
    is_idle,
    is_set_aside,
)
from evals.verifiers.reading import Mark, Reading, Sentence
from evals.verifiers.reply import Reply, is_voided, replies
from evals.verifiers.scope import Scope
from evals.verifiers.stance import implied
from evals.verifiers.subject import Subject, names_factors, names_tissue, subject_of

YES_NO = frozenset(("yes", "no"))
GOES_ON = frozenset(("it", "this", "they", "these", "that"))
"""A sentence that opens with one of these is about the tissue spoken of before."""
MANY_ITEMS = 6
"""A list of so many items names more than any question offers."""
EVERYWHERE = frozenset(("everywhere", "everything", "all", "every", "any", "anywhere", "each"))
"""What stands after "but" is left out: "everywhere but in the soleus"."""


@dataclass(frozen=True, slots=True)
class Mention:
    """A name that an answer asserts, or denies, of the subject or of something else."""

    name: str
    is_right: bool
    is_denied: bool
    is_ours: bool
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: of whom, which end of a ranking if any, and the words that it uses."""

    subject: Subject
    degree: str | None
    stems: frozenset[str]


def judge_label(truth: LabelTruth, reading: Reading, question: str) -> Finding:
    """Return the verdict on the names that an answer asserts about the subject.

    A plain yes or no asserts or denies the one name that a yes/no question holds. Where yes or no
    is itself the answer, what the statements imply counts too, so that neither belies the other.
    """
    subject = subject_of(truth.subject or "")
    if truth.value in YES_NO:
        found = list(_answers(truth, reading, question, subject))
    else:
        names = names_of(truth.value, truth.accept, truth.others)
        degree = asked_degree(question) if names.kinds else None
        asked = Question(subject, degree, asked_stems(question))
        found = list(_confirmed(names, reading, question))
        found += _stated(names, reading, asked)
    finding = _weigh(truth, found)
    claims = tuple(_claim(reading, truth, mention) for mention in found)
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
    start, end = reading.span(mention.first, mention.last)
    return Claim(
        subject=(truth.subject or "what is asked") if mention.is_ours else "another subject",
        says=mention.name,
        start=start,
        end=end,
        about="label",
        is_denied=mention.is_denied,
    )


# ---- yes and no -----------------------------------------------------------------------------


def _answers(
    truth: LabelTruth, reading: Reading, question: str, subject: Subject
) -> Iterator[Mention]:
    """Yield each yes and no that an answer gives or implies."""
    given = [reply for reply in replies(reading) if _is_of(reading, reply, subject)]
    for reply in (*given, *implied(reading, question, subject, with_figures=bool(given))):
        name = "yes" if reply.is_yes else "no"
        yield Mention(name, name == truth.value, False, True, reply.first, reply.last)


def _is_of(reading: Reading, reply: Reply, subject: Subject) -> bool:
    """Say whether a reply is not about another tissue: "Yes, in heart"."""
    for sentence in reading.sentences:
        if sentence.first <= reply.first <= sentence.last:
            event = Mark("reply", "", "", reply.first, reply.last)
            groups = Scope(reading, sentence, [event]).groups()
            return all(names_tissue(group, subject) for group in groups)
    return True


def _confirmed(names: Names, reading: Reading, question: str) -> Iterator[Mention]:
    """Yield the name that a plain yes or no confirms or denies, where the question holds just one."""
    asked = _asked_name(names, question)
    if asked is not None:
        for reply in replies(reading):
            yield _by_reply(asked, reply)


def _by_reply(asked: Mark, reply: Reply) -> Mention:
    is_right = asked.form == "right"
    return Mention(asked.value, is_right, not reply.is_yes, True, reply.first, reply.last)


def _asked_name(names: Names, question: str) -> Mark | None:
    if not asks_back(question):
        return None
    reading = question_reading(question)
    found = [
        mark
        for sentence in reading.sentences
        for mark in without_alternatives(reading, named(reading, sentence, names), names)
    ]
    return found[0] if len({mark.value for mark in found}) == 1 else None


# ---- names ----------------------------------------------------------------------------------


def _stated(names: Names, reading: Reading, asked: Question) -> list[Mention]:
    """Return the names that the sentences of an answer assert or deny."""
    found: list[Mention] = []
    earlier: tuple[str, ...] = ()
    for sentence in reading.sentences:
        if _is_list(sentence):
            continue
        events = without_alternatives(reading, named(reading, sentence, names), names)
        if events:
            scope = Scope(reading, sentence, events)
            if not scope.is_hedged_away():
                found += _mentions(scope, names, asked, earlier, bool(found))
        tissues = tuple(dict.fromkeys(m.value for m in sentence.marks if m.kind == "tissue"))
        earlier = tissues or earlier
    return found


def _is_list(sentence: Sentence) -> bool:
    """Say whether a sentence only lists names of all kinds, and so picks none."""
    n_items = len(sentence.commas)
    return n_items >= MANY_ITEMS and len(sentence) <= 2 * n_items


def _mentions(
    scope: Scope, names: Names, asked: Question, earlier: tuple[str, ...], has_answer: bool
) -> list[Mention]:
    """Return the names a sentence asserts or denies.

    Where the question asks for one end of a ranking, a name at the other end is denied, and a name
    that only comes with a figure after the answer was given is a detail.
    """
    found: list[Mention] = []
    goes_on = scope.reading.words[scope.sentence.first] in GOES_ON
    for group in scope.groups():
        if not group.tissues and goes_on:
            group.tissues = earlier
        is_ours = ("tissue" in names.kinds or names_tissue(group, asked.subject)) and (
            "factor" in names.kinds or names_factors(scope, group, asked.subject)
        )
        for event in group.events:
            if _is_passed_over(scope, names, asked, event):
                continue
            degree = _degree(scope, asked, event)
            is_detail = degree is None and (has_answer or found) and _is_detail(scope, event)
            if asked.degree and is_detail:
                continue
            is_low = degree is not None and degree != asked.degree
            is_denied = (_is_negated(scope, event) != is_low) != _is_left_out(scope, event)
            right = event.form == "right"
            found.append(Mention(event.value, right, is_denied, is_ours, event.first, event.last))
    return found


def _is_passed_over(scope: Scope, names: Names, asked: Question, event: Mark) -> bool:
    """Say whether a name is supposed, set apart, or said in another matter."""
    if scope.is_conditional(event) or scope.is_supposed(event) or is_set_aside(scope, event):
        return True
    if scope.is_contrasted(event) and _degree(scope, asked, event) is None:
        return True
    return bool(names.kinds) and (
        is_foreign(scope, event, names.kinds) or is_idle(scope, event, asked.stems)
    )


def _degree(scope: Scope, asked: Question, event: Mark) -> str | None:
    """Return the end of the ranking that a name is put at; behind "than" it is the other one."""
    degree = degree_of(scope, event, asked.stems) if asked.degree else None
    if degree is None or not scope.is_contrasted(event):
        return degree
    return OPPOSITE[degree] if _is_after_than(scope, event) else None


def _is_negated(scope: Scope, event: Mark) -> bool:
    return (
        scope.is_negated(event)
        or is_denied_after(scope, event)
        or is_voided(scope.reading, scope.sentence, event.first, event.last)
    )


def _is_after_than(scope: Scope, event: Mark) -> bool:
    first, _ = clause_of(scope, event)
    return "than" in scope.reading.words[first : event.first]


def _is_detail(scope: Scope, event: Mark) -> bool:
    """Say whether a name comes with a figure, or as the next of a ranking: "…, then liver"."""
    first, last = clause_of(scope, event)
    if "then" in scope.reading.words[max(first, event.first - 3) : event.first]:
        return True
    return any(scope.reading.words[token][0].isdigit() for token in range(first, last + 1))


def _is_left_out(scope: Scope, event: Mark) -> bool:
    """Say whether a name is the exception: "everywhere but in the soleus", "all but the liver"."""
    words = scope.reading.words
    for token in range(event.first - 1, max(scope.sentence.first, event.first - 4), -1):
        if words[token] == "but":
            return bool(EVERYWHERE & set(words[max(scope.sentence.first, token - 2) : token]))
    return False
