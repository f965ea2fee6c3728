"""The refiner's reward in the shape that TRL's GRPO trainer calls: one async function, None = no reward.

Each row needs a column `record`, a whole record as JSON (`training.data.refiner.grpo_row`), or the
record's own columns: id, prompt, tool_output, positive_rubrics, negative_rubrics, answerable.

One reward, not one per part: TRL counts a missing cell of one function as 0 beside another's score, so
a judge that fails would cost an answer points. The parts go to the log instead.
"""

from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from statistics import fmean
from typing import Any

from pydantic import ValidationError

from evals.errors import BadConfig
from evals.refine.judge import Judge, Verdicts
from evals.refine.records import CheckedRecord
from evals.refine.rubric import items_of
from evals.refine.score import Prepared, Settled, prepare, settle
from evals.schema.refiner import RefinerRecord, RewardConfig
from training.config import HEURISTIC, RefinerSettings
from training.judge.client import HttpJudge
from training.judge.judge import ProbeResult, StopRule, by_deadline, judge_of, late, probe
from training.judge.questions import VERSION, HttpSettings
from training.refine.items import (
    Figures,
    ItemBook,
    Look,
    figures_of,
    gap,
    group_spread,
    is_read_twice,
    means,
    noisy_items,
    without,
)
from training.rewards import Answer, text_of

LogMetric = Callable[[str, float], None]
LogExtra = Callable[[str, list[object]], None]
COLUMNS = tuple(name for name in RefinerRecord.model_fields if name != "prompt")


@dataclass(frozen=True)
class Judging:
    """Who judges and for how long: one judge that rewards, and perhaps one that looks on at a share.

    Items whose votes lie further apart than `noise_limit`, a share of the scale, are left out; 1 = none.
    """

    judge: Judge
    deadline_seconds: float = 600.0
    noise_limit: float = 1.0
    second: Judge | None = None
    second_share: float = 0.05


@dataclass(frozen=True)
class _Row:
    """One answer with all that was made of it; `figures` only where they are logged."""

    prepared: Prepared
    verdicts: Verdicts | None
    settled: Settled
    figures: Figures


def _row(prepared: Prepared, verdicts: Verdicts | None, *, has_log: bool) -> _Row:
    """Return an answer graded by its verdicts."""
    settled = settle(prepared, verdicts)
    figures = figures_of(prepared, verdicts, settled) if has_log else {}
    return _Row(prepared, verdicts, settled, figures)


class RefinerReward:
    """Callable reward in 0..`verification_reward` (convex); None for a row that lacks a verdict.

    A class, not a closure, so that worker processes can unpickle it; connections are made inside the
    loop that calls it. Raises TrainingStopped once the judge fails too often to learn from.
    """

    __name__ = "refiner"

    def __init__(
        self,
        config: RewardConfig,
        judging: Judging,
        book: ItemBook | None = None,
        stop: StopRule | None = None,
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
        rows, looks = await self._rows(records, completions, has_log=log_metric is not None)
        self._note(rows)
        asked = [row for row in rows if row.verdicts is not None]
        missing = sum(row.settled.reward is None for row in asked)
        if log_metric is not None:
            self._log(rows, log_metric, missing, gap(looks, self.config.verification_reward))
        if log_extra is not None:
            _log_parts(rows, log_extra)
        problems = {problem for row in asked if row.verdicts for problem in row.verdicts.problems}
        self.stop.saw(missing, len(asked), tuple(sorted(problems)))
        return [row.settled.reward for row in rows]

    async def close(self) -> None:
        """Let go of the judges' connections, from inside the loop that made them."""
        for judge in (self.judging.judge, self.judging.second):
            if isinstance(judge, HttpJudge):
                await judge.close()

    def _prepared(self, record: RefinerRecord, text: str) -> Prepared:
        items = self.book.asked(record.id, items_of(record, self.config))
        return prepare(record, text, self.config, items or None)

    async def _rows(
        self, records: Sequence[RefinerRecord], completions: Sequence[Answer], *, has_log: bool
    ) -> tuple[list[_Row], list[Look]]:
        """Return the answers graded, and what a second judge, asked at the same time, says of some.

        Each is read and graded while others wait for their judge. All ends at the deadline: what the
        second judge has not said by then costs no answer its reward.
        """
        cases: list[Prepared] = []
        done: dict[int, _Row] = {}
        seen: dict[int, Verdicts] = {}
        first, second = self.judging.judge, self.judging.second if has_log else None

        async def graded(place: int, case: Prepared) -> None:
            verdicts = None if case.settled is not None else await first.judge(case.inquiry())
            done[place] = _row(case, verdicts, has_log=has_log)

        async def looked_at(place: int, case: Prepared, judge: Judge) -> None:
            seen[place] = await judge.judge(case.inquiry())

        def work() -> Iterator[Coroutine[Any, Any, None]]:
            for place, (record, answer) in enumerate(zip(records, completions, strict=True)):
                case = self._prepared(record, text_of(answer))
                cases.append(case)
                yield graded(place, case)
                if second and not case.settled and is_read_twice(case, self.judging.second_share):
                    yield looked_at(place, case, second)

        seconds = self.judging.deadline_seconds
        await by_deadline(work(), seconds)
        self._write_caches()
        rows = [
            done.get(place) or _row(case, late(case.inquiry(), seconds), has_log=has_log)
            for place, case in enumerate(cases)
        ]
        rows = self._without_noise(rows, has_log=has_log)
        looks = [(rows[at].prepared, rows[at].settled, cases[at], seen[at]) for at in sorted(seen)]
        return rows, looks

    def _write_caches(self) -> None:
        for judge in (self.judging.judge, self.judging.second):
            if isinstance(judge, HttpJudge):
                judge.write_cache()

    def _without_noise(self, rows: list[_Row], *, has_log: bool) -> list[_Row]:
        """Return the answers graded by the items on which the judge agrees with itself."""
        limit = self.judging.noise_limit
        if limit >= 1.0:
            return rows
        judged = [(row.prepared, row.verdicts) for row in rows if row.verdicts is not None]
        noisy, graded = noisy_items(judged, limit), []
        for row in rows:
            if row.verdicts is not None:
                keys = noisy[row.prepared.record.id]
                seen = {
                    "judge/apart": row.figures.get("judge/apart"),
                    "items/left_out": len(keys) / len(row.prepared.items),
                }
                if keys:
                    row = _row(*without(row.prepared, row.verdicts, keys), has_log=has_log)
                row = replace(row, figures={**row.figures, **seen})
            graded.append(row)
        return graded

    def _note(self, rows: Sequence[_Row]) -> None:
        for row in rows:
            if row.verdicts is not None:
                prepared = row.prepared
                self.book.note(prepared.record.id, prepared.items, row.verdicts.raws)

    def _log(self, rows: Sequence[_Row], log: LogMetric, missing: int, apart: float | None) -> None:
        """Log means over the answers, and what happened on the line to the judge."""
        found = means(row.figures for row in rows)
        asked = sum(row.verdicts is not None for row in rows)
        found["judge/asked"] = asked / len(rows)
        found["judge/none_rate"] = missing / asked if asked else 0.0
        found["items/retired"] = float(self.book.retired)
        spread = group_spread(self.book.seen)
        if spread is not None:
            found["items/group_spread"] = spread / self.config.score_scale
        if apart is not None:
            found["judge/second_gap"] = apart
        judge = self.judging.judge
        if isinstance(judge, HttpJudge):
            counts = judge.take_counts()
            found["judge/retries"] = float(counts.retries)
            found["judge/loose"] = counts.loose / max(1, counts.calls)
            found["judge/cache_hit"] = counts.hits / max(1, counts.hits + counts.calls)
            if counts.seconds:
                found["judge/latency_s"] = fmean(counts.seconds)
        for name, mean in found.items():
            log(name, mean)


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
    try:
        return CheckedRecord.model_validate_json(text)
    except ValidationError as error:
        raise _refused(error) from None


def _valid(row: Mapping[str, Any]) -> RefinerRecord:
    """Return a record from the cells of a table, whose empty ones say nothing."""
    try:
        return CheckedRecord.model_validate({name: value for name, value in row.items() if value is not None})
    except ValidationError as error:
        raise _refused(error) from None


def _refused(error: ValidationError) -> BadConfig:
    first = error.errors()[0]
    field = ".".join(str(part) for part in first["loc"])
    return BadConfig(
        f"a training row holds no record that can be graded: {field}: {first['msg']}, seen"
        f" {str(first['input'])[:80]!r}; mend the row, docs/refiner.md has the columns."
    )


def _log_parts(rows: Sequence[_Row], log: LogExtra) -> None:
    """Put the parts of each reward into TRL's table of completions."""
    log("why", [row.settled.reason for row in rows])
    log("rubric", [row.settled.rubric for row in rows])
    log("citation_f1", [row.settled.citation.f1 for row in rows])
    log("format_bonus", [row.prepared.bonus for row in rows])
    log("claims", [len(row.prepared.reading.claims) for row in rows])


def judging_of(settings: RefinerSettings) -> Judging:
    """Return who judges; BadConfig for an address that may not be asked, or a key that is not set."""
    wants_second = settings.second_judge and settings.second_share
    return Judging(
        judge=_judge(settings, settings.judge, settings.judge_model),
        deadline_seconds=settings.judge_deadline_seconds,
        second=_judge(settings, settings.second_judge, "") if wants_second else None,
        second_share=settings.second_share,
        noise_limit=settings.noise_limit,
    )


def fit_judge(judging: Judging) -> ProbeResult:
    """Return how the judge orders known pairs; BadConfig if it is not fit to reward anything."""
    found = probe(judging.judge, judging.deadline_seconds)
    found.refuse_unless_fit(judging.judge.label)
    return found


def judge_facts(settings: RefinerSettings, judging: Judging, found: ProbeResult) -> dict[str, str]:
    """Return what run.json keeps of the judges: who they are, how they are asked, how they were tried.

    Never an address or a key.
    """
    is_http = isinstance(judging.judge, HttpJudge)
    return {
        "judged by": judging.judge.label,
        "judge_mode": settings.judge_mode if is_http else "no language model",
        "judge_votes": str(settings.judge_votes),
        "judge_prompt": VERSION if is_http else "none",
        "judge_probe": f"{found.right} of {found.total} known pairs ordered right",
        **({"also judged by": judging.second.label} if judging.second else {}),
    }


def _judge(settings: RefinerSettings, word: str, model: str) -> Judge:
    if word == HEURISTIC:
        return judge_of("heuristic")
    return judge_of(
        "http",
        HttpSettings(
            base_url=word,
            model=model,
            key_variable=settings.judge_key_env,
            allow_remote=settings.judge_allow_remote,
            mode=settings.judge_mode,
            concurrency=settings.judge_concurrency,
            timeout_seconds=settings.judge_timeout_seconds,
            retries=settings.judge_retries,
            seed=settings.seed,
            votes=settings.judge_votes,
            cache=Path(settings.judge_cache).expanduser() if settings.judge_cache else None,
        ),
    )
