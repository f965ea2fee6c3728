"""Calibration of stated confidences as an `evaluate` module. Needs NumPy; nothing else of Assay.

Everything is written out in plain formulas, one file to read. A test of Assay holds every value against
the implementation that its own reports use.
"""

from collections.abc import Sequence
from inspect import cleandoc

import datasets
import evaluate
import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

CITATION = """
@inproceedings{naeini2015, title={Obtaining Well Calibrated Probabilities Using Bayesian Binning},
  author={Naeini, Mahdi Pakdaman and Cooper, Gregory and Hauskrecht, Milos}, booktitle={AAAI}, year={2015}}
@article{brier1950, title={Verification of forecasts expressed in terms of probability},
  author={Brier, Glenn W.}, journal={Monthly Weather Review}, volume={78}, year={1950}}
@article{murphy1973, title={A New Vector Partition of the Probability Score}, author={Murphy, Allan H.},
  journal={Journal of Applied Meteorology}, volume={12}, year={1973}}
@inproceedings{blasiok2024, title={Smooth ECE: Principled Reliability Diagrams via Kernel Smoothing},
  author={Blasiok, Jaroslaw and Nakkiran, Preetum}, booktitle={ICLR}, year={2024}}
@inproceedings{geifman2019, title={Bias-Reduced Uncertainty Estimation for Deep Neural Classifiers},
  author={Geifman, Yonatan and Uziel, Guy and El-Yaniv, Ran}, booktitle={ICLR}, year={2019}}
"""


class StatedCalibration(evaluate.Metric):
    """Does a stated confidence mean what it says?

    Expected, maximum and smooth calibration error, the error that
    a perfectly calibrated model with these confidences would show by chance, Brier score with its parts and
    beside that of the base rate, log loss, AUROC, AURC, rates of over- and underconfidence, with bootstrap
    intervals over questions or over clusters of them.

    Args:
        predictions: stated confidences, shares 0..1; None or nan where an answer states none.
        references: 1 where the answer is correct, 0 where it is not.
        clusters: what each row belongs to, drawn together; None is a row of its own (default: all are).
        n_bins: bins of equal width for ece, mce and the parts of the Brier score (default 10).
        n_resamples: bootstrap draws, and draws of the error by chance (default 2000; 0: no intervals).
        seed: the same seed gives the same intervals (default 0).

    Returns n, n_missing_confidence, ece, mce, smece (no interval), brier, brier_reliability, brier_resolution,
    brier_uncertainty, base_rate_brier, log_loss (natural log, confidence cut at 1e-12), auroc, aurc,
    overconfidence_rate (wrong among those above 0.8), underconfidence_rate (right among those below 0.3),
    mean_confidence, mean_accuracy, ece_if_calibrated {mean, q95} and intervals {metric: [low, high]}, 95 %
    percentile. Rows without a confidence are only counted. A metric is None where it is undefined: all of
    them without a confidence, auroc with only right or only wrong rows, a rate without such confidences.

    Example:
        >>> metric = evaluate.load("evals/metrics/stated_calibration")
        >>> metric.compute(predictions=[0.9, 0.9, 0.6, None], references=[1, 0, 1, 1], n_resamples=0)["brier"]
        0.3266666666666667
    """

    def _info(self) -> evaluate.MetricInfo:
        features = {
            "predictions": datasets.Value("float64"),
            "references": datasets.Value("float64"),  # int64 would cut 0.5 to 0 without a word
        }
        told = cleandoc(self.__doc__ or "")
        return evaluate.MetricInfo(
            description=told, citation=CITATION, inputs_description=told, features=datasets.Features(features)
        )

    def _compute(  # ty: ignore[incompatible-method-override]  # options are named, so a typo is an error
        self,
        *,
        predictions: Sequence[float | None] = (),
        references: Sequence[int] = (),
        clusters: Sequence[object] | None = None,
        n_bins: int = 10,
        n_resamples: int = 2000,
        seed: int = 0,
    ) -> dict[str, object]:
        c = np.array([np.nan if p is None else p for p in predictions], dtype=np.float64)
        y = np.array(references, dtype=np.float64)
        names = places(range(len(c)) if clusters is None else clusters)
        check(c, y, names, n_bins)
        if n_resamples < 0:
            raise ValueError(f"n_resamples must be 0 (no intervals) or more, found {n_resamples}")
        stated = ~np.isnan(c)
        c, y, names = c[stated], y[stated], names[stated]
        found: dict[str, object] = {"n": len(stated), "n_missing_confidence": int((~stated).sum())}
        found |= {name: None if np.isnan(value) else value for name, value in measures(c, y, n_bins).items()}
        by_chance = ece_by_chance(c, n_bins, n_resamples, seed) if len(c) and n_resamples else None
        spans = intervals(c, y, names, n_bins, n_resamples, seed) if len(c) and n_resamples else {}
        found["smece"] = smooth_ece(c, y) if len(c) else None
        return {**found, "ece_if_calibrated": by_chance, "intervals": spans}


def places(clusters: Sequence[object]) -> npt.NDArray[np.intp]:
    """Return a number for each row's cluster; a row whose cluster is None is one of its own."""
    labels = [f"row {row}" if name is None else f"cluster {name}" for row, name in enumerate(clusters)]
    return np.unique(np.array(labels, dtype=str), return_inverse=True)[1]


def check(c: Floats, y: Floats, names: npt.NDArray[np.intp], n_bins: int) -> None:
    """Return if the input makes sense; ValueError says what does not."""
    outside = c[(c < 0) | (c > 1)]
    if len(outside):
        raise ValueError(f"a confidence is a share 0..1, found {outside[0]}; divide percents by 100")
    if not np.isin(y, (0, 1)).all():
        raise ValueError(f"a reference is 1 (correct) or 0, found {y[~np.isin(y, (0, 1))][0]}")
    if len(names) != len(c):
        raise ValueError(f"found {len(names)} clusters for {len(c)} rows; give one for each row")
    if n_bins < 1:
        raise ValueError(f"n_bins must be 1 or more, found {n_bins}")


def bins(c: Floats, y: Floats, n_bins: int) -> tuple[Floats, Floats, Floats]:
    """Return rows, mean confidence and accuracy of each bin that holds a row."""
    edges = np.arange(1, n_bins) * (1 / n_bins)
    place = np.searchsorted(edges, c, side="right")
    filled = np.unique(place)
    held = np.array([(place == index).sum() for index in filled], dtype=np.float64)
    confidence = np.array([c[place == index].mean() for index in filled], dtype=np.float64)
    accuracy = np.array([y[place == index].mean() for index in filled], dtype=np.float64)
    return held, confidence, accuracy


def ece(c: Floats, y: Floats, n_bins: int) -> float:
    """Return the mean gap between confidence and accuracy of the bins, weighted by their rows."""
    held, confidence, accuracy = bins(c, y, n_bins)
    return float(np.abs(confidence - accuracy) @ held / len(c))


def auroc(c: Floats, y: Floats) -> float:
    """Return the chance that a right row has the higher confidence than a wrong one, ties one half."""
    right, wrong = c[y > 0], np.sort(c[y == 0])
    if not len(right) or not len(wrong):
        return np.nan
    below = np.searchsorted(wrong, right, side="left") + np.searchsorted(wrong, right, side="right")
    return float(below.mean() / 2 / len(wrong))


def aurc(c: Floats, y: Floats) -> float:
    """Return the mean share wrong over the k most confident rows, k = 1..n, ties in random order."""
    levels, place = np.unique(-c, return_inverse=True)
    answered = np.cumsum(np.bincount(place, minlength=len(levels)))
    wrong = np.cumsum(np.bincount(place, weights=1 - y, minlength=len(levels)))
    k = np.arange(1, len(c) + 1)
    expected = np.interp(k, np.concatenate([[0], answered]), np.concatenate([[0], wrong]))
    return float((expected / k).mean())


def smooth_ece(c: Floats, y: Floats, cells: int = 4000) -> float:
    """Return the error smoothed by a Gaussian, reflected at 0 and 1, as wide as that error itself."""
    place = np.minimum((c * cells).astype(int), cells - 1)
    residual = np.bincount(place, weights=y - c, minlength=cells) / len(c)
    spectrum = np.fft.rfft(np.concatenate([residual, residual[::-1]]))
    order = np.pi * np.arange(len(spectrum))
    low, high = 0.0, 1.0
    for _ in range(30):
        width = (low + high) / 2
        smooth = np.fft.irfft(spectrum * np.exp(-((order * width) ** 2) / 2), 2 * cells)[:cells]
        low, high = (low, width) if np.abs(smooth).sum() < width else (width, high)
    return high


def mean(values: Floats) -> float:
    """Return the mean, nan of nothing."""
    return float(values.mean()) if len(values) else np.nan


def measures(c: Floats, y: Floats, n_bins: int) -> dict[str, float]:
    """Return every metric by name, nan where it is undefined: all of them without a row."""
    if not len(c):
        return dict.fromkeys(METRICS, np.nan)
    held, confidence, accuracy = bins(c, y, n_bins)
    base = mean(y)
    values = (
        ece(c, y, n_bins),
        float(np.abs(confidence - accuracy).max()),
        mean((c - y) ** 2),
        float((confidence - accuracy) ** 2 @ held / len(c)),
        float((accuracy - base) ** 2 @ held / len(c)),
        base * (1 - base),
        base * (1 - base),
        mean(-np.log(np.clip(np.where(y > 0, c, 1 - c), 1e-12, 1))),
        auroc(c, y),
        aurc(c, y),
        mean(1 - y[c > 0.8]),
        mean(y[c < 0.3]),
        mean(c),
        base,
    )
    return dict(zip(METRICS, values, strict=True))


METRICS = (
    *("ece", "mce", "brier", "brier_reliability", "brier_resolution", "brier_uncertainty", "base_rate_brier"),
    *("log_loss", "auroc", "aurc", "overconfidence_rate", "underconfidence_rate", "mean_confidence", "mean_accuracy"),
)


def ece_by_chance(c: Floats, n_bins: int, draws: int, seed: int) -> dict[str, float]:
    """Return mean and 95th percentile of the ECE if every row were right with probability c."""
    generator = np.random.default_rng(seed)
    drawn = [ece(c, (generator.random(len(c)) < c).astype(float), n_bins) for _ in range(draws)]
    return {"mean": float(np.mean(drawn)), "q95": float(np.quantile(drawn, 0.95))}


def intervals(
    c: Floats, y: Floats, names: npt.NDArray[np.intp], n_bins: int, draws: int, seed: int
) -> dict[str, list[float]]:
    """Return the percentile interval of each metric over whole clusters; none without spread."""
    generator = np.random.default_rng(seed)
    members = [np.flatnonzero(names == name) for name in np.unique(names)]
    drawn: dict[str, list[float]] = {name: [] for name in METRICS}
    for _ in range(draws):
        picked = generator.integers(len(members), size=len(members))
        rows = np.concatenate([members[index] for index in picked])
        for name, value in measures(c[rows], y[rows], n_bins).items():
            drawn[name].append(value)
    spans = {}
    for name, values in drawn.items():
        kept = np.array(values)[~np.isnan(values)]
        if len(kept) and np.ptp(kept) > 1e-12:
            spans[name] = [float(bound) for bound in np.quantile(kept, [0.025, 0.975])]
    return spans
