"""One answer with all that was made of it: claims with their citation checks, items, parts of the reward."""

from evals.refiner.citation import broken_limit
from evals.refiner.grammar import Claim
from evals.refiner.judging import Verdicts
from evals.refiner.rubric import share, value
from evals.refiner.score import Prepared, settle
from evals.schema.refining import (
    CheckedClaim,
    JudgedItem,
    Relevance,
    ScoredAnswer,
    UncitedPassage,
)


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
        items=judged_items(prepared, verdicts),
        rubric=settled.rubric,
        citation_precision=citation.precision,
        citation_recall=citation.recall,
        citation_f1=citation.f1,
        quality=settled.quality,
        reward=settled.reward,
        reason=settled.reason,
        problems=verdicts.problems if verdicts else (),
    )


def judged_items(prepared: Prepared, verdicts: Verdicts | None) -> tuple[JudgedItem, ...]:
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
                source=item.source,
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
    for place, (claim, asked) in enumerate(
        zip(prepared.reading.claims, prepared.cited, strict=True)
    ):
        support = verdicts.support[place] if verdicts else None
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
                        id=name,
                        is_known=name in prepared.evidence,
                        relevant=given.get(name) if name in asked else 0.0,
                    )
                    for name in claim.ids
                ),
                note=_note(prepared, claim, asked),
            )
        )
    return tuple(found)


def _note(prepared: Prepared, claim: Claim, asked: tuple[str, ...]) -> str | None:
    limit = broken_limit(claim, prepared.config)
    if limit is not None:
        return f"{limit}: counted as unsupported"
    return None if asked else "cites nothing that is in the evidence"


def _uncited(prepared: Prepared, verdicts: Verdicts | None) -> tuple[UncitedPassage, ...]:
    needs = verdicts.needs if verdicts else ()
    return tuple(
        UncitedPassage(
            text=each.text,
            start=each.start,
            end=each.end,
            needs_citation=needs[place] if place < len(needs) else None,
        )
        for place, each in enumerate(prepared.reading.uncited)
    )
