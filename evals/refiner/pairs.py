"""Pairs of answers from a file, or made by a rule that makes a reference answer worse.

A pair that a rule made shows whether an item sees this kind of fault, and no more: people's preferences
may be others. Which rule it was stands in `about`.
"""

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from pydantic import ValidationInfo, field_validator

from evals.errors import BadConfig
from evals.jsonl import read_rows
from evals.refiner.bank import kept_for_testing
from evals.refiner.evidence import evidence_of
from evals.refiner.grammar import TAG, parse
from evals.refiner.records import CheckedRecord
from evals.refiner.rubric import items_of
from evals.refiner.stub import StubTable, fitting
from evals.refiner.words import content
from evals.schema.refinerpairs import AnswerPair
from evals.schema.refining import RefinerRecord, RewardConfig

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


Rule = Callable[[RefinerRecord, str], str | None]
RULES: Mapping[str, Rule] = {
    "tells the opposite direction": _other_way,
    "gives another figure": _other_figure,
    "cites another passage": _other_passage,
    "cites nothing": _no_citations,
    "adds what was not asked": _padding,
    "abstains though there is an answer": _abstains,
    "answers though there is none": _claims_anyway,
}
"""What a rule does to a reference, by name; None or the same text where it does not apply."""
