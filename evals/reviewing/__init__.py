"""Teaching a model to review: the instructions, papers within a budget, and corpora to train on."""

from evals.reviewing.budget import Budget, Counter
from evals.reviewing.pieces import Piece, pieces_of
from evals.reviewing.prompt import (
    PROMPT_VERSION,
    check_prompt,
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
