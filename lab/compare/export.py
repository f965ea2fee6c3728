"""Votes as a data set: rows in a trainer's own format, a statistics file and a data card.

Left out of the formats that a model is trained on: votes on questions that are held out to measure
models, on answers that name who wrote them, ties, answers that were both bad (KTO learns from those), and votes between identical texts,
which hold no preference. They are counted. The arena format keeps every blind vote.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple
from zipfile import ZIP_DEFLATED, ZipFile

from evals.errors import LabError
from evals.io import write_whole
from evals.jsonl import jsonl_text
from evals.questions import is_held_out
from evals.schema import Answer, Choice, Message, votes
from evals.schema.votes import ExportFormat, ExportRow, Reason
from evals.stats.agreement import agreement
from hub.cards.dataset import dataset_card
from hub.cards.own import marked, write_card
from lab.store.outcomes import (
    CHOICES,
    JudgedPair,
    Outcome,
    count_pairs,
    names_itself,
    outcome_of,
    pair_id,
    rater_of,
    ratings_of,
)
from lab.ui.text import say

WINNERS: dict[Choice, Literal["model_a", "model_b", "tie", "both_bad"]] = {
    "left": "model_a",
    "right": "model_b",
    "tie": "tie",
    "both_bad": "both_bad",
}


def reason_left_out(pair: JudgedPair, form: ExportFormat) -> Reason | None:
    """Return why `form` cannot use this vote; None if it can."""
    reasons: set[str] = set()
    if names_itself(pair.left, pair.right):
        reasons.add("names_itself")
    if is_held_out(pair.vote.question, pair.vote.example_id):
        reasons.add("held_out")
    if pair.vote.choice not in {"left", "right"}:
        reasons.add(pair.vote.choice)
    elif pair.left.text == pair.right.text:
        reasons.add("identical_texts")
    return next((known for known in FORMATS[form].left_out if known in reasons), None)


def _rows(pair: JudgedPair, form: ExportFormat) -> Iterator[ExportRow]:
    """Yield what one vote gives in a format that can use it."""
    vote, left, right = pair.vote, pair.left, pair.right
    known: dict[str, Any] = {
        "vote_id": vote.id,
        "pair_id": pair_id(pair),
        "example_id": vote.example_id,
        "choice": vote.choice,
        "rater": vote.rater,
        "is_anonymous": vote.is_anonymous,
        "created_at": vote.voted_at,
        **vote.model_dump(include={"strength", "reasons", "remark"}),
    }
    if form == "arena":
        yield votes.ArenaRow(
            **known,
            model_a=left.stage,
            model_b=right.stage,
            winner="tie" if left.text == right.text and vote.choice in {"left", "right"} else WINNERS[vote.choice],
            conversation_a=_prompt(left) + _reply(left),
            conversation_b=_prompt(right) + _reply(right),
            origin_a=_origin(left),
            origin_b=_origin(right),
        )
        return
    chosen, rejected = (left, right) if vote.choice == "left" else (right, left)
    if form == "kto":
        labelled = [(chosen, True), (rejected, False)]
        if vote.choice == "both_bad":  # two identical bad answers are one bad answer
            labelled = [(each, False) for each in ((left,) if left.text == right.text else (left, right))]
        for answer, label in labelled:
            yield votes.KtoRow(**known, **_said(answer), label=label)
    elif form == "sft":
        yield votes.SftRow(**known, **_said(chosen))
    else:
        yield votes.DpoRow(
            **known,
            prompt=_prompt(chosen),
            chosen=_reply(chosen),
            rejected=_reply(rejected),
            stage_chosen=chosen.stage,
            stage_rejected=rejected.stage,
            side_shown="left" if chosen is left else "right",
            origin_chosen=_origin(chosen),
            origin_rejected=_origin(rejected),
        )


class Format(NamedTuple):
    """The rows of a format, and why it leaves a vote out; the first reason that holds is the one counted."""

    row: type[ExportRow]
    left_out: tuple[Reason, ...]


FORMATS: dict[ExportFormat, Format] = {
    "dpo": Format(votes.DpoRow, ("held_out", "names_itself", "tie", "both_bad", "identical_texts")),
    "kto": Format(votes.KtoRow, ("held_out", "names_itself", "tie", "identical_texts")),
    "sft": Format(votes.SftRow, ("held_out", "names_itself", "tie", "both_bad", "identical_texts")),
    "arena": Format(votes.ArenaRow, ("names_itself",)),
}


def _said(answer: Answer) -> dict[str, Any]:
    known = {"prompt": _prompt(answer), "completion": _reply(answer)}
    return {**known, "stage": answer.stage, "origin": _origin(answer)}


def _prompt(answer: Answer) -> tuple[Message, ...]:
    system = (Message(role="system", content=answer.system_prompt),) if answer.system_prompt else ()
    return (*system, Message(role="user", content=answer.question))


def _reply(answer: Answer) -> tuple[Message, ...]:
    return (Message(role="assistant", content=answer.text),)


def _origin(answer: Answer) -> votes.AnswerOrigin:
    return votes.AnswerOrigin(answer_id=answer.id, **answer.model_dump(include=set(votes.AnswerOrigin.model_fields)))


ROWS = "train.jsonl"
STATISTICS = "statistics.json"
GUIDELINES = "GUIDELINES.md"
CARD = "README.md"

GUIDELINES_TEXT = Path(__file__).parents[1] / "ui" / "text" / "guidelines.md"


class Export(NamedTuple):
    """A data set before it is written: one JSON object per line, and what they hold."""

    lines: bytes
    statistics: votes.ExportStatistics


def build_export(
    pairs: Sequence[JudgedPair], form: ExportFormat, exported_at: datetime, licence: str | None = None
) -> Export:
    """Return the rows and statistics of `pairs` in the format `form`; LabError if no vote gives a row."""
    used = [pair for pair in pairs if reason_left_out(pair, form) is None]
    left_out = Counter(dict.fromkeys(FORMATS[form].left_out, 0))
    left_out.update(reason for pair in pairs if (reason := reason_left_out(pair, form)))
    if not pairs:
        raise LabError(say("preferences.no_votes"))
    if not used:
        listed = ", ".join(f"{n} {reason.replace('_', ' ')}" for reason, n in left_out.items())
        raise LabError(say("preferences.no_rows", n=len(pairs), form=form, listed=listed))
    rows = [row for pair in used for row in _rows(pair, form)]
    lines = jsonl_text(rows).encode()

    def outcome(pair: JudgedPair) -> Outcome:
        stages = (pair.vote.left_stage, pair.vote.right_stage)
        return outcome_of(stages, pair.vote.choice, same_text=pair.left.text == pair.right.text)

    statistics = votes.ExportStatistics(
        format=form,
        exported_at=exported_at,
        rows_file=ROWS,
        rows_sha256=hashlib.sha256(lines).hexdigest(),
        rows=len(rows),
        votes=len(pairs),
        left_out=dict(left_out),
        raters=len({rater_of(pair.vote) for pair in used}),
        questions=len({pair.vote.question for pair in used}),
        first_vote=min(pair.vote.voted_at for pair in used),
        last_vote=max(pair.vote.voted_at for pair in used),
        by_stages=count_pairs(map(outcome, pairs)),
        chains=tuple(sorted({answer.chain for pair in used for answer in (pair.left, pair.right)})),
        licence=licence,
        agreement=agreement(ratings_of(pairs), CHOICES),
    )
    return Export(lines, statistics)


def write_export(export: Export, folder: Path) -> None:
    """Write the data set into `folder`, over an earlier export; LabError if the folder holds anything else, or a card that somebody edited."""
    if folder.is_dir() and any(folder.iterdir()) and not (folder / STATISTICS).exists():
        raise LabError(say("preferences.other_files", folder=folder, card=CARD))
    files = _files(export)
    write_card(folder / CARD, files.pop(CARD))
    for name, content in files.items():
        write_whole(folder / name, content)


def zip_export(export: Export, folder: Path) -> Path:
    """Return a zip file in `folder` with the same files as `write_export` writes."""
    return zip_files(f"preferences-{export.statistics.format}", _files(export), folder)


def zip_files(name: str, files: Mapping[str, str | bytes], folder: Path) -> Path:
    """Return a zip file in `folder` that holds a folder of files, both of this name."""
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder) as scratch:
        unfinished = Path(scratch) / "unfinished.zip"
        with ZipFile(unfinished, "w", ZIP_DEFLATED) as archive:
            for file, content in files.items():
                archive.writestr(f"{name}/{file}", content)
        return unfinished.replace(folder / f"{name}.zip")


def _files(export: Export) -> dict[str, str]:
    statistics = export.statistics
    return {
        ROWS: export.lines.decode(),
        GUIDELINES: GUIDELINES_TEXT.read_text(encoding="utf-8"),
        CARD: marked(str(dataset_card(statistics, FORMATS[statistics.format].row, guidelines=GUIDELINES))),
        # Last: its presence marks the folder as a finished export.
        STATISTICS: statistics.model_dump_json(indent=1) + "\n",
    }
