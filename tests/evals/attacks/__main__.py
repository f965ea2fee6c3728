"""Print what every attack earns, after what honest answers earn; words on the command line choose.

python -m tests.evals.attacks denied "taken back"
"""

import sys
from collections.abc import Sequence

from tests.evals.attacks.attack import Attack, everything
from tests.evals.attacks.policies import ATTACKS, questions
from tests.evals.attacks.table import HEADER, line, outcome

HONEST = Attack("the question's own answer", lambda e: e.answer, "all of it", everything)


def main(words: Sequence[str]) -> None:
    """Print the table of the attacks whose name holds one of the words; of all without words."""
    asked = questions()
    chosen = [a for a in ATTACKS if not words or any(word in a.name for word in words)]
    print(HEADER)
    for attack in (HONEST, *chosen):
        print(line(outcome(attack, asked)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
