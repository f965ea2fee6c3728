"""Scoring peer review at the size of the published test split: time and memory, beside plain ways.

981 articles, 13,947 human and 16,858 predicted concerns, vectors of 768 numbers at hand; BM25 of 4,740
papers and 981 queries. The plain ways do what most scripts do: vectors as lists that become arrays for each
article, one paper after another (a few queries are timed and counted up).
"""

import math
import random
from collections import Counter
from collections.abc import Callable

import numpy as np
from scipy.optimize import linear_sum_assignment

from evals.review.controls import Index, Paper
from evals.review.match import Panel, Similarity, match, panel_of
from evals.review.rates import counts_of, label_accuracy, macro_of, rates_by, rates_of, soft_of
from evals.review.score import articles_of
from evals.review.task import Review
from evals.schema.reviews import CATEGORIES, SEVERITIES, PredictionRow, ReferenceRow
from tests.bench._measure import SMALL, Way, Ways, compare

ARTICLES, HUMAN, PREDICTED, WIDTH = (20, 100, 120, 8) if SMALL else (981, 13_947, 16_858, 768)
PAPERS, PAPER_WORDS, TIMED_QUERIES = (50, 100, 2) if SMALL else (4_740, 5_700, 2)


def sizes(total: int, seed: int) -> list[int]:
    """Return the lengths of 981 lists that sum to a total."""
    dice = np.random.default_rng(seed)
    return (1 + dice.multinomial(total - ARTICLES, np.full(ARTICLES, 1 / ARTICLES))).tolist()


def panel() -> Panel:
    """Return articles of five sources with as many concerns as the published test split."""
    dice = random.Random(0)
    categories = [name for name in CATEGORIES if name != "figure_issue"]
    humans, tools = [], []
    for i, (n_human, n_said) in enumerate(zip(sizes(HUMAN, 1), sizes(PREDICTED, 2), strict=True)):
        name = f"{('f1000', 'f1000', 'elife', 'plos', 'peerj')[i % 5]}:{i}"
        concerns = [
            {"text": f"human {i} {k}", "category": dice.choice(categories), "severity": dice.choice(SEVERITIES)}
            for k in range(n_human)
        ]
        humans.append(ReferenceRow.model_validate({"article_id": name, "concerns": concerns}))
        said = [f"said {i} {k}" for k in range(n_said)]
        tools.append(PredictionRow.model_validate({"article_id": name, "concerns": said}))
    return panel_of(humans, tools)


def vectors(n: int, seed: int) -> np.ndarray:
    """Return vectors of length 1 that share a direction, as those of a scientific encoder do."""
    dice = np.random.default_rng(seed)
    found = dice.standard_normal((n, WIDTH), dtype=np.float32) + 2.0
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def evaluate_ours() -> Callable[[], object]:
    """Return matching, every rate and every group."""
    of = panel()
    rows, columns = vectors(PREDICTED, 3), vectors(HUMAN, 4)

    def work() -> None:
        similarity = Similarity(rows, columns, of.predicted, of.human)
        found = match(of, similarity, 0.8)
        counts = counts_of(of, found)
        groups = Review.groups(articles_of(of, found))
        rates_of(counts.sum(axis=0), ARTICLES)
        macro_of(counts, rates_by("category", groups)), soft_of(counts), label_accuracy(of, found)
        rates_by("severity", groups), rates_by("source", groups)

    return work


def evaluate_plain() -> Callable[[], object]:
    """Return the same matching from vectors kept as lists, with counts only."""
    of = panel()
    rows, columns = vectors(PREDICTED, 3), vectors(HUMAN, 4)
    start, other = of.predicted.start.tolist(), of.human.start.tolist()

    def work() -> None:
        known = {("p", i): row.tolist() for i, row in enumerate(rows)}
        known |= {("h", i): row.tolist() for i, row in enumerate(columns)}
        for a in range(ARTICLES):
            said = np.array([known["p", i] for i in range(start[a], start[a + 1])])
            human = np.array([known["h", i] for i in range(other[a], other[a + 1])])
            alike = said @ human.T
            linear_sum_assignment(np.where(alike >= 0.8, 1 - alike, 1e6))

    return work


def papers(n: int, seed: int) -> list[Paper]:
    """Return papers whose words are as unevenly used as those of a language."""
    dice = np.random.default_rng(seed)
    names = np.array([f"w{i:05d}" for i in range(60_000)])
    found = []
    for i in range(n):
        drawn = np.minimum(dice.zipf(1.25, PAPER_WORDS), len(names)) - 1
        found.append(Paper(f"{seed}:{i}", " ".join(names[drawn]), (f"a {i}", f"b {i}")))
    return found


def bm25_ours() -> Callable[[], object]:
    """Return an index of the papers, asked with every query, and the lists of concerns."""
    searched, asked = papers(PAPERS, 1), papers(ARTICLES, 2)

    def work() -> None:
        index = Index(searched)
        for neighbours in index.nearest(asked):
            index.concerns(neighbours, 12)

    return work


def bm25_plain() -> Callable[[], object]:
    """Return two queries against every paper, one after another, from counted words."""
    asked = papers(TIMED_QUERIES, 2)
    counted = [Counter(paper.text.split()) for paper in papers(PAPERS, 1)]
    holders = Counter(word for each in counted for word in each)
    lengths = [each.total() for each in counted]
    mean = sum(lengths) / len(lengths)

    def work() -> None:
        for query in asked:
            for each, length in zip(counted, lengths, strict=True):
                for word in set(query.text.split()):
                    if word in each:
                        idf = math.log(1 + (PAPERS - holders[word] + 0.5) / (holders[word] + 0.5))
                        _ = idf * each[word] * 2.5 / (each[word] + 1.5 * (0.25 + 0.75 * length / mean))

    return work


WAYS: Ways = {
    "evaluate": {
        "vectors as lists, counts only": Way(evaluate_plain),
        "ours, every rate and group": Way(evaluate_ours, 1.0, 0.1, 120),
    },
    "BM25": {
        "paper by paper, without the index": Way(bm25_plain, ARTICLES / TIMED_QUERIES),
        "ours, index and all queries": Way(bm25_ours, 1.0, 60),
    },
}


def main() -> None:
    """Print the table."""
    title = f"{ARTICLES} articles, {HUMAN:,} human and {PREDICTED:,} predicted concerns, one core"
    compare(__name__, title, 3)
