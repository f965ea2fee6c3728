"""Matching of predicted to human concerns by similarity, and the threshold of an encoder.

The threshold comes from how alike human concerns on different papers are. No two papers share their concerns, so whatever similarity human concerns on other papers of the same
source reach is reached by chance: style, field, the encoder's common direction (two texts that are equal
word for word are left out: they do say the same). For every human concern
the greatest similarity to one other paper's whole list is taken, for several other papers, because a match
is the best of a list too. The threshold is the quantile of these that lets the wanted share pass. It
depends on the reference and the encoder only, so every system is measured with the same one.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.optimize import linear_sum_assignment

from evals.errors import BadConfig, LabError
from evals.io import Cache, read_rows
from evals.review.clean import category_of, concerns_in, key_of, severity_of
from evals.schema.record import Record
from evals.schema.reports import Assignment, Coverage, Metric, Rates
from evals.schema.reviews import (
    CATEGORIES,
    SEVERITIES,
    UNKNOWN,
    Category,
    PredictionRow,
    ReferenceConcern,
    ReferenceRow,
    Severity,
    Unknown,
)
from evals.stats.calibration import ratio_or_nan
from evals.stats.intervals import Floats, Units, Whole, percentile_interval, resample

Vectors = npt.NDArray[np.float32]
BATCH = 4_096
"""Texts that are encoded before the vectors are put on disk."""


class Encoder(Protocol):
    """Turns texts into vectors; `revision` changes whenever the same text could get another vector."""

    name: str
    revision: str

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return one vector of length 1 per text, shape (texts, dimensions)."""
        ...


class ReadyVectors:
    """Vectors that a file brought; it encodes nothing else."""

    def __init__(self, name: str, vectors: Mapping[str, Sequence[float]]) -> None:
        self.name = name
        self._row = {text.strip(): row for row, text in enumerate(vectors)}
        self._vectors = unit_vectors(np.array(list(vectors.values()), dtype=np.float32))
        self.revision = hashlib.sha256(self._vectors.tobytes()).hexdigest()[:12]

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of texts; LabError names the first that has none."""
        missing = [text for text in texts if text.strip() not in self._row]
        if missing:
            raise LabError(
                f"{len(missing)} texts have no vector in {self.name}, such as {missing[0][:60]!r};"
                " write one for every concern, or name an encoder"
            )
        return self._vectors[[self._row[text.strip()] for text in texts]]


class CachedEncoder:
    """An encoder whose vectors are kept in a file of their own for each revision.

    What was encoded before an interruption is not encoded again. The file may be deleted any time.
    """

    def __init__(self, encoder: Encoder, folder: Path, progress: Callable[[int, int], None] | None = None) -> None:
        self.name, self.revision = encoder.name, encoder.revision
        self._encoder = encoder
        self._progress = progress or (lambda _done, _total: None)
        label = re.sub(r"[^\w.-]+", "-", f"{encoder.name}@{encoder.revision}")[:80]
        short = hashlib.sha256(f"{encoder.name}@{encoder.revision}".encode()).hexdigest()[:8]
        self.cache = Cache(folder / f"{label}-{short}.sqlite")

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of texts, encoding those that are not on disk; each text once."""
        keys = {hashlib.sha256(text.encode()).hexdigest(): text for text in texts}
        found = {keys[key]: np.frombuffer(value, dtype=np.float32) for key, value in self.cache.get(keys).items()}
        missing = [(key, text) for key, text in keys.items() if text not in found]
        missing.sort(key=lambda each: len(each[1]))  # texts that are encoded together are alike in length
        for start in range(0, len(missing), BATCH):
            part = missing[start : start + BATCH]
            vectors = self._encoder.encode([text for _, text in part]).astype(np.float32, copy=False)
            self.cache.put({key: row.tobytes() for (key, _), row in zip(part, vectors, strict=True)})
            found |= {text: row for (_, text), row in zip(part, vectors, strict=True)}
            self._progress(start + len(part), len(missing))
        return np.stack([found[text] for text in texts]) if len(texts) else np.zeros((0, 1), np.float32)


def unit_vectors(vectors: Vectors) -> Vectors:
    """Return vectors of length 1; LabError for one that has no direction or holds no numbers."""
    if vectors.ndim != 2:
        raise LabError("vectors differ in length; every vector of an encoder has as many numbers")
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not np.isfinite(lengths).all() or (lengths == 0).any():
        raise LabError("a vector is zero or holds what is no number; encode its text again")
    return vectors / lengths


CATEGORY_NAMES: tuple[str, ...] = (*CATEGORIES, UNKNOWN)
SEVERITY_NAMES: tuple[str, ...] = (*SEVERITIES, UNKNOWN)
MAJOR = SEVERITY_NAMES.index("major")
UNATTRIBUTED = "unattributed"
"""Where predicted concerns go that are near no human concern, so that no group loses them."""
NAMED = 20
"""Ids of missing or unknown articles that are listed."""


@dataclass(frozen=True)
class Lists:
    """The concerns of one side: texts one after another, `start` (articles + 1) where each list begins.

    `category` and `severity` index CATEGORY_NAMES and SEVERITY_NAMES, `place` the row of the file,
    `article` (texts) the article a text belongs to.
    """

    texts: tuple[str, ...]
    start: Whole
    category: Whole
    severity: Whole
    place: Whole

    @property
    def sizes(self) -> Whole:
        """How many concerns each article has."""
        return np.diff(self.start)

    @property
    def article(self) -> Whole:
        """The article of each concern."""
        return np.repeat(np.arange(len(self.start) - 1), self.sizes)


@dataclass(frozen=True)
class Panel:
    """All articles of a reference with both lists; `is_answered` says which the tool answered.

    `reference_sha256` is over what the human concerns say, whatever the order of the articles.
    """

    article_ids: tuple[str, ...]
    sources: tuple[str, ...]
    predicted: Lists
    human: Lists
    is_answered: np.ndarray
    sizes_in_files: tuple[tuple[int, int], ...]
    coverage: Coverage
    reference_sha256: str


Listed = tuple[str, Category | Unknown, Severity | Unknown, int]
"""A concern: its text, category, severity, and place in the row of the file."""


def panel_of(reference: Sequence[ReferenceRow], predictions: Sequence[PredictionRow]) -> Panel:
    """Return both sides of every article of the reference; predictions on other articles are left out.

    Human concerns about figures are left out, too. LabError if the two files have no article in common.
    """
    by_id = {row.article_id: row for row in predictions}
    known = [row.article_id for row in reference]
    if predictions and not set(known) & set(by_id):
        raise LabError(
            f"no article of the predictions (such as {predictions[0].article_id!r}) is in the"
            f" reference (such as {reference[0].article_id!r}); give the split the tool was run on"
        )
    given = [concerns_in(by_id[name]) if name in by_id else [] for name in known]
    humans = [
        [
            (each.text, category_of(each.category), severity_of(each.severity), place)
            for place, each in enumerate(row.concerns)
            if not is_on_figure(each)
        ]
        for row in reference
    ]
    tools = [
        [
            (each.text.strip(), category_of(each.category), severity_of(each.severity), place)
            for place, each in enumerate(concerns)
            if each.text and each.text.strip()
        ]
        for concerns in given
    ]
    missing = [name for name in known if name not in by_id]
    coverage = Coverage(
        n_articles=len(known),
        n_answered=len(known) - len(missing),
        n_with_concerns=sum(1 for tool in tools if tool),
        missing=tuple(missing[:NAMED]),
        unknown=tuple([name for name in by_id if name not in set(known)][:NAMED]),
        n_figures_left_out=sum(len(row.concerns) for row in reference) - sum(map(len, humans)),
        n_blank=sum(map(len, given)) - sum(map(len, tools)),
    )
    rows = sorted(json.dumps(row.model_dump(mode="json"), sort_keys=True) for row in reference)
    return Panel(
        article_ids=tuple(known),
        sources=tuple(source_of(row) for row in reference),
        predicted=lists_of(tools),
        human=lists_of(humans),
        is_answered=np.array([name in by_id for name in known], dtype=bool),
        sizes_in_files=tuple((len(tool), len(row.concerns)) for tool, row in zip(given, reference, strict=True)),
        coverage=coverage,
        reference_sha256=hashlib.sha256("\n".join(rows).encode()).hexdigest(),
    )


def source_of(row: ReferenceRow) -> str:
    """Return where an article was reviewed: its own field, else what its id begins with."""
    if row.source:
        return row.source
    before, colon, _ = row.article_id.partition(":")
    return before if colon else UNKNOWN


def is_on_figure(concern: ReferenceConcern) -> bool:
    """Return whether a human concern is left out, because a model that sees no figures cannot say it."""
    return concern.requires_figure_reading or category_of(concern.category) == "figure_issue"


def lists_of(rows: Sequence[Sequence[Listed]]) -> Lists:
    """Return the concerns of each article as one side of a panel."""
    flat = [each for row in rows for each in row]
    return Lists(
        texts=tuple(text for text, *_ in flat),
        start=np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.intp),
        category=np.array([CATEGORY_NAMES.index(category) for _, category, *_ in flat], dtype=np.intp),
        severity=np.array([SEVERITY_NAMES.index(severity) for *_, severity, _ in flat], dtype=np.intp),
        place=np.array([place for *_, place in flat], dtype=np.intp),
    )


Block = npt.NDArray[np.float32] | npt.NDArray[np.float64]
LEXICAL = "lexical"
LEXICAL_REVISION = "jaccard-1"
LEXICAL_THRESHOLD = 0.195
"""The published 0.3 of the cosine threshold 0.65."""

_WORD = re.compile(r"[a-z0-9]{3,}")


class Similarity:
    """The similarity of any two lists of concerns: cosine of vectors of length 1, Jaccard of words in sparse rows."""

    is_crossing = True
    """Whether lists of different articles can be compared."""

    def __init__(self, rows: Vectors | sparse.csr_array, columns: Vectors | sparse.csr_array, *sides: Lists) -> None:
        self._rows, self._columns = rows, columns.T if isinstance(columns, np.ndarray) else columns.T.tocsc()
        self._sizes = rows.sum(axis=1), columns.sum(axis=1)
        self._start, self._column_start = (lists.start.tolist() for lists in sides)

    def block(self, predicted: int, human: int) -> Block:
        """Return similarities of article `predicted`'s predictions (rows) with article `human`'s concerns."""
        rows = slice(self._start[predicted], self._start[predicted + 1])
        columns = slice(self._column_start[human], self._column_start[human + 1])
        shared = self._rows[rows] @ self._columns[:, columns]
        if isinstance(shared, np.ndarray):
            return shared
        shared = shared.toarray()
        every = self._sizes[0][rows, None] + self._sizes[1][None, columns] - shared
        return (shared / np.maximum(every, 1)).astype(np.float32)


def similarity_of(predicted: Lists, human: Lists, encoder: Encoder | None) -> Similarity:
    """Return cosines by an encoder, which is asked once; None compares words of three or more letters or digits."""
    n = 0 if predicted is human else len(predicted.texts)
    texts = (*predicted.texts[:n], *human.texts)
    if encoder is None:
        both = word_counts([sorted(set(_WORD.findall(text.lower()))) for text in texts], {})
    else:
        both = encoder.encode(texts) if texts else np.zeros((0, 1), np.float32)
    return Similarity(both[:n] if n else both, both[n:], predicted, human)


class ReadySimilarity(Similarity):
    """Similarities that a file brought, one matrix per article; other articles cannot be compared."""

    is_crossing = False

    def __init__(self, matrices: Mapping[str, Sequence[Sequence[float]]], panel: Panel) -> None:
        self._blocks: list[Block] = []
        start = panel.predicted.start, panel.human.start
        for at, (name, size) in enumerate(zip(panel.article_ids, panel.sizes_in_files, strict=True)):
            if name not in matrices and 0 not in size:
                raise LabError(f"article {name!r} has no matrix of similarities; add a row for it")
            rows = matrices[name] if 0 not in size else np.zeros(size)
            shapes = {len(row) for row in rows}
            if (len(rows), *shapes) != size and 0 not in size:
                raise LabError(
                    f"the similarities of article {name!r} have {len(rows)} rows and {', '.join(map(str, shapes)) or 0} columns;"
                    f" they should have {size[0]} rows (predicted) and {size[1]} columns (human), both before any filtering"
                )
            whole = np.array(rows, dtype=np.float64)
            if not np.isfinite(whole).all():
                raise LabError(f"a similarity of article {name!r} is no number; write finite numbers")
            kept = (
                side.place[first[at] : first[at + 1]]
                for side, first in zip((panel.predicted, panel.human), start, strict=True)
            )
            self._blocks.append(whole[np.ix_(*kept)])

    def block(self, predicted: int, human: int) -> Block:
        """Return the matrix of one article; it is never asked for two different ones (`is_crossing`)."""
        return self._blocks[predicted]


def word_counts(texts: Sequence[Iterable[str]], words: dict[str, int]) -> sparse.csr_array:
    """Return how often each text (a list of words) holds each word, float32; new words get the next columns."""
    columns, starts = [], [0]
    for text in texts:
        columns += [words.setdefault(word, len(words)) for word in text]
        starts.append(len(columns))
    data = np.ones(len(columns), dtype=np.float32)
    counts = sparse.csr_array((data, columns, starts), shape=(len(texts), max(1, len(words))))
    counts.sum_duplicates()
    return counts


FORBIDDEN = 1e6
"""Cost of a pair that is not eligible: more than all eligible ones together."""


@dataclass(frozen=True)
class Matching:
    """For each predicted concern (flat, as in the panel): whom it matches and whom it is nearest to.

    `human` and `nearest` are flat places of human concerns, -1 for none; `similarity` is that of the
    match (0 for none), `best` the greatest to any human concern (nan where the article has none).
    """

    human: Whole
    similarity: Floats
    nearest: Whole
    best: Floats

    @property
    def is_matched(self) -> np.ndarray:
        """Which predicted concerns have a match."""
        return self.human >= 0


def match(
    panel: Panel,
    similarity: Similarity,
    threshold: float,
    assignment: Assignment = "optimal",
    partner: Whole | None = None,
) -> Matching:
    """Return who matches whom; `partner` (articles) names whose human concerns each list is held against.

    Without `partner` that is the article itself; -1 leaves an article out.
    """
    n = len(panel.predicted.texts)
    human, nearest = np.full(n, -1, dtype=np.intp), np.full(n, -1, dtype=np.intp)
    alike, best = np.zeros(n), np.full(n, np.nan)
    start, columns = panel.predicted.start.tolist(), panel.human.start.tolist()
    others = range(len(panel.article_ids)) if partner is None else partner.tolist()
    assign = optimal if assignment == "optimal" else greedy
    for article, other in enumerate(others):
        first, last = start[article], start[article + 1]
        if other < 0 or first == last or columns[other] == columns[other + 1]:
            continue
        block = similarity.block(article, other)
        place = block.argmax(axis=1)
        top = block[np.arange(last - first), place]
        best[first:last] = top
        nearest[first:last] = np.where(top > 0, place + columns[other], -1)
        rows, found = assign(block, threshold)
        human[first + rows] = found + columns[other]
        alike[first + rows] = block[rows, found]
    return Matching(human, alike, nearest, best)


COUNTS = ("n_matched", "n_human", "n_predicted", "n_major_matched", "n_major")


def counts_of(panel: Panel, found: Matching) -> Floats:
    """Return the counts of each article as COUNTS, shape (articles, 5)."""
    n = len(panel.article_ids)
    article = panel.predicted.article
    is_major = panel.human.severity == MAJOR
    matched = found.human[found.is_matched]
    counts = (
        np.bincount(article[found.is_matched], minlength=n),
        panel.human.sizes,
        panel.predicted.sizes,
        np.bincount(panel.human.article[matched[is_major[matched]]], minlength=n),
        np.bincount(panel.human.article[is_major], minlength=n),
    )
    return np.stack(counts, axis=1).astype(float)


def rates_of(matched: float, human: float, predicted: float, *major: float) -> Rates:
    """Return the rates of pooled counts in the order of COUNTS; those of major concerns may be left out."""
    return Rates(
        precision=matched / predicted if predicted else 0.0,
        recall=matched / human if human else 0.0,
        f1=2 * matched / (human + predicted) if human + predicted else 0.0,
        recall_major=(major[0] / major[1] if major[1] else 0.0) if major else None,
        n_human=round(human),
        n_predicted=predicted,
        n_matched=matched,
    )


def optimal(block: Block, threshold: float) -> tuple[Whole, Whole]:
    """Return rows and columns of the best one-to-one assignment of eligible pairs."""
    is_eligible = block >= block.dtype.type(threshold)
    rows, columns = linear_sum_assignment(np.where(is_eligible, 1.0 - block, FORBIDDEN))
    kept = is_eligible[rows, columns]
    return rows[kept], columns[kept]


def greedy(block: Block, threshold: float) -> tuple[Whole, Whole]:
    """Return rows and columns of eligible pairs, most alike first; ties go to the later pair."""
    rows, columns = np.nonzero(block >= block.dtype.type(threshold))
    order = np.lexsort((columns, rows, block[rows, columns]))[::-1]
    taken: dict[int, int] = {}
    for row, column in zip(rows[order].tolist(), columns[order].tolist(), strict=True):
        if row not in taken and column not in taken.values():
            taken[row] = column
    found = np.array(sorted(taken.items()), dtype=np.intp).reshape(-1, 2)
    return found[:, 0], found[:, 1]


def partners(sources: Sequence[str], is_in: np.ndarray, rounds: int, seed: int) -> Iterator[Whole]:
    """Yield for each round the partner of each article, never itself; -1 for one left out.

    Within a source, articles are put in a random order and each gets the next. One that is alone in its
    source is paired with those alone in theirs, or, where it is the only such, with any other article.
    """
    generator = np.random.default_rng(seed)
    names = np.array([f"source {source}" for source in sources])
    members = [np.flatnonzero(is_in & (names == name)) for name in np.unique(names[is_in])]
    alone = np.array([each[0] for each in members if len(each) == 1], dtype=np.intp)
    others = np.setdiff1d(np.flatnonzero(is_in), alone)
    for _ in range(rounds):
        partner = np.full(len(names), -1, dtype=np.intp)
        for each in (*members, alone):
            if len(each) > 1:
                drawn = generator.permutation(each)
                partner[drawn] = np.roll(drawn, -1)
        if len(alone) == 1 and len(others):  # into the chain behind another one, so that every list is still used once
            after = int(generator.choice(others))
            partner[alone[0]], partner[after] = partner[after], alone[0]
        yield partner


FALSE_MATCH_RATE = 0.05
ROUNDS = 5
"""Other papers whose lists each paper's concerns are held against."""
HIGHEST = 0.9999
"""A text agrees with itself whatever chance does."""
FEW = 200
"""Similarities by chance below which the quantile is rough."""


class Threshold(NamedTuple):
    """A threshold and where it comes from; `n` are the similarities by chance behind the quantile."""

    value: float
    origin: str
    rate: float | None = None
    n: int = FEW


def calibrate_threshold(panel: Panel, encoder: Encoder | None, rate: float, seed: int) -> Threshold:
    """Return the threshold that lets `rate` of human concerns match on another paper; None is lexical.

    LabError where the reference has fewer than two papers with concerns.
    """
    if not 0 < rate < 1:
        raise LabError(f"a false-match rate lies between 0 and 1, seen {rate}; 0.05 is usual")
    similarity = similarity_of(panel.human, panel.human, encoder)
    by_chance = []  # for every concern the greatest similarity to another paper's list, equal texts left out
    key = np.unique([key_of(text) for text in panel.human.texts], return_inverse=True)[1]
    start = panel.human.start
    for partner in partners(panel.sources, panel.human.sizes > 0, ROUNDS, seed):
        for article, other in enumerate(partner.tolist()):
            mine, theirs = (key[start[at] : start[at + 1]] for at in (article, other))
            if other >= 0 and len(mine) and len(theirs):
                block = np.array(similarity.block(article, other))
                block[mine[:, None] == theirs[None, :]] = -1.0
                by_chance.append(block.max(axis=1))
    if not by_chance:
        raise LabError("a threshold needs human concerns on two papers or more; give one: --threshold 0.5")
    values = np.sort(np.concatenate(by_chance))
    place = min(len(values) - 1, int(np.ceil((1 - rate) * len(values))))
    value = min(HIGHEST, float(np.nextafter(values[place], np.float32(2), dtype=np.float32)))
    origin = f"calibrated: {100 * rate:g} % of human concerns match on another paper by chance"
    return Threshold(value, origin, rate, len(values))


def read_threshold(written: str) -> float:
    """Return a threshold as a user wrote it; BadConfig if it is no similarity."""
    try:
        value = float(written)
    except ValueError:
        value = float("nan")
    if not -1 <= value <= 1:
        raise BadConfig(f"--threshold {written!r} is no similarity; give -1 to 1, or auto")
    return value


# ---- pairs labelled by hand ----------------------------------------------------------------------


FILE = Path(__file__).with_name("labelled_pairs.jsonl")
DRAWS = 1000


class LabelledPair(Record):
    """Two concerns about one paper, and whether who answers the one has answered the other."""

    article_id: str
    a: str
    b: str
    label: Literal["yes", "partly", "no"]
    reason: str
    origin: str
    labelled_by: str


@cache
def labelled_pairs() -> tuple[LabelledPair, ...]:
    """Return the pairs that ship."""
    return tuple(read_rows(FILE, LabelledPair))


def matcher_agreement(encoder: Encoder | None, threshold: float, seed: int = 0) -> dict[str, Metric]:
    """Return the precision and recall of a matcher at its threshold on the pairs labelled yes or no; None compares words.

    Precision is over the pairs that it matches, recall over those labelled yes; 95 % intervals from draws of papers.
    """
    pairs = [pair for pair in labelled_pairs() if pair.label != "partly"]
    sides = [
        lists_of([[(text, UNKNOWN, UNKNOWN, 0)] for text in texts])
        for texts in zip(*((p.a, p.b) for p in pairs), strict=True)
    ]
    similarity = similarity_of(sides[0], sides[1], encoder)
    alike = np.array([similarity.block(at, at)[0, 0] for at in range(len(pairs))], dtype=np.float64)
    is_yes, is_matched = np.array([pair.label == "yes" for pair in pairs], dtype=float), (alike >= threshold) * 1.0

    def measure(weights: Floats) -> dict[str, Floats]:
        both = weights @ (is_yes * is_matched)
        return {"precision": ratio_or_nan(both, weights @ is_matched), "recall": ratio_or_nan(both, weights @ is_yes)}

    units = Units.of([pair.article_id for pair in pairs])
    whole, drawn = measure(units.whole()), resample(measure, units, DRAWS, seed)
    found = {}
    for name, of in (("precision", is_matched), ("recall", is_yes)):
        value, (low, high) = float(whole[name][0]), percentile_interval(drawn[name]) or (None, None)
        found[name] = Metric(value=None if np.isnan(value) else value, n=int(of.sum()), low=low, high=high)
    return found
