"""Votes as a data set: rows in a trainer's own format, a statistics file and a data card.

Left out of the formats that a model is trained on: votes on questions that are held out to measure
models, ties, answers that were both bad (KTO learns from those), and votes between identical texts,
which hold no preference. They are counted. The arena format keeps every vote.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, NamedTuple
from zipfile import ZIP_DEFLATED, ZipFile

from evals.errors import LabError
from evals.questions import is_held_out
from evals.schema import Answer, Choice, Message
from evals.schema.votes import (
    AnswerOrigin,
    ArenaRow,
    DpoRow,
    ExportFormat,
    ExportRow,
    ExportStatistics,
    KtoRow,
    Provenance,
    Reason,
    SftRow,
)
from evals.stats.agreement import agreement
from hub.cards.dataset import dataset_card
from lab.store.outcomes import CHOICES, JudgedPair, Outcome, count_pairs, outcome_of, ratings_of

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
    return next((known for known in FORMATS[form].left_out if known in reasons), None)


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


class Format(NamedTuple):
    """What a format is made of, and why it leaves a vote out; the first reason that holds is the one counted.

    Either the question measures models, so nobody may train on it, or there is no preference to learn from, or
    the format has no place for it.
    """

    row: type[ExportRow]
    rows: Callable[[JudgedPair], tuple[ExportRow, ...]]
    left_out: tuple[Reason, ...]


FORMATS: dict[ExportFormat, Format] = {
    "dpo": Format(DpoRow, _dpo_rows, ("held_out", "tie", "both_bad", "identical_texts")),
    "kto": Format(KtoRow, _kto_rows, ("held_out", "tie", "identical_texts")),
    "sft": Format(SftRow, _sft_rows, ("held_out", "tie", "both_bad", "identical_texts")),
    "arena": Format(ArenaRow, _arena_rows, ()),
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


ROWS = "train.jsonl"
STATISTICS = "statistics.json"
GUIDELINES = "GUIDELINES.md"
CARD = "README.md"
LINE_ENDS = {ord(mark): f"\\u{ord(mark):04x}" for mark in "\x85\u2028\u2029"}
"""Characters that JSON leaves as they are and that some readers take for the end of a line."""

GUIDELINES_TEXT = Path(__file__).parents[1] / "ui" / "text" / "guidelines.md"


class Export(NamedTuple):
    """A data set before it is written: one JSON object per line, and what they hold."""

    lines: bytes
    statistics: ExportStatistics


def build_export(
    pairs: Sequence[JudgedPair], form: ExportFormat, exported_at: datetime, licence: str | None = None
) -> Export:
    """Return the rows and statistics of `pairs` in the format `form`.

    Raises LabError if no vote gives a row: an empty data set helps nobody.
    """
    used = [pair for pair in pairs if reason_left_out(pair, form) is None]
    left_out = Counter(dict.fromkeys(FORMATS[form].left_out, 0))
    left_out.update(reason for pair in pairs if (reason := reason_left_out(pair, form)))
    if not used:
        raise LabError(_nothing(form, len(pairs), left_out))
    rows = [row.model_dump_json().translate(LINE_ENDS) for pair in used for row in FORMATS[form].rows(pair)]
    lines = "".join(f"{row}\n" for row in rows).encode()
    statistics = ExportStatistics(
        format=form,
        exported_at=exported_at,
        rows_file=ROWS,
        rows_sha256=hashlib.sha256(lines).hexdigest(),
        rows=len(rows),
        votes=len(pairs),
        left_out=dict(left_out),
        raters=len({pair.vote.rater for pair in used}),
        questions=len({pair.vote.question for pair in used}),
        first_vote=min(pair.vote.voted_at for pair in used),
        last_vote=max(pair.vote.voted_at for pair in used),
        by_stages=count_pairs(_outcome(pair) for pair in pairs),
        chains=tuple(sorted({answer.chain for pair in used for answer in (pair.left, pair.right)})),
        licence=licence,
        agreement=agreement(ratings_of(pairs), CHOICES),
    )
    return Export(lines, statistics)


def write_export(export: Export, folder: Path) -> None:
    """Write the data set into `folder`, each file whole; an earlier export there is replaced.

    Raises LabError if the folder holds anything else, so that no other file is overwritten.
    """
    try:
        if folder.exists() and any(folder.iterdir()) and not (folder / STATISTICS).exists():
            raise LabError(
                f"{folder} holds other files, and an export writes a {CARD}. "
                "Name a new folder, an empty one, or one that holds an earlier export."
            )
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in _files(export).items():
            unfinished = folder / f".{name}.part"
            unfinished.write_bytes(content)
            unfinished.replace(folder / name)
    except OSError as error:
        raise LabError(
            f"the export cannot be written to {folder}: {error.strerror}. Name a folder that you may write to."
        ) from error


def zip_export(export: Export, folder: Path) -> Path:
    """Return a zip file in `folder` with the same files as `write_export` writes."""
    folder.mkdir(parents=True, exist_ok=True)
    name = f"preferences-{export.statistics.format}"
    with TemporaryDirectory(dir=folder) as scratch:
        unfinished = Path(scratch) / "unfinished.zip"
        with ZipFile(unfinished, "w", ZIP_DEFLATED) as archive:
            for file, content in _files(export).items():
                archive.writestr(f"{name}/{file}", content)
        return unfinished.replace(folder / f"{name}.zip")


def _files(export: Export) -> dict[str, bytes]:
    statistics = export.statistics
    card = dataset_card(statistics, FORMATS[statistics.format].row, guidelines=GUIDELINES)
    return {
        ROWS: export.lines,
        GUIDELINES: GUIDELINES_TEXT.read_bytes(),
        CARD: str(card).encode(),
        # Last: its presence marks the folder as a finished export.
        STATISTICS: (statistics.model_dump_json(indent=1) + "\n").encode(),
    }


def _outcome(pair: JudgedPair) -> Outcome:
    stages = (pair.vote.left_stage, pair.vote.right_stage)
    return outcome_of(stages, pair.vote.choice, same_text=pair.left.text == pair.right.text)


def _nothing(form: ExportFormat, votes: int, left_out: Counter[Reason]) -> str:
    if not votes:
        return "there are no votes to export yet. Vote in the Compare tab first (`assay lab`)."
    listed = ", ".join(f"{n} {reason.replace('_', ' ')}" for reason, n in left_out.items())
    return (
        f"none of the {votes} votes gives a row in the format {form!r} ({listed}). "
        "Choose a side in the Compare tab on the questions it offers, or use --format arena, which keeps every vote."
    )
