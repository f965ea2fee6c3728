"""From one vote to the rows of an export: which votes a format can use, and what they become."""

from collections.abc import Callable
from typing import Literal

from evals.exports import (
    AnswerOrigin,
    ArenaRow,
    DpoRow,
    ExportFormat,
    ExportRow,
    KtoRow,
    Provenance,
    Reason,
    SftRow,
)
from evals.questions import is_held_out
from evals.schema import Answer, Choice, Message
from lab.outcomes import JudgedPair

LEFT_OUT: dict[ExportFormat, tuple[Reason, ...]] = {
    "dpo": ("held_out", "tie", "both_bad", "identical_texts"),
    "kto": ("held_out", "tie", "identical_texts"),
    "sft": ("held_out", "tie", "both_bad", "identical_texts"),
    "arena": (),
}
"""Why a format leaves a vote out; the first reason that holds is the one that is counted.

Either the question measures models, so nobody may train on it, or there is no preference to learn
from, or the format has no place for it.
"""

ROW_TYPES: dict[ExportFormat, type[ExportRow]] = {
    "dpo": DpoRow,
    "kto": KtoRow,
    "sft": SftRow,
    "arena": ArenaRow,
}

WINNERS: dict[Choice, Literal["model_a", "model_b", "tie", "both_bad"]] = {
    "left": "model_a",
    "right": "model_b",
    "tie": "tie",
    "both_bad": "both_bad",
}


def reason_left_out(pair: JudgedPair, form: ExportFormat) -> Reason | None:
    """Return why `form` cannot use this vote; None if it can."""
    reasons: set[str] = set()
    if is_held_out(pair.vote.question, pair.vote.example_id):
        reasons.add("held_out")
    if pair.vote.choice not in {"left", "right"}:
        reasons.add(pair.vote.choice)
    elif pair.left.text == pair.right.text:
        reasons.add("identical_texts")
    return next((known for known in LEFT_OUT[form] if known in reasons), None)


def rows_of(pair: JudgedPair, form: ExportFormat) -> tuple[ExportRow, ...]:
    """Return the rows of a vote that `form` can use: one, or two for KTO."""
    return ROW_MAKERS[form](pair)


def _dpo_rows(pair: JudgedPair) -> tuple[DpoRow, ...]:
    chosen, rejected = _sides(pair)
    row = DpoRow(
        **dict(_provenance(pair)),
        prompt=_prompt(chosen),
        chosen=_reply(chosen),
        rejected=_reply(rejected),
        stage_chosen=chosen.stage,
        stage_rejected=rejected.stage,
        side_shown="left" if chosen is pair.left else "right",
        origin_chosen=_origin(chosen),
        origin_rejected=_origin(rejected),
    )
    return (row,)


def _kto_rows(pair: JudgedPair) -> tuple[KtoRow, ...]:
    if pair.vote.choice == "both_bad":
        # Two identical bad answers are one bad answer.
        both = (pair.left,) if pair.left.text == pair.right.text else (pair.left, pair.right)
        labelled = [(answer, False) for answer in both]
    else:
        chosen, rejected = _sides(pair)
        labelled = [(chosen, True), (rejected, False)]
    return tuple(
        KtoRow(
            **dict(_provenance(pair)),
            prompt=_prompt(answer),
            completion=_reply(answer),
            label=label,
            stage=answer.stage,
            origin=_origin(answer),
        )
        for answer, label in labelled
    )


def _sft_rows(pair: JudgedPair) -> tuple[SftRow, ...]:
    chosen, _ = _sides(pair)
    row = SftRow(
        **dict(_provenance(pair)),
        prompt=_prompt(chosen),
        completion=_reply(chosen),
        stage=chosen.stage,
        origin=_origin(chosen),
    )
    return (row,)


def _arena_rows(pair: JudgedPair) -> tuple[ArenaRow, ...]:
    row = ArenaRow(
        **dict(_provenance(pair)),
        model_a=pair.left.stage,
        model_b=pair.right.stage,
        winner=WINNERS[pair.vote.choice],
        conversation_a=_prompt(pair.left) + _reply(pair.left),
        conversation_b=_prompt(pair.right) + _reply(pair.right),
        origin_a=_origin(pair.left),
        origin_b=_origin(pair.right),
    )
    return (row,)


ROW_MAKERS: dict[ExportFormat, Callable[[JudgedPair], tuple[ExportRow, ...]]] = {
    "dpo": _dpo_rows,
    "kto": _kto_rows,
    "sft": _sft_rows,
    "arena": _arena_rows,
}


def _sides(pair: JudgedPair) -> tuple[Answer, Answer]:
    """Return the chosen and the rejected answer; only for a vote that chose a side."""
    left_won = pair.vote.choice == "left"
    return (pair.left, pair.right) if left_won else (pair.right, pair.left)


def _prompt(answer: Answer) -> tuple[Message, ...]:
    question = Message(role="user", content=answer.question)
    if not answer.system_prompt:
        return (question,)
    return (Message(role="system", content=answer.system_prompt), question)


def _reply(answer: Answer) -> tuple[Message, ...]:
    return (Message(role="assistant", content=answer.text),)


def _provenance(pair: JudgedPair) -> Provenance:
    vote = pair.vote
    return Provenance(
        vote_id=vote.id,
        pair_id="+".join(sorted((vote.left_answer, vote.right_answer))),
        example_id=vote.example_id,
        choice=vote.choice,
        rater=vote.rater,
        created_at=vote.voted_at,
    )


def _origin(answer: Answer) -> AnswerOrigin:
    return AnswerOrigin(answer_id=answer.id, **answer.model_dump(include=ORIGIN_FIELDS))


ORIGIN_FIELDS = set(AnswerOrigin.model_fields) - {"answer_id"}
