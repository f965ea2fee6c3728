"""What surrounds a word decides what it says: negation, conditions, and the clause it stands in.

"it is not true that X is reduced"      one negation reaches "reduced"
"not increased but reduced"             the negation ends at "but"
"down in liver, but up in thymus"       two clauses, each with its own tissue
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from evals.verifiers.reading import CLAUSE, Mark, Reading, Sentence

SHORT_NEGATORS = frozenset(
    ("no", "without", "not", "never", "neither", "nor", "cannot", "hardly", "scarcely")
)
"""These reach to the next comma; the others ("it is not true that …") to the end of the sentence."""
MANY_HEDGES = 3
"""From this many words of doubt on, a sentence asserts nothing."""


@dataclass(slots=True)
class Group:
    """The clauses that belong to the same statements, with the marks in them.

    `tissues` and `pathways` that a group does not name are those of the group before it.
    """

    events: list[Mark] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    tissues: tuple[str, ...] = ()
    pathways: tuple[str, ...] = ()


class Scope:
    """A sentence seen from the events in it (the words that may assert something)."""

    def __init__(self, reading: Reading, sentence: Sentence, events: Sequence[Mark]) -> None:
        self.reading = reading
        self.sentence = sentence
        self.events = events
        self.starts = self._split_at_and()

    @cached_property
    def mark_at(self) -> dict[int, Mark]:
        """The mark that covers a token, for the tokens that one covers."""
        return {t: mark for mark in self.sentence.marks for t in range(mark.first, mark.last + 1)}

    def is_negated(self, event: Mark) -> bool:
        """Say whether an odd number of negations reaches the event."""
        count = 0
        for mark in self.sentence.marks:
            if mark.kind == "not" and mark.last < event.first:
                count += self._reaches(mark, event, already=count)
            elif mark.kind == "denial":
                count += self._denies(mark, event)
        return count % 2 == 1

    def is_conditional(self, event: Mark) -> bool:
        """Say whether "if", "whether" or "either" governs the event."""
        return any(
            mark.kind == "condition"
            and mark.last < event.first
            and not self._comma(mark.last, event.first)
            for mark in self.sentence.marks
        )

    def is_hedged_away(self) -> bool:
        """Say whether the sentence doubts so much that it asserts nothing."""
        return sum(mark.kind == "hedge" for mark in self.sentence.marks) >= MANY_HEDGES

    def clause(self, token: int) -> int:
        """Return the number of the clause in which a token stands."""
        return bisect_right(self.starts, token) - 1

    def clause_start(self, token: int) -> int:
        """Return the first token of the clause in which a token stands."""
        return self.starts[self.clause(token)]

    def groups(self) -> list[Group]:
        """Return the events grouped by clause, each with the marks of all clauses that belong to it.

        A clause without an event belongs to the next one that has one ("In thymus, …"), or to the
        one before if it goes on with a list (", and eye") or if none follows.
        """
        homes = sorted({self.clause(event.first) for event in self.events})
        groups = {home: Group() for home in homes}
        for event in self.events:
            groups[self.clause(event.first)].events.append(event)
        for mark in self.sentence.marks:
            groups[self._home(self.clause(mark.first), homes)].marks.append(mark)
        tissues: tuple[str, ...] = ()
        pathways: tuple[str, ...] = ()
        for home in homes:
            group = groups[home]
            own = self._before_parenthesis(home) or self.named(group, "tissue")
            group.tissues = tissues = own or tissues
            group.pathways = pathways = self.named(group, "pathway") or pathways
        return [groups[home] for home in homes]

    def named(self, group: Group, kind: str) -> tuple[str, ...]:
        """Return the tissues (missions, …) of a group, without those it sets itself apart from."""
        named = [m.value for m in group.marks if m.kind == kind and not self.is_contrasted(m)]
        return tuple(dict.fromkeys(named))

    def is_contrasted(self, named: Mark) -> bool:
        """Say whether something is named only to be set apart ("unlike in the liver")."""
        return any(
            0 < named.first - mark.last <= 4 and self.clause(mark.first) == self.clause(named.first)
            for mark in self.contrasts
        )

    @cached_property
    def contrasts(self) -> list[Mark]:
        """The words that set something apart."""
        marks = self.sentence.marks
        return [mark for mark in marks if mark.kind == "contrast" or mark.value == "contrast"]

    def _before_parenthesis(self, clause: int) -> tuple[str, ...]:
        """Return the tissue that a clause in parentheses stands right after: "thymus (down)"."""
        first = self.starts[clause]
        if not self.reading.gaps[first].endswith("("):
            return ()
        mark = self.mark_at.get(first - 1)
        return (mark.value,) if mark is not None and mark.kind == "tissue" else ()

    def _home(self, clause: int, homes: list[int]) -> int:
        if clause in homes:
            return clause
        before = [home for home in homes if home < clause]
        after = [home for home in homes if home > clause]
        if before and (not after or self._continues_list(clause)):
            return before[-1]
        return after[0]

    def _continues_list(self, clause: int) -> bool:
        first = self.starts[clause]
        if self.reading.words[first] in ("and", "or"):
            first += 1
        named = {
            mark.first
            for mark in self.sentence.marks
            if mark.kind in ("tissue", "mission", "majority")
        }
        return first in named or self.reading.gaps[self.starts[clause]].endswith("(")

    def _split_at_and(self) -> list[int]:
        """Return the clause starts, with "and" starting one where it parts two statements.

        It does between two events of a clause, and after a list that began in the clause before
        ("up in liver, kidney and skin and down in eye").
        """
        starts = list(self.sentence.starts)
        if len(self.events) < 2:
            return starts
        words = self.reading.words
        places = {m.first for m in self.sentence.marks if m.kind in ("tissue", "mission")}
        for left, right in zip(self.events, self.events[1:], strict=False):
            home = bisect_right(starts, right.first) - 1
            first = max(left.last + 1, starts[home])
            joints = [i for i in range(first, right.first) if words[i] in ("and", "or", "then")]
            if not joints:
                continue
            is_same_clause = starts[home] <= left.first
            is_list_end = starts[home] in places and not places & set(
                range(joints[-1], right.first)
            )
            if is_same_clause or is_list_end:
                starts.append(joints[-1])
                starts.sort()
        return starts

    def _reaches(self, negator: Mark, event: Mark, already: int) -> bool:
        word = self.reading.words[negator.first]
        if word == "nor" and already:
            return False
        if self._turns(negator.last, event.first):
            return False
        is_short = negator.first == negator.last and (
            word in SHORT_NEGATORS or word.endswith("n't")
        )
        if (is_short or negator.value == "contrast") and self._comma(negator.last, event.first):
            return False
        return not any(
            negator.last < other.first < event.first
            and self.clause(other.last) != self.clause(event.first)
            and not self._same_list(other, event)
            for other in self.events
        )

    def _same_list(self, left: Mark, right: Mark) -> bool:
        """Say whether only "or", "nor" or "and" stands between two events ("not up or down")."""
        between = self.reading.words[left.last + 1 : right.first]
        return bool(between) and all(
            word in ("or", "nor", "and", "being", "is") for word in between
        )

    def _denies(self, denial: Mark, event: Mark) -> bool:
        if denial.first > event.last:
            return not self._turns(event.last, denial.first) and not self._comma(
                event.last, denial.first
            )
        is_leading = not any(other.last < denial.first for other in self.events)
        return (
            is_leading and denial.last < event.first and not self._turns(denial.last, event.first)
        )

    def _turns(self, left: int, right: int) -> bool:
        return any(
            mark.kind == "break" and mark.form == "turn" and left < mark.first < right
            for mark in self.sentence.marks
        )

    def _comma(self, left: int, right: int) -> bool:
        gaps = self.reading.gaps
        return any(
            gaps[i] != " " and gaps[i] and CLAUSE.search(gaps[i])
            for i in range(left + 1, right + 1)
        )
