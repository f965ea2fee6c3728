"""One reviewed paper to training rows: a row per part, the reply never cut, the whole within the context."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from evals.errors import LabError
from evals.reviewing.budget import Budget, Counter
from evals.reviewing.pieces import Piece, pieces_of
from evals.reviewing.prompt import PROMPT_VERSION, prompt_sha256, request, system_prompt
from evals.reviewing.support import assigned
from evals.schema import Conversation, ReviewExample, Turn
from evals.schema.reviews import HumanConcern

ROLES = {"system": "system", "human": "user", "gpt": "assistant"}
"""ShareGPT's names for who speaks, and those that chat templates use."""


@dataclass(frozen=True)
class Made:
    """A row, the part of the paper it holds, and the tokens of what is read and of the reply."""

    row: Conversation
    piece: Piece
    input_tokens: int
    reply_tokens: int


def rows_of(
    example: ReviewExample, concerns: Sequence[HumanConcern], budget: Budget, counter: Counter
) -> list[Made]:
    """Return the rows of a paper; each concern stands in the row of the part that it is about.

    LabError if a row would not fit its context: that is checked for every one, with the whole
    conversation counted as the model's own template writes it.
    """
    longest = len(counter.ends(reply_of(concerns)))
    room = budget.paper(counter, longest)
    pieces = pieces_of(example.article, room, counter, budget.overlap, budget.max_parts)
    places = assigned([each.concern_text for each in concerns], [piece.text for piece in pieces])
    made = []
    for at, piece in enumerate(pieces):
        mine = [each for each, place in zip(concerns, places, strict=True) if place == at]
        made.append(_made(example, piece, reply_of(mine), counter))
        _check(made[-1], reply_of(mine), budget)
    return made


def reply_of(concerns: Sequence[HumanConcern]) -> str:
    """Return concerns as the JSON array that a model is taught to answer with."""
    items = [
        {"text": each.concern_text, "category": each.category, "severity": each.severity}
        for each in concerns
    ]
    return json.dumps(items, ensure_ascii=False)


def messages_of(row: Conversation) -> list[dict[str, str]]:
    """Return a row's turns with the roles that chat templates know."""
    return [{"role": ROLES[turn.role], "content": turn.value} for turn in row.conversations]


def _made(example: ReviewExample, piece: Piece, reply: str, counter: Counter) -> Made:
    turns = (
        Turn(role="system", value=system_prompt()),
        Turn(role="human", value=request(piece.text, piece.part, piece.parts)),
        Turn(role="gpt", value=reply),
    )
    row = Conversation(
        id=example.id if piece.parts == 1 else f"{example.id}#{piece.part}",
        article_id=example.id,
        source=example.source,
        family=example.family,
        part=piece.part,
        parts=piece.parts,
        synthetic=example.synthetic,
        prompt_version=PROMPT_VERSION,
        prompt_sha256=prompt_sha256(),
        conversations=turns,
    )
    whole = counter.chat(messages_of(row))
    empty = counter.chat([*messages_of(row)[:2], {"role": "assistant", "content": ""}])
    return Made(row, piece, empty, whole - empty)


def _check(made: Made, reply: str, budget: Budget) -> None:
    """Raise LabError unless the reply stands whole in the row and the row fits its context."""
    total = made.input_tokens + made.reply_tokens
    if total > budget.context or made.row.conversations[2].value != reply:
        raise LabError(
            f"the row {made.row.id} has {total} tokens ({made.reply_tokens} of them the reply) in a context of"
            f" {budget.context}; a reply is never cut. This should not happen: please report the paper."
        )
