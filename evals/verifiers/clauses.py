"""The clauses of a sentence, and which of its words belong to which of its statements.

"down in liver, but up in thymus"       two clauses, each with its own tissue
"In thymus, it falls"                   a clause without an event belongs to the next one
"""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise

from evals.verifiers.reading import Mark, Reading, Sentence
from evals.verifiers.table import Row, wide_row
from evals.verifiers.tokens import word_set

JOINTS = word_set("and or then")
"""Between two events, one of these begins a clause."""
PLACES = frozenset(("tissue", "mission"))
NAMED = ("tissue", "pathway", "mission")
"""Kinds of marks of which a cell takes the nearest: its own, those of its column, those of its row."""


class Group:
    """The clauses that belong to the same statements, with the marks in them.

    `tissues` and `pathways` that a group does not name are those of the group before it. A cell of a
    wide table (`is_cell`) has the marks of its column and of its row.
    """

    __slots__ = ("events", "is_cell", "marks", "pathways", "tissues")

    def __init__(self, events: list[Mark], marks: list[Mark]) -> None:
        self.events = events
        self.is_cell = False
        self.marks = marks
        self.tissues: tuple[str, ...] = ()
        self.pathways: tuple[str, ...] = ()


class Clauses:
    """A sentence in clauses, with the events in it (the words that may assert something)."""

    __slots__ = ("_at", "contrasts", "events", "reading", "sentence", "starts")

    def __init__(self, reading: Reading, sentence: Sentence, events: Sequence[Mark]) -> None:
        self.reading = reading
        self.sentence = sentence
        self.events = events
        self.contrasts: list[Mark] = []
        self._at: dict[int, Mark] | None = None
        self.starts = sentence.starts if len(events) < 2 else self._split_at_and()

    @property
    def mark_at(self) -> dict[int, Mark]:
        """The mark that covers a token, for the tokens that one covers."""
        if self._at is None:
            marks = self.sentence.marks
            self._at = {t: mark for mark in marks for t in range(mark.first, mark.last + 1)}
        return self._at

    def clause(self, token: int) -> int:
        """Return the number of the clause in which a token stands."""
        return bisect_right(self.starts, token) - 1

    def clause_start(self, token: int) -> int:
        """Return the first token of the clause in which a token stands."""
        return self.starts[bisect_right(self.starts, token) - 1]

    def groups(self) -> list[Group]:
        """Return the events grouped by clause, each with the marks of all clauses that belong to it.

        A clause without an event belongs to the next one that has one ("In thymus, …"), or to the
        one before if it goes on with a list (", and eye") or if none follows.
        """
        starts, events = self.starts, self.events
        if self.sentence.is_row:
            row = wide_row(self.reading, self.sentence)
            if row and any(row.columns[event.first] in row.heads for event in events):
                return self._cells(row)
        if len(events) == 1:
            return [self._only(Group([events[0]], self.sentence.marks))]
        groups: dict[int, Group] = {}
        for event in events:
            clause = bisect_right(starts, event.first) - 1
            if clause in groups:
                groups[clause].events.append(event)
            else:
                groups[clause] = Group([event], [])
        homes = sorted(groups)
        if len(homes) == 1:
            groups[homes[0]].marks = self.sentence.marks
        else:
            for mark in self.sentence.marks:
                groups[self._home(self.clause(mark.first), homes)].marks.append(mark)
        tissues: tuple[str, ...] = ()
        pathways: tuple[str, ...] = ()
        for home in homes:
            group = groups[home]
            relative = self._relative_tissue(home)
            own = relative or self._before_parenthesis(home) or self.named(group, "tissue")
            group.tissues = own or tissues
            group.pathways = pathways = self.named(group, "pathway") or pathways
            tissues = tissues if relative else group.tissues
        return [groups[home] for home in homes]

    def _cells(self, row: Row) -> list[Group]:
        """Return a group for each cell with an event: of what its column's head and its row name."""
        by_column: dict[int, list[Mark]] = {}
        for event in self.events:
            by_column.setdefault(row.columns[event.first], []).append(event)
        shared: list[Mark] = []
        own: dict[int, list[Mark]] = {}
        for mark in self.sentence.marks:
            column = row.columns[mark.first]
            (own.setdefault(column, []) if column in by_column else shared).append(mark)
        groups: list[Group] = []
        for column, events in by_column.items():
            sources = (own.get(column, []), row.heads.get(column, []), shared)
            marks = [m for source in sources for m in source if m.kind not in NAMED]
            for kind in NAMED:
                named = ([m for m in source if m.kind == kind] for source in sources)
                marks += next(filter(None, named), [])
            group = Group(events, marks)
            group.is_cell = True
            group.tissues = self.named(group, "tissue")
            group.pathways = self.named(group, "pathway")
            groups.append(group)
        return groups

    def _only(self, group: Group) -> Group:
        """Return the one group of a sentence, with what it names."""
        home = bisect_right(self.starts, group.events[0].first) - 1
        relative = self._relative_tissue(home)
        group.tissues = relative or self._before_parenthesis(home) or self.named(group, "tissue")
        group.pathways = self.named(group, "pathway")
        return group

    def named(self, group: Group, kind: str) -> tuple[str, ...]:
        """Return the tissues (missions, …) of a group, without those it sets itself apart from."""
        if kind not in self.sentence.kinds and not group.is_cell:
            return ()
        named = [mark for mark in group.marks if mark.kind == kind]
        if self.contrasts:
            named = [mark for mark in named if not self.is_contrasted(mark)]
        if len(named) == 1:
            return (named[0].value,)
        return tuple(dict.fromkeys([mark.value for mark in named]))

    def is_contrasted(self, named: Mark) -> bool:
        """Say whether something is named only to be set apart ("unlike in the liver")."""
        if not self.contrasts:
            return False
        return any(
            0 < named.first - mark.last <= 4
            and self.clause(mark.first) == self.clause(named.first)
            and not any(event.first <= mark.first <= event.last for event in self.events)
            for mark in self.contrasts
        )

    def last_before(self, token: int, kind: str) -> Mark | None:
        """Return the nearest mark of a kind before a token of the sentence."""
        for mark in reversed(self.sentence.marks):
            if mark.kind == kind and mark.last < token:
                return mark
        return None

    def _relative_tissue(self, clause: int) -> tuple[str, ...]:
        """Return the tissue that "…, where it falls" speaks of."""
        first = self.starts[clause]
        if self.reading.words[first] != "where" or first == self.sentence.first:
            return ()
        mark = self.last_before(first, "tissue")
        return (mark.value,) if mark else ()

    def _before_parenthesis(self, clause: int) -> tuple[str, ...]:
        """Return the tissue that a clause in parentheses stands right after: "thymus (down)"."""
        first = self.starts[clause]
        gap = self.reading.gaps[first]
        if gap == " " or not gap.endswith("("):
            return ()
        mark = self.mark_at.get(first - 1)
        return (mark.value,) if mark is not None and mark.kind == "tissue" else ()

    def _home(self, clause: int, homes: list[int]) -> int:
        place = bisect_right(homes, clause)
        if place and homes[place - 1] == clause:
            return clause
        if place and (place == len(homes) or self._continues_list(clause)):
            return homes[place - 1]
        return homes[place]

    def _continues_list(self, clause: int) -> bool:
        first = self.starts[clause]
        if clause + 1 < len(self.starts) and ":" in self.reading.gaps[self.starts[clause + 1]]:
            return False
        if self.reading.gaps[first].endswith("("):
            return True
        if self.reading.words[first] in ("and", "or"):
            first += 1
        mark = self.mark_at.get(first)
        return (
            mark is not None
            and mark.first == first
            and mark.kind in ("tissue", "mission", "majority")
        )

    def _split_at_and(self) -> list[int]:
        """Return the clause starts, with "and" starting one where it parts two statements.

        It does between two events of a clause, and after a list that began in the clause before
        ("up in liver, kidney and skin and down in eye").
        """
        starts = self.sentence.starts
        words = self.reading.words
        added: list[int] = []
        for left, right in pairwise(self.events):
            joint = right.first - 1
            lowest = left.last + 1
            while joint >= lowest and words[joint] not in JOINTS:
                joint -= 1
            if joint < lowest:
                continue
            start = starts[bisect_right(starts, right.first) - 1]
            if joint >= start and (start <= left.first or self._ends_list(start, joint, right)):
                added.append(joint)
        return sorted({*starts, *added}) if added else starts

    def _ends_list(self, start: int, joint: int, event: Mark) -> bool:
        at = self.mark_at
        mark = at.get(start)
        return (
            mark is not None
            and mark.first == start
            and mark.kind in PLACES
            and not any(
                t in at and at[t].kind in PLACES and at[t].first == t
                for t in range(joint, event.first)
            )
        )
