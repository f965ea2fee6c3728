"""What a visitor asked before: found in the store, shown again, and asked again to compare."""

from dataclasses import dataclass
from itertools import groupby

from evals.model import Sampling
from evals.schema import Answer
from lab.answers import Asking, Snapshot, session_of
from lab.services import Services
from lab.visitors import Visitor
from lab.wording import say

ANSWERS = 90
"""How many stored answers are looked through, newest first."""


@dataclass(frozen=True)
class Earlier:
    """A question asked before, with the stored answer of each stage."""

    answers: tuple[Answer, ...]

    @property
    def first(self) -> Answer:
        """Any of them: question, time and settings are the same in all."""
        return self.answers[0]

    @property
    def label(self) -> str:
        """One line to choose it by."""
        first = self.first
        short = first.question if len(first.question) <= 80 else first.question[:79] + "…"
        return f"{when(first)} · {short} · seed {first.seed}, temperature {first.temperature:g}"


def earlier(services: Services, visitor: Visitor | None) -> tuple[Earlier, ...]:
    """Return what this browser asked in this tab before, newest first."""
    if visitor is None:
        return ()
    session = session_of(services, visitor, "ask")
    stored = services.store.answers(session, ANSWERS)
    groups = (
        tuple(group) for _, group in groupby(stored, lambda row: (row.asked_at, row.question))
    )
    order = _stage_order(services)
    return tuple(
        Earlier(tuple(sorted(group, key=lambda row: order.get(row.stage, len(order)))))
        for group in groups
    )


def find_earlier(services: Services, visitor: Visitor | None, chosen: str | None) -> Earlier | None:
    """Return the earlier question one of whose answers has the id `chosen`."""
    entries = earlier(services, visitor)
    return next((one for one in entries if chosen in {row.id for row in one.answers}), None)


def asking_again(visitor: Visitor, entry: Earlier) -> Asking:
    """Return the same question to the same stages with the same settings."""
    first = entry.first
    wanted = tuple(answer.stage for answer in entry.answers)

    def pick(stages: tuple[str, ...]) -> tuple[str, ...]:
        kept = tuple(stage for stage in wanted if stage in stages)
        return kept or stages

    sampling = Sampling(
        max_new_tokens=first.max_new_tokens, temperature=first.temperature, seed=first.seed
    )
    return Asking(visitor, first.question, sampling, "ask", pick)


def compared(before: Earlier, now: Snapshot) -> str:
    """Return whether a replay gave the same words, and if not, what could be why."""
    old = {answer.stage: answer for answer in before.answers}
    known = [(old[answer.stage], answer) for answer in now.answers if answer.stage in old]
    same = sum(then.text == answer.text for then, answer in known)
    facts = {"n": len(now.answers), "when": when(before.first)}
    if same == len(now.answers):
        return say("ask.replay.same", **facts)
    is_other = len(known) < len(now.answers) or any(
        then.stage_sha256 != answer.stage_sha256 for then, answer in known
    )
    why = say("ask.replay.chain" if is_other else "ask.replay.numbers")
    return say("ask.replay.different", same=same, why=why, **facts)


def when(answer: Answer) -> str:
    """Return when an answer was asked for, as people read it (UTC)."""
    return f"{answer.asked_at:%d %b %H:%M} UTC"


def _stage_order(services: Services) -> dict[str, int]:
    if services.engine.status.state != "ready":
        return {stage: place for place, stage in enumerate(("base", "sft", "dpo", "grpo"))}
    return {stage: place for place, stage in enumerate(services.engine.chain.stages)}
