"""A second set of rubric items for our held-out records: a gain on the first set alone shows beside it.

No record is trained with these items. They were written after the first set and without looking at an
answer of a model: for the invented studies by hand (second.json), for the enrichment scores by rule, from
the passages. Both sets are ours, so this is another set and not another teacher; sets of others come
from a file (`read_other_items`).
"""

import hashlib
import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from statistics import fmean

from pydantic import ValidationInfo, field_validator

from evals.errors import BadConfig, LabError
from evals.facts import load_hallmark
from evals.io import read_rows
from evals.refine.bank import kept_for_testing, refiner_bank
from evals.refine.grammar import HARD, TAG, evidence_of, parse
from evals.refine.judge import Inquiry, StubTable, Verdicts, fitting
from evals.refine.records import CheckedRecord
from evals.refine.rubric import Item, instance_items, items_of, share, value, weighted
from evals.refine.score import Prepared, prepare
from evals.refine.words import content
from evals.schema.refiner import (
    OWN,
    STATIC,
    UNDECIDED,
    AnswerPair,
    Finding,
    ItemFigures,
    JudgedItem,
    OtherItems,
    Polarity,
    RefinerRecord,
    RewardConfig,
    RubricItem,
    ScoredAnswer,
)
from evals.schema.reports import RefinerRow
from evals.stats.intervals import Interval, wilson

Measure = Callable[[RefinerRow], float | None]
PREFIX = "rubric by "


def by_writer(rows: Iterable[RefinerRow]) -> Mapping[str, Measure]:
    """Return a measure for each writer of items in the rows, by its name in reports."""
    own: dict[str, None] = {}
    others: dict[str, None] = {}
    for row in rows:
        own.update(dict.fromkeys(each.writer for each in row.scored.items))
        others.update(dict.fromkeys(each.writer for each in row.other_items))
    ordered = sorted(own, key=lambda writer: writer == STATIC)
    found: dict[str, Measure] = {name_of(writer): _score(writer) for writer in ordered}
    found |= {name_of(writer): _score(writer, is_own=False) for writer in others}
    for one in ordered:
        if one != STATIC:
            found |= {f"{name_of(one)} above {other}": _above(one, other) for other in others}
    return found


def name_of(writer: str) -> str:
    """Return what the score by a writer's items is called.

    >>> name_of("static")
    'rubric by static'
    """
    return f"{PREFIX}{writer}"


def scores_by_writer(scored: ScoredAnswer) -> dict[str, float | None]:
    """Return the score of one answer by each writer of its items."""
    writers = dict.fromkeys(each.writer for each in scored.items)
    return {writer: _mean(scored, scored.items, writer) for writer in writers}


def _score(writer: str, *, is_own: bool = True) -> Measure:
    return lambda row: _mean(row.scored, row.scored.items if is_own else row.other_items, writer)


def _above(one: str, other: str) -> Measure:
    mine, theirs = _score(one), _score(other, is_own=False)

    def difference(row: RefinerRow) -> float | None:
        first, second = mine(row), theirs(row)
        return None if first is None or second is None else first - second

    return difference


def _mean(scored: ScoredAnswer, items: Sequence[JudgedItem], writer: str) -> float | None:
    chosen = [each for each in items if each.writer == writer]
    if not chosen:
        return None
    if not all(scored.format_checks[name] for name in HARD):
        return 0.0
    return weighted([each.weight for each in chosen], [each.value for each in chosen])


OTHER_WAY = {"up": "down", "down": "up", "higher": "lower", "lower": "higher", "rose": "fell"} | {
    "fell": "rose",
    "increased": "decreased",
    "decreased": "increased",
    "larger": "smaller",
    "smaller": "larger",
    "longer": "shorter",
    "shorter": "longer",
}
WAY = re.compile(rf"\b({'|'.join(OTHER_WAY)})\b", re.IGNORECASE)
NUMBER = re.compile(r"(?<![\w-])\d+(?:[.,]\d+)*(?![\w-])")
SPAN = re.compile(r"<snippet\b[^<>]*>(.*?)</snippet>", re.IGNORECASE | re.DOTALL)
END = "</answer>"
ADDED = 2
"""Passages that are added at most to an answer that did not need them."""


class PairRow(AnswerPair):
    """A row of pairs as it is read: the record checked, and verdicts for the stub judge if it is asked."""

    record: CheckedRecord
    stub_better: StubTable | None = None
    stub_worse: StubTable | None = None

    @field_validator("stub_better", "stub_worse")
    @classmethod
    def _is_about_its_items(cls, table: StubTable | None, info: ValidationInfo) -> StubTable | None:
        if "record" not in info.data:
            return table
        return fitting(table, items_of(info.data["record"], RewardConfig(static_rubrics=False)))


def read_pairs(path: Path) -> tuple[PairRow, ...]:
    """Return the pairs of a JSONL file; BadRow names line and field of what is wrong."""
    otherwise = "write some with `assay refiner export --format pairs --out FILE`"
    return tuple(read_rows(path, PairRow, key=lambda pair: pair.id, otherwise=otherwise))


def degraded(records: Iterable[RefinerRecord]) -> tuple[AnswerPair, ...]:
    """Return each reference before what every rule that applies makes of it; BadConfig if none does."""
    pairs = [pair for record in records for pair in _of(record)]
    if not pairs:
        raise BadConfig(
            "no record has a reference answer that could be made worse; add `reference`, an answer in the"
            " output grammar, or name a file of pairs."
        )
    return tuple(pairs)


def refuse_tested(pairs: Sequence[AnswerPair]) -> None:
    """Raise BadConfig if a pair is about a record that is kept for testing."""
    found = kept_for_testing(pair.record for pair in pairs)
    if found:
        raise BadConfig(
            f"{len(found)} pairs are about records that are kept for testing (such as {found[0]}); items"
            " chosen by them would make every later figure worthless. Take them out."
        )


def traces_of(record: RefinerRecord) -> frozenset[str]:
    """Return what a record is known by under any id and group: its question and its passages, as checksums.

    Letter case and blanks make no difference; without a passage there is only the question.
    """
    said = [record.asked, *([record.tool_output] if evidence_of(record.tool_output) else [])]
    plain = [" ".join(text.casefold().split()) for text in said]
    return frozenset(hashlib.sha256(text.encode()).hexdigest() for text in plain)


def is_shared(record: RefinerRecord, groups: Collection[str], traces: Collection[str]) -> bool:
    """Return whether a record is of one of these groups, or asks or shows what left one of these traces."""
    return record.group in groups or not traces_of(record).isdisjoint(traces)


def pairs_sha256(pairs: Iterable[AnswerPair]) -> str:
    """Return a checksum of what the pairs say; their order does not matter."""
    known = set(AnswerPair.model_fields)
    lines = sorted(
        json.dumps(pair.model_dump(mode="json", include=known, exclude_defaults=True), sort_keys=True)
        for pair in pairs
    )  # fmt: skip
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _of(record: RefinerRecord) -> Iterator[AnswerPair]:
    gold = record.reference
    if gold is None or not parse(gold).is_wellformed:
        return
    for about, rule in RULES.items():
        worse = rule(record, gold)
        if worse is not None and worse != gold:
            yield AnswerPair(
                id=f"{record.id}#{about}",
                record=record,
                better=gold,
                worse=worse,
                preferred_by="rule",
                about=about,
            )


def _other_way(record: RefinerRecord, gold: str) -> str:
    return _between_tags(gold, partial(WAY.sub, lambda word: OTHER_WAY[word[0].lower()]))


def _between_tags(answer: str, change: Callable[[str], str]) -> str:
    """Return the answer with its words changed and its tags as they are: an id may hold words too."""
    parts, at = [], 0
    for tag in TAG.finditer(answer):
        parts += [change(answer[at : tag.start()]), tag[0]]
        at = tag.end()
    return "".join([*parts, change(answer[at:])])


def _other_figure(record: RefinerRecord, gold: str) -> str:
    """Return the answer with the first figure of each claim replaced by one that it does not give."""

    def changed(span: re.Match[str]) -> str:
        words = NUMBER.sub(lambda figure: f"{int(figure[0][0]) % 9 + 1}{figure[0][1:]}", span[1], 1)
        start, end = (at - span.start() for at in span.span(1))
        return f"{span[0][:start]}{words}{span[0][end:]}"

    return SPAN.sub(changed, gold)


def _other_passage(record: RefinerRecord, gold: str) -> str | None:
    """Return the answer citing a passage that it does not rest on; None if it rests on all."""
    other = next(iter(_beside(record, gold)), None)
    return SPAN.sub(rf"<snippet id={other}>\1</snippet>", gold) if other else None


def _no_citations(record: RefinerRecord, gold: str) -> str:
    return SPAN.sub(r"\1", gold)


def _padding(record: RefinerRecord, gold: str) -> str | None:
    """Return the answer with passages added that it does not rest on; None if there are none."""
    evidence = evidence_of(record.tool_output)
    names = _beside(record, gold)[:ADDED]
    added = "".join(f" <snippet id={name}>{evidence[name]}</snippet>" for name in names)
    return gold.replace(END, f"{added}{END}") if record.answerable and added else None


def _beside(record: RefinerRecord, gold: str) -> list[str]:
    """Return the ids that an answer does not cite, furthest from the question first."""
    cited = {name for claim in parse(gold).claims for name in claim.ids}
    asked, evidence = content(record.asked), evidence_of(record.tool_output)
    others = [name for name in evidence if name not in cited]
    return sorted(others, key=lambda name: len(content(evidence[name]) & asked))


def _abstains(record: RefinerRecord, gold: str) -> str | None:
    return "<answer>The passages do not hold the answer.</answer>" if record.answerable else None


def _claims_anyway(record: RefinerRecord, gold: str) -> str | None:
    """Return a passage beside the point in place of saying that nothing is known."""
    first = next(iter(evidence_of(record.tool_output).items()), None)
    if record.answerable or first is None:
        return None
    name, text = first
    return f"<answer><snippet id={name}>{text}</snippet></answer>"


PairsRule = Callable[[RefinerRecord, str], str | None]
RULES: Mapping[str, PairsRule] = {
    "tells the opposite direction": _other_way,
    "gives another figure": _other_figure,
    "cites another passage": _other_passage,
    "cites nothing": _no_citations,
    "adds what was not asked": _padding,
    "abstains though there is an answer": _abstains,
    "answers though there is none": _claims_anyway,
}
"""What a rule does to a reference, by name; None or the same text where it does not apply."""


CONFIG = RewardConfig(apply_citation=False)
"""All items, without verdicts on citations that no item needs."""
Kind = tuple[str, Polarity, str]
"""Writer, polarity and title."""
PROBLEMS = 3
"""How many of a judge's problems are told."""


@dataclass(frozen=True)
class ConsistencySides:
    """A pair whose answers can both be judged: read and checked, the better one first."""

    pair: AnswerPair
    better: Prepared
    worse: Prepared

    def inquiries(self) -> tuple[Inquiry, Inquiry]:
        """Return what is asked about the two answers, with what the stub judge reads."""
        row = self.pair if isinstance(self.pair, PairRow) else None
        return (
            replace(self.better.inquiry(), table=row.stub_better if row else None),
            replace(self.worse.inquiry(), table=row.stub_worse if row else None),
        )


@dataclass(frozen=True)
class Rule:
    """When an item is dropped: from so many decided pairs and groups on, below such a share."""

    min_decided: int = 5
    min_share: float = 0.6
    min_groups: int = 3


@dataclass
class _Tally:
    """What pairs said about one kind of item; `decided` has whether each was consistent, by group."""

    decided: dict[str, list[bool]] = field(default_factory=dict)
    ties: int = 0
    missing: int = 0


Judged = tuple[ConsistencySides, Verdicts, Verdicts]
"""A pair with the verdicts on its better and on its worse answer."""


def sides_of(pairs: Iterable[AnswerPair]) -> list[ConsistencySides]:
    """Return the pairs whose answers both keep the hard rules of the grammar; BadConfig if none does."""
    read = [
        ConsistencySides(
            pair,
            prepare(pair.record, pair.better, CONFIG),
            prepare(pair.record, pair.worse, CONFIG),
        )
        for pair in pairs
    ]
    found = [each for each in read if each.better.is_judgeable and each.worse.is_judgeable]
    if not found:
        raise BadConfig(
            f"in each of the {len(read)} pairs an answer is not well formed, so there is nothing to judge; an"
            " answer is one <answer>…</answer> block, tags balanced, that cites ids of its record."
        )
    return found


def lacking(judged: Sequence[Judged]) -> str:
    """Return in words how many verdicts on items are missing, and why; empty if none is."""
    given = [each for _, *both in judged for each in both]
    raws = [raw for each in given for raw in each.raws]
    missing = raws.count(None)
    if not missing:
        return ""
    why = list(dict.fromkeys(problem for each in given for problem in each.problems))
    more = f": {'; '.join(why[:PROBLEMS])}" if why else ""
    return f"{missing} of {len(raws)} verdicts on items are missing{more}"


def figures(judged: Sequence[Judged], rule: Rule) -> tuple[ItemFigures, ...]:
    """Return what the pairs show of each kind of item, worst first.

    LabError if no pair has a verdict on any item: then nothing was shown.
    """
    tallies: dict[Kind, _Tally] = {}
    for sides, better, worse in judged:
        for place, item in enumerate(sides.better.items):
            tally = tallies.setdefault(kind_of(item), _Tally())
            scale = sides.better.config.score_scale
            values = [value(item, share(each.raws[place], scale)) for each in (better, worse)]
            _count(tally, values, sides.pair.record.group)
    if not any(tally.decided or tally.ties for tally in tallies.values()):
        raise LabError(
            f"{len(judged)} pairs were judged, but no item has a verdict on both answers of one"
            f" ({lacking(judged)}); look whether the judge answers at all, or name other pairs."
        )
    rows = [_consistency_row(kind, tally, rule) for kind, tally in tallies.items()]
    return tuple(sorted(rows, key=_order))


def kind_of(item: Item) -> Kind:
    """Return what items of several records are counted together by."""
    return (item.writer, item.polarity, item.title)


def without(record: RefinerRecord, dropped: frozenset[Kind]) -> RefinerRecord:
    """Return a record without its items of these kinds; the same record if it has none of them."""
    wanted = _kept(record.positive_rubrics, "positive", dropped)
    unwanted = _kept(record.negative_rubrics, "negative", dropped)
    n = len(record.positive_rubrics) + len(record.negative_rubrics)
    if len(wanted) + len(unwanted) == n:
        return record
    return record.model_copy(update={"positive_rubrics": wanted, "negative_rubrics": unwanted})


def _kept(items: Sequence[RubricItem], polarity: Polarity, dropped: frozenset[Kind]) -> tuple[RubricItem, ...]:
    return tuple(each for each in items if (each.source or OWN, polarity, each.title) not in dropped)


def _count(tally: _Tally, values: Sequence[float | None], group: str) -> None:
    better, worse = values
    if better is None or worse is None:
        tally.missing += 1
    elif better == worse:
        tally.ties += 1
    else:
        tally.decided.setdefault(group, []).append(better > worse)


def _consistency_row(kind: Kind, tally: _Tally, rule: Rule) -> ItemFigures:
    n = len(tally.decided)
    by_group = math.fsum(fmean(each) for each in tally.decided.values())
    share_, span = (by_group / n if n else None), wilson(by_group, n)
    decided, consistent = (sum(map(of, tally.decided.values())) for of in (len, sum))
    finding = "too few pairs" if decided < rule.min_decided else _finding(n, share_, span, rule)
    writer, polarity, title = kind
    return ItemFigures(
        writer=writer,
        polarity=polarity,
        title=title,
        pairs=decided + tally.ties + tally.missing,
        decided=decided,
        consistent=consistent,
        ties=tally.ties,
        missing=tally.missing,
        groups=n,
        share=share_,
        interval=span,
        finding=finding,
        is_kept=finding in ("agrees", *UNDECIDED),
    )


def _finding(n: int, share_: float | None, span: Interval | None, rule: Rule) -> Finding:
    if share_ is None or span is None or n < rule.min_groups:
        return "too few groups"
    if span[1] < 0.5:
        return "contradicts"
    return "agrees" if share_ >= rule.min_share else "seldom"


def _order(row: ItemFigures) -> tuple[bool, float, int]:
    return (row.is_kept, 1.0 if row.share is None else row.share, -row.decided)


SOURCE = "second set"
PASSAGE = re.compile(
    r"(?P<mission>.+?) \([^)]+\), mouse \w+, gene set (?P<name>.+): NES .+, (?:it is (?P<way>up|down) in"
    r" flight|no significant change)\."
)


@dataclass(frozen=True)
class OtherSet:
    """Items by record id, what their set is called, and a checksum of it.

    `unasked` counts the rows of a file about records that are not asked.
    """

    name: str
    items: Mapping[str, tuple[Item, ...]]
    sha256: str
    unasked: int = 0

    @classmethod
    def of(cls, name: str, rows: Iterable[OtherItems]) -> "OtherSet":
        """Return the set that the rows make; several rows may be about one record."""
        found: dict[str, tuple[Item, ...]] = {}
        lines = []
        for row in rows:
            lines.append(json.dumps(row.model_dump(mode="json"), sort_keys=True))
            sides = (row.positive_rubrics, row.negative_rubrics)
            wanted, unwanted = ([_by(each, row.source) for each in side] for side in sides)
            found[row.record] = (*found.get(row.record, ()), *instance_items(wanted, unwanted))
        digest = hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()
        return cls(name, found, digest)


def read_other_items(path: Path, records: Sequence[RefinerRecord], name: str) -> OtherSet:
    """Return the items of a JSONL file; BadRow names line and field of what is wrong.

    BadConfig if they are about none of the records, or if a writer has items inside the records too.
    """
    rows = read_rows(path, OtherItems, key=lambda row: f"{row.record} by {row.source}")
    known = {record.id for record in records}
    unasked = sum(row.record not in known for row in rows)
    if unasked == len(rows):
        raise BadConfig(
            f"{path} has items for {len(rows)} records, such as {rows[0].record!r}, but none of them is asked;"
            " `record` is the id of a record in the data."
        )
    inside = {each.source for record in records for each in (*record.positive_rubrics, *record.negative_rubrics)}
    if both := sorted({row.source for row in rows} & inside):
        raise BadConfig(
            f"{path} has items by {both[0]!r}, who wrote items of the records too, and one figure cannot stand"
            " for both; give the set's rows another `source`, or leave it out."
        )
    return replace(OtherSet.of(name, rows), unasked=unasked)


@cache
def second_set() -> OtherSet:
    """Return our own second set, for the records of refiner-test."""
    return OtherSet.of(SOURCE, map(_row, sorted(refiner_bank().test, key=lambda record: record.id)))


def _by(item: RubricItem, source: str) -> RubricItem:
    return item.model_copy(update={"source": source})


def _row(record: RefinerRecord) -> OtherItems:
    sides = _written().get(record.id) or _by_rule(record)
    wanted, unwanted = (
        tuple(RubricItem(title=title, description=text) for title, text in sides[side])
        for side in ("wanted", "unwanted")
    )
    return OtherItems(record=record.id, source=SOURCE, positive_rubrics=wanted, negative_rubrics=unwanted)


Sides = Mapping[str, Sequence[Sequence[str]]]


@cache
def _written() -> Mapping[str, Sides]:
    return json.loads(files("evals.refine").joinpath("second.json").read_text(encoding="utf-8"))


def _by_rule(record: RefinerRecord) -> Sides:
    """Return items for a question about a gene set in a tissue, from what its passages say."""
    name = load_hallmark()[record.id.removesuffix("/without").rpartition("/")[2]].name
    read = [found for text in evidence_of(record.tool_output).values() if (found := PASSAGE.fullmatch(text))]
    others = sorted({found["name"] for found in read} - {name})
    unwanted = [
        ("Another gene set", f'Speaks of a gene set that was not asked for, "{"|".join(others)}".'),
        ("Beyond mice", 'Speaks of "humans|people|astronauts|patients".'),
    ]
    if not record.answerable:
        missions = sorted({found["mission"] for found in read})
        named = ("Names a mission", f'Names a mission, "{"|".join(missions)}", though none tells.')
        return {"wanted": [("Subject", f'Speaks of "{name}".')], "unwanted": [named, *unwanted]}
    ways = {found["mission"]: found["way"] for found in read if found["name"] == name}
    shown = _shown(ways, is_dispute="/uncertainty/" in record.id)
    all_missions = " and ".join(f'"{mission}"' for mission in shown)
    wanted = [
        ("Subject", f'Speaks of "{name}" in "{record.group.rpartition("/")[2]}".'),
        ("All missions", f"Names all missions that show it: {all_missions}."),
    ]
    return {"wanted": wanted, "unwanted": unwanted}


def _shown(ways: Mapping[str, str | None], *, is_dispute: bool) -> list[str]:
    """Return the missions with a direction, or those with the direction that most have."""
    told = [way for way in ways.values() if way]
    most = max(sorted(set(told)), key=told.count)
    return sorted(mission for mission, way in ways.items() if way and (is_dispute or way == most))
