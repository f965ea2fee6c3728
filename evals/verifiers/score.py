"""From a verdict to scores and one reward. Nothing but the verdict, its faults and the confidence counts.

Which verifiers apply depends on the truth alone, never on the answer, so that renormalising the weights cannot
be gamed (docs/verifiers.md has the table of scores). V2 and V3 only take away: an explanation can cost, and earns
nothing by itself. The reward is the mean weighted over what applies.

    weights("phase4")          ->  {"V1": 0.30, "V2": 0.15, "V3": 0.10, "V4": 0.45}
    weights("V1=.3,V4=.45")    ->  {"V1": 0.30, "V4": 0.45}
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, get_args

from evals.errors import BadConfig
from evals.schema import ConservationTruth, Example, GroundTruth, StatedConfidence, UncertaintyTruth, Verdict
from evals.verifiers.expected import AnswerReading, Expected, cache_by_truth, expected_answer
from evals.verifiers.faults import false_figures
from evals.verifiers.line import read_answer_line, read_lines
from evals.verifiers.text.free_text import read_free_text, read_line
from evals.verifiers.text.names import without_others
from evals.verifiers.text.sentences import plain_text
from evals.wording import VERSION as CONFIDENCE_VERSION
from evals.wording import resolve_confidence, statements

VERIFIERS = ("V1", "V2", "V3", "V4")
DEFAULT_WEIGHTS: Mapping[str, float] = MappingProxyType({"V1": 0.29, "V2": 0.29, "V3": 0.29, "V4": 0.13})
"""Ours. A correct answer beats every other, whatever its confidence: V1 gives at least half its weight, 0.145;
under a wrong answer V4 alone can give anything, at most 0.13; both are divided by the same sum."""
PRESETS: Mapping[str, Mapping[str, float]] = {
    "assay": DEFAULT_WEIGHTS,
    "mve": {"V1": 0.6, "V4": 0.4},
    "full": {"V1": 0.35, "V2": 0.30, "V3": 0.15, "V4": 0.20},
    "phase4": {"V1": 0.30, "V2": 0.15, "V3": 0.10, "V4": 0.45},
}
"""assay = ours; the others are those of the published runs MVE, Full (v1 and v2) and Phase 4."""
DEFAULT_MODE = "proper"


def _half_sure(kind: str, c: float, y: float) -> float:
    return max(0.2, 1.0 - 1.5 * abs(c - 0.5))


def _all_or_nothing(kind: str, c: float, y: float) -> float:
    return max(0.2, 1.0 - 2.0 * abs(c - y))


MODES: Mapping[str, Callable[[str, float, float], float]] = {
    DEFAULT_MODE: lambda kind, c, y: 1.0 - (c - y) ** 2,
    "legacy": _half_sure,
    "match_v1": lambda kind, c, y: (_all_or_nothing if kind in ("direct", "mechanism") else _half_sure)(kind, c, y),
    "calibration_aware": _all_or_nothing,
}
"""How V4 scores a stated confidence: kind of the question, c 0..1, y = 1 for a correct answer -> 0..1. proper is Brier
(1950): the truth about oneself pays best. The others are the reference's rules (its uncertainty verifier at 1cc781e).
In every mode an answer without a claim, or without a readable confidence, earns 0."""
WITH_FIGURES = ("V1", "V2", "V3", "V4")
WITHOUT_FIGURES = ("V1", "V3", "V4")
"""What applies where the truth holds no figures that an explanation could get wrong."""
JUDGED = ("V1", "V4")
"""What applies to a rubric, once a judge has graded its items: V1 is the share of their weight that is met."""
SCORED = frozenset(("direct", "mechanism", "uncertainty", "comparison", "conservation", "count", "label", "abstain"))
SCORED |= {"choice", "number", "set", "term"}
"""Kinds of truth that are scored; `rubric` and `facts` are for a judge."""


def check_mode(name: str) -> str:
    """Return the name of a mode of V4; BadConfig if there is none of that name."""
    if name not in MODES:
        raise BadConfig(f"V4 has no mode {name!r}; choose one of {', '.join(MODES)}")
    return name


def weights(choice: str | Mapping[str, float] | None = None) -> Mapping[str, float]:
    """Return the weights that a preset's name, a list such as "V1=.3,V4=.45" or a mapping stands for; None = ours.

    BadConfig for an unknown preset or verifier, a list that cannot be read, a negative weight, nothing but zeros.
    """
    if choice is None:
        return DEFAULT_WEIGHTS
    if isinstance(choice, str):
        if choice.strip().lower() in PRESETS:
            return PRESETS[choice.strip().lower()]
        choice = _weights_in(choice)
    if unknown := sorted(set(choice) - set(VERIFIERS)):
        raise BadConfig(f"no verifier is called {', '.join(unknown)}; weigh {', '.join(VERIFIERS)}")
    if bad := {name: weight for name, weight in choice.items() if not 0 <= weight < float("inf")}:
        raise BadConfig(f"weights must be 0 or more, found {bad}; give each verifier a share such as 0.6")
    if not any(choice.values()):
        raise BadConfig("every weight is 0, so nothing would be scored; give at least one verifier a weight")
    return choice


def pays_falsehood(weights: Mapping[str, float]) -> str:
    """Return a warning where a known falsehood stated at 0 % earns more than an honest guess among three; else "".

    The guess earns (1 + 4/3 V4) / 3 at 33 %, the falsehood V4, the share of V4 where V2 does not apply.
    """
    total = sum(weights.get(name, 0.0) for name in WITHOUT_FIGURES)
    share = weights.get("V4", 0.0) / total if total else 0.0
    guess = (1.0 + share * 4 / 3) / 3
    if share <= guess:
        return ""
    return (
        f"with these weights a known falsehood at 0 % earns {share:.2f} and an honest guess among three {guess:.2f}, so"
        f" training would teach to be wrong on purpose; keep V4 at 60 % or less of V1 + V3 + V4 (here {share:.0%})"
    )


def _weights_in(text: str) -> dict[str, float]:
    try:
        shares = [(name.strip(), float(share)) for name, share in (part.split("=") for part in text.split(","))]
    except ValueError:
        names = ", ".join(PRESETS)
        raise BadConfig(
            f"cannot read the weights {text!r}; name a set ({names}) or list them, such as V1=0.3,V4=0.45"
        ) from None
    if twice := [name for name, n in Counter(name for name, _ in shares).items() if n > 1]:
        raise BadConfig(f"{twice[0]} is weighed twice in {text!r}; give each verifier one share")
    return dict(shares)


@dataclass(frozen=True, slots=True)
class Scoring:
    """How scores become a reward: weights by verifier, and the mode of V4. BadConfig if unknown."""

    weights: Mapping[str, float] = field(default_factory=lambda: DEFAULT_WEIGHTS)
    v4: str = DEFAULT_MODE

    def __post_init__(self) -> None:
        weights(self.weights)
        check_mode(self.v4)


def scoring_of(choice: str | Mapping[str, float] | None, v4: str = DEFAULT_MODE) -> Scoring:
    """Return the scoring under the weights that `choice` stands for; BadConfig as `weights` and `check_mode`."""
    return Scoring(weights(choice), v4)


@dataclass(frozen=True, slots=True)
class Faults:
    """What is wrong in the text around a correct answer, in plain words: figures (V2), contradictions (V3).

    The verdict stays correct; `contradictory` as a verdict means that the answer itself says two things.
    """

    figures: tuple[str, ...] = ()
    contradictions: tuple[str, ...] = ()


DEFAULT_SCORING = Scoring()
NO_FAULTS = Faults()


@cache_by_truth
def applicable(truth: GroundTruth) -> tuple[str, ...]:
    """Return the verifiers that apply to a question; none for a kind that is not scored."""
    if truth.kind not in SCORED:
        return ()
    has_figures = isinstance(truth, UncertaintyTruth | ConservationTruth) or bool(getattr(truth, "missions", None))
    return WITH_FIGURES if has_figures else WITHOUT_FIGURES


def score(
    truth: GroundTruth,
    reading: AnswerReading,
    confidence: StatedConfidence,
    read_by: str | None,
    faults: Faults = NO_FAULTS,
    scoring: Scoring = DEFAULT_SCORING,
) -> Verdict:
    """Return the verdict with its scores and reward; a kind that is not scored has neither."""
    applies = applicable(truth) or (JUDGED if read_by == "judge" else ())
    verdict, right = reading.verdict, reading.credit if reading.verdict == "correct" else 0.0
    values = {
        "V1": reading.credit,
        "V2": 0.0 if faults.figures else right,
        "V3": 0.0 if faults.contradictions else right,
        "V4": 0.0,
    }
    if confidence.value is not None and verdict in ("correct", "incorrect"):
        values["V4"] = MODES[scoring.v4](truth.kind, confidence.value, float(verdict == "correct"))
    scores: dict[str, float | None] = dict.fromkeys(VERIFIERS)
    total = earned = 0.0
    for name in applies:
        weight = scoring.weights.get(name, 0.0)
        scores[name] = values[name]
        total += weight
        earned += weight * values[name]
    reason = reading.reason
    if faults is not NO_FAULTS:
        reason = "; ".join((reason, *faults.figures, *faults.contradictions))
    # Of checked parts, so not validated: a text may hold half a surrogate, and a batch has many answers.
    return Verdict.model_construct(
        verdict=verdict,
        reason=reason,
        claims=reading.claims,
        confidence=confidence,
        scores=scores,
        reward=(min(1.0, earned / total) if total else 0.0) if applies else None,
        answer=reading.answer,
        read_by=read_by,
    )


# ---- from an answer to its verdict ---------------------------------------------------------------


VERSION = "verifiers-13"
Weights = str | Mapping[str, float] | None
"""A preset's name, a list such as "V1=.3,V4=.45", shares per verifier, or None for the usual ones."""
Read = Literal["auto", "answer", "text"]
"""auto = the answer line where there is one, else the text; answer = the line alone; text = the text alone."""
READINGS: tuple[Read, ...] = get_args(Read)


def verify(
    example: Example, completion: str, weights: Weights = None, v4: str = DEFAULT_MODE, read: Read = "auto"
) -> Verdict:
    """Return the verdict on `completion` as an answer to `example`."""
    return verify_answer(example.ground_truth, example.prompt, completion, weights, v4, read)


def verify_answer(
    truth: GroundTruth,
    question: str,
    completion: str,
    weights: Weights = None,
    v4: str = DEFAULT_MODE,
    read: Read = "auto",
) -> Verdict:
    """Return the verdict on an answer to a question whose truth is known.

    `weights` are a preset's name or shares per verifier, renormalised over those that apply; None =
    DEFAULT_WEIGHTS. `v4` is one of MODES, `read` one of READINGS. BadConfig for what none of them knows.
    """
    return verify_prepared(truth, question, completion, scoring_of(weights, v4), check_read(read))


def verify_prepared(
    truth: GroundTruth, question: str, completion: str, scoring: Scoring = DEFAULT_SCORING, read: Read = "auto"
) -> Verdict:
    """Return the verdict as `verify_answer` does, under weights and a mode that were checked once."""
    expected = expected_answer(truth)
    if read != "text":
        lines = read_lines(completion)
        if lines.answer is not None:
            answer = without_others(expected, question, lines.answer)
            reading = read_answer_line(expected, question, lines._replace(answer=answer), read_line)
            faults = NO_FAULTS
            if reading.verdict == "correct" and lines.explanation:
                faults = _explanation_faults(truth, expected, question, lines.explanation, reading)
            return score(truth, reading, lines.confidence, "letter" if reading.is_letter else "answer", faults, scoring)
        if read == "answer":
            return score(
                truth, AnswerReading("no_claim", "there is no answer line"), lines.confidence, None, scoring=scoring
            )
    reading = read_free_text(expected, question, completion)
    figures = false_figures(truth, completion) if reading.verdict == "correct" else ()
    faults = Faults(figures) if figures else NO_FAULTS
    return score(truth, reading, _confidence_in(completion), "letter" if reading.is_letter else "text", faults, scoring)


def stated_confidence(completion: str) -> StatedConfidence:
    """Return the confidence that an answer to any question states: its last lines', else its text's."""
    lines = read_lines(completion)
    return _confidence_in(completion) if lines.answer is None else lines.confidence


def _confidence_in(text: str) -> StatedConfidence:
    page = plain_text(text)
    return resolve_confidence(text, page, statements(page.text))


def check_read(read: str) -> Read:
    """Return a way of reading; BadConfig if there is none of that name."""
    if read not in READINGS:
        raise BadConfig(f"answers cannot be read by {read!r}; choose one of {', '.join(READINGS)}")
    return read


def verifier_versions(v4: str = DEFAULT_MODE) -> dict[str, str]:
    """Return the versions of what judges, and the mode of V4 where it is not the usual one.

    Scores that were made with different instruments are not comparable.
    """
    versions = {"verifiers": VERSION, "confidence": CONFIDENCE_VERSION}
    return versions if v4 == DEFAULT_MODE else {**versions, "v4": check_mode(v4)}


def _explanation_faults(
    truth: GroundTruth, expected: Expected, question: str, explanation: str, reading: AnswerReading
) -> Faults:
    """Return what is wrong in the explanation beside a correct answer line.

    Numbers are compared for counts alone: an explanation of another number names numbers on the way.
    """
    figures, contradictions = false_figures(truth, explanation), ()
    if expected.kind == "choice" or truth.kind == "count":
        other = read_free_text(expected, question, explanation, is_shown=False)
        if other.verdict == "incorrect":
            contradictions = (f"its explanation says {other.answer}, its answer line {reading.answer}",)
    return Faults(figures, contradictions) if figures or contradictions else NO_FAULTS
