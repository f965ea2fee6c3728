"""Do rubric items side with the better answer of a pair? Those that seldom do teach the wrong thing.

Items are counted by kind: writer, polarity and title. Pairs are about other records than those that are
trained on, so it is the kind that they tell about, as "Direction" of one teacher. An item earns more on
the better answer (consistent), on the worse one, or the same on both (a tie: it says nothing about what
makes this pair differ).

Pairs about one group of records are not independent, so a group counts once, however many pairs it has:
the share is the mean over groups of each group's share of consistent pairs, and its interval is Wilson's
(1927) over as many groups. Group shares lie in 0..1, so their variance is at most mean · (1 - mean) (Bhatia
and Davis 2000), that of yes or no: the interval is not too narrow for shares in between.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from evals.errors import BadConfig, LabError
from evals.intervals import Interval, wilson
from evals.refiner.judging import Inquiry, Verdicts
from evals.refiner.pairs import PairRow
from evals.refiner.rubric import Item, share, value
from evals.refiner.score import Prepared, prepare
from evals.schema.refinerpairs import UNDECIDED, AnswerPair, Finding, ItemFigures
from evals.schema.refining import OWN, Polarity, RefinerRecord, RewardConfig, RubricItem

CONFIG = RewardConfig(apply_citation=False)
"""All items, without verdicts on citations that no item needs."""
Kind = tuple[str, Polarity, str]
"""Writer, polarity and title."""
PROBLEMS = 3
"""How many of a judge's problems are told."""


@dataclass(frozen=True)
class Sides:
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


Judged = tuple[Sides, Verdicts, Verdicts]
"""A pair with the verdicts on its better and on its worse answer."""


def sides_of(pairs: Iterable[AnswerPair]) -> list[Sides]:
    """Return the pairs whose answers both keep the hard rules of the grammar; BadConfig if none does."""
    read = [
        Sides(
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
    rows = [_row(kind, tally, rule) for kind, tally in tallies.items()]
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


def _kept(
    items: Sequence[RubricItem], polarity: Polarity, dropped: frozenset[Kind]
) -> tuple[RubricItem, ...]:
    return tuple(
        each for each in items if (each.source or OWN, polarity, each.title) not in dropped
    )


def _count(tally: _Tally, values: Sequence[float | None], group: str) -> None:
    better, worse = values
    if better is None or worse is None:
        tally.missing += 1
    elif better == worse:
        tally.ties += 1
    else:
        tally.decided.setdefault(group, []).append(better > worse)


def _row(kind: Kind, tally: _Tally, rule: Rule) -> ItemFigures:
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
