"""How closely each calibration metric agrees with independent implementations of it.

    python -m tests.evals.agreement

prints, for each metric and implementation, the largest absolute difference over 200 random data sets of
5 to 300 rows. Half of them have confidences that tie, none on the edge of a bin of equal width: which bin
an edge belongs to differs between packages. Left out are data sets in which the edge of a bin of equal mass is a row's confidence,
and for smECE those above 1/6: relplot cuts its Gaussian at a distance of 1/2, three widths. netcal is compared where it is installed; it brings a deep-learning
stack of its own, so it is not among the requirements of the tests.
"""

import importlib
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console

from evals.stats.calibration import Settings, bin_edges, measure
from evals.stats.scores import smoothed_error

Floats = npt.NDArray[np.float64]
Score = Callable[[Floats, Floats], Any]

DATA_SETS = 200
EXACT = 1e-9
SINGLE = 1e-6
"""torchmetrics ranks in single precision."""
GRIDDED = 3e-3
"""relplot searches the width in steps of 1/1024 and rounds confidences to a grid."""
BY_MASS = "ece, equal mass"
FIXED = "error smoothed at width 0.1"


@dataclass(frozen=True)
class Rival:
    """Another implementation of a metric, and how close it must come."""

    metric: str
    name: str
    score: Score
    tolerance: float
    is_comparable: Callable[[Floats, float], bool] = lambda c, ours: True


@dataclass(frozen=True)
class Agreement:
    """The largest difference that was found, and over how many data sets."""

    rival: Rival
    difference: float
    n: int


def agreements(data_sets: int = DATA_SETS) -> list[Agreement]:
    """Return the agreement with every rival that is installed."""
    found = {rival: [0.0] for rival in rivals()}
    for c, y in samples(data_sets):
        ours = _ours(c, y)
        for rival, differences in found.items():
            if rival.is_comparable(c, ours[rival.metric]):
                differences.append(_difference(float(rival.score(c, y)), ours[rival.metric]))
    return [Agreement(rival, max(each), len(each) - 1) for rival, each in found.items()]


def _difference(theirs: float, ours: float) -> float:
    """Return how far apart two values are; both undefined is agreement, only one is none at all."""
    if np.isnan(theirs) or np.isnan(ours):
        return 0.0 if np.isnan(theirs) and np.isnan(ours) else np.inf
    return abs(theirs - ours)


def samples(n: int) -> Iterator[tuple[Floats, Floats]]:
    """Return random data sets (confidences, outcomes), both outcomes in each."""
    for seed in range(n):
        generator = np.random.default_rng(seed)
        rows = int(generator.integers(5, 301))
        c = generator.random(rows)
        if seed % 2:
            c = np.floor(10 * c) / 10 + 0.05
        truth = np.clip(c ** generator.uniform(0.3, 3) * generator.uniform(0.5, 1), 0.02, 0.98)
        y = (generator.random(rows) < truth).astype(np.float64)
        y[:2] = 0, 1
        yield c, y


def rivals() -> list[Rival]:
    """Return the other implementations: packages first, then our own that share no code."""
    return [*_scikit_learn(), *_torchmetrics(), *_relplot_and_netcal(), *_plain()]


def _ours(c: Floats, y: Floats) -> dict[str, float]:
    once, settings = np.ones((1, len(c))), Settings()
    values = {k: float(v[0]) for k, v in measure(c, y, once, bin_edges(c, settings)).items()}
    parts = ("reliability", "resolution", "uncertainty", "within_variance", "within_covariance")
    signs = (1, -1, 1, 1, -1)
    total = sum(sign * values[f"brier_{part}"] for sign, part in zip(signs, parts, strict=True))
    by_mass = measure(c, y, once, bin_edges(c, Settings(binning="mass")))["ece"][0]
    fixed = float(smoothed_error(c, y, once, 0.1)[0])
    return values | {"sum of the Brier parts": total, BY_MASS: float(by_mass), FIXED: fixed}


def _scikit_learn() -> list[Rival]:
    from sklearn import metrics
    from sklearn.calibration import calibration_curve

    def gaps(c: Floats, y: Floats, strategy: str, edges: Floats) -> tuple[Floats, Floats]:
        right, stated = calibration_curve(y, c, n_bins=10, strategy=strategy)
        counts = np.histogram(c, edges)[0]
        return np.abs(right - stated), counts[counts > 0] / len(c)

    def ece(c: Floats, y: Floats) -> float:
        gap, share = gaps(c, y, "uniform", np.linspace(0, 1, 11))
        return float(gap @ share)

    def by_mass(c: Floats, y: Floats) -> float:
        gap, share = gaps(c, y, "quantile", np.quantile(c, np.linspace(0, 1, 11)))
        return float(gap @ share)

    scores: dict[tuple[str, str], Score] = {
        ("brier", "brier_score_loss"): lambda c, y: metrics.brier_score_loss(y, c),
        ("sum of the Brier parts", "brier_score_loss"): lambda c, y: metrics.brier_score_loss(y, c),
        ("log_loss", "log_loss"): lambda c, y: metrics.log_loss(y, c),
        ("auroc", "roc_auc_score"): lambda c, y: metrics.roc_auc_score(y, c),
        ("ece", "calibration_curve"): ece,
        ("mce", "calibration_curve"): lambda c, y: gaps(c, y, "uniform", np.linspace(0, 1, 11))[0].max(),
    }

    def has_clear_edges(c: Floats, ours: float) -> bool:
        return not np.isin(np.quantile(c, np.arange(1, 10) / 10), c).any()

    found = [Rival(metric, f"scikit-learn {name}", score, EXACT) for (metric, name), score in scores.items()]
    return [*found, Rival(BY_MASS, "scikit-learn calibration_curve", by_mass, EXACT, has_clear_edges)]


def _torchmetrics() -> list[Rival]:
    import torch
    from torchmetrics.functional.classification import binary_auroc, binary_calibration_error

    def error(norm: str) -> Score:
        return lambda c, y: binary_calibration_error(torch.tensor(c), torch.tensor(y, dtype=torch.int64), 10, norm)

    def auroc(c: Floats, y: Floats) -> float:
        return float(binary_auroc(torch.tensor(c), torch.tensor(y, dtype=torch.int64)))

    return [
        Rival("ece", "torchmetrics binary_calibration_error, l1", error("l1"), EXACT),
        Rival("mce", "torchmetrics binary_calibration_error, max", error("max"), EXACT),
        Rival("auroc", "torchmetrics binary_auroc", auroc, SINGLE),
    ]


def _relplot_and_netcal() -> list[Rival]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from relplot.metrics import smECE, smECE_sigma

        netcal = find_spec("netcal") and importlib.import_module("netcal.metrics")

    def width(c: Floats, y: Floats) -> float:
        return smECE(c, y, return_width=True)[1]

    def of_netcal(name: str) -> Score:
        return lambda c, y: getattr(netcal, name)(10).measure(c, y.astype(int))

    return [
        Rival("smece", "relplot smECE, the width it finds", width, GRIDDED, lambda c, ours: ours < 1 / 6),
        Rival(FIXED, "relplot smECE_sigma", lambda c, y: smECE_sigma(c, y, 0.1), GRIDDED),
        *(Rival(each.lower(), f"netcal {each}", of_netcal(each), EXACT) for each in ("ECE", "MCE") if netcal),
    ]


def _plain() -> list[Rival]:
    def over(c: Floats, y: Floats) -> float:
        return float(np.mean(1 - y[c > 0.8])) if (c > 0.8).any() else np.nan

    def under(c: Floats, y: Floats) -> float:
        return float(np.mean(y[c < 0.3])) if (c < 0.3).any() else np.nan

    return [
        Rival("smece", "sum of mirrored Gaussians, bisection", mirrored, 1e-4),
        Rival("aurc", "loop over rows, a tie sharing its errors", looped, EXACT),
        Rival("aurc_optimal", "loop over the best order", best, EXACT),
        Rival("overconfidence_rate", "NumPy", over, EXACT),
        Rival("underconfidence_rate", "NumPy", under, EXACT),
    ]


def mirrored(c: Floats, y: Floats, points: int = 1000) -> float:
    """Return smECE from its definition: Gaussians and their mirror images at 0 and 1."""
    level, place = np.unique(c, return_inverse=True)
    residual = np.bincount(place, weights=y - c) / len(c)
    at = (np.arange(points) + 0.5) / points
    images = np.stack([sign * level + 2 * k for k in range(-2, 3) for sign in (1, -1)])
    away = (at[:, None, None] - images) ** 2

    def error(width: float) -> float:
        kernel = np.exp(-away / (2 * width**2)).sum(axis=1) / (width * np.sqrt(2 * np.pi))
        return float(np.abs(kernel @ residual).mean())

    low, high = 0.0, 1.0
    while high - low > 1e-5:
        middle = (low + high) / 2
        low, high = (middle, high) if error(middle) > middle else (low, middle)
    return high


def looped(c: Floats, y: Floats) -> float:
    """Return AURC row by row; each row of a tie carries the mean error of the tie."""
    wrong = {level: float(np.mean(1 - y[c == level])) for level in set(c.tolist())}
    errors, risks = 0.0, []
    for answered, stated in enumerate(sorted(c.tolist(), reverse=True), 1):
        errors += wrong[stated]
        risks.append(errors / answered)
    return sum(risks) / len(risks)


def best(c: Floats, y: Floats) -> float:
    """Return AURC of the same outcomes, right ones first."""
    return looped(np.arange(len(y), 0, -1.0), np.sort(y)[::-1])


def table(found: list[Agreement]) -> str:
    """Return the agreements as a Markdown table."""
    lines = ["| metric | implementation | data sets | largest difference |", "|---|---|---|---|"]
    lines += [f"| {each.rival.metric} | {each.rival.name} | {each.n} | {each.difference:.0e} |" for each in found]
    return "\n".join(lines)


if __name__ == "__main__":
    Console(width=160).print(table(agreements()), markup=False, highlight=False)
