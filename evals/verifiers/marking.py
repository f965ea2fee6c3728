"""Find the known phrases of a sentence: one look at each word, more only where a phrase may begin."""

from functools import cache
from typing import NamedTuple

from evals.verifiers.lexicon import Tag, entries
from evals.verifiers.names import pathway_phrases

JOINERS = frozenset(("", "\n", " ", "-", " -", "- ", "/", " / ", " ("))
"""What may stand between the words of one phrase."""
LATE = frozenset(("commas", "kinds", "marks", "starts"))
"""What a sentence finds out when it is first asked."""
Tree = dict[str, "Node"]
Node = tuple[Tag | None, "Tree"]
"""Where a phrase may go on: its tag if it may end here, and the words that may follow."""


class Mark(NamedTuple):
    """A known phrase at tokens first..last."""

    kind: str
    value: str
    form: str
    first: int
    last: int


class Source(NamedTuple):
    """The words and gaps that sentences are parts of, and the words that only copy the question."""

    words: list[str]
    gaps: list[str]
    copied: frozenset[int]


class Sentence:
    """Tokens first..last with their marks; `starts` are the tokens at which a clause begins.

    `commas` are those of them that follow punctuation, and the first. `kinds` are the kinds of the
    marks, to see at a glance what a sentence cannot hold. These four are found when one of them is
    first asked for: most sentences have no telling word (`n_telling`) and are never asked.
    """

    __slots__ = (
        "_source",
        "commas",
        "cues",
        "cuts",
        "first",
        "kinds",
        "last",
        "marks",
        "n_telling",
        "starts",
    )

    commas: list[int]
    kinds: set[str]
    marks: list[Mark]
    starts: list[int]

    def __init__(self, source: Source, first: int, last: int, starts: list[int]) -> None:
        self._source = source
        self.first = first
        self.last = last
        self.cuts = starts
        self.n_telling = self.cues = 0

    def __getattr__(self, name: str) -> object:
        """Find the marks; Python asks here only for a slot that is still empty."""
        if name not in LATE:
            raise AttributeError(name)
        self.commas = self.starts = self.cuts
        self.marks, self.kinds = [], set()
        mark_phrases(self._source, self)
        return getattr(self, name)

    def join(self, first: int, last: int, gaps: list[str]) -> None:
        """Take out the clauses that only the parentheses within a name begin: "X (up genes)"."""
        end = last + 1 if gaps[last + 1] == ") " else last
        self.commas = [token for token in self.commas if not first < token <= end]
        self.starts = self.commas

    def break_at(self, breaks: list[int]) -> None:
        """Let clauses begin at these tokens too."""
        if breaks:
            self.starts = sorted({*self.commas, *breaks})

    @property
    def is_row(self) -> bool:
        """Whether the sentence is a row of a table."""
        return "|" in self._source.gaps[self.first]

    def __len__(self) -> int:
        return self.last - self.first + 1


def mark_phrases(source: Source, sentence: Sentence) -> None:
    """Give a sentence the longest known phrases in it, left to right, and its inner clauses."""
    words, gaps, copied = source
    ends, openers = phrase_trees()
    free, final = sentence.first, sentence.last
    hits = [
        place
        for place, word in enumerate(words[free : final + 1], free)
        if word in ends or (word in openers and place < final and words[place + 1] in openers[word])
    ]
    new, marks, kinds = tuple.__new__, sentence.marks, sentence.kinds
    breaks: list[int] = []
    for index in hits:
        if index < free or (copied and index in copied):
            continue
        word = words[index]
        if word in ends:
            tag, following = ends[word]
        else:
            tag, following = None, openers[word]
        last = index
        if following:
            ahead = index + 1
            while ahead <= final and words[ahead] in following and gaps[ahead] in JOINERS:
                found, following = following[words[ahead]]
                if found is not None:
                    tag, last = found, ahead
                ahead += 1
        if tag is None:
            continue
        kind = tag[0]
        # As Mark(*tag, index, last); every word is a candidate here, and this takes half the time.
        marks.append(new(Mark, (*tag, index, last)))
        kinds.add(kind)
        free = last + 1
        if kind == "break":
            breaks.append(index)
        elif kind == "pathway" and last > index and gaps[last + 1][:1] == ")":
            sentence.join(index, last, gaps)
    sentence.break_at(breaks)


@cache
def phrase_trees() -> tuple[dict[str, tuple[Tag, Tree]], dict[str, Tree]]:
    """Return all known phrases by first word: those that may end with it, and those that go on."""
    tree: Tree = {}
    named = [(phrase, Tag("pathway", pathway)) for phrase, pathway in pathway_phrases()]
    for phrase, tag in (*entries(), *named):
        here = tree
        for word in phrase[:-1]:
            here = here.setdefault(word, (None, {}))[1]
        here[phrase[-1]] = (tag, here.get(phrase[-1], (None, {}))[1])
    ends = {word: (tag, more) for word, (tag, more) in tree.items() if tag is not None}
    return ends, {word: more for word, (tag, more) in tree.items() if tag is None}
