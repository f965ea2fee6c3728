import pytest
import torch

from training.models import speedups as head
from training.models.speedups import Scores

VOCABULARY, SIZE, TEMPERATURE = 49_152, 16, 0.7


def plainly(hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor):
    scores = hidden.double() @ weight.double().t() / TEMPERATURE
    logs = scores.log_softmax(-1)
    chosen = logs.gather(-1, labels[:, None])[:, 0]
    return chosen, -(logs.exp() * logs).sum(-1), scores.mean(-1), chosen >= logs.amax(-1)


@pytest.mark.parametrize("count", [0, 1, 19])
def test_scores_and_gradient_are_those_of_a_plain_softmax_over_the_vocabulary(
    count: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(head, "CHUNK", 8 * VOCABULARY)
    torch.manual_seed(0)
    weight = torch.randn(VOCABULARY, SIZE)
    labels = torch.randint(VOCABULARY, (count,))
    hidden = [torch.zeros(count, SIZE).requires_grad_() for _ in range(2)]
    start = torch.randn(count, SIZE)
    if count:
        labels[0] = int((start[0] @ weight.t()).argmax())
    share = torch.linspace(0.5, 1, count)
    found = []
    for each, way in zip(hidden, (plainly, lambda *x: Scores.apply(*x, TEMPERATURE)), strict=True):
        each.data = start.clone()
        scored = way(each, weight, labels)
        (scored[0] * share).sum().backward()
        found.append((*scored, each.grad))
    for expected, ours in zip(*found, strict=True):
        torch.testing.assert_close(ours, expected.to(ours.dtype), rtol=1e-4, atol=1e-4)
    assert count == 0 or bool(found[1][3][0])
