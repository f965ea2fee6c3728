"""What to do about stated confidences: thresholds with a promise of how many answers are wrong, and recalibration.

Learn then Test (Angelopoulos, Bates, Candès, Jordan & Lei 2021, arXiv:2110.01052): every threshold is a hypothesis that
more than the promised share of the answers above it is wrong, tested by an exact binomial test, in fixed sequences from
the highest threshold down. Where a sequence begins depends on the confidences alone, never on what was right.

A calibrator is a curve from stated to honest confidence: isotonic (Zadrozny & Elkan 2002), Platt's (1999) on the log odds
of what is stated, a temperature (Guo et al. 2017, arXiv:1706.04599), or a histogram (Zadrozny & Elkan 2001).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

import numpy as np
from pydantic import Field, ValidationError
from scipy.optimize import isotonic_regression, minimize
from scipy.special import expit, logit
from scipy.stats import binom

from evals.errors import BadConfig, IncomparableReports
from evals.io import read_text
from evals.questions.prompt import answer_form
from evals.report import rows_of
from evals.run import Measured, RunSettings, keep, resume, run_task
from evals.schema import ChoiceTruth, EvalReport, EvalRow, Example, Message, Record, Share
from evals.schema.questions import Model, Progress, Sampling, TokenScore
from evals.schema.reports import GivenConfidence
from evals.stats.calibration import Calibration, CalibrationSettings, bin_edges, calibrate, places
from evals.stats.intervals import Floats, Interval, wilson
from evals.task import Task
from evals.verifiers.line import last_answer

SEQUENCES = 4
"""Sequences of tests, each with its part of what may go wrong: one that begins at few answers is stopped by one error."""
FOLDS = 5


class Kept(Record):
    """How many of `n` answers stay at or above a threshold, and how many of those are wrong, with Wilson's interval."""

    n: int
    kept: int
    wrong: int
    interval: Interval | None


class Promise(Record):
    """The lowest threshold that keeps the promise; None where `n` answers, one of each cluster, can promise nothing.

    `chosen_on` is what it does on the answers that it was chosen on; `elsewhere` on others: the answers of each of five
    folds of clusters, kept by the threshold that the other four choose.
    """

    wrong_at_most: Share
    confidence: Share
    threshold: Share | None
    n: int
    n_needed: int
    chosen_on: Kept
    elsewhere: Kept


def promise(
    stated: Sequence[float | None],
    correct: Sequence[bool],
    clusters: Sequence[str],
    wrong_at_most: float = 0.1,
    confidence: float = 0.95,
    seed: int = 0,
) -> Promise:
    """Return the lowest threshold above which, with probability `confidence`, at most `wrong_at_most` is wrong.

    An answer without a stated confidence is never kept. The test needs answers that are independent: it is made on one
    of each cluster, drawn by `seed`, and the promise is about such answers. BadConfig for shares outside 0..1.
    """
    for name, value in (("wrong-at-most", wrong_at_most), ("confidence", confidence)):
        if not 0 < value < 1:
            raise BadConfig(f"{name} is {value}; give a share between 0 and 1, or a percentage such as 10%")
    generator = np.random.default_rng(seed)
    order = generator.permutation(len(correct))
    first = {clusters[at]: at for at in order[::-1]}
    chosen = np.array(sorted(first.values()), dtype=int)
    c = np.array([-1.0 if stated[at] is None else stated[at] for at in chosen], dtype=np.float64)
    wrong = ~np.array([correct[at] for at in chosen], dtype=bool)
    threshold = lowest_threshold(c, wrong, wrong_at_most, 1 - confidence)
    fold = generator.permutation(len(c)) % FOLDS
    others = np.full(len(c), math.inf)
    for each in range(FOLDS):
        found = lowest_threshold(c[fold != each], wrong[fold != each], wrong_at_most, 1 - confidence)
        others[fold == each] = math.inf if found is None else found
    return Promise(
        wrong_at_most=wrong_at_most,
        confidence=confidence,
        threshold=threshold,
        n=len(c),
        n_needed=fewest(wrong_at_most, 1 - confidence),
        chosen_on=_kept(c, wrong, np.full(len(c), math.inf if threshold is None else threshold)),
        elsewhere=_kept(c, wrong, others),
    )


def fewest(wrong_at_most: float, delta: float) -> int:
    """Return how many answers, all right, it takes to promise anything: 29 for 10 % with 95 % certainty."""
    return math.ceil(math.log(delta) / math.log1p(-wrong_at_most))


def lowest_threshold(c: np.ndarray, wrong: np.ndarray, wrong_at_most: float, delta: float) -> float | None:
    """Return the lowest threshold at which no more than `wrong_at_most` is wrong but with probability `delta`, or None.

    `c` are confidences 0..1, negative where none is stated.
    """
    levels = np.unique(c[c >= 0])[::-1]
    kept = np.array([(c >= level).sum() for level in levels])
    p = binom.cdf([wrong[c >= level].sum() for level in levels], kept, wrong_at_most)
    starts = {n: np.flatnonzero(kept >= fewest(wrong_at_most, delta / n)) for n in range(1, SEQUENCES + 1)}
    n_starts = max((n for n, able in starts.items() if len(able) >= n), default=0)  # that begin with enough answers
    found = []
    for start in (starts[n_starts][len(starts[n_starts]) * n // n_starts] for n in range(n_starts)):
        passed = np.cumprod(p[start:] <= delta / n_starts).sum()
        found += [float(levels[start + passed - 1])] if passed else []
    return min(found, default=None)


def _kept(c: np.ndarray, wrong: np.ndarray, threshold: np.ndarray) -> Kept:
    stays = (c >= threshold) & (c >= 0)
    kept, errors = int(stays.sum()), int(wrong[stays].sum())
    return Kept(n=len(c), kept=kept, wrong=errors, interval=wilson(errors, kept))


# ---- recalibration -------------------------------------------------------------------------------

Method = Literal["isotonic", "platt", "temperature", "histogram"]
Curve = tuple[tuple[Share, Share], ...]
"""Points (stated, honest), ascending; between two of them the line, outside them the nearest."""
FEWEST = 20
"""Clusters of answers with a stated confidence, of each kind that has a curve of its own, that a curve is fitted on."""
SHOWN = 1.645
AS_STATED: Curve = ((0.0, 0.0), (1.0, 1.0))
"""The curve that changes nothing."""
SUREST = 0.99
"""Log odds are taken of stated confidences up to here: those of 100 % are infinite."""
GRID = np.linspace(0.0, 1.0, 101)


class Claims(NamedTuple):
    """Answers that state a confidence: how much, whether they are right, their clusters and kinds of question."""

    stated: Floats
    right: Floats
    clusters: tuple[str, ...]
    kinds: tuple[str, ...]

    @classmethod
    def of(cls, rows: Sequence[EvalRow]) -> "Claims":
        """Return those of the rows that make a claim and state a confidence."""
        claims = (row for row in rows if row.verdict.verdict != "no_claim")
        found = [row for row in claims if row.verdict.confidence.value is not None]
        right = [row.verdict.verdict == "correct" for row in found]
        about = (tuple(row.cluster for row in found), tuple(row.example.ground_truth.kind for row in found))
        return cls(
            np.array([row.verdict.confidence.value for row in found], dtype=float), np.array(right, dtype=float), *about
        )

    def groups(self, *, by_kind: bool) -> "dict[str, Claims]":
        """Return those of each kind, or all of them."""
        if not by_kind:
            return {"all": self}
        return {name: self.where([each == name for each in self.kinds]) for name in sorted(set(self.kinds))}

    def where(self, here: Sequence[bool] | np.ndarray) -> "Claims":
        """Return some of them."""
        at = np.flatnonzero(here)
        return Claims(
            self.stated[at], self.right[at], tuple(self.clusters[n] for n in at), tuple(self.kinds[n] for n in at)
        )


class Fold(Record):
    """Curves that were fitted without these clusters."""

    clusters: tuple[str, ...]
    curves: dict[str, Curve]


class OfStage(Record):
    """What was found out about one stage, known by its checksum (None: none is known), by answers to kinds of question."""

    stage: str
    stage_sha256: str | None
    kinds: tuple[str, ...]
    data_name: str
    data_sha256: str

    def is_of(self, stage: str, sha256: str | None) -> bool:
        """Return whether it belongs to a stage."""
        return sha256 == self.stage_sha256 if self.stage_sha256 else stage == self.stage


class StagePromise(OfStage):
    """A threshold of a stage, as `assay eval threshold --out` keeps it."""

    promise: Promise


class Calibrator(OfStage):
    """A map from stated to honest confidence, with what it makes of answers that it was not fitted on.

    `curves` by kind of question, or one under "all". They are fitted on the `n` answers of `fitted_on`; an answer of a
    cluster in one of the `folds` is given the curve that was fitted without it. `before` and `after` are over other
    answers than those of dev, or over the very ones, each by the curve of its fold.
    """

    method: Method
    fitted_on: Literal["dev", "folds"]
    n: int
    curves: dict[str, Curve]
    folds: tuple[Fold, ...] = Field(repr=False)
    before: Calibration
    after: Calibration

    def honest(self, stated: float, kind: str | None, cluster: str | None = None) -> float:
        """Return the honest confidence; BadConfig for a kind of question that it is not about, None for an unknown one."""
        curves = next((each.curves for each in self.folds if cluster in each.clusters), self.curves)
        curve = curves.get("all") or curves.get(kind or "")
        if curve is None:
            kinds = ", ".join(curves)
            raise BadConfig(f"the calibrator is about questions of the kinds {kinds}, not {kind or 'unknown'}")
        return float(apply_curve(curve, np.array([stated]))[0])

    @property
    def changes_nothing(self) -> bool:
        """Whether no curve was shown to be better than what is stated."""
        return all(curve == AS_STATED for curve in self.curves.values())

    def right_alike(self, stated: float) -> tuple[float, int] | None:
        """Return which share of the answers that stated about as much was right, and how many did; None if none did."""
        edges = bin_edges(np.array([stated]), CalibrationSettings())
        found = self.before.bins[places(np.array([stated]), edges)[0]]
        return None if found.accuracy is None else (found.accuracy, found.n)


def apply_curve(curve: Curve, stated: Floats) -> Floats:
    """Return the honest confidences."""
    x, y = np.array(curve).T
    return np.interp(stated, x, y)


def fit_curve(stated: Floats, right: Floats, method: Method) -> Curve:
    """Return the curve of a method, never down; no confidence is surer than one success more or less would allow."""
    least = 1 / (len(stated) + 2)
    if method == "isotonic":
        x, place, n = np.unique(stated, return_inverse=True, return_counts=True)
        y = isotonic_regression(np.bincount(place, right) / n, weights=n).x
    elif method == "histogram":
        edges = bin_edges(stated, CalibrationSettings(bins=max(1, min(10, len(stated) // 10)), binning="mass"))
        place = places(stated, edges)
        counts, sums = np.bincount(place, minlength=len(edges) + 1), np.bincount(place, right, len(edges) + 1)
        x = np.array([each for low, high in zip([0, *edges], [*edges, 1], strict=True) for each in (low, high - 1e-9)])
        y = np.repeat((sums + 1) / (counts + 2), 2)
    else:
        x, y = GRID, expit(_log_odds(GRID, *_fit_log_odds(stated, right, has_offset=method == "platt")))
    points = zip(x.tolist(), np.clip(y, least, 1 - least).tolist(), strict=True)
    return tuple((max(0.0, at), value) for at, value in points)


def _log_odds(stated: Floats, slope: float, offset: float) -> Floats:
    return slope * logit(np.clip(stated, 1 - SUREST, SUREST)) + offset


def _fit_log_odds(stated: Floats, right: Floats, *, has_offset: bool) -> tuple[float, float]:
    """Return slope, never negative, and offset of the likeliest logistic curve, outcomes smoothed as Platt does."""
    n_right, n_wrong = right.sum(), (1 - right).sum()
    aim = np.where(right > 0, (n_right + 1) / (n_right + 2), 1 / (n_wrong + 2))

    def loss(fitted: Floats) -> float:
        odds = _log_odds(stated, fitted[0], fitted[1])
        return float((np.logaddexp(0, odds) - aim * odds).mean())

    found = minimize(loss, (1.0, 0.0), bounds=((0, 20), (-20, 20) if has_offset else (0, 0)))
    return float(found.x[0]), float(found.x[1])


def folds_of(claims: Claims, seed: int) -> np.ndarray:
    """Return the fold of each answer: clusters, in five folds."""
    names = sorted(set(claims.clusters))
    fold = dict(zip(names, np.random.default_rng(seed).permutation(len(names)) % FOLDS, strict=True))
    return np.array([fold[name] for name in claims.clusters])


def earned_curve(claims: Claims, method: Method, seed: int = 0) -> Curve:
    """Return the curve of a method, or AS_STATED where cross-fitting does not show that it betters the Brier score.

    Shown: the mean gain of a cluster, each under the curve of the four folds that it is not in, is above 0 by 1.645
    standard errors. So what chance makes of honest confidences is left alone in 95 of 100 data sets.
    """
    fold, honest = folds_of(claims, seed), np.empty(len(claims.stated))
    for each in set(fold.tolist()):
        curve = fit_curve(claims.stated[fold != each], claims.right[fold != each], method)
        honest[fold == each] = apply_curve(curve, claims.stated[fold == each])
    gain = (claims.stated - claims.right) ** 2 - (honest - claims.right) ** 2
    names, place = np.unique(claims.clusters, return_inverse=True)
    sums = np.bincount(place, gain)
    is_shown = sums.mean() > SHOWN * sums.std(ddof=1) / math.sqrt(len(names))
    return fit_curve(claims.stated, claims.right, method) if is_shown else AS_STATED


def fit_curves(claims: Claims, method: Method, *, by_kind: bool = False, seed: int = 0) -> dict[str, Curve]:
    """Return the earned curve of each kind, or one of all."""
    return {name: earned_curve(each, method, seed) for name, each in claims.groups(by_kind=by_kind).items()}


def fit_folds(claims: Claims, method: Method, *, by_kind: bool = False, seed: int = 0) -> tuple[Fold, ...]:
    """Return the curves of each fold of clusters, fitted on the other four."""
    fold, clusters = folds_of(claims, seed), np.array(claims.clusters)
    return tuple(
        Fold(
            clusters=tuple(np.unique(clusters[fold == each]).tolist()),
            curves=fit_curves(claims.where(fold != each), method, by_kind=by_kind, seed=seed),
        )
        for each in range(FOLDS)
    )


def about_stage(report: EvalReport, stage: str, group: str | None) -> tuple[list[EvalRow], dict[str, object]]:
    """Return the rows of a stage in a group, and what a record of the stage says of them."""
    rows = rows_of(report, stage, group)
    kinds = tuple(sorted({row.example.ground_truth.kind for row in rows}))
    about = {"stage": stage, "stage_sha256": report.stage_checksums.get(stage), "kinds": kinds}
    return rows, about | {"data_name": report.data_name, "data_sha256": report.data_sha256}


def fit_calibrator(
    report: EvalReport,
    stage: str,
    method: Method = "isotonic",
    dev: EvalReport | None = None,
    group: str | None = None,
    *,
    by_kind: bool = False,
    settings: CalibrationSettings | None = None,
) -> Calibrator:
    """Return a calibrator of a stage, fitted on the dev rows of `dev`, or of the report itself, and shown on other rows.

    Without dev rows it is cross-fitted: shown on the rows it is fitted on, each by the curve of the folds without it.
    BadConfig for too few answers, IncomparableReports for a report on dev rows of other weights.
    """
    settings = settings or CalibrationSettings()
    rows, about = about_stage(report, stage, group)
    others = rows
    if dev is not None:
        others, theirs = about_stage(dev, stage, group)
        if theirs["stage_sha256"] != about["stage_sha256"]:
            raise IncomparableReports(
                f"the two reports measure other weights of {stage!r}; answer again with one chain"
            )
    fitted = [row for row in others if row.example.split == "dev"] or (others if dev else [])
    shown = [row for row in rows if row.example.split != "dev"] if fitted else rows
    claims, tried = Claims.of(fitted or rows), Claims.of(shown)
    for name, each in claims.groups(by_kind=by_kind).items():
        if (n := len(set(each.clusters))) < FEWEST:
            raise BadConfig(
                f"a calibrator takes {FEWEST} answers to unrelated questions that state a confidence, found {n} to {name}"
                f" questions; give a larger report{', or leave --by kind out' if by_kind else ''}"
            )
    folds = fit_folds(claims, method, by_kind=by_kind, seed=settings.seed)
    made = {
        "method": method,
        "fitted_on": "dev" if fitted else "folds",
        "n": len(claims.stated),
        "curves": fit_curves(claims, method, by_kind=by_kind, seed=settings.seed),
        "folds": folds,
        "before": calibrate(tried.stated.tolist(), tried.right.tolist(), tried.clusters, settings),
        "after": Calibration(n=0, n_missing_confidence=0),
    }
    found = Calibrator.model_validate({**about, **made, "kinds": tuple(sorted(set(claims.kinds)))})
    honest = [found.honest(*each) for each in zip(tried.stated, tried.kinds, tried.clusters, strict=True)]
    return found.model_copy(update={"after": calibrate(honest, tried.right.tolist(), tried.clusters, settings)})


OfStageT = TypeVar("OfStageT", bound=OfStage)


def read_of_stage(path: Path, kind: type[OfStageT]) -> OfStageT:
    """Return the record of a stage in a file; BadConfig for another file."""
    try:
        return kind.model_validate_json(
            read_text(path, "make one with `assay eval recalibrate` or `assay eval threshold`")
        )
    except ValidationError as error:
        what = "calibrator" if kind is Calibrator else "threshold"
        raise BadConfig(f"{path} holds no {what}: {str(error).splitlines()[1]}; give the file of --out") from None


# ---- confidences from elsewhere than the words of an answer --------------------------------------


def with_confidence(row: EvalRow, source: str, value: float | None) -> EvalRow:
    """Return an answer as one of a stage of its own, named for where its confidence comes from."""
    given = GivenConfidence(source=source, value=value)
    return row.model_copy(update={"stage": f"{row.stage} {source}", "given": given}).judged(row.verdict)


def recalibrate(
    rows: Sequence[EvalRow], calibrators: Sequence[Calibrator], checksums: Mapping[str, str]
) -> tuple[EvalRow, ...]:
    """Return the answers with recalibrated confidences, as stages of their own.

    BadConfig for a calibrator of a stage that has no answers here, or of other kinds of question.
    """
    made = []
    for each in calibrators:
        stages = [name for name in dict.fromkeys(row.stage for row in rows) if each.is_of(name, checksums.get(name))]
        if not stages:
            raise BadConfig(
                f"the calibrator of {each.stage} (sha256 {each.stage_sha256}) belongs to other weights than these; fit one"
                " with `assay eval recalibrate` on a report of this chain"
            )
        for row in (row for row in rows if row.stage == stages[0]):
            kind, stated = row.example.ground_truth.kind, row.verdict.confidence.value
            if kind not in each.kinds:
                raise BadConfig(
                    f"the calibrator is about questions of the kinds {', '.join(each.kinds)}, not {kind}; leave"
                    " these questions out, or fit it with --group all on a report that has them"
                )
            value = None if stated is None else each.honest(stated, kind, row.cluster)
            made.append(with_confidence(row, "recalibrated", value))
    return tuple(made)


def keep_from(rows: Sequence[EvalRow], threshold: float) -> tuple[EvalRow, ...]:
    """Return the answers but for those that state less than a threshold, or nothing."""
    return tuple(row for row in rows if (row.verdict.confidence.value or 0.0) >= threshold)


class LikelihoodModel(Model, Protocol):
    """A model that knows how likely what it answers is."""

    def token_scores(
        self, prompts: Sequence[Sequence[Message]], stage: str, texts: Sequence[str], sampling: Sampling
    ) -> list[Sequence[TokenScore]]:
        """Return the tokens behind the last "Answer:" of each text that was answered, and the one that follows them.

        None of a text that the stage does not answer again.
        """


HIDDEN = 0.01
"""Of the probability that options share: what options may have, at most, that begin with none of the likeliest tokens."""


def likelihood(row: EvalRow, scores: Sequence[TokenScore]) -> float | None:
    """Return how likely the answer of the answer line was, None where its tokens do not tell it.

    Where the prompt lists options, it is the probability of the answer if nothing but one of them could be written: at
    each token the share of those that go on with it among those that go on with any option. Else it is the geometric
    mean of its tokens.
    """
    truth = row.example.ground_truth
    options = answer_form(row.example.prompt, truth).casefold().split(" / ")
    if len(options) == 1:
        return min(1.0, math.exp(np.mean([each.logprob for each in scores[:-1]]))) if scores else None
    is_lettered = isinstance(truth, ChoiceTruth) and truth.lettered
    wordings = {each: (each, chr(ord("a") + at)) if is_lettered else (each,) for at, each in enumerate(options)}
    mine, share, read, live = (row.verdict.answer or "").casefold(), 1.0, "", set(options)
    if not scores or mine not in live:
        return None
    for each in scores:
        live = {option for option in live if _begins(read, wordings[option])}
        if mine not in live or len(live) == 1 or not each.top:
            break
        goes_on = [
            ({option for option in live if _begins(read + text, wordings[option])}, math.exp(logprob))
            for text, logprob in each.top
        ]
        mass = sum(p for found, p in goes_on if found)
        hidden = len(live.difference(*(found for found, _ in goes_on))) * min(p for _, p in goes_on)
        if not mass or hidden > HIDDEN * mass:
            return None
        read += each.text
        same = {option for option in live if _begins(read, wordings[option])}  # so " 1" of "10" is not counted as "10"
        share *= sum(p for found, p in goes_on if mine in found and found in ({mine}, same)) / mass
    return share


def _begins(text: str, wordings: Sequence[str]) -> bool:
    """Return whether a text begins one of these wordings, or is one with more behind it."""
    said = text.casefold().lstrip(" \t*_\"'`([{")
    return any(each.startswith(said) or (said.startswith(each) and not said[len(each)].isalnum()) for each in wordings)


def likelihoods(
    task: Task[Example], model: LikelihoodModel, rows: Sequence[EvalRow], how: RunSettings, progress: Progress
) -> list[float | None]:
    """Return how likely each answer was; what was measured before a run was stopped is not measured again."""
    stages, examples = asked_of(rows)
    lines = resume(task, examples, stages, how)
    known = {(each.id, each.stage): each.likelihood for each in lines if isinstance(each, Measured)}
    for stage in stages:
        left = [row for row in rows if row.stage == stage and (row.id, stage) not in known]
        for start in range(0, len(left), how.batch_size):
            batch = left[start : start + how.batch_size]
            asked = [row for row in batch if last_answer(row.completion)]
            scores = model.token_scores(
                [row.prompt for row in asked], stage, [row.completion for row in asked], how.sampling
            )
            found = {row.id: likelihood(row, each) for row, each in zip(asked, scores, strict=True)}
            lines = [Measured(id=row.id, stage=stage, likelihood=found.get(row.id)) for row in batch]
            keep(how, lines)
            known |= {(each.id, stage): each.likelihood for each in lines}
            unknown = sum(value is None for value in known.values())
            told = f"likelihood of {len(known)} of {len(rows)} answers" + (f", {unknown} unknown" if unknown else "")
            progress(len(known) / len(rows), told)
    return [known[row.id, row.stage] for row in rows]


def asked_of(rows: Sequence[EvalRow]) -> tuple[list[str], list[Example]]:
    """Return the stages of a run's answers, and the questions."""
    stages = list(dict.fromkeys(row.stage for row in rows))
    return stages, [row.example for row in rows if row.stage == stages[0]]


def agreement(
    task: Task[Example], model: Model, rows: Sequence[EvalRow], n: int, how: RunSettings, progress: Progress
) -> list[float]:
    """Return in which share of `n` answers drawn at temperature 1 the model says what each row answers."""
    same = np.zeros(len(rows))
    stages, examples = asked_of(rows)
    for draw in range(1, n + 1):

        def tell(share: float, done: str, draw: int = draw) -> None:
            progress((draw - 1 + share) / n, f"sample {draw} of {n}: {done}")

        drawn: tuple[Any, ...] = run_task(task, model, examples, stages, replace(how, draw=draw), tell)
        said = [[_answer(each.verdict) for each in given] for given in (rows, drawn)]
        same += [mine is not None and mine == other for mine, other in zip(*said, strict=True)]
    return (same / n).tolist()


def _answer(verdict: Any) -> str | None:
    return verdict.answer.casefold() if verdict.answer is not None else None


def more_confidences(
    task: Task[Example],
    model: Any,
    rows: Sequence[EvalRow],
    sources: Sequence[str],
    how: RunSettings,
    progress: Progress,
) -> tuple[EvalRow, ...]:
    """Return the answers with the confidence of each source, "likelihood" or "samples:N", as stages of their own.

    BadConfig for another source, and for the likelihood of a model that does not tell it.
    """
    made: list[EvalRow] = []
    for source in sources:
        name, _, n = source.partition(":")
        if name == "likelihood" and hasattr(model, "token_scores"):
            values = likelihoods(task, model, rows, how, progress)
        elif name == "samples" and n.isdecimal() and int(n) > 0:
            values = agreement(task, model, rows, int(n), how, progress)
        elif source == "stated":
            continue
        else:
            raise BadConfig(f"no confidence is called {source!r}; choose from stated, likelihood and samples:8")
        made += [with_confidence(row, source.replace(":", "-"), value) for row, value in zip(rows, values, strict=True)]
    return tuple(made)
