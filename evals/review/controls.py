"""What lists get that object to nothing: the measure of what a score is worth.

- permuted: the same lists, each held against another paper of its source; the mean over rounds
- count_bound: every predicted concern matches until one list runs out, the most any matcher can give
- generic: one fixed list of objections that fit any paper, cut to each list's length
- generic_titled: the same objections, each with the paper's title before it
- bm25: human concerns on the papers whose words are most alike
- echo: sentences of the paper's Methods and Results, copied
- echo_objected: the same sentences behind "It was not stated that"

The strongest of them (`STRONGEST`; the bound is no list) is what a reviewer has to beat.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import sparse

from evals.papers.collection import family_of
from evals.review.match import (
    Encoder,
    Panel,
    Similarity,
    is_on_figure,
    lists_of,
    match,
    partners,
    similarity_of,
    word_counts,
)
from evals.schema.articles import PaperRow
from evals.schema.reports import Matcher
from evals.schema.reviews import UNKNOWN
from evals.stats.intervals import Floats

K1 = 1.5
B = 0.75
LONGEST = 40_000
"""Characters of a paper that are read."""
NEIGHBOURS = 8
QUERIES = 64
"""Queries that are scored at once."""
STRONGEST = ("permuted", "generic", "generic_titled", "bm25", "echo", "echo_objected")
"""The controls of which a score is held against the strongest."""
COPIED = re.compile(r"method|material|procedure|experiment|participant|patient|statistic|result|finding", re.IGNORECASE)
"""Sections whose sentences are copied; all where a paper names none of them."""
OBJECTION = "It was not stated that "
FEWEST_WORDS = 5
"""Of a sentence that is copied."""
STOP = frozenset(Path(__file__).with_name("stopwords.txt").read_text(encoding="utf-8").split())
"""A word more or less changes the figures of the BM25 control."""
_WORD = re.compile(r"[a-z0-9]{3,}")
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[^a-z\s])|(?<=[。！？])|\n+")


def copied_sentences(paper: PaperRow, n: int) -> list[str]:
    """Return `n` sentences of Methods and Results, evenly spaced in their order; all if there are fewer."""
    named = [text for name, text in paper.named if COPIED.search(name)]
    texts = named or [text for _, text in paper.named] or [paper.text]
    pieces = (piece.strip() for text in texts for piece in _SENTENCE.split(text))
    found = list(dict.fromkeys(each for each in pieces if len(each.split()) >= FEWEST_WORDS or "。" in each))
    return [found[int((at + 0.5) * len(found) / n)] for at in range(n)] if n < len(found) else found


class Index:
    """Papers to search, as a sparse matrix of BM25 weights (words, papers).

    Own code, because bm25s gives the same ranks and takes 3.4 times as long for a query.
    """

    def __init__(self, papers: Sequence[PaperRow]) -> None:
        self.papers = tuple(papers)
        self._group = np.array([_family(paper) for paper in papers])
        self._words: dict[str, int] = {}
        counts = word_counts([control_words(paper.text) for paper in papers], self._words)
        lengths = counts.sum(axis=1)
        holders = np.bincount(counts.indices, minlength=counts.shape[1])
        idf = np.log(1 + (len(papers) - holders + 0.5) / (holders + 0.5))
        norm = np.repeat(
            K1 * (1 - B + B * lengths / (lengths.sum() / max(1, len(papers)) or 1.0)), np.diff(counts.indptr)
        )
        weights = (idf[counts.indices] * counts.data * (K1 + 1) / (counts.data + norm)).astype(np.float32)
        self._weights = sparse.csr_array((weights, counts.indices, counts.indptr), shape=counts.shape).T.tocsr()

    def nearest(self, queries: Sequence[PaperRow], n: int = NEIGHBOURS) -> list[list[tuple[int, float]]]:
        """Return for each query the `n` best papers with their scores, its own family left out."""
        found: list[list[tuple[int, float]]] = []
        for start in range(0, len(queries), QUERIES):
            part = queries[start : start + QUERIES]
            asked = [[word for word in set(control_words(query.text)) if word in self._words] for query in part]
            scores = (word_counts(asked, self._words) @ self._weights).toarray()
            for row, query in zip(scores, part, strict=True):
                row[self._group == _family(query)] = -1.0
                top = np.argsort(-row, kind="stable")[:n]
                found.append([(int(place), float(row[place])) for place in top if row[place] > 0])
        return found

    def concerns(self, neighbours: Sequence[tuple[int, float]], n: int) -> list[str]:
        """Return the `n` best concerns of neighbours: sum of score / rank, ties alphabetical."""
        worth: dict[str, float] = {}
        for rank, (place, score) in enumerate(neighbours, start=1):
            said = (each.text for each in self.papers[place].concerns if not is_on_figure(each))
            for text in dict.fromkeys(said):
                worth[text] = worth.get(text, 0.0) + score / rank
        return sorted(worth, key=lambda text: (-worth[text], text))[:n]


def _family(paper: PaperRow) -> str:
    return paper.family or family_of(paper.article_id, "")


def control_words(text: str) -> list[str]:
    """Return the words BM25 sees: three letters or digits or more, no stop words.

    words("The RNA was not bound to p53")  ->  ["rna", "bound", "p53"]
    """
    return [word for word in _WORD.findall(text[:LONGEST].lower()) if word not in STOP]


ROUNDS = 10
GENERIC_FILE = Path(__file__).with_name("generic.txt")


class Listed(NamedTuple):
    """How many concerns a control matched and said in each article."""

    matched: Floats
    said: Floats


def permuted_control(
    panel: Panel, similarity: Similarity, matcher: Matcher, rounds: int = ROUNDS, seed: int = 0
) -> Listed | None:
    """Return what the lists get on other papers, means of the rounds.

    None where similarities do not cross articles, or fewer than two articles have predictions.
    """
    has_list = panel.predicted.sizes > 0
    if not similarity.is_crossing or has_list.sum() < 2:
        return None
    matched = np.zeros(len(panel.article_ids))
    for partner in partners(panel.sources, has_list, rounds, seed):
        found = match(panel, similarity, matcher.threshold, matcher.assignment, partner)
        hit = found.human[found.is_matched]
        matched += np.bincount(panel.human.article[hit], minlength=len(matched)) / rounds
    return Listed(matched, panel.predicted.sizes.astype(float))


def generic_concerns() -> tuple[str, ...]:
    """Return objections that fit any paper, the most usual first."""
    lines = GENERIC_FILE.read_text(encoding="utf-8").splitlines()
    return tuple(line.strip() for line in lines if line.strip())


def generic(
    panel: Panel, encoder: Encoder | None, matcher: Matcher, papers: Sequence[PaperRow] | None = None
) -> Listed:
    """Return what the same generic objections get on every paper, as many as were predicted, forty at most.

    With `papers`, one for each article, the paper's title stands before each.
    """
    texts = generic_concerns()
    titles = (
        [f"{paper.title}: " if paper.title else "" for paper in papers] if papers else [""] * len(panel.article_ids)
    )
    sizes = panel.predicted.sizes.tolist()
    lists = [[title + text for text in texts[:n]] for title, n in zip(titles, sizes, strict=True)]
    return list_control(panel, lists, encoder, matcher)


def echo(
    panel: Panel, encoder: Encoder | None, matcher: Matcher, papers: Sequence[PaperRow], before: str = ""
) -> Listed:
    """Return what sentences copied from each paper get, as many as were predicted, `before` in front of each."""
    lists = [
        copied_sentences(paper, n) if n else [] for paper, n in zip(papers, panel.predicted.sizes.tolist(), strict=True)
    ]
    if before:
        lists = [[before + text[:1].lower() + text[1:] for text in texts] for texts in lists]
    return list_control(panel, lists, encoder, matcher)


def retrieved_control(
    panel: Panel, encoder: Encoder | None, matcher: Matcher, papers: Sequence[PaperRow], searched: Sequence[PaperRow]
) -> Listed:
    """Return what human concerns on the papers most alike in words get, as many as were predicted."""
    index = Index(searched)
    sizes = panel.predicted.sizes.tolist()
    lists = [index.concerns(near, n) for near, n in zip(index.nearest(papers), sizes, strict=True)]
    return list_control(panel, lists, encoder, matcher)


def list_control(panel: Panel, lists: Sequence[Sequence[str]], encoder: Encoder | None, matcher: Matcher) -> Listed:
    """Return what other lists get on the same papers, matched the same way; None is lexical."""
    other = lists_of([[(text, UNKNOWN, UNKNOWN, 0) for text in texts] for texts in lists])
    held = replace(panel, predicted=other)
    found = match(held, similarity_of(other, panel.human, encoder), matcher.threshold, matcher.assignment)
    matched = np.bincount(other.article[found.is_matched], minlength=len(lists)).astype(float)
    return Listed(matched, other.sizes.astype(float))
