"""Verifiers: from an answer to a verdict, and from the verdict to scores.

    answer line (or free text)  ->  verdict  ->  V1 V2 V3 V4  ->  reward

`expected` puts every kind of truth in one shape, `line` reads the last lines, `text` answers without them, `faults`
looks for what is false in an explanation, `score` adds it up (docs/verifiers.md). A reader that breaks raises: a
broken grader must never look like a wrong answer. A rubric gets no verdict, score or reward without a judge.
"""

from evals.verifiers.score import (
    READINGS,
    VERSION,
    Read,
    Weights,
    check_read,
    stated_confidence,
    verifier_versions,
    verify,
    verify_answer,
    verify_prepared,
)

__all__ = [
    "READINGS",
    "VERSION",
    "Read",
    "Weights",
    "check_read",
    "stated_confidence",
    "verifier_versions",
    "verify",
    "verify_answer",
    "verify_prepared",
]
