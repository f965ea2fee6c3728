"""How often 95 % intervals over few papers hold the true value, on simulated reviews where it is known.

python -m tests.evals.coverage           the table of docs/review-scoring.md
python -m tests.evals.coverage 40        fewer data sets
"""

import sys
from collections.abc import Sequence

import numpy as np
from rich.console import Console
from rich.table import Table

from evals.report import tally
from evals.review.task import Review
from evals.schema.reports import ArticleScore
from evals.stats.intervals import Floats, jackknife_interval, percentile_interval

METRICS = {name: Review.metrics[name] for name in ("f1", "recall", "recall_major", "f1_above_permuted")}
METRICS |= {"f1_above_strongest": Review.metrics["f1_above_strongest"]}
PAPERS = (6, 8, 12, 20, 60)
MANY = 20_000
"""Papers that stand for all papers."""


def papers(generator: np.random.Generator, n: int, copiers: Sequence[tuple[int, int]]) -> list[ArticleScore]:
    """Return the counts of simulated papers; how often concerns match differs between papers, as Beta(4, 6)."""
    human, said = 1 + generator.poisson(10, n), 1 + generator.poisson(7, n)

    def hits(one: int, other: int) -> Floats:
        return generator.binomial(np.minimum(human, said), generator.beta(one, other, n))

    matched, by_chance = hits(4, 6), (hits(1, 12) + hits(1, 12)) / 2
    major = generator.binomial(human, 0.4)
    found = generator.hypergeometric(major, human - major, matched)
    controls = dict(zip(("echo", "echo_objected"), (hits(*each) for each in copiers), strict=True))
    return [
        ArticleScore.model_construct(
            article_id=f"{k:05d}",
            n_human=human[k],
            n_predicted=said[k],
            n_matched=matched[k],
            n_major=major[k],
            n_major_matched=found[k],
            by_control={name: (each[k], said[k]) for name, each in ({"permuted": by_chance} | controls).items()},
        )
        for k in range(n)
    ]


def coverage(
    n: int, copiers: Sequence[tuple[int, int]], sets: int, draws: int = 1000
) -> dict[str, tuple[float, float]]:
    """Return for each metric how often the jackknife's and the draws' interval hold the true value."""
    generator = np.random.default_rng(n)
    every = tally(papers(generator, MANY, copiers), METRICS)
    truth = {name: float(every.metric(name, every.totals())[0]) for name in METRICS}
    held = {name: np.zeros(2) for name in METRICS}
    for seed in range(sets):
        table = tally(papers(generator, n, copiers), METRICS)
        totals, drawn = table.totals(), table.bootstrap_sums(draws, seed)
        for name in METRICS:
            value = float(table.metric(name, totals)[0])
            spans = (
                jackknife_interval(value, table.metric(name, totals - table.sums)),
                percentile_interval(table.metric(name, drawn)),
            )
            held[name] += [span is not None and span[0] <= truth[name] <= span[1] for span in spans]
    return {name: (each[0] / sets, each[1] / sets) for name, each in held.items()}


def main(sets: int = 400) -> None:
    """Print the table."""
    table = Table("copiers", "papers", *METRICS, title=f"intervals that hold the truth, of {sets} data sets: t (draws)")
    for name, copiers in {"one stronger": ((3, 7), (2, 8)), "two copiers": ((4, 6), (4, 6))}.items():
        for n in PAPERS:
            found = coverage(n, copiers, sets)
            table.add_row(name, str(n), *(f"{one:.3f} ({other:.3f})" for one, other in found.values()))
    Console(width=150).print(table)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
