"""Sets of weights by name: ours, and those that were published for the reference system.

    weights("phase4")                ->  {"V1": 0.30, "V2": 0.15, "V3": 0.10, "V4": 0.45}
    weights("V1=.3,V4=.45")          ->  {"V1": 0.30, "V4": 0.45}
    weights({"V1": 0.3, "V4": 0.45}) ->  the same

Weights are shares of one reward and are renormalised over the verifiers that apply to a row.
"""

from collections.abc import Mapping
from types import MappingProxyType

from evals.errors import BadConfig

VERIFIERS = ("V1", "V2", "V3", "V4")

DEFAULT_WEIGHTS: Mapping[str, float] = MappingProxyType(
    {"V1": 0.29, "V2": 0.29, "V3": 0.29, "V4": 0.13}
)
"""Ours. Chosen so that a correct claim beats every other answer, whatever its confidence.

Under a correct verdict the verifier of what was asked (V1; V2 for conservation, V3 for a comparison)
gives at least half its weight (`score.LEAST_CREDIT`): 0.145. Under a wrong one V4 alone can give
anything: at most 0.13. Both are divided by the same sum, since what applies depends on the question
alone. It also follows that honesty pays: an answer that is right with chance p earns at least
0.145 p + 0.13 (1 - p + p^2), a known falsehood at 0 % earns 0.13, which is less for every p > 0.
"""

PRESETS: Mapping[str, Mapping[str, float]] = MappingProxyType(
    {
        "assay": DEFAULT_WEIGHTS,
        "mve": MappingProxyType({"V1": 0.6, "V4": 0.4}),
        "full": MappingProxyType({"V1": 0.35, "V2": 0.30, "V3": 0.15, "V4": 0.20}),
        "phase4": MappingProxyType({"V1": 0.30, "V2": 0.15, "V3": 0.10, "V4": 0.45}),
    }
)
"""assay = ours; the others are those of the published runs MVE, Full (v1 and v2) and Phase 4."""


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
        raise BadConfig(
            f"weights must be 0 or more, found {bad}; give each verifier a share such as 0.6"
        )
    if not any(weights.values()):
        raise BadConfig(
            "every weight is 0, so nothing would be scored; give at least one verifier a weight"
        )
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
