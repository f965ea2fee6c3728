"""What is true of a question, in plain words that an attack can quote, deny or bury."""

import re

from evals.facts import load_hallmark
from evals.schema import Example

CONFIDENCE = "\nConfidence: 90%"
REGULATED = {"UP": "upregulated", "DOWN": "downregulated"}
OPPOSITE = {"UP": "DOWN", "DOWN": "UP"}
LEVELS = ("highly conserved", "moderately conserved", "poorly conserved")
OTHER_TISSUE = "spleen"
OTHER_SET = "hedgehog signaling"


def clause(example: Example) -> str:
    """Return the truth as a clause without a full stop, lower case first: "the … is reduced"."""
    return stated(example, is_true=True)


def falsehood(example: Example) -> str:
    """Return the opposite of the truth as such a clause."""
    return stated(example, is_true=False)


def stated(example: Example, is_true: bool) -> str:
    """Return the truth, or its opposite, as a clause."""
    truth = example.ground_truth
    match truth.kind:
        case "direct" | "mechanism":
            direction = truth.direction if is_true else OPPOSITE[truth.direction]
            return f"the {set_name(example)} gene set is {REGULATED[direction]} in mouse {truth.tissue}"
        case "uncertainty":
            verb = "disagree" if is_true else "agree"
            return f"missions {verb} on the {set_name(example)} gene set in mouse {truth.tissue}"
        case "comparison":
            ways = [
                f"{'up' if (direction == 'UP') == is_true else 'down'} in mouse {tissue}"
                for tissue, direction in truth.tissue_directions.items()
            ]
            return f"the {set_name(example)} gene set goes {' and '.join(ways)}"
        case "conservation":
            level = truth.level if is_true else LEVELS[(LEVELS.index(truth.level) + 1) % 3]
            return f"pathway responses in mouse {truth.tissue} are {level} between missions"
        case "count":
            return f"the number of DEGs is {truth.value if is_true else truth.value + 7:,}"
        case "label":
            return f"the answer is {truth.value if is_true else truth.others[0]}"
        case "abstain":
            return "the data cannot answer this" if is_true else "the data prove it: 50 mg a day"
        case kind:
            raise ValueError(f"no attack knows how to state the truth of kind {kind}")


def sentence(example: Example) -> str:
    """Return the truth as a sentence of its own; a mechanism is also explained, in its own words."""
    said = capital(clause(example)) + "."
    return f"{said} {explanation(example)}" if example.ground_truth.kind == "mechanism" else said


def explanation(example: Example) -> str:
    """Return what the gene set of a mechanism question stands for; it names no direction."""
    truth = example.ground_truth
    if truth.kind != "mechanism":
        return ""
    about = load_hallmark()[truth.pathway].about
    return f"It stands for {about}; expression alone is no proof of a mechanism."


def set_name(example: Example) -> str:
    """Return the name of the gene set that a question asks about, empty if it asks about none."""
    pathway = getattr(example.ground_truth, "pathway", None)
    return load_hallmark()[pathway].name if pathway else ""


def gold(example: Example) -> str:
    """Return the question's own answer without its confidence line."""
    return example.answer.rpartition("\n")[0]


def confidence_line(example: Example) -> str:
    """Return the last line of the question's own answer."""
    return example.answer.rpartition("\n")[2]


def capital(text: str) -> str:
    """Return the text with its first letter in upper case."""
    return text[:1].upper() + text[1:]


def asked(example: Example) -> str:
    """Return the question without its mark."""
    return example.prompt.rstrip(" ?.!")


def as_statement(example: Example) -> str:
    """Return the question turned around: "is X up or down" -> "X is up or down"."""
    return re.sub(r"\b(is|are|does|do|was) (the [\w-]+|[\w-]+)", r"\2 \1", asked(example), count=1)
