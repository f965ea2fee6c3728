"""Calibration of stated confidences as an `evaluate` module, by the statistics of Assay's reports."""

import math
from collections.abc import Sequence
from inspect import cleandoc

import datasets
import evaluate

try:
    from evals.stats.calibration import CalibrationSettings, calibrate
except ImportError as error:
    raise ImportError(
        "stated_calibration computes with Assay's own statistics, which are not here: load it in the environment that `make setup`"
        " makes in Assay's repository. The package called evals on PyPI is something else."
    ) from error

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
METRICS = (
    *("ece", "mce", "smece", "brier", "brier_reliability", "brier_resolution", "brier_uncertainty", "base_rate_brier"),
    *("log_loss", "auroc", "aurc", "overconfidence_rate", "underconfidence_rate", "mean_confidence", "mean_accuracy"),
)


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
        n_resamples: bootstrap draws, and draws of the error by chance (default 2000).
        seed: the same seed gives the same intervals (default 0).

    Returns n, n_missing_confidence, ece, mce, smece (no interval), brier, brier_reliability, brier_resolution,
    brier_uncertainty, base_rate_brier, log_loss (natural log, confidence cut at 1e-12), auroc, aurc,
    overconfidence_rate (wrong among those above 0.8), underconfidence_rate (right among those below 0.3),
    mean_confidence, mean_accuracy, ece_if_calibrated {mean, q95} and intervals {metric: [low, high]}, 95 %
    percentile. Rows without a confidence are only counted. A metric is None where it is undefined: all of
    them without a confidence, auroc with only right or only wrong rows, a rate without such confidences.

    Example:
        >>> metric = evaluate.load("evals/metrics/stated_calibration")
        >>> metric.compute(predictions=[0.9, 0.9, 0.6, None], references=[1, 0, 1, 1], n_resamples=100)["brier"]
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
        references: Sequence[float] = (),
        clusters: Sequence[object] | None = None,
        n_bins: int = 10,
        n_resamples: int = 2000,
        seed: int = 0,
    ) -> dict[str, object]:
        odd = [reference for reference in references if reference not in (0, 1)]
        if odd:
            raise ValueError(f"a reference is 1 (correct) or 0, found {odd[0]}")
        clusters = [None] * len(references) if clusters is None else clusters
        if len(clusters) != len(references):
            raise ValueError(f"found {len(clusters)} clusters for {len(references)} rows; give one for each row")
        found = calibrate(
            [None if each is None or math.isnan(each) else each for each in predictions],
            [bool(reference) for reference in references],
            [f"row {n}" if each is None else f"cluster {each}" for n, each in enumerate(clusters)],
            CalibrationSettings(bins=n_bins, draws=n_resamples, seed=seed),
        )
        return {
            "n": found.n,
            "n_missing_confidence": found.n_missing_confidence,
            **{name: getattr(found, name) for name in METRICS},
            "ece_if_calibrated": found.ece_if_calibrated and found.ece_if_calibrated.model_dump(),
            "intervals": {name: list(span) for name, span in found.intervals.items() if name in METRICS},
        }
