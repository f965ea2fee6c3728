"""Paired difference of two systems on the same rows as an `evaluate` module. Needs NumPy only.

Written out in plain formulas, one file to read. A test of Assay holds every value against the
implementation that `assay eval compare` uses.
"""

import math
from collections.abc import Sequence
from inspect import cleandoc

import datasets
import evaluate
import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

CITATION = """
@book{efron1993, title={An Introduction to the Bootstrap}, author={Efron, Bradley and Tibshirani, Robert J.},
  publisher={Chapman and Hall}, year={1993}}
@article{phipson2010, title={Permutation P-values Should Never Be Zero}, author={Phipson, Belinda and Smyth,
  Gordon K.}, journal={Statistical Applications in Genetics and Molecular Biology}, volume={9}, year={2010}}
@article{mcnemar1947, title={Note on the sampling error of the difference between correlated proportions},
  author={McNemar, Quinn}, journal={Psychometrika}, volume={12}, year={1947}}
"""
ROUNDING = 1e-9
ALPHA = 0.05


class PairedDifference(evaluate.Metric):
    """Is the second system better than the first on the same rows?

    The difference of their mean scores with a p-value from swapping the two systems in whole clusters (every arrangement where
    there are few clusters), the 95 % interval of the differences that this test does not reject, and McNemar's exact test where
    scores are 0 or 1.

    Args:
        predictions: the score of the second system on each row (1 or 0 for correctness, a reward, a loss).
        references: the score of the first system on the same rows, in the same order.
        clusters: what each row belongs to, drawn and swapped together; None is a row of its own (default:
            all are).
        n_resamples: arrangements that are drawn, 1 or more (default 10000).
        seed: the same seed gives the same figures (default 0).

    Returns difference (mean of predictions - mean of references), low and high (None without
    spread, and of up to five clusters), n, n_clusters, p_permutation, is_exact (every arrangement was counted) and
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
        second = np.array(predictions, dtype=np.float64)
        first = np.array(references, dtype=np.float64)
        if not len(second):
            raise ValueError("there is no row to compare; give each system's score on every row")
        if np.isnan(second).any() or np.isnan(first).any():
            raise ValueError("a score is missing; leave the row out of both systems, or score it")
        infinite = [score for score in (*second, *first) if np.isinf(score)]
        if infinite:
            raise ValueError(f"a score is a finite number, found {infinite[0]}")
        if n_resamples < 1:
            raise ValueError(f"n_resamples must be 1 or more, found {n_resamples}")
        if clusters is not None and len(clusters) != len(second):
            raise ValueError(f"found {len(clusters)} clusters for {len(second)} rows")
        place = places(range(len(second)) if clusters is None else clusters)
        sizes = np.bincount(place)
        sums = np.bincount(place, weights=second - first).astype(np.float64)
        found = permutation(sums, sizes, n_resamples, seed)
        return {
            "difference": float((second - first).mean()),
            "n": len(second),
            "n_clusters": len(sums),
            "p_mcnemar": mcnemar(first, second),
            **found,
        }


def places(clusters: Sequence[object]) -> npt.NDArray[np.intp]:
    """Return a number for each row's cluster; a row whose cluster is None is one of its own."""
    labels = [f"row {row}" if name is None else f"cluster {name}" for row, name in enumerate(clusters)]
    return np.unique(np.array(labels, dtype=str), return_inverse=True)[1]


def permutation(sums: Floats, sizes: npt.NDArray[np.intp], draws: int, seed: int) -> dict[str, float | bool | None]:
    """Return the share of arrangements as far from zero, the sign of each cluster's sum swapped, and that test inverted.

    The interval holds the differences that the test does not reject: its critical value, in standard errors of what the
    clusters add, is taken to be the same for each.
    """
    k, n = len(sums), int(sizes.sum())
    is_exact = 2**k <= draws
    if is_exact:
        flips = (np.arange(2**k)[:, None] >> np.arange(k)) & 1
    else:
        flips = np.random.default_rng(seed).integers(0, 2, size=(draws, k))
    observed, far = float(sums.sum()) / n, np.sort(np.abs((1 - 2 * flips) @ sums / n))[::-1]
    as_far = int((far >= abs(observed) - ROUNDING).sum())
    p = as_far / 2**k if is_exact else (1 + as_far) / (1 + draws)
    found = {"p_permutation": p, "is_exact": is_exact, "low": None, "high": None}
    needed = math.ceil(ALPHA * 2**k) if is_exact else math.ceil(ALPHA * (1 + draws)) - 1
    if needed < 1 or (is_exact and 2 / 2**k >= ALPHA):
        return found
    left_out = (sums.sum() - sums) / (n - sizes)
    spread = float((((k - 1) / k * (left_out.mean() - left_out)) ** 2).sum())
    errors = (far[needed - 1] + ROUNDING) ** 2 / max(spread + observed**2 / k, 1e-24)
    if np.ptp(left_out) < 1e-12 or errors >= k:
        return found
    half = math.sqrt(errors * spread / (1 - errors / k))
    return found | {"low": round(observed - half, 8) + 0.0, "high": round(observed + half, 8) + 0.0}


def mcnemar(first: Floats, second: Floats) -> float | None:
    """Return the exact two-sided p of the rows right on one side only; None for scores between."""
    if not np.isin([first, second], (0, 1)).all():
        return None
    gained, lost = int((second > first).sum()), int((first > second).sum())
    n = gained + lost
    tail = sum(math.comb(n, count) for count in range(min(gained, lost) + 1))
    return min(1.0, 2 * tail / 2**n)
