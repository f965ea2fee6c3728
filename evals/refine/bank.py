"""Answers that take no model, to hold a stage against: what anybody gets for nothing, and the references."""

import json
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from evals.facts import DegCount, EnrichmentRow, load_hallmark, load_kmp
from evals.questions import is_held_out, kmp_test, kmp_training
from evals.questions.kmp import degs, long
from evals.questions.pathways import HELD_OUT, Votes, all_votes, listed, mission_name, pathway_heldout, pathway_training
from evals.refine.grammar import evidence_of
from evals.refine.words import content
from evals.schema import Direction, Example
from evals.schema.refiner import RefinerRecord, RubricItem


@dataclass(frozen=True)
class Passage:
    """One passage: what it is called while the record is made, its document and its text."""

    key: str
    document: str
    text: str


@dataclass(frozen=True)
class Outline:
    """A record before its passages have ids. `answer` pairs the passages of each claim with its text."""

    id: str
    question: str
    reasoning: str
    passages: tuple[Passage, ...]
    answer: tuple[tuple[tuple[str, ...], str], ...]
    wanted: tuple[RubricItem, ...]
    unwanted: tuple[RubricItem, ...]
    group: str
    origin: str
    answerable: bool = True

    def record(self, source: random.Random) -> RefinerRecord:
        """Return the record, its passages in random order."""
        order = source.sample(self.passages, len(self.passages))
        ids = {passage.key: f"S{place}" for place, passage in enumerate(order, start=1)}
        return RefinerRecord(
            id=self.id,
            prompt=self.question,
            agent_reasoning=self.reasoning,
            tool_output="\n".join(f"<snippet id={ids[each.key]}>{each.text}</snippet>" for each in order),
            positive_rubrics=self.wanted,
            negative_rubrics=self.unwanted,
            answerable=self.answerable,
            sources={ids[each.key]: each.document for each in order},
            split_group=self.group,
            reference=written(self.answer, ids),
            origin=self.origin,
        )


def written(answer: Sequence[tuple[Sequence[str], str]], ids: Mapping[str, str]) -> str:
    """Return claims as an answer in the output grammar, each with the ids of its passages, if it has any."""
    claims = (
        f"<snippet id={','.join(sorted(ids[key] for key in keys))}>{text}</snippet>" if keys else text
        for keys, text in answer
    )
    return f"<answer>{' '.join(claims)}</answer>"


def item(title: str, description: str) -> RubricItem:
    """Return a rubric item of weight 1."""
    return RubricItem(title=title, description=description)


Split = Literal["train", "test"]
SCORES_ORIGIN = "enrichment scores of GeneLab studies"
WAY = {"UP": "up", "DOWN": "down"}
MOST = {"train": (36, 16, 14), "test": (24, 9, 8)}
"""Records about a direction, about a disagreement, and without an answer."""
BESIDE = 2
"""Passages beside those that a question is about."""


def score_records(source: random.Random, split: Split) -> Iterator[RefinerRecord]:
    """Yield the records of one split."""
    bank = pathway_training() if split == "train" else pathway_heldout()
    votes = [v for v in all_votes() if (v.tissue in HELD_OUT) == (split == "test")]
    by_cluster = {vote.cluster: vote for vote in votes}
    directions, disputes, unanswerable = MOST[split]
    for example in _some(source, bank, "direct", directions):
        vote = by_cluster[example.cluster]
        yield _direction(example, vote, _other_sets(source, vote, votes)).record(source)
    for example in _some(source, bank, "uncertainty", disputes):
        vote = by_cluster[example.cluster]
        yield _dispute(example, vote, _other_sets(source, vote, votes)).record(source)
    for example in _some(source, bank, "direct", unanswerable):
        vote = by_cluster[example.cluster]
        yield _without(example, vote, _other_sets(source, vote, votes)).record(source)


def _some(source: random.Random, bank: Sequence[Example], kind: str, most: int) -> list[Example]:
    found = [row for row in bank if row.kind == kind and not _names_a_way(row)]
    return source.sample(found, min(most, len(found)))


def _names_a_way(example: Example) -> bool:
    """Whether the gene set is called "up" or "down" itself, which a reader of words takes for an answer."""
    return bool(content(load_hallmark()[example.cluster.partition("/")[2]].name) & {"up", "down"})


def _other_sets(source: random.Random, vote: Votes, votes: Sequence[Votes]) -> tuple[Passage, ...]:
    """Return passages about other gene sets in the same tissue."""
    others = [v for v in votes if v.tissue == vote.tissue and v.pathway != vote.pathway]
    return tuple(_score_passage(source.choice(each.rows)) for each in source.sample(others, BESIDE))


def _direction(example: Example, vote: Votes, beside: tuple[Passage, ...]) -> Outline:
    """Return a record that asks for the consensus; the answer cites the missions that show it."""
    way = vote.agreed
    shown = [row for row in vote.rows if row.direction == way]
    name = _name(vote)
    missions = [mission_name(row.mission) for row in shown]
    claim = f"In mouse {vote.tissue}, the {name} gene set is {WAY[way]} after spaceflight in {listed(missions)}."
    other = _opposite(way)
    return _score_outline(
        example,
        (*map(_score_passage, vote.rows), *beside),
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
            f"Missions disagree on {name} in mouse {vote.tissue}: up in {told['UP']}, down in {told['DOWN']}.",
        ),
    )
    names = {w: "|".join(mission_name(r.mission) for r in rows) for w, rows in sides.items()}
    return _score_outline(
        example,
        (*map(_score_passage, vote.rows), *beside),
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
    return _score_outline(
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


def _score_outline(
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
        origin=SCORES_ORIGIN,
        answerable=answerable,
    )


def _score_passage(row: EnrichmentRow) -> Passage:
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


COUNTS_ORIGIN = "gene counts of the kaempferol study"
DOCUMENT = "kmp-tables"
COUNTS, LIMITS = 18, 12
"""Records after a count, and after what the tables cannot tell."""


def count_records(source: random.Random) -> Iterator[RefinerRecord]:
    """Yield the records in no particular order."""
    tested = [frozenset(row.support) for row in kmp_test() if row.support]
    asked = {
        example.support[0]: example
        for example in kmp_training()
        if example.ground_truth.kind == "count" and len(example.support) == 1
    }
    figures = {figure.id: figure for figure in load_kmp().counts}
    chosen = [name for name in sorted(asked) if name in figures and _is_free({name}, tested)]
    for name in source.sample(chosen, COUNTS):
        beside = _beside(source, [figures[name]], tested)
        yield _count(asked[name], figures[name], beside).record(source)
    limits = [
        example
        for example in kmp_training()
        if example.ground_truth.kind == "abstain" and not is_held_out(example.prompt)
    ]
    for example in source.sample(sorted(limits, key=lambda row: row.id), LIMITS):
        yield _limit(example, _beside(source, [], tested)).record(source)


def _beside(source: random.Random, given: Sequence[DegCount], tested: Sequence[frozenset[str]]) -> list[DegCount]:
    """Return figures that can stand beside the given ones without giving a tested fact away."""
    found = [*given]
    for figure in source.sample(load_kmp().counts, len(load_kmp().counts)):
        names = {each.id for each in (*found, figure)}
        if len(names) > len(found) and _is_free(names, tested):
            found.append(figure)
        if len(found) == len(given) + BESIDE:
            break
    return found[len(given) :]


def _is_free(names: set[str], tested: Sequence[frozenset[str]]) -> bool:
    return not any(support <= names for support in tested)


def _count(example: Example, figure: DegCount, beside: Sequence[DegCount]) -> Outline:
    said = degs(figure.genes)
    others = "|".join(degs(each.genes).split()[0] for each in beside if each.genes != figure.genes)
    return Outline(
        id=f"refiner/{example.id}",
        question=example.prompt,
        reasoning="I searched the tables of gene counts by tissue and contrast.",
        passages=tuple(map(_passage, (figure, *beside))),
        answer=(((figure.id,), f"In {figure.tissue}, {long(figure.contrast)} gives {said}."),),
        wanted=(item("Count", f'Gives "{said.split()[0]}".'), item("Tissue", f'Names "{figure.tissue}".')),
        unwanted=(item("Another count", f'Gives a figure of something else, "{others}".'),),
        group="kmp",
        origin=COUNTS_ORIGIN,
    )


def _limit(example: Example, beside: Sequence[DegCount]) -> Outline:
    return Outline(
        id=f"refiner/{example.id}",
        question=example.prompt,
        reasoning="I searched the tables of the study for anything on this.",
        passages=tuple(map(_passage, beside)),
        answer=(((), "The passages hold counts of changed genes, but not what this question asks for."),),
        wanted=(item("Abstains", 'Says that the passages do "not" hold what is asked for.'),),
        unwanted=(item("Answers anyway", 'Answers "yes" or with a figure of its own.'),),
        group="kmp",
        origin=COUNTS_ORIGIN,
        answerable=False,
    )


def _passage(figure: DegCount) -> Passage:
    text = (
        f"Kaempferol study, mouse {figure.tissue}, {long(figure.contrast)}: {degs(figure.genes)}"
        " at adjusted p below 0.05."
    )
    return Passage(figure.id, DOCUMENT, text)


WRITTEN_ORIGIN = "invented study, written for this set"


def written_records(source: random.Random, split: Literal["train", "test"]) -> Iterator[RefinerRecord]:
    """Yield the records of one split: three questions with an answer and one without, per study."""
    for study in studies():
        if study["split"] == split:
            for number, question in enumerate(study["questions"], start=1):
                yield _outline(study, number, question).record(source)


@cache
def studies() -> tuple[Mapping[str, Any], ...]:
    """Return the studies with passages, questions, answers and rubric items."""
    return tuple(json.loads(files("evals.refine").joinpath("written.json").read_text(encoding="utf-8")))


def _outline(study: Mapping[str, Any], number: int, question: Mapping[str, Any]) -> Outline:
    name = study["study"]
    return Outline(
        id=f"refiner/{name}/{number}",
        question=question["question"],
        reasoning="I searched for the study by name and read what came back.",
        passages=tuple(Passage(key, name, text) for key, text in study["passages"].items()),
        answer=tuple(((key,) if key else (), text) for key, text in question["answer"]),
        wanted=tuple(item(*each) for each in question["wanted"]),
        unwanted=tuple(item(*each) for each in question["unwanted"]),
        group=name,
        origin=WRITTEN_ORIGIN,
        answerable=question["answerable"],
    )


VERSION = "1"
"""Of the records: goes up whenever the same command would write other rows."""
DATASETS = ("refiner-train", "refiner-test")


@dataclass(frozen=True)
class Bank:
    """The records of both splits."""

    train: tuple[RefinerRecord, ...] = field(default=())
    test: tuple[RefinerRecord, ...] = field(default=())

    def split(self, name: Literal["train", "test"]) -> tuple[RefinerRecord, ...]:
        """Return one split."""
        return self.train if name == "train" else self.test


@cache
def refiner_bank(seed: int = 0) -> Bank:
    """Return all records; the seed chooses distractors, order of passages and order of the rows."""
    source = random.Random(seed)
    train = [*score_records(source, "train"), *count_records(source), *written_records(source, "train")]
    test = [*score_records(source, "test"), *written_records(source, "test")]
    return Bank(_shuffled(train, source), _shuffled(test, source))


def kept_for_testing(records: Iterable[RefinerRecord]) -> list[str]:
    """Return the ids of those records that are kept for testing, here or by the standard hold-out."""
    known = {record.id for record in refiner_bank().test}
    return [each.id for each in records if each.id in known or is_held_out(each.asked, each.id)]


def _shuffled(records: Sequence[RefinerRecord], source: random.Random) -> tuple[RefinerRecord, ...]:
    return tuple(source.sample(records, len(records)))


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
