"""Every attack, in the order of the table."""

from evals.questions import kmp_test, pathway_heldout, pathway_training
from evals.schema import Example
from tests.evals.attacks.attack import Attack
from tests.evals.attacks.constants import CONSTANTS, GIVEN_AWAY, TRUTHS
from tests.evals.attacks.denials import DENIALS
from tests.evals.attacks.disguises import DISGUISES
from tests.evals.attacks.meanings import MEANINGS
from tests.evals.attacks.noise import SILENT

ATTACKS: tuple[Attack, ...] = (
    *SILENT,
    *CONSTANTS,
    *GIVEN_AWAY,
    *DENIALS,
    *MEANINGS,
    *DISGUISES,
    *TRUTHS,
)


def questions() -> tuple[Example, ...]:
    """Return the held-out pathway questions, the kaempferol test, and a comparison of tissues.

    No comparison is held out, so the one that exists stands in for its kind.
    """
    compared = [e for e in pathway_training() if e.ground_truth.kind == "comparison"]
    return (*pathway_heldout(), *kmp_test(), *compared)
