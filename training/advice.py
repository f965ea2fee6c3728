"""What is worth knowing of settings before a run that they do not forbid. Knows nothing of torch.

GRPO may divide the reward of an answer, less the mean of its group, by the deviation of the group. A group
in which all answers are right differs in the stated confidence alone, and so does one in which all are
wrong; divided so, each pulls with the same force, however far the confidence is from the truth. What
rises or falls is then which of the two is more frequent, not by how much the confidence is off: above one
half it ends at sure. Undivided, V4's score (Brier, 1950) pulls by 2 (1 - c) and 2 c, which are at rest where c
is the share that is right. Shown by Bereket and Leskovec (2025), arXiv:2508.11800, for proper scores in
general; tests/training/test_advice.py shows it for ours.
"""

from evals.verifiers.presets import weights
from training.config import GrpoSettings, StageSettings

DIVIDED = (
    "scale_rewards group lets groups of right answers pull as hard as groups of wrong ones, so a stated confidence"
    " ends at sure or at nothing and not at what the answers are worth, although V4 is a proper score;"
    " scale_rewards none, with aggregation sum_then_normalize, keeps it one (docs/training.md, Confidence)"
)


def advice(settings: StageSettings) -> tuple[str, ...]:
    """Return what a run with these settings should be started in knowledge of, as sentences."""
    if not isinstance(settings, GrpoSettings) or settings.v4 != "proper":
        return ()
    has_v4 = weights(settings.verifier_weights).get("V4", 0.0) > 0
    return (DIVIDED,) if has_v4 and settings.scale_rewards == "group" else ()
