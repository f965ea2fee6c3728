"""One answer with all that is made of it: citations, items, what it copies, and the parts of the reward."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import zip_longest
from typing import NamedTuple

from evals.errors import BadConfig
from evals.refine.grammar import (
    HARD,
    WORD,
    CitedClaim,
    Evidence,
    ParsedAnswer,
    evidence_of,
    format_bonus,
    format_checks,
    parse_answer,
)
from evals.refine.judge import Inquiry, Item, Verdicts, items_of, missing, rubric_score, scale_share, value
from evals.schema.refiner import (
    CheckedClaim,
    JudgedItem,
    RefinerRecord,
    Relevance,
    RewardConfig,
    ScoredAnswer,
    UncitedPassage,
)


class CitationScores(NamedTuple):
    """Three shares 0..1; all None if a verdict that they need is missing."""

    precision: float | None = None
    recall: float | None = None
    f1: float | None = None


def broken_limit(claim: CitedClaim, config: RewardConfig) -> str | None:
    """Return which limit a claim breaks, in words; None if it keeps to both."""
    most_ids, most_words = config.max_ids_per_claim, config.max_words_per_claim
    if most_ids and len(claim.ids) > most_ids:
        return f"cites {len(claim.ids)} ids, more than {most_ids}"
    if most_words and len(WORD.findall(claim.text)) > most_words:
        return f"has more than {most_words} words"
    return None


def citation_scores(
    claims: Sequence[CitedClaim],
    cited: Sequence[Sequence[str]],
    verdicts: Verdicts,
    sources: Mapping[str, str] | None,
    answerable: bool,
) -> CitationScores:
    """Return precision, recall and F1; `sources` counts per document instead of per snippet.

    `cited` are the ids that were asked about, claim by claim.
    """
    support = [got if ids else 0.0 for got, ids in zip(verdicts.support, cited, strict=True)]
    relevance = [
        _relevance(claim, dict(zip(ids, got, strict=True)), sources)
        for claim, ids, got in zip(claims, cited, verdicts.relevance, strict=True)
    ]
    cells = [each for row in relevance for each in row]
    given = [each for each in (*support, *verdicts.needs, *cells) if each is not None]
    if len(given) < len(support) + len(verdicts.needs) + len(cells):
        return CitationScores()
    need = math.fsum(given[len(support) : len(given) - len(cells)])
    if not claims and not need:
        score = 0.0 if answerable else 1.0
        return CitationScores(score, score, score)
    precision = math.fsum(given[len(given) - len(cells) :]) / len(cells) if cells else 0.0
    recall = math.fsum(given[: len(support)]) / (len(claims) + need)
    both = precision + recall
    return CitationScores(precision, recall, 2 * precision * recall / both if both else 0.0)


def _relevance(
    claim: CitedClaim, got: Mapping[str, float | None], sources: Mapping[str, str] | None
) -> list[float | None]:
    """Return the relevance of each attribution of a claim; unknown ids and ids not asked about have 0.

    Counted per document, a document is as relevant as its best snippet.
    """
    if sources is None:
        return [got.get(name, 0.0) for name in claim.ids]
    best: dict[str, float | None] = {}
    for name in claim.ids:
        document, now = sources.get(name, name), got.get(name, 0.0)
        before = best.get(document, 0.0)
        best[document] = None if now is None or before is None else max(now, before)
    return list(best.values())


def alce_scores(completion: str, claims: Sequence[CheckedClaim], uncited: Sequence[UncitedPassage]) -> CitationScores:
    """Return citation precision and recall as ALCE's eval.py counts them (Gao et al. 2023), without its cut after 3 ids.

    A statement is a claim, or a whole sentence outside all claims. Recall is the share of statements that are wholly
    supported. Precision is the share of citations that a supported statement needs (`judge_citations`). One with an unknown
    id is unsupported, and its citations do not count. None for an answer without a statement.
    """
    told = [each for each in claims if each.citations and all(cited.is_known for cited in each.citations)]
    n = len(claims) + sum(_is_sentence(completion, each) for each in uncited)
    needed = [cited.necessary for each in told for cited in each.citations]
    support = [each.support for each in told]
    if not n or None in needed or None in support:
        return CitationScores()
    return CitationScores(needed.count(True) / len(needed) if needed else 0.0, support.count(1.0) / n)


def _is_sentence(completion: str, passage: UncitedPassage) -> bool:
    """Return whether a passage is no part of the sentence of a claim: "Briefly:" before one is."""
    before, after = completion[: passage.start], completion[passage.end :]
    begins = re.search(r"(?:[.!?]|\n|<answer[^<>]*>)\s*$", re.sub(r"(?i)</snippet>", "", before), re.IGNORECASE)
    return begins is not None and (
        passage.text[-1] in ".!?" or re.match(r"\s*(?:\n|</answer)", after, re.I) is not None
    )


RUN = 12
"""Words in a row that stand so in a passage: fewer are a name or a turn of speech."""


def copied_share(texts: Sequence[str], evidence: Evidence) -> float | None:
    """Return the share of an answer's words in runs of twelve or more of one passage; None without words."""
    known = frozenset(run for passage in evidence.values() for run in _runs(passage))
    total = taken = 0
    for text in texts:
        marked = [False] * len(WORD.findall(text))
        for at, run in enumerate(_runs(text)):
            if run in known:
                marked[at : at + RUN] = [True] * RUN
        total, taken = total + len(marked), taken + sum(marked)
    return taken / total if total else None


@lru_cache(maxsize=1024)
def _runs(text: str) -> tuple[tuple[str, ...], ...]:
    words = [word.lower() for word in WORD.findall(text)]
    return tuple(tuple(words[at : at + RUN]) for at in range(max(0, len(words) - RUN + 1)))


# ---- the whole answer -------------------------------------------------------------------------

NO_CITATION = CitationScores(0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class PreparedAnswer:
    """An answer that was read but not yet judged.

    `settled` says why its reward is 0 whatever a judge would say; None if it has to be judged.
    """

    record: RefinerRecord
    config: RewardConfig
    completion: str
    reading: ParsedAnswer
    evidence: Evidence
    items: tuple[Item, ...]
    cited: tuple[tuple[str, ...], ...]
    checks: dict[str, bool]
    bonus: float
    settled: str | None

    @property
    def is_judgeable(self) -> bool:
        """Whether there is an answer to judge at all: the hard checks pass."""
        return self.reading.is_wellformed

    def inquiry(self) -> Inquiry:
        """Return what is to be asked about the answer."""
        return Inquiry(
            record_id=self.record.id,
            question=self.record.asked,
            evidence=self.evidence,
            answer=self.reading.body,
            items=self.items,
            claims=self.reading.claims,
            cited=self.cited,
            uncited=self.reading.uncited,
            scale=self.config.score_scale,
            asks_citations=self.config.apply_citation,
        )


class AnswerFigures(NamedTuple):
    """The figures of an answer; None where a verdict that they need is missing. `reason` in words."""

    rubric: float | None
    citation: CitationScores
    quality: float | None
    reward: float | None
    reason: str


def prepare(
    record: RefinerRecord, completion: str, config: RewardConfig, items: tuple[Item, ...] | None = None
) -> PreparedAnswer:
    """Return an answer read and checked; `items` in place of all that the record is graded by.

    BadConfig if there is no item to grade by.
    """
    graded_by = items_of(record, config) if items is None else items
    if not graded_by:
        raise BadConfig(
            f"record {record.id!r} has no rubric item and static_rubrics is off, so there is nothing to"
            " grade its answers by; add an item, or set static_rubrics to true."
        )
    evidence = evidence_of(record.tool_output)
    reading = parse_answer(completion, config.reasoning_tags)
    checks = format_checks(reading, evidence, record.answerable)
    bonus, settled = format_bonus(checks), None
    failed = [name for name, passed in checks.items() if not passed]
    if set(HARD) & set(failed):
        settled = f"not well formed: {', '.join(name for name in HARD if name in failed)}"
    elif reading.is_empty and config.zero_if_empty:
        settled = "the answer is empty"
    elif config.gate == "require" and bonus < 1.0:
        settled = f"format checks failed: {', '.join(failed)}"
    return PreparedAnswer(
        record=record,
        config=config,
        completion=completion,
        reading=reading,
        evidence=evidence,
        items=graded_by,
        cited=tuple(
            () if broken_limit(claim, config) else tuple(name for name in claim.ids if name in evidence)
            for claim in reading.claims
        ),
        checks=checks,
        bonus=bonus,
        settled=settled,
    )


def final_figures(prepared: PreparedAnswer, verdicts: Verdicts | None) -> AnswerFigures:
    """Return the figures of an answer; `verdicts` None = nobody was asked.

    ValueError if nobody was asked although the reward depends on it.
    """
    config, why = prepared.config, prepared.settled
    if not prepared.is_judgeable:
        return AnswerFigures(0.0, NO_CITATION, 0.0, 0.0, str(why))
    if verdicts is None:
        if why is None:
            raise ValueError(f"the answer to {prepared.record.id!r} has to be judged first")
        return AnswerFigures(None, CitationScores(), 0.0, 0.0, why)
    rubric = rubric_score(prepared.items, verdicts.raws, config.score_scale)
    sources = prepared.record.sources if config.citation_level == "paper" else None
    citation = citation_scores(prepared.reading.claims, prepared.cited, verdicts, sources, prepared.record.answerable)
    if why is not None:
        return AnswerFigures(rubric, citation, 0.0, 0.0, why)
    cited = getattr(citation, config.citation_metric) if config.apply_citation else 0.0
    if rubric is None or cited is None:
        return AnswerFigures(rubric, citation, None, None, "a verdict is missing, so there is no reward")
    quality, weight = rubric * prepared.bonus if config.gate == "multiply" else rubric, config.citation_weight
    if config.apply_citation and config.combine == "additive":
        quality += weight * cited
    elif config.apply_citation:
        quality = min(1.0, (1.0 - weight) * quality + weight * cited)
    reason = "graded by rubric and citations" if config.apply_citation else "graded by rubric"
    return AnswerFigures(rubric, citation, quality, config.verification_reward * quality, reason)


def explain(prepared: PreparedAnswer, verdicts: Verdicts | None, judge: str) -> ScoredAnswer:
    """Return an answer with every verdict at its place; `verdicts` None = nobody was asked.

    Character places are those of the whole completion, so a page can colour its text by them.
    """
    settled, asked = (
        final_figures(prepared, verdicts),
        missing(prepared.inquiry(), "") if verdicts is None else verdicts,
    )
    items = []
    for item, raw, quote in zip(prepared.items, asked.raws, asked.quotes, strict=True):
        score = scale_share(raw, prepared.config.score_scale)
        told = {name: getattr(item, name) for name in ("title", "description", "polarity", "origin", "weight")}
        items.append(JudgedItem(**told, raw=raw, score=score, value=value(item, score), quote=quote))
    claims = []
    necessary = asked.necessary or tuple((None,) * len(ids) for ids in prepared.cited)
    rows = zip(prepared.reading.claims, prepared.cited, asked.support, asked.relevance, necessary, strict=True)
    for claim, ids, support, relevance, needed in rows:
        limit = broken_limit(claim, prepared.config)
        given, needs = dict(zip(ids, relevance, strict=True)), dict(zip(ids, needed, strict=True))
        note = f"{limit}: earns nothing" if limit else "cites nothing that is in the evidence"
        claims.append(
            CheckedClaim(
                text=claim.text,
                ids=claim.ids,
                start=claim.start,
                end=claim.end,
                support=support if ids else 0.0,
                citations=tuple(
                    Relevance(
                        id=name,
                        is_known=name in prepared.evidence,
                        relevant=given.get(name, 0.0),
                        necessary=needs.get(name, False),
                    )
                    for name in claim.ids
                ),
                note=note if limit or not ids else None,
            )
        )
    uncited = tuple(
        UncitedPassage(text=each.text, start=each.start, end=each.end, needs_citation=need)
        for each, need in zip_longest(prepared.reading.uncited, asked.needs[: len(prepared.reading.uncited)])
    )
    alce = alce_scores(prepared.completion, claims, uncited) if verdicts else CitationScores()
    return ScoredAnswer(
        record_id=prepared.record.id,
        completion=prepared.completion,
        judge=judge,
        is_judged=verdicts is not None,
        format_checks=prepared.checks,
        format_bonus=prepared.bonus,
        claims=tuple(claims),
        uncited=uncited,
        items=tuple(items),
        rubric=settled.rubric,
        citation_precision=settled.citation.precision,
        citation_recall=settled.citation.recall,
        citation_f1=settled.citation.f1,
        alce_precision=alce.precision,
        alce_recall=alce.recall,
        quality=settled.quality,
        reward=settled.reward,
        reason=settled.reason,
        problems=verdicts.problems if verdicts else (),
    )
