"""One answer with all that was made of it: claims with their citation checks, items, parts of the reward."""

from dataclasses import dataclass

from evals.errors import BadConfig
from evals.refine.citation import NO_SCORES, CitationScores, asked_ids, broken_limit, citation_scores
from evals.refine.grammar import HARD, Evidence, Reading, evidence_of, format_bonus, format_checks, parse
from evals.refine.judge import Inquiry, Verdicts
from evals.refine.rubric import Item, items_of, rubric_score, share, value
from evals.schema.refiner import (
    CheckedClaim,
    JudgedItem,
    RefinerRecord,
    Relevance,
    RewardConfig,
    ScoredAnswer,
    UncitedPassage,
)

NO_CITATION = CitationScores(0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Prepared:
    """An answer that was read but not yet judged.

    `settled` says why its reward is 0 whatever a judge would say; None if it has to be judged.
    """

    record: RefinerRecord
    config: RewardConfig
    completion: str
    reading: Reading
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


@dataclass(frozen=True, slots=True)
class Settled:
    """The figures of an answer; None where a verdict that they need is missing. `reason` in words."""

    rubric: float | None
    citation: CitationScores
    quality: float | None
    reward: float | None
    reason: str


def prepare(
    record: RefinerRecord, completion: str, config: RewardConfig, items: tuple[Item, ...] | None = None
) -> Prepared:
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
    reading = parse(completion, config.reasoning_tags)
    checks = format_checks(reading, evidence, record.answerable)
    bonus = format_bonus(checks)
    return Prepared(
        record=record,
        config=config,
        completion=completion,
        reading=reading,
        evidence=evidence,
        items=graded_by,
        cited=tuple(asked_ids(claim, evidence, config) for claim in reading.claims),
        checks=checks,
        bonus=bonus,
        settled=_settled(reading, checks, bonus, config),
    )


def settle(prepared: Prepared, verdicts: Verdicts | None) -> Settled:
    """Return the figures of an answer; `verdicts` None = nobody was asked.

    ValueError if nobody was asked although the reward depends on it.
    """
    zero = 0.0 if prepared.settled is not None else None
    if not prepared.is_judgeable:
        return Settled(0.0, NO_CITATION, 0.0, 0.0, str(prepared.settled))
    if verdicts is None:
        if zero is None:
            raise ValueError(f"the answer to {prepared.record.id!r} has to be judged first")
        return Settled(None, NO_SCORES, zero, zero, str(prepared.settled))
    config = prepared.config
    rubric = rubric_score(prepared.items, verdicts.raws, config.score_scale)
    sources = prepared.record.sources if config.citation_level == "paper" else None
    citation = citation_scores(prepared.reading.claims, prepared.cited, verdicts, sources, prepared.record.answerable)
    if prepared.settled is not None:
        return Settled(rubric, citation, 0.0, 0.0, prepared.settled)
    quality = _quality(prepared, rubric, citation)
    if quality is None:
        return Settled(rubric, citation, None, None, "a verdict is missing, so there is no reward")
    reason = "graded by rubric and citations" if config.apply_citation else "graded by rubric"
    return Settled(rubric, citation, quality, config.verification_reward * quality, reason)


def _quality(prepared: Prepared, rubric: float | None, citation: CitationScores) -> float | None:
    """Return q, None if a part that it needs is missing."""
    config = prepared.config
    if rubric is None:
        return None
    graded = rubric * prepared.bonus if config.gate == "multiply" else rubric
    if not config.apply_citation:
        return graded
    cited = getattr(citation, config.citation_metric)
    if cited is None:
        return None
    weight = config.citation_weight
    if config.combine == "additive":
        return graded + weight * cited
    return min(1.0, (1.0 - weight) * graded + weight * cited)


def _settled(reading: Reading, checks: dict[str, bool], bonus: float, config: RewardConfig) -> str | None:
    """Return why the reward is 0 without a judge; None if it is not."""
    failed = [name for name in HARD if not checks[name]]
    if failed:
        return f"not well formed: {', '.join(failed)}"
    if reading.is_empty and config.zero_if_empty:
        return "the answer is empty"
    if config.gate == "require" and bonus < 1.0:
        return f"format checks failed: {', '.join(n for n, passed in checks.items() if not passed)}"
    return None


def explain(prepared: Prepared, verdicts: Verdicts | None, judge: str) -> ScoredAnswer:
    """Return an answer with every verdict at its place; `verdicts` None = nobody was asked.

    Character places are those of the whole completion, so a page can colour its text by them.
    """
    settled = settle(prepared, verdicts)
    citation = settled.citation
    return ScoredAnswer(
        record_id=prepared.record.id,
        completion=prepared.completion,
        judge=judge,
        is_judged=verdicts is not None,
        format_checks=prepared.checks,
        format_bonus=prepared.bonus,
        claims=_claims(prepared, verdicts),
        uncited=_uncited(prepared, verdicts),
        items=_items(prepared, verdicts),
        rubric=settled.rubric,
        citation_precision=citation.precision,
        citation_recall=citation.recall,
        citation_f1=citation.f1,
        quality=settled.quality,
        reward=settled.reward,
        reason=settled.reason,
        problems=verdicts.problems if verdicts else (),
    )


def _items(prepared: Prepared, verdicts: Verdicts | None) -> tuple[JudgedItem, ...]:
    """Return the items of an answer with their verdicts; `verdicts` None = nobody was asked."""
    found = []
    for place, item in enumerate(prepared.items):
        raw = verdicts.raws[place] if verdicts else None
        score = share(raw, prepared.config.score_scale)
        found.append(
            JudgedItem(
                title=item.title,
                description=item.description,
                polarity=item.polarity,
                origin=item.origin,
                weight=item.weight,
                raw=raw,
                score=score,
                value=value(item, score),
                quote=verdicts.quotes[place] if verdicts else "",
            )
        )
    return tuple(found)


def _claims(prepared: Prepared, verdicts: Verdicts | None) -> tuple[CheckedClaim, ...]:
    found = []
    for place, (claim, asked) in enumerate(zip(prepared.reading.claims, prepared.cited, strict=True)):
        support = verdicts.support[place] if verdicts else None
        limit = broken_limit(claim, prepared.config)
        unknown = None if asked else "cites nothing that is in the evidence"
        note = f"{limit}: counted as unsupported" if limit else unknown
        given = dict(zip(asked, verdicts.relevance[place], strict=True)) if verdicts else {}
        found.append(
            CheckedClaim(
                text=claim.text,
                ids=claim.ids,
                start=claim.start,
                end=claim.end,
                support=support if asked else 0.0,
                citations=tuple(
                    Relevance(
                        id=name, is_known=name in prepared.evidence, relevant=given.get(name) if name in asked else 0.0
                    )
                    for name in claim.ids
                ),
                note=note,
            )
        )
    return tuple(found)


def _uncited(prepared: Prepared, verdicts: Verdicts | None) -> tuple[UncitedPassage, ...]:
    needs = verdicts.needs if verdicts else ()
    return tuple(
        UncitedPassage(
            text=each.text, start=each.start, end=each.end, needs_citation=needs[place] if place < len(needs) else None
        )
        for place, each in enumerate(prepared.reading.uncited)
    )
