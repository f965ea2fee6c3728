"""How V4 scores a stated confidence: ours, and the three modes of the reference, for comparison.

c is the stated confidence, y = 1 for a correct and 0 for an incorrect claim:

    proper             1 - (c - y)^2                  Brier (1950); the truth about oneself pays best
    legacy             max(0.2, 1 - 1.5 |c - 0.5|)    half sure pays best, right or wrong
    match_v1           max(0.2, 1 - 2 |c - y|) for a direction, else as legacy
    calibration_aware  max(0.2, 1 - 2 |c - y|)        all or nothing pays best

The last three are the rules of the reference's uncertainty verifier at its public state 1cc781e (its
default branch by mode, and its branch for rows with an expected confidence), applied to our verdict
and our reading of the confidence. There the score of V1 above 0.5 stands for y. Its habit of paying
for a confidence without a claim is left out: in every mode no claim, a contradiction, or a missing or
invalid confidence earns 0.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from evals.errors import BadConfig

DEFAULT_MODE = "proper"
FLOOR = 0.2
DIRECTIONS = frozenset(("direct", "mechanism"))
"""Kinds whose truth names one gene set and one direction: there the reference's V1 has a score."""


def check_mode(name: str) -> str:
    """Return the name of a mode; BadConfig if there is none of that name."""
    if name not in MODES:
        raise BadConfig(f"V4 has no mode {name!r}; choose one of {', '.join(MODES)}")
    return name


def _proper(kind: str, c: float, y: float) -> float:
    return 1.0 - (c - y) ** 2


def _legacy(kind: str, c: float, y: float) -> float:
    return max(FLOOR, 1.0 - 1.5 * abs(c - 0.5))


def _match_v1(kind: str, c: float, y: float) -> float:
    return _calibration_aware(kind, c, y) if kind in DIRECTIONS else _legacy(kind, c, y)


def _calibration_aware(kind: str, c: float, y: float) -> float:
    return max(FLOOR, 1.0 - 2.0 * abs(c - y))


MODES: Mapping[str, Callable[[str, float, float], float]] = MappingProxyType(
    {
        DEFAULT_MODE: _proper,
        "legacy": _legacy,
        "match_v1": _match_v1,
        "calibration_aware": _calibration_aware,
    }
)
"""By name: kind of the question, confidence 0..1 and y -> score 0..1."""
