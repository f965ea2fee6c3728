"""Paired difference of two systems on the same rows as an `evaluate` module, by the statistics of `assay eval compare`."""

from collections.abc import Sequence
from inspect import cleandoc

import datasets
import evaluate
import numpy as np

try:
    from evals.stats.intervals import Units, is_point, percentile_interval, resample
    from evals.stats.paired import Swaps, bootstrap_p, mcnemar_p, permutation_p
except ImportError as error:
    raise ImportError(
        "paired_difference computes with Assay's own statistics, which are not here: load it in the environment that `make setup`"
        " makes in Assay's repository. The package called evals on PyPI is something else."
    ) from error

CITATION = """
@book{efron1993, title={An Introduction to the Bootstrap}, author={Efron, Bradley and Tibshirani, Robert J.},
  publisher={Chapman and Hall}, year={1993}}
@article{phipson2010, title={Permutation P-values Should Never Be Zero}, author={Phipson, Belinda and Smyth,
  Gordon K.}, journal={Statistical Applications in Genetics and Molecular Biology}, volume={9}, year={2010}}
@article{mcnemar1947, title={Note on the sampling error of the difference between correlated proportions},
  author={McNemar, Quinn}, journal={Psychometrika}, volume={12}, year={1947}}
"""


class PairedDifference(evaluate.Metric):
    """Is the second system better than the first on the same rows?

    The difference of their mean scores with a 95 % interval (paired bootstrap over clusters), a p-value from swapping the two systems in whole clusters
    (every arrangement where there are few clusters), and McNemar's exact test where scores are 0 or 1.

    Args:
        predictions: the score of the second system on each row (1 or 0 for correctness, a reward, a loss).
        references: the score of the first system on the same rows, in the same order.
        clusters: what each row belongs to, drawn and swapped together; None is a row of its own (default:
            all are).
        n_resamples: draws of the bootstrap and of the permutation, 1 or more (default 10000).
        seed: the same seed gives the same figures (default 0).

    Returns difference (mean of predictions - mean of references), low and high (None where resampling shows
    no spread), n, n_clusters, p_bootstrap, p_permutation, is_exact (every arrangement was counted) and
    p_mcnemar (None unless all scores are 0 or 1; takes rows for independent).

    Example:
        >>> metric = evaluate.load("evals/metrics/paired_difference")
        >>> metric.compute(predictions=[1, 1, 1, 0], references=[0, 1, 0, 0])["difference"]
        0.5
    """

    def _info(self) -> evaluate.MetricInfo:
        features = {"predictions": datasets.Value("float64"), "references": datasets.Value("float64")}
        told = cleandoc(self.__doc__ or "")
        return evaluate.MetricInfo(
            description=told, citation=CITATION, inputs_description=told, features=datasets.Features(features)
        )

    def _compute(  # ty: ignore[incompatible-method-override]  # options are named, so a typo is an error
        self,
        *,
        predictions: Sequence[float] = (),
        references: Sequence[float] = (),
        clusters: Sequence[object] | None = None,
        n_resamples: int = 10_000,
        seed: int = 0,
    ) -> dict[str, object]:
        second, first = (np.array(scores, dtype=np.float64) for scores in (predictions, references))
        if not len(second):
            raise ValueError("there is no row to compare; give each system's score on every row")
        unusable = [score for score in (*second, *first) if not np.isfinite(score)]
        if unusable:
            raise ValueError(
                f"a score is a finite number, found {unusable[0]}; leave out rows without one, in both systems"
            )
        if n_resamples < 1:
            raise ValueError(f"n_resamples must be 1 or more, found {n_resamples}")
        clusters = [None] * len(second) if clusters is None else clusters
        if len(clusters) != len(second):
            raise ValueError(f"found {len(clusters)} clusters for {len(second)} rows")
        apart = second - first
        units = Units.of([f"row {n}" if each is None else f"cluster {each}" for n, each in enumerate(clusters)])
        drawn = resample(lambda w: {"difference": w @ apart / w.sum(axis=1)}, units, n_resamples, seed)["difference"]
        span = percentile_interval(drawn)
        has_spread = span is not None and not is_point(span)
        low, high = span if span and has_spread else (None, None)
        swaps = Swaps(units.n, n_resamples, seed)
        sums = np.bincount(units.member, weights=apart).astype(np.float64)
        swapped = (sums.sum() - 2 * swaps.moved(sums[:, None])[:, 0]) / len(apart)
        is_binary = np.isin([first, second], (0, 1)).all()
        return {
            "difference": float(apart.mean()),
            "low": low,
            "high": high,
            "n": len(apart),
            "n_clusters": units.n,
            "p_bootstrap": bootstrap_p(drawn) if has_spread else None,
            "p_permutation": permutation_p(float(apart.mean()), swapped, swaps.is_exact),
            "is_exact": swaps.is_exact,
            "p_mcnemar": mcnemar_p(int((apart < 0).sum()), int((apart > 0).sum())) if is_binary else None,
        }
