"""What every attack earns: the table that `python -m tests.evals.attacks` prints."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from evals.schema import Example, Verdict
from evals.verifiers import verify
from tests.evals.attacks.attack import Attack

HEADER = (
    f"{'policy':64} {'n':>4} {'reward':>7} {'right':>6} {'at most':>8} {'wrong':>6} {'silent':>7}"
    f" {'torn':>6}  deserves"
)


@dataclass(frozen=True)
class Outcome:
    """An attack's verdict on every question that it was tried on."""

    attack: Attack
    rows: tuple[tuple[Example, Verdict], ...]

    @property
    def reward(self) -> float:
        """The mean reward, 0..1."""
        return fmean(verdict.reward for _, verdict in self.rows)

    @property
    def ceiling(self) -> float:
        """The share of questions that the attack may be right about."""
        return fmean(self.attack.may_be_right(example) for example, _ in self.rows)

    def share(self, verdict: str) -> float:
        """Return the share of questions with this verdict."""
        return fmean(judged.verdict == verdict for _, judged in self.rows)

    @property
    def undeserved(self) -> tuple[tuple[Example, Verdict], ...]:
        """The rows that were judged correct and must not be."""
        return tuple(
            (example, verdict)
            for example, verdict in self.rows
            if verdict.verdict == "correct" and not self.attack.may_be_right(example)
        )


def outcome(attack: Attack, questions: Sequence[Example]) -> Outcome:
    """Return what the verifiers think of an attack on these questions."""
    rows = ((e, verify(e, attack.answer(e))) for e in questions[:: attack.stride])
    return Outcome(attack, tuple(rows))


def line(result: Outcome) -> str:
    """Return one row of the table; a star marks an attack that earns what it does not deserve."""
    kinds = Counter(example.ground_truth.kind for example, _ in result.undeserved)
    star = "*" if kinds else " "
    undeserved = "".join(f"; UNDESERVED: {kind} {n}" for kind, n in kinds.items())
    return (
        f"{result.attack.name.replace(chr(10), ' ')[:63]:63}{star} {len(result.rows):4}"
        f" {result.reward:7.3f} {result.share('correct'):6.1%} {result.ceiling:8.1%}"
        f" {result.share('incorrect'):6.1%} {result.share('no_claim'):7.1%}"
        f" {result.share('contradictory'):6.1%}  {result.attack.why}{undeserved}"
    )
