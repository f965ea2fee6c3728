"""A record being answered: every stage's words as they are written, then graded, claim by claim.

Who judges comes in with the services, and is named wherever its verdicts are shown.
"""

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from evals.model import Sampling
from evals.refiner.prompt import messages
from evals.refiner.score import Prepared, prepare
from evals.schema.refinements import KeptRefinement, Origin, RefinedAnswer
from evals.schema.refining import RefinerRecord, RewardConfig, ScoredAnswer
from lab.answers import Draft, drafting
from lab.engine import Engine, Request, Waiting
from lab.services import Services, grade
from lab.visitors import Visitor
from lab.wording import say

Preset = Literal["assay", "published"]


@dataclass(frozen=True)
class Refining:
    """A record that was checked, and how it is to be answered and rewarded."""

    visitor: Visitor
    record: RefinerRecord
    reward: RewardConfig
    sampling: Sampling = Sampling(max_new_tokens=256)


@dataclass(frozen=True)
class RefineMoment:
    """What there is to show. Nothing comes after a moment that `is_done` or `is_replaced`."""

    waiting: Waiting | None = None
    line: str = ""
    drafts: tuple[Draft, ...] = ()
    kept: KeptRefinement | None = None
    is_done: bool = False
    is_replaced: bool = False


def refining(services: Services, asked: Refining) -> Iterator[RefineMoment]:
    """Yield moments until every stage has answered and all answers are graded.

    LabError if the model cannot answer or the judge cannot be asked.
    """
    engine = engine_of(services)
    ticket = engine.ask(
        Request(
            owner=owner(asked.visitor),
            question=asked.record.asked,
            pick=lambda stages: stages,
            sampling=asked.sampling,
            prompt=messages(asked.record),
        )
    )
    now = RefineMoment()
    yield now
    for seen in drafting(engine, ticket, services.now):
        if isinstance(seen, Waiting):
            yield replace(now, waiting=seen)
            continue
        now = replace(now, drafts=seen)
        yield now
    if ticket.replaced.is_set():
        yield replace(now, is_replaced=True)
        return
    if not now.drafts:
        yield replace(now, line=say("refine.stopped_early"), is_done=True)
        return
    yield replace(now, line=say("refine.judging"))
    answers = _graded_drafts(services, asked, now.drafts)
    yield replace(now, kept=kept(services, asked, answers), is_done=True)


def given(services: Services, asked: Refining, text: str) -> KeptRefinement:
    """Return an answer that a person gave to a record, graded. LabError if it cannot be judged."""
    scored = graded(services, asked.record, asked.reward, [text])[0]
    answer = RefinedAnswer(id=uuid.uuid4().hex, name="yours", finish_reason="given", scored=scored)
    return kept(services, asked, [answer])


def graded(
    services: Services, record: RefinerRecord, reward: RewardConfig, texts: Sequence[str]
) -> list[ScoredAnswer]:
    """Return answers to one record with everything that was made of them."""
    prepared: list[Prepared] = [prepare(record, text, reward) for text in texts]
    return grade(services.judge(), prepared)


def engine_of(services: Services) -> Engine:
    """Return who answers: the refiner chain where there is one, else the lab's own chain."""
    return services.refiner or services.engine


def owner(visitor: Visitor) -> str:
    """Return the name under which a page waits in line here."""
    return f"refine {visitor.page}"


def kept(services: Services, asked: Refining, answers: Sequence[RefinedAnswer]) -> KeptRefinement:
    """Return a refinement ready to be stored."""
    return KeptRefinement(
        id=uuid.uuid4().hex,
        made_at=services.now(),
        session=services.store.hash_rater(asked.visitor.rater),
        record=asked.record,
        reward=asked.reward,
        answers=tuple(answers),
    )


def _graded_drafts(
    services: Services, asked: Refining, drafts: Sequence[Draft]
) -> list[RefinedAnswer]:
    chain = engine_of(services).chain
    scored = graded(services, asked.record, asked.reward, [draft.text for draft in drafts])
    return [
        RefinedAnswer(
            id=uuid.uuid4().hex,
            name=draft.stage,
            finish_reason=draft.finish_reason or "cancelled",
            scored=each,
            origin=Origin(
                chain=chain.manifest.name,
                stage_sha256=chain.stage_checksums[draft.stage],
                seed=asked.sampling.seed,
                max_new_tokens=asked.sampling.max_new_tokens,
                temperature=asked.sampling.temperature,
                dtype=chain.dtype,
            ),
        )
        for draft, each in zip(drafts, scored, strict=True)
    ]
