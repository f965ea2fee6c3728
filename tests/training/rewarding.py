"""The refiner's reward called as TRL does, what it logs, and a judge that can be talked into anything."""

from collections.abc import Callable, Sequence

from evals.refine.judge import Inquiry, Verdicts, missing
from tests.evals.refiner.answers import record
from training.data.refiner import grpo_row
from training.judge.client import in_a_loop
from training.refine.reward import RefinerReward


class Log:
    """What TRL keeps of a call."""

    def __init__(self) -> None:
        self.metrics: dict[str, float] = {}
        self.extras: dict[str, list[object]] = {}


class Talked:
    """A judge that gives full marks for every wanted behaviour, and none to some answers."""

    label = "talked into it"

    def __init__(self, is_missing: Callable[[Inquiry], bool] = lambda _: False) -> None:
        self.is_missing = is_missing
        self.asked: list[Inquiry] = []

    async def judge(self, inquiry: Inquiry) -> Verdicts:
        self.asked.append(inquiry)
        if self.is_missing(inquiry):
            return missing(inquiry, "it said nothing")
        top = inquiry.scale
        return Verdicts(
            raws=tuple(top if item.polarity == "positive" else 0.0 for item in inquiry.items),
            quotes=("",) * len(inquiry.items),
            support=(1.0,) * len(inquiry.claims),
            relevance=tuple((1.0,) * len(ids) for ids in inquiry.cited),
            needs=(0.0,) * len(inquiry.uncited),
            canary=0.0,
        )


def called(reward: RefinerReward, texts: Sequence[str], log: Log | None = None, **about: object) -> list[float | None]:
    """Call the reward as TRL does: by keywords, in a loop."""
    row = grpo_row(record(**about))["record"]

    async def work() -> list[float | None]:
        try:
            return await reward(
                prompts=[[{"role": "user", "content": "q"}]] * len(texts),
                completions=[[{"role": "assistant", "content": text}] for text in texts],
                completion_ids=[[1]] * len(texts),
                record=[row] * len(texts),
                trainer_state=None,
                log_metric=log.metrics.__setitem__ if log else None,
                log_extra=log.extras.__setitem__ if log else None,
            )
        finally:
            await reward.close()

    return in_a_loop(work())
