from pathlib import Path

import pytest
import torch

from evals.verifiers.score import MODES
from training.config import GrpoSettings, SftSettings, advice

STATED = torch.linspace(0.05, 0.95, 19)
GROUPS, SIZE = 400, 8
SHARES = (0.2, 0.35, 0.5, 0.65, 0.8)
RATE = {"none": 4.0, "group": 1.0}  # undivided gains are a fraction as large

SETTINGS = GrpoSettings(data=("kmp-train",), output="runs/g", chain="runs/sft")


def settled(share_right: float, scale: str) -> float:
    """Return the mean confidence that GRPO leads to, where an answer's group is right or wrong as a whole.

    The confidence is drawn from a softmax over `STATED`; advantages are TRL's.
    """
    draw = torch.Generator().manual_seed(0)
    earned = torch.tensor([[MODES["proper"]("direct", c, y) for c in STATED.tolist()] for y in (0.0, 1.0)])
    is_right = (torch.arange(GROUPS) < GROUPS * share_right).long()[:, None]
    logits = torch.zeros(len(STATED))
    for _ in range(600):
        chances = logits.softmax(0)
        chosen = torch.multinomial(chances, GROUPS * SIZE, replacement=True, generator=draw)
        chosen = chosen.view(GROUPS, SIZE)
        gained = earned[is_right, chosen]
        gained = gained - gained.mean(1, keepdim=True)
        if scale == "group":
            gained = gained / (gained.std(1, keepdim=True) + 1e-4)
        pull = torch.zeros_like(logits).scatter_add_(0, chosen.flatten(), gained.flatten())
        logits += RATE[scale] * pull / chosen.numel()
    return float((logits.softmax(0) * STATED).sum())


@pytest.mark.parametrize("share_right", [0.35, 0.65])
def test_a_proper_score_leads_to_the_truth_undivided_and_to_false_sureness_divided(share_right):
    assert settled(share_right, "none") == pytest.approx(share_right, abs=0.08)
    divided = settled(share_right, "group")
    assert divided > 0.85 if share_right > 0.5 else divided < 0.15


@pytest.mark.slow
def test_the_document_shows_where_the_confidence_comes_to_rest():
    page = (Path(__file__).parents[2] / "docs/training.md").read_text(encoding="utf-8")
    for how in RATE:
        cells = [f"{settled(share, how):.2f}".lstrip("0") for share in SHARES]
        assert f"| `scale_rewards {how}` | {' | '.join(cells)} |" in page


def test_it_is_said_of_grpo_that_rewards_confidence_and_divides_by_the_deviation_of_groups():
    (note,) = advice(SETTINGS)
    assert "scale_rewards group" in note and "scale_rewards none" in note
    assert advice(SETTINGS.model_copy(update={"verifier_weights": "mve"}))


@pytest.mark.parametrize(
    "settings",
    [
        SETTINGS.model_copy(update={"scale_rewards": "none"}),
        SETTINGS.model_copy(update={"verifier_weights": "V1=1"}),
        SETTINGS.model_copy(update={"v4": "legacy"}),
        SftSettings(data=("kmp-train",), output="runs/s"),
    ],
    ids=["undivided", "no V4", "no proper score", "SFT"],
)
def test_nothing_is_said_where_it_does_not_hold(settings):
    assert advice(settings) == ()
