"""Teaching a model to review: the instructions, papers within a budget, and corpora to train on."""

from evals.review.prompt import (
    PROMPT_VERSION,
    Budget,
    Counter,
    Piece,
    check_prompt,
    pieces_of,
    prompt_sha256,
    request,
    system_prompt,
)

__all__ = [
    "PROMPT_VERSION",
    "Budget",
    "Counter",
    "Piece",
    "check_prompt",
    "pieces_of",
    "prompt_sha256",
    "request",
    "system_prompt",
]
