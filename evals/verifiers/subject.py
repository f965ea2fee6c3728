"""What a question of the kaempferol study is about: a tissue, and the factors that were varied."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from evals.verifiers.names import same_tissue
from evals.verifiers.reading import Mark, Reading, read
from evals.verifiers.scope import Group, Scope

TREATMENTS = frozenset(("HU", "IR", "KMP"))
NARROWINGS = frozenset(("interaction", "baseline", "UP", "DOWN"))
"""Naming one of these makes it another subject, unless the subject has it too."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A tissue (None = none named) and a set of factors: treatments, interaction, baseline, UP, DOWN."""

    tissue: str | None
    factors: frozenset[str]


@lru_cache(maxsize=256)
def subject_of(text: str) -> Subject:
    """Return the tissue and factors that a subject names, e.g. "KMP_x_HU in soleus"."""
    reading = read(text)
    marks = [mark for sentence in reading.sentences for mark in sentence.marks]
    tissues = [mark.value for mark in marks if mark.kind == "tissue"]
    return Subject(tissues[0] if tissues else None, factors_in(reading, marks))


def factors_in(reading: Reading, marks: Iterable[Mark]) -> frozenset[str]:
    """Return the factors that the marks name; "KMP x HU" names three, "upregulated" names UP."""
    found: set[str] = set()
    for mark in marks:
        if mark.kind == "factor":
            found.update(mark.value.split("+"))
        elif mark.kind == "direction" and reading.words[mark.first].startswith(("up", "down")):
            found.add(mark.value)
    return frozenset(found)


def names_tissue(group: Group, subject: Subject) -> bool:
    """Say whether the clauses speak of the subject's tissue; one that is not named is meant."""
    asked = subject.tissue
    return not asked or not group.tissues or any(same_tissue(name, asked) for name in group.tissues)


def names_factors(scope: Scope, group: Group, subject: Subject) -> bool:
    """Say whether the clauses speak of the subject's factors; what they do not name is meant."""
    last = max(event.last for event in group.events)
    marks = [
        mark
        for mark in group.marks
        if not scope.is_contrasted(mark)
        # "8,484 genes, half of them up" counts all of them
        and not (mark.kind == "direction" and scope.clause(mark.first) > scope.clause(last))
    ]
    named = factors_in(scope.reading, marks)
    treatments = named & TREATMENTS
    if subject.factors & TREATMENTS and treatments and treatments != subject.factors & TREATMENTS:
        return False
    return not (subject.factors and (named - subject.factors) & NARROWINGS)
