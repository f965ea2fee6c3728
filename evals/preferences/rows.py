"""Rows for SFT, DPO and KTO trainers and for arena rankings, from votes and from annotations.

Whatever people did (vote between two answers, correct one, rate several), a `Judgement` says which text is good and
which is bad, and `trainer_rows` writes it in the columns that TRL's trainers read. Answers to questions that are held
out to measure models train nobody. What gives no row is counted by reason. The arena format keeps every blind vote.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import combinations
from typing import Any, Literal, NamedTuple

from evals.errors import LabError
from evals.io import group_by, jsonl_text
from evals.preferences.annotations import Settled
from evals.questions import is_held_out
from evals.schema import Answer, Choice, Message, votes
from evals.schema.votes import (
    CHOICES,
    AnnotationProject,
    ExportFormat,
    ExportRow,
    JudgedPair,
    Reason,
    count_pairs,
    names_itself,
    outcome_of,
    pair_id,
    rater_of,
)
from evals.stats.agreement import Rating, rater_agreement

ROWS, STATISTICS, CARD = "train.jsonl", "statistics.json", "README.md"
"""The files of a data set of votes."""
Trainer = Literal["sft", "dpo", "kto"]
MARGIN = 0.25
"""How much better one of two answers must be rated, on a scale of 0 to 1, to be preferred: one step of 1 to 5."""
WINNERS: dict[Choice, Literal["model_a", "model_b", "tie", "both_bad"]] = {
    "left": "model_a",
    "right": "model_b",
    "tie": "tie",
    "both_bad": "both_bad",
}
HELD_OUT = "held out to measure models"
NO_ROW = {
    "sft": "neither corrected nor called good",
    "dpo": "without a better or worse answer to the same question",
    "kto": "called neither good nor bad",
}
"""Why an annotated answer gives no row of a format."""


class Judgement(NamedTuple):
    """The good and the bad text that people found for one prompt; None where they found none.

    `known` are columns of every row, `of_good` and `of_bad` those about a text, `of_pair` those of DPO rows only.
    """

    prompt: tuple[Message, ...]
    good: str | None
    bad: str | None
    known: Mapping[str, Any]
    of_good: Mapping[str, Any]
    of_bad: Mapping[str, Any]
    of_pair: Mapping[str, Any]


def trainer_rows(said: Judgement, form: Trainer) -> Iterator[dict[str, Any]]:
    """Yield the rows that a judgement gives in TRL's columns: of a pair for DPO, of each text for KTO, of the good one for SFT."""
    prompt = [turn.model_dump() for turn in said.prompt]
    texts = ((said.good, True, said.of_good), (said.bad, False, said.of_bad))
    if form == "dpo":
        if said.good is None or said.bad is None:
            return
        row = {
            "prompt": prompt,
            "chosen": _reply(said.good),
            "rejected": _reply(said.bad),
            **said.known,
            **said.of_pair,
        }
        for side, about in (("chosen", said.of_good), ("rejected", said.of_bad)):
            row |= {f"{name}_{side}": value for name, value in about.items()}
        yield row
        return
    for text, label, about in texts:
        if text is not None and (label or form == "kto"):
            row = {"prompt": prompt, "completion": _reply(text), **said.known, **about}
            yield row | {"label": label} if form == "kto" else row


def _reply(text: str) -> list[dict[str, str]]:
    return [{"role": "assistant", "content": text}]


# ---- annotations ---------------------------------------------------------------------------------


class TrainerRows(NamedTuple):
    """Rows, and how many answers gave none, by reason."""

    rows: list[dict[str, Any]]
    left_out: dict[str, int]


def rows_of_annotations(project: AnnotationProject, settled: Sequence[Settled], form: Trainer) -> TrainerRows:
    """Return what the annotated answers of a project give a trainer.

    A corrected text is better than the answer it corrects; of two answers to one question the one that is rated a
    `MARGIN` better (DPO); an answer alone is good or bad as `Settled.is_good` says (SFT, KTO).
    """
    usable = [each for each in settled if not is_held_out(each.item.question, each.item.example_id)]
    rows: list[dict[str, Any]] = []
    giving: set[str] = set()
    for items, said in _judgements(project, usable, form):
        made = list(trainer_rows(said, form))
        rows += made
        giving |= items if made else set()
    left_out = Counter({HELD_OUT: len(settled) - len(usable), NO_ROW[form]: len(usable) - len(giving)})
    return TrainerRows(rows, dict(+left_out))


def _judgements(
    project: AnnotationProject, settled: Sequence[Settled], form: Trainer
) -> Iterator[tuple[set[str], Judgement]]:
    """Yield each judgement with the ids of the answers that it is about."""
    dimensions = project.guidelines.dimensions
    for each in settled:
        is_good = each.is_good(dimensions)
        if each.corrected and each.corrected != each.item.text:
            quality = each.worth(dimensions) or 0.0
            yield {each.item.id}, _judgement(each, each, each.corrected, each.item.text, 1 - quality)
        elif is_good is not None:
            good, bad = (each.item.text, None) if is_good else (None, each.item.text)
            yield {each.item.id}, _judgement(each, each, good, bad)
    by_prompt = group_by(settled if form == "dpo" else (), lambda each: (each.item.system_prompt, each.item.question))
    for one, other in (pair for group in by_prompt.values() for pair in combinations(group, 2)):
        first, second = one.worth(dimensions), other.worth(dimensions)
        if one.item.text != other.item.text and first is not None and second is not None:
            better, worse = (one, other) if first > second else (other, one)
            if abs(first - second) >= MARGIN:
                both = {one.item.id, other.item.id}
                yield both, _judgement(better, worse, better.item.text, worse.item.text, abs(first - second))


def _judgement(better: Settled, worse: Settled, good: str | None, bad: str | None, margin: float = 0.0) -> Judgement:
    def about(said: Settled) -> dict[str, Any]:
        return {
            "item": said.item.id,
            "stage": said.item.stage,
            "chain": said.item.chain,
            "raters": said.raters,
            "is_adjudicated": said.by is not None,
        }

    is_corrected = better is worse and good != better.item.text and good is not None
    return Judgement(
        prompt=worse.item.prompt,
        good=good,
        bad=bad,
        known={"project": worse.item.project, "question_id": worse.item.example_id, "is_corrected": is_corrected},
        of_good=about(better),
        of_bad=about(worse),
        of_pair={"margin": round(margin, 4)},
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


class Export(NamedTuple):
    """A data set of votes before it is written: one JSON object per line, and what they hold."""

    lines: bytes
    statistics: votes.ExportStatistics


def export_votes(
    pairs: Sequence[JudgedPair], form: ExportFormat, exported_at: datetime, licence: str | None = None
) -> Export:
    """Return the rows and statistics of votes in a format; LabError if no vote gives a row."""
    if not pairs:
        raise LabError("there are no votes to export yet. Vote in the Compare tab first (`assay lab`).")
    used, reasons = usable(pairs, form)
    left_out = {reason: reasons[reason] for reason in FORMATS[form].left_out}
    if not used:
        listed = ", ".join(f"{n} {reason.replace('_', ' ')}" for reason, n in left_out.items())
        raise LabError(
            f"none of the {len(pairs)} votes gives a row in the format {form!r} ({listed}). Choose a side in the Compare"
            " tab on the questions it offers, or use --format arena, which keeps every blind vote."
        )
    kind = FORMATS[form].row
    rows = [kind.model_validate(row) for pair in used for row in _rows_of_vote(pair, form)]
    lines = jsonl_text(rows).encode()
    fell = [
        outcome_of(
            (pair.vote.left_stage, pair.vote.right_stage), pair.vote.choice, same_text=pair.left.text == pair.right.text
        )
        for pair in pairs
    ]
    statistics = votes.ExportStatistics(
        format=form,
        exported_at=exported_at,
        rows_file=ROWS,
        rows_sha256=hashlib.sha256(lines).hexdigest(),
        rows=len(rows),
        votes=len(pairs),
        left_out=left_out,
        raters=len({rater_of(pair.vote) for pair in used}),
        questions=len({pair.vote.question for pair in used}),
        first_vote=min(pair.vote.voted_at for pair in used),
        last_vote=max(pair.vote.voted_at for pair in used),
        by_stages=count_pairs(fell),
        chains=tuple(sorted({answer.chain for pair in used for answer in (pair.left, pair.right)})),
        licence=licence,
        agreement=rater_agreement(ratings_of(pairs), CHOICES),
    )
    return Export(lines, statistics)


class Trainable(NamedTuple):
    """What votes or annotations give a training stage: rows, what they are in figures, what gives none, by reason."""

    stage: Literal["dpo", "kto", "reward"]
    rows: int
    left_out: dict[str, int]
    good: int = 0
    graded: int = 0


def trainable(pairs: Sequence[JudgedPair]) -> list[Trainable]:
    """Return what votes can train: pairs DPO, answers called good or bad KTO, pairs with a margin a reward model.

    KTO has no rows where all answers are bad; a reward model needs a pair that somebody said to be slightly or clearly
    better.
    """
    (dpo, left_of_dpo), (kto, left_of_kto) = usable(pairs, "dpo"), usable(pairs, "kto")
    good = sum(pair.vote.choice in ("left", "right") for pair in kto)
    bad = sum(1 if pair.left.text == pair.right.text else 2 for pair in kto) - good
    graded = sum(pair.vote.strength is not None for pair in dpo)
    return [
        Trainable("dpo", len(dpo), dict(left_of_dpo)),
        Trainable("kto", good + bad if good else 0, dict(left_of_kto), good=good),
        Trainable("reward", len(dpo) if graded else 0, dict(left_of_dpo), graded=graded),
    ]


def trainable_annotations(project: AnnotationProject, settled: Sequence[Settled]) -> list[Trainable]:
    """Return what the annotations of a project can train, as `trainable` does; every pair of theirs has a margin."""
    pairs, alone = (rows_of_annotations(project, settled, form) for form in ("dpo", "kto"))
    good = sum(row["label"] for row in alone.rows)
    n = len(alone.rows) if 0 < good < len(alone.rows) else 0
    return [
        Trainable("dpo", len(pairs.rows), pairs.left_out),
        Trainable("kto", n, alone.left_out, good=good),
        Trainable("reward", len(pairs.rows), pairs.left_out, graded=len(pairs.rows)),
    ]


def usable(pairs: Sequence[JudgedPair], form: ExportFormat) -> tuple[list[JudgedPair], Counter[Reason]]:
    """Return the votes that `form` can use, and how many it leaves out, by reason."""
    reasons = [reason_left_out(pair, form) for pair in pairs]
    used = [pair for pair, reason in zip(pairs, reasons, strict=True) if reason is None]
    return used, Counter(reason for reason in reasons if reason)


def reason_left_out(pair: JudgedPair, form: ExportFormat) -> Reason | None:
    """Return why `form` cannot use this vote; None if it can."""
    is_same = pair.left.text == pair.right.text and pair.vote.choice in ("left", "right")
    holds: dict[Reason, bool] = {
        "held_out": is_held_out(pair.vote.question, pair.vote.example_id),
        "names_itself": names_itself(pair.left, pair.right),
        "tie": pair.vote.choice == "tie",
        "both_bad": pair.vote.choice == "both_bad",
        "identical_texts": is_same,
    }
    return next((reason for reason in FORMATS[form].left_out if holds[reason]), None)


def _rows_of_vote(pair: JudgedPair, form: ExportFormat) -> Iterator[dict[str, Any]]:
    """Yield what one vote gives in a format that can use it; two identical bad answers are one bad answer."""
    vote, left, right = pair.vote, pair.left, pair.right
    known = {
        "vote_id": vote.id,
        "pair_id": pair_id(pair),
        "created_at": vote.voted_at,
        **vote.model_dump(include={"example_id", "choice", "rater", "is_anonymous", "strength", "reasons", "remark"}),
    }
    is_same = left.text == right.text
    if form == "arena":
        yield known | {
            "model_a": left.stage,
            "model_b": right.stage,
            "winner": "tie" if is_same and vote.choice in ("left", "right") else WINNERS[vote.choice],
            "conversation_a": (*left.prompt, *_reply(left.text)),
            "conversation_b": (*right.prompt, *_reply(right.text)),
            "origin_a": _origin(left),
            "origin_b": _origin(right),
        }
        return
    if vote.choice == "both_bad":
        sides: list[tuple[Answer | None, Answer]] = [(None, each) for each in ((left,) if is_same else (left, right))]
    else:
        sides = [(left, right) if vote.choice == "left" else (right, left)]
    for good, bad in sides:
        said = Judgement(
            prompt=(good or bad).prompt,
            good=good.text if good else None,
            bad=bad.text,
            known=known,
            of_good={"stage": good.stage, "origin": _origin(good)} if good else {},
            of_bad={"stage": bad.stage, "origin": _origin(bad)},
            of_pair={"side_shown": vote.choice},
        )
        yield from trainer_rows(said, form)


def _origin(answer: Answer) -> votes.AnswerOrigin:
    return votes.AnswerOrigin(answer_id=answer.id, **answer.model_dump(include=set(votes.AnswerOrigin.model_fields)))


def ratings_of(pairs: Iterable[JudgedPair]) -> Iterator[Rating]:
    """Yield each vote as a rating of two texts, in a fixed order, on a question; equal texts hold no choice."""
    for pair in pairs:
        if pair.left.text == pair.right.text:
            continue
        texts = sorted((pair.left.text, pair.right.text))
        chosen = {"left": pair.left.text, "right": pair.right.text}.get(pair.vote.choice)
        choice = pair.vote.choice if chosen is None else CHOICES[texts.index(chosen)]
        yield Rating(pair_id(pair), rater_of(pair.vote), choice)
