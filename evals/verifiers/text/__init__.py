"""Read free text that was not asked for an `Answer:` line.

read_text(expected, question, "It goes down in thymus, not up.")  ->  correct for "down"
"""

from evals.verifiers.expected import Expected, Finding
from evals.verifiers.text.amounts import read_number, read_set, read_term
from evals.verifiers.text.choices import read_choice
from evals.verifiers.text.lexicon import lexicon
from evals.verifiers.text.sentences import page_of, plain_text


def read_text(expected: Expected, question: str, text: str, is_shown: bool = True) -> Finding:
    """Return what free text says of the question, with its claims if they are to be shown. Time is linear in its length."""
    if expected.kind == "rubric":
        return Finding("no_claim", "a free answer; a judge can grade it")
    page = page_of(text)
    made = lexicon(expected)
    match expected.kind:
        case "number":
            return read_number(expected, question, page, made)
        case "term":
            return read_term(expected, question, page, made)
        case "set":
            return read_set(expected, page, made)
        case _:
            return read_choice(expected, question, page, made, is_shown)


__all__ = ["plain_text", "read_text"]
