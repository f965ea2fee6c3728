"""BM25: the concerns that human reviewers raised about the papers most like this one.

It reads no paper: what it scores is what a list gets by being about the right kind of paper. Okapi BM25
(Robertson and Zaragoza 2009, Found. Trends Inf. Retr. 3:333), k1 1.5, b 0.75, the idf that is never
negative, ln(1 + (N - df + 0.5) / (df + 0.5)), each word of the query once.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

K1 = 1.5
B = 0.75
LONGEST = 40_000
"""Characters of a paper that are read."""
NEIGHBOURS = 8
LISTED = 12
"""Concerns in the published list."""
QUERIES = 64
"""Queries that are scored at once."""
STOP = frozenset(
    [
        "and",
        "are",
        "but",
        "can",
        "did",
        "does",
        "for",
        "from",
        "had",
        "has",
        "have",
        "into",
        "its",
        "may",
        "more",
        "most",
        "not",
        "one",
        "our",
        "over",
        "than",
        "that",
        "the",
        "their",
        "them",
        "then",
        "there",
        "these",
        "they",
        "this",
        "those",
        "two",
        "was",
        "were",
        "which",
        "will",
        "with",
    ]
)
"""No list to share with `evals.refiner.words`: a word more or less here changes the figures of the control."""
_WORD = re.compile(r"[a-z0-9]{3,}")


@dataclass(frozen=True)
class Paper:
    """What retrieval knows of a paper: its text, and what human reviewers said of it."""

    id: str
    text: str
    concerns: tuple[str, ...] = ()
    family: str = ""


class Index:
    """Papers to search, as a sparse matrix of BM25 weights (papers, words)."""

    def __init__(self, papers: Sequence[Paper]) -> None:
        self.papers = tuple(papers)
        self._words: dict[str, int] = {}
        self._group: dict[str, int] = {}
        self.groups = np.array([self._group_of(paper) for paper in papers], dtype=np.intp)
        self._weights = _bm25(self._counted([paper.text for paper in papers])).T.tocsr()

    def nearest(
        self, queries: Sequence[Paper], n: int = NEIGHBOURS
    ) -> list[list[tuple[int, float]]]:
        """Return for each query the `n` best papers with their scores, its own family left out."""
        found: list[list[tuple[int, float]]] = []
        for start in range(0, len(queries), QUERIES):
            part = queries[start : start + QUERIES]
            scores = np.asarray((self._asked(part) @ self._weights).todense())
            for row, query in zip(scores, part, strict=True):
                found.append(self._best(row, query, n))
        return found

    def concerns(self, neighbours: Sequence[tuple[int, float]], n: int) -> list[str]:
        """Return the `n` best concerns of neighbours: sum of score / rank, ties alphabetical."""
        worth: dict[str, float] = {}
        for rank, (place, score) in enumerate(neighbours, start=1):
            for text in dict.fromkeys(self.papers[place].concerns):
                worth[text] = worth.get(text, 0.0) + score / rank
        return sorted(worth, key=lambda text: (-worth[text], text))[:n]

    def _best(self, scores: np.ndarray, query: Paper, n: int) -> list[tuple[int, float]]:
        group = self._group.get(query.family or query.id)
        if group is not None:
            scores = np.where(self.groups == group, -1.0, scores)
        n = min(n, len(scores))
        top = np.argpartition(-scores, n - 1)[:n]
        order = top[np.lexsort((top, -scores[top]))]
        return [(int(place), float(scores[place])) for place in order if scores[place] > 0]

    def _group_of(self, paper: Paper) -> int:
        return self._group.setdefault(paper.family or paper.id, len(self._group))

    def _asked(self, queries: Sequence[Paper]) -> sparse.csr_matrix:
        rows, columns = [], []
        for row, query in enumerate(queries):
            known = [self._words[word] for word in set(words(query.text)) if word in self._words]
            rows += [row] * len(known)
            columns += known
        data = np.ones(len(rows), dtype=np.float32)
        return sparse.csr_matrix((data, (rows, columns)), shape=(len(queries), self._width))

    def _counted(self, texts: Sequence[str]) -> sparse.csr_matrix:
        """Return how often each text holds each word; every word gets a column."""
        starts = np.zeros(len(texts) + 1, dtype=np.int64)
        columns: list[np.ndarray] = []
        times: list[np.ndarray] = []
        for row, text in enumerate(texts):
            counted = Counter(words(text))
            places = [self._words.setdefault(word, len(self._words)) for word in counted]
            columns.append(np.array(places, dtype=np.int32))
            times.append(np.fromiter(counted.values(), dtype=np.float32, count=len(counted)))
            starts[row + 1] = starts[row] + len(places)
        data = np.concatenate(times) if times else np.zeros(0, np.float32)
        indices = np.concatenate(columns) if columns else np.zeros(0, np.int32)
        return sparse.csr_matrix((data, indices, starts), shape=(len(texts), self._width))

    @property
    def _width(self) -> int:
        return max(1, len(self._words))


def words(text: str) -> list[str]:
    """Return the words BM25 sees: three letters or digits or more, no stop words.

    words("The RNA was not bound to p53")  ->  ["rna", "bound", "p53"]
    """
    return [word for word in _WORD.findall(text[:LONGEST].lower()) if word not in STOP]


def _bm25(counts: sparse.csr_matrix) -> sparse.csr_matrix:
    """Return the BM25 weight of each word in each text."""
    n = counts.shape[0]
    lengths = np.asarray(counts.sum(axis=1)).ravel()
    mean = lengths.mean() if n and lengths.sum() else 1.0
    holders = np.bincount(counts.indices, minlength=counts.shape[1])
    idf = np.log(1 + (n - holders + 0.5) / (holders + 0.5))
    norm = np.repeat(K1 * (1 - B + B * lengths / mean), np.diff(counts.indptr))
    tf = counts.data
    weights = (idf[counts.indices] * tf * (K1 + 1) / (tf + norm)).astype(np.float32)
    return sparse.csr_matrix((weights, counts.indices, counts.indptr), shape=counts.shape)
