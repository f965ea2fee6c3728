"""Answers that take no model, to hold a stage against: what anybody gets for nothing, and the references."""

from collections.abc import Callable, Mapping

from evals.refiner.evidence import evidence_of
from evals.schema.refining import RefinerRecord

Policy = Callable[[RefinerRecord], str]


def silent(record: RefinerRecord) -> str:
    """Return an answer without a word."""
    return "<answer></answer>"


def abstaining(record: RefinerRecord) -> str:
    """Return that the passages do not hold the answer, whatever they hold."""
    return "<answer>The passages do not hold the answer.</answer>"


def pasting(record: RefinerRecord) -> str:
    """Return the first passage as it is, with its id: perfect citations, whatever was asked."""
    first = next(iter(evidence_of(record.tool_output).items()), None)
    if first is None:
        return abstaining(record)
    name, text = first
    return f"<answer><snippet id={name}>{text}</snippet></answer>"


def referring(record: RefinerRecord) -> str:
    """Return the reference; an empty answer where there is none."""
    return record.reference or silent(record)


BASELINES: Mapping[str, Policy] = {
    "silent": silent,
    "always abstains": abstaining,
    "pastes the first passage": pasting,
    "reference": referring,
}
