"""The weights of the best look at held-out records, kept beside the checkpoints until training is over.

A file per step that was the best once, for as long as a checkpoint may be gone on from that knows of no
better one. They are the trained weights alone; nothing else of a step is needed to publish it.
"""

from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import nn

from training.checkpoints import BEST, best_weights, checkpoints, step_of

Look = tuple[int, float]
"""A step and the score of the policy after it."""


def best_of(looks: Sequence[Look]) -> Look:
    """Return the best look, of equals the first after the start; needs at least one.

    >>> best_of([(0, 2.0), (5, 2.0), (10, 2.0)])
    (5, 2.0)
    """
    return max(looks, key=lambda look: (look[1], look[0] > 0))


class BestWeights:
    """Trained weights in a run folder, by the step that they were learned in."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, model: nn.Module, step: int, looks: Sequence[Look]) -> None:
        """Write the weights of `step`, whole, and let go of those that no resumed run can need."""
        tensors = {name: weight.detach().cpu().contiguous() for name, weight in _trained(model)}
        file = self._file(step)
        unfinished = file.with_suffix(".part")
        self._folder.mkdir(parents=True, exist_ok=True)
        save_file(tensors, unfinished)
        unfinished.replace(file)
        needed = {self._file(each) for each in self._needed(looks)}
        for other in best_weights(self._folder):
            if other not in needed:
                other.unlink(missing_ok=True)

    def give_back(self, model: nn.Module, step: int) -> bool:
        """Put the weights of `step` into the model; return whether they were there."""
        file = self._file(step)
        if not file.is_file():
            return False
        tensors = load_file(file)
        with torch.no_grad():
            for name, weight in _trained(model):
                weight.copy_(tensors[name])
        return True

    def _needed(self, looks: Sequence[Look]) -> set[int]:
        """Return the best steps as each checkpoint, and the run now, knows of them."""
        steps = map(step_of, checkpoints(self._folder))
        known = [[look for look in looks if look[0] <= step] for step in steps]
        return {best_of(each)[0] for each in (*known, looks) if each}

    def _file(self, step: int) -> Path:
        return self._folder / f"{BEST}{step}.safetensors"


def _trained(model: nn.Module) -> list[tuple[str, nn.Parameter]]:
    return [(name, each) for name, each in model.named_parameters() if each.requires_grad]
