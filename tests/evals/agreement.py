"""How closely each calibration metric agrees with independent implementations of it.

    python -m tests.evals.agreement

prints, for each metric and implementation, the largest absolute difference over 200 random data sets of
5 to 300 rows. Half of them have confidences that tie, none on the edge of a bin of equal width: which bin
an edge belongs to differs between packages. Left out are data sets in which the edge of a bin of equal mass is a row's confidence,
and for smECE those above 1/6: relplot cuts its Gaussian at a distance of 1/2, three widths.
"""

import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from rich.console import Console

from evals.stats.calibration import CalibrationSettings, bin_edges, measure
from evals.stats.scores import smooth_ece

Floats = npt.NDArray[np.float64]
Score = Callable[[Floats, Floats], Any]
DATA_SETS = 200
EXACT = 1e-9
SINGLE = 1e-6  # torchmetrics ranks in single precision
GRIDDED = 3e-3  # relplot searches the width in steps of 1/1024 and rounds confidences to a grid
BY_MASS = "ece, equal mass"
SUM = "sum of the Brier parts"


class Rival(NamedTuple):
    """Another implementation of a metric, and how close it must come."""

    metric: str
    name: str
    score: Score
    tolerance: float = EXACT
    is_comparable: Callable[[Floats, float], bool] = lambda c, ours: True


class Agreement(NamedTuple):
    """The largest difference that was found, and over how many data sets."""

    rival: Rival
    difference: float
    n: int


def agreements(data_sets: int = DATA_SETS) -> list[Agreement]:
    """Return the agreement with every rival: undefined in both is agreement, in one is none."""
    found = {rival: [0.0] for rival in rivals()}
    for c, y in samples(data_sets):
        ours = _ours(c, y)
        for rival, differences in found.items():
            if rival.is_comparable(c, ours[rival.metric]):
                pair = [float(rival.score(c, y)), ours[rival.metric]]
                lost = [bool(np.isnan(each)) for each in pair]
                differences.append(abs(pair[0] - pair[1]) if not any(lost) else 0.0 if all(lost) else np.inf)
    return [Agreement(rival, max(each), len(each) - 1) for rival, each in found.items()]


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


def _ours(c: Floats, y: Floats) -> dict[str, float]:
    once, settings = np.ones((1, len(c))), CalibrationSettings()
    values = {k: float(v[0]) for k, v in measure(c, y, once, bin_edges(c, settings)).items()}
    parts = ("reliability", "resolution", "uncertainty", "within_variance", "within_covariance")
    values[SUM] = sum(sign * values[f"brier_{part}"] for sign, part in zip((1, -1, 1, 1, -1), parts, strict=True))
    values[BY_MASS] = float(measure(c, y, once, bin_edges(c, CalibrationSettings(binning="mass")))["ece"][0])
    return values | {"smece": smooth_ece(c, y, once)}


def rivals() -> list[Rival]:
    """Return the other implementations: packages first, then our own that share no code."""
    import torch
    from sklearn import metrics
    from sklearn.calibration import calibration_curve
    from torchmetrics.functional.classification import binary_auroc, binary_calibration_error

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from relplot.metrics import smECE

    def gaps(c: Floats, y: Floats, strategy: str, edges: Floats) -> tuple[Floats, Floats]:
        right, stated = calibration_curve(y, c, n_bins=10, strategy=strategy)
        counts = np.histogram(c, edges)[0]
        return np.abs(right - stated), counts[counts > 0] / len(c)

    def by_width(c: Floats, y: Floats) -> tuple[Floats, Floats]:
        return gaps(c, y, "uniform", np.linspace(0, 1, 11))

    def by_mass(c: Floats, y: Floats) -> float:
        return float(np.dot(*gaps(c, y, "quantile", np.quantile(c, np.linspace(0, 1, 11)))))

    def has_clear_edges(c: Floats, ours: float) -> bool:
        return not np.isin(np.quantile(c, np.arange(1, 10) / 10), c).any()

    def of_torch(score: Callable[..., Any], *more: object) -> Score:
        return lambda c, y: float(score(torch.tensor(c), torch.tensor(y, dtype=torch.int64), *more))

    def mean_of(values: Floats, which: npt.NDArray[np.bool_]) -> float:
        return float(np.mean(values[which])) if which.any() else np.nan

    return [
        Rival("brier", "scikit-learn brier_score_loss", lambda c, y: metrics.brier_score_loss(y, c)),
        Rival(SUM, "scikit-learn brier_score_loss", lambda c, y: metrics.brier_score_loss(y, c)),
        Rival("log_loss", "scikit-learn log_loss", lambda c, y: metrics.log_loss(y, c)),
        Rival("auroc", "scikit-learn roc_auc_score", lambda c, y: metrics.roc_auc_score(y, c)),
        Rival("ece", "scikit-learn calibration_curve", lambda c, y: np.dot(*by_width(c, y))),
        Rival("mce", "scikit-learn calibration_curve", lambda c, y: by_width(c, y)[0].max()),
        Rival(BY_MASS, "scikit-learn calibration_curve", by_mass, EXACT, has_clear_edges),
        Rival("ece", "torchmetrics binary_calibration_error, l1", of_torch(binary_calibration_error, 10, "l1")),
        Rival("mce", "torchmetrics binary_calibration_error, max", of_torch(binary_calibration_error, 10, "max")),
        Rival("auroc", "torchmetrics binary_auroc", of_torch(binary_auroc), SINGLE),
        Rival(
            "smece", "relplot smECE, the width it finds", lambda c, y: smECE(c, y, return_width=True)[1], GRIDDED,
            lambda c, ours: ours < 1 / 6,
        ),
        Rival("smece", "sum of mirrored Gaussians, bisection", mirrored, 1e-4),
        Rival("aurc", "loop over rows, a tie sharing its errors", looped),
        Rival("aurc_optimal", "loop over the best order", lambda c, y: looped(np.arange(len(y), 0, -1.0), -np.sort(-y))),
        Rival("overconfidence_rate", "NumPy", lambda c, y: mean_of(1 - y, c > 0.8)),
        Rival("underconfidence_rate", "NumPy", lambda c, y: mean_of(y, c < 0.3)),
    ]  # fmt: skip


def mirrored(c: Floats, y: Floats, points: int = 300) -> float:
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


if __name__ == "__main__":
    lines = ["| metric | implementation | data sets | largest difference |", "|---|---|---|---|"]
    lines += [f"| {each.metric} | {each.name} | {n} | {far:.0e} |" for each, far, n in agreements()]
    Console(width=160).print("\n".join(lines), markup=False, highlight=False)
