"""Which gene sets a direction is said of: its object, its subject, or what was spoken of before."""

from evals.verifiers.grammar import be_words, neutral_words, preposition_words
from evals.verifiers.heads import EVERYTHING, is_generic, is_of_something_else
from evals.verifiers.reading import Mark, Sentence
from evals.verifiers.scope import Group, Scope
from evals.verifiers.signs import SPOKEN
from evals.verifiers.tokens import word_set

Sets = tuple[str | None, ...]
"""Gene sets, None for the one that was asked about; () for something else altogether."""
PRONOUNS = word_set("it this there here they these that")
THE_SAME = word_set("set sets pathway pathways genes gene expression signature score direction")
"""After "the", these mean what was spoken of before."""
AGENTS = word_set(
    "inhibitor inhibitors repressor repressors regulator regulators antagonist antagonists suppressor suppressors"
    " blocker blockers activator activators agonist agonists inducer inducers driver drivers opponents"
)
""""Inhibitors of X" and "X inhibitors" are not X."""
ARTICLES = word_set("a an the")
OF_ORGANS = word_set("higher lower reduced larger smaller more less shrinks shrank shrunk")
"""Said of an organ itself ("the thymus is lower"), these say nothing of a gene set."""
ORGAN_PARTS = word_set("cell cells tissue tissues itself organ gland")
TRANSITIVE = word_set(
    "switches turns shuts suppresses suppress inhibits inhibit represses repress stimulates stimulate promotes promote"
    " induces induce silences enhances enhance boosts boost raises raise impairs impair attenuates attenuate"
)
"""Verbs that need an object: a gene set before one of these acts on something else."""
PARTICLES = word_set("up down")
PATHWAY_NOUNS = word_set("of in for")
OBJECTLESS = frozenset(("intransitive", "weak", "nes", "changed", "sign"))
NOTHING = word_set("nothing none nobody no")
MODIFIERS = word_set("not more also")
STOPS = frozenset(("mission", "direction", "break", "majority"))
LISTING = word_set("and or both the")
RELATIVES = word_set("which who")


class Topic:
    """What earlier sentences were about. `heading` is the tissue of the list that is being read."""

    __slots__ = ("heading", "pathway", "tissues")

    def __init__(self) -> None:
        self.pathway: str | None = None
        self.tissues: tuple[str, ...] = ()
        self.heading: tuple[str, ...] = ()

    def remember(self, scope: Sentence) -> None:
        """Take note of what a sentence names."""
        kinds = scope.kinds
        if "pathway" in kinds:
            self.pathway = [mark.value for mark in scope.marks if mark.kind == "pathway"][-1]
        if "tissue" in kinds:
            named = [mark.value for mark in scope.marks if mark.kind == "tissue"]
            self.tissues = tuple(dict.fromkeys(named)) if len(named) > 1 else (named[0],)

    def where(self, words: list[str], sentence: Sentence) -> tuple[str, ...]:
        """Return the tissues that a sentence means though it names none."""
        if self.heading:
            return self.heading
        first = words[sentence.first]
        if first in PRONOUNS:
            return self.tissues
        if first == "the" and sentence.last > sentence.first and "pathway" not in sentence.kinds:
            return self.tissues if words[sentence.first + 1] in THE_SAME else ()
        return ()


def sets_of(scope: Scope, group: Group, event: Mark, topic: Topic, before: Sets | None) -> Sets:
    """Return the gene sets that an event speaks of; `before` are those of the event before it."""
    kind, pathway = _object(scope, event)
    if kind == "pathway":
        return () if pathway is None else (pathway,)
    if kind == "foreign":
        return ()
    start = scope.clause_start(event.first)
    words, at = scope.reading.words, scope.mark_at
    if words[start] in RELATIVES and start > scope.sentence.first:
        mark = scope.last_before(start, "pathway")
        return (mark.value,) if mark else (topic.pathway,)
    own = _listed(scope, start, event.first)
    if own:
        named = scope.last_before(event.first, "pathway")
        if named is not None and is_of_something_else(scope, named, start, event):
            return ()
        return () if event.form == "verb" and words[event.first] in TRANSITIVE else own
    between = range(start, event.first)
    if _names_agents(scope, start, event):
        return ()
    for token in between:
        if token not in at and not is_neutral(words[token], None) and words[token] not in SPOKEN:
            return ()
    if before is not None and start not in scope.sentence.starts:
        return before
    if _is_of_organ(scope, event, start) or _sets_all_apart(scope, start, event):
        return ()
    if is_generic(scope, start, event):
        return ()
    earlier = _listed(scope, scope.sentence.first, start)
    if earlier:
        return earlier[-1:]
    if "pathway" in scope.sentence.kinds:
        for mark in group.marks:
            if mark.kind == "pathway" and mark.first > event.last:
                is_apart = scope.is_contrasted(mark) or _is_agent(scope, mark)
                return (topic.pathway,) if is_apart else (mark.value,)
    return (topic.pathway,)


def is_neutral(word: str, mark: Mark | None) -> bool:
    """Say whether a word may stand between a subject and what is said of it."""
    if mark is not None:
        return True
    return word in neutral_words() or word.endswith(("ly", "fold")) or word[0].isdigit()


def _listed(scope: Scope, first: int, until: int) -> tuple[str, ...]:
    """Return the gene sets named in tokens first..until-1, with the list they end ("A, B and C …")."""
    if "pathway" not in scope.sentence.kinds:
        return ()
    named = [
        mark
        for mark in scope.sentence.marks
        if mark.kind == "pathway" and mark.first < until and not scope.is_contrasted(mark)
    ]
    if not named:
        return ()
    inside = [mark for mark in named if mark.first >= first]
    if not inside or _is_agent(scope, inside[-1]):
        return ()
    listed = list(inside)
    for mark in reversed(named[: len(named) - len(inside)]):
        if not LISTING.issuperset(scope.reading.words[mark.last + 1 : listed[0].first]):
            break
        listed.insert(0, mark)
    return tuple(dict.fromkeys([mark.value for mark in listed]))


def _names_agents(scope: Scope, start: int, event: Mark) -> bool:
    """Say whether the clause speaks of what acts on a gene set: "regulators of X are down"."""
    if "pathway" not in scope.sentence.kinds:
        return False
    for mark in scope.sentence.marks:
        if mark.kind == "pathway" and start <= mark.first < event.first and _is_agent(scope, mark):
            return True
    return False


def _is_agent(scope: Scope, mark: Mark) -> bool:
    """Say whether a gene set only tells whose agent is meant ("inhibitors of X", "X inhibitors")."""
    words, sentence = scope.reading.words, scope.sentence
    if mark.last < sentence.last and words[mark.last + 1] in AGENTS:
        return True
    head = mark.first - 1
    while head > sentence.first and words[head] in ARTICLES:
        head -= 1
    return head > sentence.first and words[head] == "of" and words[head - 1] in AGENTS


def _is_of_organ(scope: Scope, event: Mark, start: int) -> bool:
    """Say whether an event is said of an organ or its cells: "the thymus is lower"."""
    words, at = scope.reading.words, scope.mark_at
    if words[event.first] not in OF_ORGANS:
        return False
    token = event.first - 1
    while token >= start and (
        words[token] in be_words() or words[token].endswith("ly") or words[token] in ORGAN_PARTS
    ):
        token -= 1
    mark = at.get(token)
    if token < start or mark is None or mark.kind != "tissue":
        return False
    before = mark.first - 1
    while before >= start and words[before] in ARTICLES:
        before -= 1
    return before < start or words[before] not in preposition_words()


def _sets_all_apart(scope: Scope, start: int, event: Mark) -> bool:
    """Say whether the clause names gene sets only to leave them out: "all sets except X are down"."""
    if not scope.contrasts:
        return False
    is_of_rest = not EVERYTHING.isdisjoint(scope.reading.words[start : event.first])
    return any(
        mark.kind == "pathway"
        and (start <= mark.first < event.first or (is_of_rest and scope.is_contrasted(mark)))
        for mark in scope.sentence.marks
    )


def _object(scope: Scope, event: Mark) -> tuple[str, str | None]:
    """Return ("pathway", id), ("foreign", None) or ("none", None) for what the event acts on."""
    words, sentence = scope.reading.words, scope.sentence
    token, last = event.last + 1, sentence.last
    if event.form in OBJECTLESS or words[event.first] in PARTICLES or token > last:
        return "none", None
    if event.form == "participle" or event.form == "bare":
        if _is_predicate(scope, event):
            return "none", None
    elif event.form == "noun":
        if words[event.last] != "of":
            if words[token] not in PATHWAY_NOUNS:
                mark = scope.mark_at.get(token)
                is_set = mark is not None and mark.kind == "pathway"
                return ("pathway", mark.value) if mark and is_set else ("none", None)
            token += 1
        return _acted_on(scope, event, token)
    if words[token] in preposition_words():
        return "none", None
    return _acted_on(scope, event, token)


def _acted_on(scope: Scope, event: Mark, token: int) -> tuple[str, str | None]:
    words, gaps, at = scope.reading.words, scope.reading.gaps, scope.mark_at
    is_first = True
    while token <= scope.sentence.last and gaps[token] in (" ", "-"):
        mark = at.get(token)
        if mark is not None:
            if mark.kind == "pathway":
                return "pathway", None if _is_agent(scope, mark) else mark.value
            if mark.kind == "tissue":
                is_object = event.form == "verb" and is_first
                return ("foreign" if is_object else "none"), None
            if mark.kind in STOPS:
                return "none", None
        word = words[token]
        if word in NOTHING or not is_neutral(word, mark):
            return "foreign", None
        if word in preposition_words() and word != "of":
            return "none", None
        is_first = is_first and word in ARTICLES
        token += 1
    return "none", None


def _is_predicate(scope: Scope, event: Mark) -> bool:
    token = event.first - 1
    words, first = scope.reading.words, scope.sentence.first
    while token >= first and (words[token].endswith("ly") or words[token] in MODIFIERS):
        token -= 1
    return token >= first and words[token] in be_words()
