"""How sure an answer may be: the probability that it is right, given what the figures support.

A level is in percent and always a multiple of 5. Levels of the KMP answers are judgements, one
per kind of evidence, written down here so that nobody has to guess them from the rows:

    level                 %   the answer rests on
    TABLE                95   a figure or class that stands in the study's tables
    DEFINED              95   the design of the study or the meaning of a term
    DERIVED              90   two or more table figures put together
    LIMIT                90   the absence of a measurement: the data cannot answer
    SECONDARY            85   the up/down splits, which only a later text of the study gives
    DOUBTED_CLASS        80   a class or pattern that leans on a doubted figure
    SUGGESTED            75   a reading that several figures support
    DOUBTED              70   one of the two figures of 4,110, of which one may be a copy error
    READ_INTO            65   a reading that goes beyond the figures
    NOT_SIGNIFICANT      60   the score of hippocampus under stress, described as not significant

Pathway answers take theirs from the missions through `succession`.
"""

from typing import Final

TABLE: Final = 95
DEFINED: Final = 95
DERIVED: Final = 90
LIMIT: Final = 90
SECONDARY: Final = 85
DOUBTED_CLASS: Final = 80
SUGGESTED: Final = 75
DOUBTED: Final = 70
READ_INTO: Final = 65
NOT_SIGNIFICANT: Final = 60

LEVELS: Final[dict[str, int]] = {
    "TABLE": TABLE,
    "DEFINED": DEFINED,
    "DERIVED": DERIVED,
    "LIMIT": LIMIT,
    "SECONDARY": SECONDARY,
    "DOUBTED_CLASS": DOUBTED_CLASS,
    "SUGGESTED": SUGGESTED,
    "DOUBTED": DOUBTED,
    "READ_INTO": READ_INTO,
    "NOT_SIGNIFICANT": NOT_SIGNIFICANT,
}


def succession(agreeing: int, total: int) -> int:
    """Return Laplace's rule of succession, (agreeing + 1) / (total + 2), as percent in steps of 5.

    After `agreeing` of `total` missions said so, this is the probability that the next one does,
    starting from even odds (Laplace, Essai philosophique sur les probabilites, 1814). Halves
    round up: 2 of 6 -> 3/8 = 37.5 % -> 40.
    """
    if not 0 <= agreeing <= total:
        raise ValueError(f"{agreeing} of {total} is no count of agreeing missions")
    numerator, denominator = 20 * (agreeing + 1), total + 2
    return 5 * ((2 * numerator + denominator) // (2 * denominator))


def with_answer(explanation: str, answer: str, level: int) -> str:
    """Return an answer in its one documented form: explanation, answer line, confidence line."""
    return with_confidence(
        "\n".join(part for part in (explanation, f"Answer: {answer}") if part), level
    )


def with_confidence(text: str, level: int) -> str:
    """Return an answer in its one documented form: the text, then a last line "Confidence: N%"."""
    return f"{text}\nConfidence: {level}%"
