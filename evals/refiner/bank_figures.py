"""Records from the enrichment scores: one passage per mission, others beside them, and some without answer.

Training records are about the tissues that are not held out and cite their studies alone; test records
are about eye and thymus and cite theirs. So no study is on both sides.
"""

import random
from collections.abc import Iterator, Sequence
from typing import Literal

from evals.facts import EnrichmentRow, load_hallmark
from evals.questions.pathways import HELD_OUT, pathway_heldout, pathway_training
from evals.questions.votes import Votes, all_votes
from evals.questions.wording import listed, mission_name
from evals.refiner.passages import Outline, Passage, item
from evals.refiner.words import content
from evals.schema import Direction, Example
from evals.schema.refining import RefinerRecord, RubricItem

Split = Literal["train", "test"]
ORIGIN = "enrichment scores of GeneLab studies"
WAY = {"UP": "up", "DOWN": "down"}
MOST = {"train": (36, 16, 14), "test": (24, 9, 8)}
"""Records about a direction, about a disagreement, and without an answer."""
BESIDE = 2
"""Passages beside those that a question is about."""


def records(source: random.Random, split: Split) -> Iterator[RefinerRecord]:
    """Yield the records of one split."""
    bank = pathway_training() if split == "train" else pathway_heldout()
    votes = [v for v in all_votes() if (v.tissue in HELD_OUT) == (split == "test")]
    by_cluster = {vote.cluster: vote for vote in votes}
    directions, disputes, unanswerable = MOST[split]
    for example in _some(source, bank, "direct", directions):
        vote = by_cluster[example.cluster]
        yield _direction(example, vote, _beside(source, vote, votes)).record(source)
    for example in _some(source, bank, "uncertainty", disputes):
        vote = by_cluster[example.cluster]
        yield _dispute(example, vote, _beside(source, vote, votes)).record(source)
    for example in _some(source, bank, "direct", unanswerable):
        vote = by_cluster[example.cluster]
        yield _without(example, vote, _beside(source, vote, votes)).record(source)


def _some(source: random.Random, bank: Sequence[Example], kind: str, most: int) -> list[Example]:
    found = [row for row in bank if row.kind == kind and not _names_a_way(row)]
    return source.sample(found, min(most, len(found)))


def _names_a_way(example: Example) -> bool:
    """Whether the gene set is called "up" or "down" itself, which a reader of words takes for an answer."""
    return bool(content(load_hallmark()[example.cluster.partition("/")[2]].name) & {"up", "down"})


def _beside(source: random.Random, vote: Votes, votes: Sequence[Votes]) -> tuple[Passage, ...]:
    """Return passages about other gene sets in the same tissue."""
    others = [v for v in votes if v.tissue == vote.tissue and v.pathway != vote.pathway]
    return tuple(_passage(source.choice(each.rows)) for each in source.sample(others, BESIDE))


def _direction(example: Example, vote: Votes, beside: tuple[Passage, ...]) -> Outline:
    """Return a record that asks for the consensus; the answer cites the missions that show it."""
    way = vote.agreement().direction
    shown = [row for row in vote.rows if row.direction == way]
    name = _name(vote)
    missions = [mission_name(row.mission) for row in shown]
    claim = (
        f"In mouse {vote.tissue}, the {name} gene set is {WAY[way]} after spaceflight"
        f" in {listed(missions)}."
    )
    other = _opposite(way)
    return _outline(
        example,
        (*map(_passage, vote.rows), *beside),
        ((tuple(map(_key, shown)), claim),),
        (
            item("Direction", f'Says that {name} goes "{WAY[way]}" in "{vote.tissue}".'),
            item("Missions", f'Names a mission that shows it: "{"|".join(missions)}".'),
        ),
        (item("Opposite direction", f'Says that {name} goes "{WAY[other]}" in "{vote.tissue}".'),),
    )


def _dispute(example: Example, vote: Votes, beside: tuple[Passage, ...]) -> Outline:
    """Return a record that asks whether missions agree; the answer cites both sides."""
    name = _name(vote)
    sides = {way: [row for row in vote.rows if row.direction == way] for way in ("UP", "DOWN")}
    told = {way: listed([mission_name(row.mission) for row in rows]) for way, rows in sides.items()}
    answer = (
        (
            tuple(_key(row) for rows in sides.values() for row in rows),
            f"Missions disagree on {name} in mouse {vote.tissue}: up in {told['UP']}, down in"
            f" {told['DOWN']}.",
        ),
    )
    names = {w: "|".join(mission_name(r.mission) for r in rows) for w, rows in sides.items()}
    return _outline(
        example,
        (*map(_passage, vote.rows), *beside),
        answer,
        (
            item("Disagreement", 'Says that missions "disagree|differ|not agree".'),
            item("Up", f'Says that it is "up" in "{names["UP"]}".'),
            item("Down", f'Says that it is "down" in "{names["DOWN"]}".'),
        ),
        (item("One direction", 'Says that missions "agree on" one direction.'),),
    )


def _without(example: Example, vote: Votes, beside: tuple[Passage, ...]) -> Outline:
    """Return a record whose passages are about other gene sets: the right answer is to say so."""
    name = _name(vote)
    claim = f"The passages tell of other gene sets in mouse {vote.tissue}, but not of {name}."
    return _outline(
        example,
        beside,
        (((), claim),),
        (item("Abstains", f'Says that the passages do "not" tell of "{name}".'),),
        (
            item("Invents up", f'Says that {name} goes "up" in "{vote.tissue}".'),
            item("Invents down", f'Says that {name} goes "down" in "{vote.tissue}".'),
        ),
        answerable=False,
    )


def _outline(
    example: Example,
    passages: tuple[Passage, ...],
    answer: tuple[tuple[tuple[str, ...], str], ...],
    wanted: tuple[RubricItem, ...],
    unwanted: tuple[RubricItem, ...],
    *,
    answerable: bool = True,
) -> Outline:
    kind = example.id if answerable else f"{example.id}/without"
    return Outline(
        id=f"refiner/{kind}",
        question=example.prompt,
        reasoning="I looked up the gene set in the tables of enrichment scores, one row per mission.",
        passages=passages,
        answer=answer,
        wanted=wanted,
        unwanted=unwanted,
        group=f"genelab/{example.tissue}",
        origin=ORIGIN,
        answerable=answerable,
    )


def _passage(row: EnrichmentRow) -> Passage:
    p = "no adjusted p" if row.padj is None else f"adjusted p {row.padj:.3g}"
    way = f"it is {WAY[row.direction]} in flight" if row.direction else "no significant change"
    text = (
        f"{mission_name(row.mission)} ({row.accession}), mouse {row.tissue}, gene set"
        f" {load_hallmark()[row.pathway].name}: NES {row.nes:.2f}, {p}, {way}."
    )
    return Passage(_key(row), row.accession, text)


def _key(row: EnrichmentRow) -> str:
    return f"{row.tissue}/{row.mission}/{row.pathway}"


def _name(vote: Votes) -> str:
    return load_hallmark()[vote.pathway].name


def _opposite(way: Direction) -> Direction:
    return "DOWN" if way == "UP" else "UP"
