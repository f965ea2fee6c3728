"""The refiner's reward in the shape that TRL's GRPO trainer calls: one async function, None = no reward.

Each row needs a column `record`, a whole record as JSON (`training.data.refiner.grpo_row`), or the
record's own columns: id, prompt, tool_output, positive_rubrics, negative_rubrics, answerable.

One reward, not one per part: TRL counts a missing cell of one function as 0 beside another's score, so
a judge that fails would cost an answer points. The parts go to the log instead.
"""

from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from statistics import fmean
from typing import Any

from pydantic import ValidationError

from evals.errors import BadConfig
from evals.refine.judge import Judge, Verdicts
from evals.refine.records import CheckedRecord
from evals.refine.rubric import items_of
from evals.refine.score import PreparedAnswer, Settled, prepare, settle
from evals.schema.refiner import RefinerRecord, RewardConfig
from training.config import HEURISTIC, RefinerSettings
from training.judge.judge import HttpJudge, StopRule, by_deadline, fit_judge, judge_of, late
from training.judge.questions import VERSION, HttpSettings
from training.refine.items import ItemBook, figures_of, group_spread, means
from training.rewards import Answer, text_of

LogMetric = Callable[[str, float], None]
LogExtra = Callable[[str, list[object]], None]
COLUMNS = tuple(name for name in RefinerRecord.model_fields if name != "prompt")


@dataclass(frozen=True)
class Judging:
    """Who judges, and for how long."""

    judge: Judge
    deadline_seconds: float = 600.0


@dataclass(frozen=True)
class _Row:
    """One answer with all that was made of it; `verdicts` None where nobody was asked."""

    prepared: PreparedAnswer
    verdicts: Verdicts | None
    settled: Settled


class RefinerReward:
    """Callable reward in 0..`verification_reward` (convex); None for a row that lacks a verdict.

    A class, not a closure, so that worker processes can unpickle it; connections are made inside the
    loop that calls it. Raises TrainingStopped once the judge fails too often to learn from.
    """

    __name__ = "refiner"

    def __init__(
        self, config: RewardConfig, judging: Judging, book: ItemBook | None = None, stop: StopRule | None = None
    ) -> None:
        self.config = config
        self.judging = judging
        self.book = book or ItemBook()
        self.stop = stop or StopRule()

    async def __call__(
        self,
        *,
        completions: Sequence[Answer],
        prompts: Sequence[Answer] | None = None,
        log_metric: LogMetric | None = None,
        log_extra: LogExtra | None = None,
        **columns: Any,
    ) -> list[float | None]:
        """Return one reward per completion; BadConfig for rows that hold no record.

        Judged is only what the reward depends on: an answer that breaks a hard check, says nothing or
        fails the gate has its reward without a judge.
        """
        records = records_of(columns, prompts, len(completions))
        rows = await self._rows(records, completions)
        asked = [(row, row.verdicts) for row in rows if row.verdicts is not None]
        for row, verdicts in asked:
            self.book.note(row.prepared.record.id, row.prepared.items, verdicts.raws)
        missing = sum(row.settled.reward is None for row, _ in asked)
        if log_metric is not None:
            for name, mean in self._figures(rows, len(asked), missing).items():
                log_metric(name, mean)
        if log_extra is not None:
            log_extra("why", [row.settled.reason for row in rows])
            log_extra("rubric", [row.settled.rubric for row in rows])
            log_extra("citation_f1", [row.settled.citation.f1 for row in rows])
            log_extra("format_bonus", [row.prepared.bonus for row in rows])
            log_extra("claims", [len(row.prepared.reading.claims) for row in rows])
        problems = {problem for _, verdicts in asked for problem in verdicts.problems}
        self.stop.saw(missing, len(asked), tuple(sorted(problems)))
        return [row.settled.reward for row in rows]

    async def close(self) -> None:
        """Close the judge's connections, from inside the loop that made them."""
        if isinstance(self.judging.judge, HttpJudge):
            await self.judging.judge.close()

    async def _rows(self, records: Sequence[RefinerRecord], completions: Sequence[Answer]) -> list[_Row]:
        """Return the answers graded, each read while others wait for their judge; all ends at the deadline."""
        cases: list[PreparedAnswer] = []

        def work() -> Iterator[Coroutine[Any, Any, Verdicts]]:
            for record, answer in zip(records, completions, strict=True):
                items = self.book.asked(record.id, items_of(record, self.config))
                cases.append(prepare(record, text_of(answer), self.config, items or None))
                if cases[-1].settled is None:
                    yield self.judging.judge.judge(cases[-1].inquiry())

        seconds = self.judging.deadline_seconds
        found = iter(await by_deadline(work(), seconds))
        given = [None if case.settled is not None else next(found) or late(case.inquiry(), seconds) for case in cases]
        return [_Row(case, each, settle(case, each)) for case, each in zip(cases, given, strict=True)]

    def _figures(self, rows: Sequence[_Row], asked: int, missing: int) -> dict[str, float]:
        """Return means over the answers, and what happened on the line to the judge."""
        found = means(figures_of(row.prepared, row.verdicts, row.settled) for row in rows)
        found["judge/asked"] = asked / len(rows)
        found["judge/none_rate"] = missing / asked if asked else 0.0
        found["items/retired"] = float(self.book.retired)
        spread = group_spread(self.book.seen)
        if spread is not None:
            found["items/group_spread"] = spread / self.config.score_scale
        if isinstance(self.judging.judge, HttpJudge):
            counts = self.judging.judge.client.take_counts()
            found["judge/retries"] = float(counts.retries)
            found["judge/loose"] = counts.loose / max(1, counts.calls)
            found["judge/cache_hit"] = counts.hits / max(1, counts.hits + counts.calls)
            if counts.seconds:
                found["judge/latency_s"] = fmean(counts.seconds)
        return found


def records_of(columns: Mapping[str, Any], prompts: Sequence[Answer] | None, n: int) -> list[RefinerRecord]:
    """Return the record of each row; rows that repeat are read once."""
    if "record" in columns:
        return [_read(text) for text in columns["record"]]
    if "tool_output" not in columns or "id" not in columns or prompts is None:
        raise BadConfig(
            "the training rows have no column `record`, and no `id` and `tool_output` beside `prompt`, so"
            " there is nothing to grade answers by; write rows as training.data.refiner.grpo_row does"
            f" (columns found: {', '.join(sorted(columns)) or 'none'})."
        )
    known = [name for name in COLUMNS if columns.get(name) is not None]
    return [_valid({"prompt": text_of(prompts[at]), **{name: columns[name][at] for name in known}}) for at in range(n)]


@lru_cache(maxsize=1024)
def _read(text: str) -> RefinerRecord:
    return _checked(lambda: CheckedRecord.model_validate_json(text))


def _valid(row: Mapping[str, Any]) -> RefinerRecord:
    """Return a record from the cells of a table, whose empty ones say nothing."""
    return _checked(lambda: CheckedRecord.model_validate({key: cell for key, cell in row.items() if cell is not None}))


def _checked(read: Callable[[], RefinerRecord]) -> RefinerRecord:
    try:
        return read()
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise BadConfig(
            f"a training row holds no record that can be graded: {field}: {first['msg']}, seen"
            f" {str(first['input'])[:80]!r}; mend the row, docs/refiner.md has the columns."
        ) from None


def judging_of(settings: RefinerSettings) -> Judging:
    """Return who judges; BadConfig for an address that may not be asked, or a key that is not set."""
    if settings.judge == HEURISTIC:
        return Judging(judge_of("heuristic"), settings.judge_deadline_seconds)
    same = ("model", "allow_remote", "mode", "concurrency", "timeout_seconds", "retries", "votes")
    server = HttpSettings(
        settings.judge,
        key_variable=settings.judge_key_env,
        seed=settings.seed,
        cache=Path(settings.judge_cache).expanduser() if settings.judge_cache else None,
        **{name: getattr(settings, f"judge_{name}") for name in same},
    )
    return Judging(judge_of("http", server), settings.judge_deadline_seconds)


def judge_facts(settings: RefinerSettings, judging: Judging) -> dict[str, str]:
    """Return what run.json keeps of the judge: who it is, how it is asked, how it orders known pairs.

    Never an address or a key. BadConfig for a judge that is not fit to reward anything.
    """
    is_http = isinstance(judging.judge, HttpJudge)
    probed = fit_judge(judging.judge, judging.deadline_seconds)  # first: from then on the label names the model
    return {
        "judged by": judging.judge.label,
        "judge_mode": settings.judge_mode if is_http else "no language model",
        "judge_votes": str(settings.judge_votes),
        "judge_prompt": VERSION if is_http else "none",
        "judge_probe": probed,
    }
