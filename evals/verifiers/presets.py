"""What verifiers weigh, by name, and how V4 scores a confidence.

    weights("phase4")                ->  {"V1": 0.30, "V2": 0.15, "V3": 0.10, "V4": 0.45}
    weights("V1=.3,V4=.45")          ->  {"V1": 0.30, "V4": 0.45}

Weights are shares of one reward and are renormalised over the verifiers that apply to a row. The modes of
V4, for a stated confidence c and y = 1 for a correct, 0 for an incorrect answer:

    proper             1 - (c - y)^2                  Brier (1950); the truth about oneself pays best
    legacy             max(0.2, 1 - 1.5 |c - 0.5|)    half sure pays best, right or wrong
    match_v1           max(0.2, 1 - 2 |c - y|) for a direction, else as legacy
    calibration_aware  max(0.2, 1 - 2 |c - y|)        all or nothing pays best

The last three are the reference's rules (its uncertainty verifier at 1cc781e), applied to our verdict and our reading
of the confidence. In every mode an answer without a claim, or without a readable confidence, earns 0.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from evals.errors import BadConfig

VERIFIERS = ("V1", "V2", "V3", "V4")
DEFAULT_WEIGHTS: Mapping[str, float] = MappingProxyType({"V1": 0.29, "V2": 0.29, "V3": 0.29, "V4": 0.13})
"""Ours. A correct answer beats every other, whatever its confidence: V1 gives at least half its weight, 0.145;
under a wrong answer V4 alone can give anything, at most 0.13; both are divided by the same sum."""
PRESETS: Mapping[str, Mapping[str, float]] = MappingProxyType(
    {
        "assay": DEFAULT_WEIGHTS,
        "mve": MappingProxyType({"V1": 0.6, "V4": 0.4}),
        "full": MappingProxyType({"V1": 0.35, "V2": 0.30, "V3": 0.15, "V4": 0.20}),
        "phase4": MappingProxyType({"V1": 0.30, "V2": 0.15, "V3": 0.10, "V4": 0.45}),
    }
)
"""assay = ours; the others are those of the published runs MVE, Full (v1 and v2) and Phase 4."""
DEFAULT_MODE = "proper"
FLOOR = 0.2
DIRECTIONS = frozenset(("direct", "mechanism"))
"""Kinds whose truth names one gene set and one direction: there the reference's V1 has a score."""


def _legacy(kind: str, c: float, y: float) -> float:
    return max(FLOOR, 1.0 - 1.5 * abs(c - 0.5))


def _calibration_aware(kind: str, c: float, y: float) -> float:
    return max(FLOOR, 1.0 - 2.0 * abs(c - y))


MODES: Mapping[str, Callable[[str, float, float], float]] = MappingProxyType(
    {
        DEFAULT_MODE: lambda kind, c, y: 1.0 - (c - y) ** 2,
        "legacy": _legacy,
        "match_v1": lambda kind, c, y: (_calibration_aware if kind in DIRECTIONS else _legacy)(kind, c, y),
        "calibration_aware": _calibration_aware,
    }
)
"""By name: kind of the question, confidence 0..1 and y -> score 0..1."""


def check_mode(name: str) -> str:
    """Return the name of a mode of V4; BadConfig if there is none of that name."""
    if name not in MODES:
        raise BadConfig(f"V4 has no mode {name!r}; choose one of {', '.join(MODES)}")
    return name


def weights(choice: str | Mapping[str, float] | None = None) -> Mapping[str, float]:
    """Return the weights that a preset's name, a list or a mapping stands for; None = ours.

    BadConfig for an unknown preset, a list that cannot be read, or weights that make no sense.
    """
    if choice is None:
        return DEFAULT_WEIGHTS
    if not isinstance(choice, str):
        return check_weights(choice)
    name = choice.strip().lower()
    return PRESETS[name] if name in PRESETS else check_weights(_listed(choice))


def check_weights(weights: Mapping[str, float]) -> Mapping[str, float]:
    """Return the weights; BadConfig for an unknown verifier, a negative weight or nothing but zeros."""
    unknown = sorted(set(weights) - set(VERIFIERS))
    if unknown:
        raise BadConfig(f"no verifier is called {', '.join(unknown)}; weigh {', '.join(VERIFIERS)}")
    bad = {name: weight for name, weight in weights.items() if not 0 <= weight < float("inf")}
    if bad:
        raise BadConfig(f"weights must be 0 or more, found {bad}; give each verifier a share such as 0.6")
    if not any(weights.values()):
        raise BadConfig("every weight is 0, so nothing would be scored; give at least one verifier a weight")
    return weights


def _listed(text: str) -> dict[str, float]:
    """Return "V1=.3,V4=.45" as a mapping."""
    found: dict[str, float] = {}
    for part in text.split(","):
        name, _, value = (piece.strip() for piece in part.partition("="))
        try:
            share = float(value)
        except ValueError:
            raise BadConfig(
                f"cannot read the weights {text!r}; name a set ({', '.join(PRESETS)}) or list them,"
                " such as V1=0.3,V4=0.45"
            ) from None
        if name in found:
            raise BadConfig(f"{name} is weighed twice in {text!r}; give each verifier one share")
        found[name] = share
    return found
