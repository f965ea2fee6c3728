"""What surrounds a word decides what it says: negation, conditions, and the clause it stands in.

"it is not true that X is reduced"      one negation reaches "reduced"
"not increased but reduced"             the negation ends at "but"
"down in liver, but up in thymus"       two clauses, each with its own tissue
"""

from bisect import bisect_right
from collections.abc import Sequence

from evals.verifiers.clauses import Clauses, Group
from evals.verifiers.embedding import FAILING, is_framed, is_struck_out, is_truism
from evals.verifiers.reading import Mark, Reading, Sentence
from evals.verifiers.tokens import word_set

__all__ = ["Group", "Scope"]

SHORT_NEGATORS = word_set(
    "no without not never neither nor cannot hardly scarcely isnt arent wasnt werent doesnt didnt dont hasnt wont"
    " wouldnt cant couldnt aint"
)
"""These reach to the next comma; the others ("it is not true that …") to the end of the sentence."""
ASIDES = word_set("not never isn't wasn't aren't weren't doesn't didn't")
"""These reach over an aside between commas: "is not, in my view, reduced"."""
REFUSALS = word_set("false no none untrue wrong never nowhere")
LISTING = word_set("or nor and being is")
GOVERNING = frozenset(
    (
        "not",
        "denial",
        "condition",
        "supposition",
        "averts",
        "hedge",
        "contrast",
        "break",
        "agreement",
    )
)
"""Kinds of marks that decide what becomes of an event."""
AVERTED_WITHIN = 8
"""So many words may stand between "prevents" and the change that it prevents."""
CLOSING = word_set("otherwise contrary differently way")
"""Before a pause, these end what a negation is about: "nothing suggests otherwise: X is reduced"."""
OPPOSING = word_set("contradict inconsistent disagree disagrees disagreed")
"""Words of disagreement that deny a direction behind them: "the data contradict X being reduced"."""
BESIDE = 4
"""So many words may stand between two negations that cancel each other."""
ASIDE_OF = word_set("as than and nor")
"""Before or within a trailing denial, these tie it to something else: "down, as was expected"."""
MANY_HEDGES = 3
"""From this many words of doubt on, a sentence asserts nothing."""


class Scope(Clauses):
    """A sentence seen from the events in it: what denies, supposes or averts each of them."""

    __slots__ = ("_by_kind", "commas", "turns")

    def __init__(self, reading: Reading, sentence: Sentence, events: Sequence[Mark]) -> None:
        super().__init__(reading, sentence, events)
        self.commas = sentence.commas
        self.turns: list[int] = []
        self._by_kind: dict[str, list[Mark]] = {}
        if not sentence.kinds.isdisjoint(GOVERNING):
            self._sort_out()

    def _sort_out(self) -> None:
        by_kind = self._by_kind
        for mark in self.sentence.marks:
            kind = mark.kind
            if kind == "break":
                if mark.form == "turn":
                    self.turns.append(mark.first)
            elif kind == "agreement":
                if self._opposes(mark):
                    opposing = mark._replace(kind="not", value="refuter", form="short")
                    by_kind.setdefault("not", []).append(opposing)
            elif kind in GOVERNING:
                by_kind.setdefault(kind, []).append(mark)
                if kind == "contrast" or mark.form == "contrast":
                    self.contrasts.append(mark)
        if len(by_kind.get("not", ())) > 1:
            by_kind["not"] = self._uncancelled(by_kind["not"])

    def _opposes(self, mark: Mark) -> bool:
        """Say whether a word of disagreement has an object: "contradict X", "inconsistent with X"."""
        words, after = self.reading.words, mark.last + 1
        if mark.first != mark.last or words[mark.first] not in OPPOSING:
            return False
        if after > self.sentence.last or self.reading.gaps[after] != " " or mark in self.events:
            return False
        return words[mark.first] == "contradict" or words[after] == "with"

    def _uncancelled(self, negations: Sequence[Mark]) -> list[Mark]:
        """Return the negations without each pair that cancels: "nobody disputes", "no denying"."""
        left: list[Mark] = []
        for mark in negations:
            earlier = left[-1] if left else None
            if (
                earlier is not None
                and mark.value == "refuter" != earlier.value
                and mark.first - earlier.last <= BESIDE
                and not self._comma(earlier.last, mark.first)
                and not any(earlier.last < event.first < mark.first for event in self.events)
            ):
                left.pop()
            else:
                left.append(mark)
        return left

    def of_kind(self, kind: str) -> Sequence[Mark]:
        """Return the marks of a kind that governs others, such as negations."""
        return self._by_kind.get(kind, ())

    def is_negated(self, event: Mark) -> bool:
        """Say whether an odd number of negations reaches the event."""
        by_kind = self._by_kind
        if "not" not in by_kind and "denial" not in by_kind:
            return False
        count = 0
        emphatic = False
        for mark in self.of_kind("not"):
            if mark.last < event.first and self._reaches(mark, event, already=count):
                is_aside = self._opens_aside(mark)
                count += not (is_aside and emphatic)
                emphatic = emphatic or is_aside
        for mark in self.of_kind("denial"):
            count += mark.form != "open" and self._denies(mark, event)
        return count % 2 == 1

    def is_conditional(self, event: Mark) -> bool:
        """Say whether "if", "whether" or "either" governs the event."""
        return "condition" in self._by_kind and any(
            mark.last < event.first and not self._comma(mark.last, event.first)
            for mark in self.of_kind("condition")
        )

    def is_supposed(self, event: Mark) -> bool:
        """Say whether a direction is only supposed: "if" anywhere in its sentence, "would" before it.

        A turn ("but", "however") between the two ends the supposition. A figure that would result
        is a figure stated, so "would" governs directions only.
        """
        words, last = self.reading.words, self.sentence.last
        if words[last] == "not" and "or" in words[event.last : last]:
            return True
        by_kind = self._by_kind
        if "denial" in by_kind and any(
            mark.form == "open" and self._denies(mark, event) for mark in by_kind["denial"]
        ):
            return True
        for mark in (*by_kind.get("condition", ()), *by_kind.get("supposition", ())):
            if mark.form == "if":
                if not self._turns(min(mark.last, event.last), max(mark.first, event.first)):
                    return True
            elif mark.form == "would" and event.kind != "direction":
                continue
            elif mark.last < event.first and not self._comma(mark.last, event.first):
                return True
        if len(self.events) > 1 and is_truism(self, event):
            return True
        return is_framed(self, event, self.turns) and not self.is_negated(event)

    def is_averted(self, event: Mark) -> bool:
        """Say whether the event is what something keeps from happening ("prevents the fall of X")."""
        return "averts" in self._by_kind and any(
            0 < event.first - mark.last <= AVERTED_WITHIN
            and not self._comma(mark.last, event.first)
            for mark in self.of_kind("averts")
        )

    def is_taken_back(self, event: Mark) -> bool:
        """Say whether an event is followed by ": false", or by a lone "not" at the sentence's end."""
        last, words = self.sentence.last, self.reading.words
        if is_struck_out(self, event):
            return True
        if event.last < last and words[event.last + 1] in REFUSALS:
            after = event.last + 2
            is_end = after > last or self.reading.gaps[after] != " "
            if is_end and self.reading.gaps[event.last + 1].strip(' "') in (":", "=", "-"):
                return True
        if words[last] != "not" or event is not self.events[-1]:
            return False
        return event.last < last and "or" not in self.reading.words[event.last : last]

    def is_hedged_away(self) -> bool:
        """Say whether the sentence doubts so much that it asserts nothing."""
        return len(self.of_kind("hedge")) >= MANY_HEDGES

    def _reaches(self, negator: Mark, event: Mark, already: int) -> bool:
        word = self.reading.words[negator.first]
        if word == "nor" and already:
            return False
        if self.turns and self._turns(negator.last, event.first):
            return False
        is_short = negator.form == "short" or (
            negator.first == negator.last and (word in SHORT_NEGATORS or word.endswith("n't"))
        )
        if (is_short or negator.form == "contrast") and self._comma(negator.last, event.first):
            return word in ASIDES and self._opens_aside(negator)
        if self._closes(negator, event):
            return False
        if len(self.events) < 2:
            return True
        home = self.clause(event.first)
        return not any(
            negator.last < other.first < event.first
            and self.clause(other.last) != home
            and not self._same_list(other, event)
            for other in self.events
        )

    def _opens_aside(self, negator: Mark) -> bool:
        """Say whether punctuation follows a negation at once ("is not, in my view, reduced")."""
        after = negator.last + 1
        return after in self.commas

    def _closes(self, negator: Mark, event: Mark) -> bool:
        """Say whether what is denied ends before the event: "nothing suggests otherwise: …"."""
        place = bisect_right(self.commas, negator.last)
        if place == len(self.commas) or self.commas[place] > event.first:
            return False
        return self.reading.words[self.commas[place] - 1] in CLOSING

    def _same_list(self, left: Mark, right: Mark) -> bool:
        """Say whether only "or", "nor" or "and" stands between two events ("not up or down")."""
        between = self.reading.words[left.last + 1 : right.first]
        return bool(between) and LISTING.issuperset(between)

    def _denies(self, denial: Mark, event: Mark) -> bool:
        if denial.first > event.last:
            return (
                not self._turns(event.last, denial.first)
                and not self._comma(event.last, denial.first)
                and (not denial.form or self._is_of_whole(denial, event))
            )
        if denial.form and self.reading.words[denial.last + 1] not in ("that", "to"):
            return False
        is_leading = not any(other.last < denial.first for other in self.events)
        return (
            is_leading and denial.last < event.first and not self._turns(denial.last, event.first)
        )

    def _is_of_whole(self, denial: Mark, event: Mark) -> bool:
        """Say whether a denial behind an event is of it, not of "as was expected" or one mission."""
        words, after = self.reading.words, denial.last + 1
        if not ASIDE_OF.isdisjoint(words[event.last + 1 : denial.first]):
            return False
        if denial.first == event.last + 1 and words[denial.first] in FAILING:
            return event.form != "noun"  # a noun that fails is struck out already
        ahead = words[after : min(after + 2, self.sentence.last + 1)]
        if ahead and ahead[0] == "and":
            return False
        is_of_one = any(
            mark.kind == "mission" and after <= mark.first <= after + 1
            for mark in self.sentence.marks
        )
        return not is_of_one and not any(
            other.first > denial.last and not self._comma(denial.last, other.first)
            for other in self.events
        )

    def _turns(self, left: int, right: int) -> bool:
        return any(left < turn < right for turn in self.turns)

    def _comma(self, left: int, right: int) -> bool:
        place = bisect_right(self.commas, left)
        return place < len(self.commas) and self.commas[place] <= right
