"""One attack: a policy that answers every question, and what it may at most be right about."""

from collections.abc import Callable
from dataclasses import dataclass

from evals.baselines import Policy
from evals.schema import Example

Deserts = Callable[[Example], bool]


def nothing(example: Example) -> bool:
    """Say that this answer is right about no question."""
    return False


def everything(example: Example) -> bool:
    """Say that this answer is right about every question."""
    return True


@dataclass(frozen=True)
class Attack:
    """A policy with a name, the reason for what it deserves, and the rows it may be right about.

    `is_silent`: it claims nothing about the question, or up and down at once: its reward is 0.
    `stride`: it is tried on every so-manieth question only, for texts of a megabyte.
    """

    name: str
    answer: Policy
    why: str
    may_be_right: Deserts = nothing
    is_silent: bool = False
    stride: int = 1


def silent(name: str, answer: Policy, why: str, stride: int = 1) -> Attack:
    """Return an attack that claims nothing about the question."""
    return Attack(name, answer, why, is_silent=True, stride=stride)
