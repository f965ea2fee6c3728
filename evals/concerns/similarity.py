"""How alike each predicted concern is to each human one: by vectors, by words, or from a file."""

import re
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
from scipy import sparse

from evals.concerns.encoder import Encoder, Vectors
from evals.concerns.panel import Lists, Panel
from evals.errors import LabError

Block = npt.NDArray[np.float32] | npt.NDArray[np.float64]
LEXICAL = "lexical"
LEXICAL_REVISION = "jaccard-1"
LEXICAL_THRESHOLD = 0.195
"""The published 0.3 of the cosine threshold 0.65."""

_WORD = re.compile(r"[a-z0-9]{3,}")


class Similarity(Protocol):
    """The similarity of any two lists of a panel, or only of those of one article."""

    @property
    def is_crossing(self) -> bool:
        """Whether lists of different articles can be compared."""
        ...

    def block(self, predicted: int, human: int) -> Block:
        """Return similarities of article `predicted`'s predictions (rows) with article `human`'s concerns."""
        ...


class VectorSimilarity:
    """Cosine of vectors; both sides have length 1."""

    is_crossing = True

    def __init__(self, rows: Vectors, columns: Vectors, panel: tuple[Lists, Lists]) -> None:
        self._rows, self._columns = rows, columns.T
        self._start, self._column_start = (lists.start.tolist() for lists in panel)

    def block(self, predicted: int, human: int) -> Block:
        """Return the cosines of two lists."""
        rows = self._rows[self._start[predicted] : self._start[predicted + 1]]
        columns = slice(self._column_start[human], self._column_start[human + 1])
        return rows @ self._columns[:, columns]


class LexicalSimilarity:
    """Jaccard similarity of the sets of words of three or more letters or digits."""

    is_crossing = True

    def __init__(self, predicted: Lists, human: Lists) -> None:
        words: dict[str, int] = {}
        self._rows = _word_matrix(predicted.texts, words)
        columns = _word_matrix(human.texts, words)
        width = max(1, len(words))
        self._rows.resize((len(predicted.texts), width))
        self._columns = columns.T.tocsc()
        self._n_rows = np.asarray(self._rows.sum(axis=1)).ravel()
        self._n_columns = np.asarray(columns.sum(axis=1)).ravel()
        self._start, self._column_start = predicted.start.tolist(), human.start.tolist()

    def block(self, predicted: int, human: int) -> Block:
        """Return shared words over all words; 0 where neither has any."""
        rows = slice(self._start[predicted], self._start[predicted + 1])
        columns = slice(self._column_start[human], self._column_start[human + 1])
        shared = (self._rows[rows] @ self._columns[:, columns]).toarray()
        every = self._n_rows[rows, None] + self._n_columns[None, columns] - shared
        return (shared / np.maximum(every, 1)).astype(np.float32)


class ReadySimilarity:
    """Similarities that a file brought, one matrix per article; other articles cannot be compared."""

    is_crossing = False

    def __init__(self, matrices: Mapping[str, Sequence[Sequence[float]]], panel: Panel) -> None:
        self._blocks: list[Block] = []
        for index, name in enumerate(panel.article_ids):
            rows = slice(panel.predicted.start[index], panel.predicted.start[index + 1])
            columns = slice(panel.human.start[index], panel.human.start[index + 1])
            kept = np.ix_(panel.predicted.place[rows], panel.human.place[columns])
            self._blocks.append(_checked(matrices, name, panel.sizes_in_files[index])[kept])

    def block(self, predicted: int, human: int) -> Block:
        """Return the matrix of one article; asking for two different ones is a mistake of the caller."""
        if predicted != human:
            raise ValueError("similarities from a file are within articles only")
        return self._blocks[predicted]


def vector_similarity(panel: Panel, encoder: Encoder) -> VectorSimilarity:
    """Return cosines by an encoder, which is asked once for every text there is."""
    n = len(panel.predicted.texts)
    texts = (*panel.predicted.texts, *panel.human.texts)
    vectors = encoder.encode(texts) if texts else np.zeros((0, 1), np.float32)
    return VectorSimilarity(vectors[:n], vectors[n:], (panel.predicted, panel.human))


def _checked(
    matrices: Mapping[str, Sequence[Sequence[float]]], name: str, size: tuple[int, int]
) -> Block:
    """Return one article's matrix; LabError if it is missing or has another shape than the lists."""
    if 0 in size:
        return np.zeros(size)
    if name not in matrices:
        raise LabError(f"article {name!r} has no matrix of similarities; add a row for it")
    rows = matrices[name]
    shape = (len(rows), len(rows[0]) if rows else 0)
    if shape != size or any(len(row) != size[1] for row in rows):
        raise LabError(
            f"the similarities of article {name!r} have {shape[0]} rows and {shape[1]} columns; they"
            f" should have {size[0]} rows (predicted) and {size[1]} columns (human), both before any"
            " filtering"
        )
    found = np.array(rows, dtype=np.float64)
    if not np.isfinite(found).all():
        raise LabError(f"a similarity of article {name!r} is no number; write finite numbers")
    return found


def words_of(text: str) -> set[str]:
    """Return the words that the lexical matcher sees.

    words_of("No RNA at T0")  ->  {"rna"}
    """
    return set(_WORD.findall(text.lower()))


def _word_matrix(texts: Sequence[str], words: dict[str, int]) -> sparse.csr_matrix:
    """Return which text holds which word, as 1 and 0; new words get the next columns."""
    columns, starts = [], [0]
    for text in texts:
        columns += [words.setdefault(word, len(words)) for word in sorted(words_of(text))]
        starts.append(len(columns))
    data = np.ones(len(columns), dtype=np.float64)
    return sparse.csr_matrix((data, columns, starts), shape=(len(texts), max(1, len(words))))
