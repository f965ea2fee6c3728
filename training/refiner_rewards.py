"""The refiner's reward in the shape that TRL's GRPO trainer calls: one async function, None = no reward.

Each row needs a column `record`, a whole record as JSON (`training.data.refine.refiner_grpo_row`), or the
record's own columns: id, prompt, tool_output, positive_rubrics, negative_rubrics, answerable.

One reward, not one per part: TRL counts a missing cell of one function as 0 beside another's score, so
a judge that fails would cost an answer points. The parts go to the log instead.
"""

from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import ValidationError

from evals.errors import BadConfig, first_problem
from evals.refine.cases import CheckedRecord
from evals.refine.grammar import WORD
from evals.refine.judge import Judge, Verdicts, support_by_words
from evals.refine.score import AnswerFigures, PreparedAnswer, copied_share, final_figures, prepare
from evals.schema.refiner import RefinerRecord, RewardConfig
from training.judge.client import gather_until
from training.judge.judge import HttpJudge, StopRule, fit_judge, judge_of, late
from training.judge.prompts import VERSION, HttpSettings
from training.rewards import Answer, means, text_of

if TYPE_CHECKING:
    from training.refiner import RefinerSettings

LogMetric = Callable[[str, float], None]
LogExtra = Callable[[str, list[object]], None]
COLUMNS = tuple(name for name in RefinerRecord.model_fields if name != "prompt")


def refiner_figures(
    prepared: PreparedAnswer, verdicts: Verdicts | None, settled: AnswerFigures
) -> dict[str, float | None]:
    """Return the figures of one answer by the name they are logged under."""
    reading = prepared.reading
    ids = [name for claim in reading.claims for name in claim.ids]
    texts = [part.text for part in (*reading.claims, *reading.uncited)]
    canary = None if verdicts is None else verdicts.canary
    gaps = [  # how much more support the judge sees for a claim than a comparison of words, -1..1
        got - support_by_words(claim.text, [prepared.evidence[name] for name in ids])
        for claim, ids, got in zip(reading.claims, prepared.cited, verdicts.support if verdicts else (), strict=False)
        if ids and got is not None
    ]
    return {
        "answer/words": float(sum(len(WORD.findall(text)) for text in texts)),
        "answer/claims": float(len(reading.claims)),
        "answer/ids_per_claim": len(ids) / len(reading.claims) if reading.claims else None,
        "answer/unknown_ids": sum(name not in prepared.evidence for name in ids) / len(ids) if ids else None,
        "answer/copied": copied_share(texts, prepared.evidence),
        "score/format": prepared.bonus,
        "score/rubric": settled.rubric,
        "score/citation_f1": settled.citation.f1,
        "judge/over_words": fmean(gaps) if gaps else None,
        "judge/canary": None if canary is None else float(canary > 0),
    }


class _Row(NamedTuple):
    """One answer with all that was made of it; `verdicts` None where nobody was asked."""

    prepared: PreparedAnswer
    verdicts: Verdicts | None
    settled: AnswerFigures


class RefinerReward:
    """Callable reward in 0..`verification_reward` (convex); None for a row that lacks a verdict.

    A class, not a closure, so that worker processes can unpickle it; connections are made inside the
    loop that calls it. Raises TrainingStopped once the judge fails too often to learn from.
    """

    __name__ = "refiner"

    def __init__(
        self, config: RewardConfig, judge: Judge, stop: StopRule | None = None, deadline_seconds: float = 600.0
    ) -> None:
        self.config, self.judge, self.deadline_seconds = config, judge, deadline_seconds
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
        """Return one reward per completion, judged only where it matters; BadConfig for rows without a record."""
        records = records_of(columns, prompts, len(completions))
        rows = await self._rows(records, completions)
        asked = [(row, row.verdicts) for row in rows if row.verdicts is not None]
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
        if isinstance(self.judge, HttpJudge):
            await self.judge.client.close()

    async def _rows(self, records: Sequence[RefinerRecord], completions: Sequence[Answer]) -> list[_Row]:
        """Return the answers graded, each read while others wait for their judge; all ends at the deadline."""
        cases: list[PreparedAnswer] = []

        def work() -> Iterator[Coroutine[Any, Any, Verdicts]]:
            for record, answer in zip(records, completions, strict=True):
                cases.append(prepare(record, text_of(answer), self.config))
                if cases[-1].settled is None:
                    yield self.judge.judge(cases[-1].inquiry())

        found, seconds = iter(await gather_until(work(), self.deadline_seconds)), self.deadline_seconds
        given = [None if case.settled is not None else next(found) or late(case.inquiry(), seconds) for case in cases]
        return [_Row(case, each, final_figures(case, each)) for case, each in zip(cases, given, strict=True)]

    def _figures(self, rows: Sequence[_Row], asked: int, missing: int) -> dict[str, float]:
        """Return means over the answers, and what happened on the line to the judge."""
        found = means(refiner_figures(row.prepared, row.verdicts, row.settled) for row in rows)
        found["judge/asked"] = asked / len(rows)
        found["judge/none_rate"] = missing / asked if asked else 0.0
        if isinstance(self.judge, HttpJudge):
            counts = self.judge.client.take_counts()
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
            " there is nothing to grade answers by; write rows as training.data.refine.refiner_grpo_row does"
            f" (columns found: {', '.join(sorted(columns)) or 'none'})."
        )
    known = [name for name in COLUMNS if columns.get(name) is not None]
    found = []
    for at in range(n):  # an empty cell of a table says nothing
        cells = {name: columns[name][at] for name in known if columns[name][at] is not None}
        row = {"prompt": text_of(prompts[at]), **cells}
        found.append(_record_from(lambda row=row: CheckedRecord.model_validate(row)))
    return found


@lru_cache(maxsize=1024)
def _read(text: str) -> RefinerRecord:
    return _record_from(lambda: CheckedRecord.model_validate_json(text))


def _record_from(read: Callable[[], RefinerRecord]) -> RefinerRecord:
    try:
        return read()
    except ValidationError as error:
        field, problem, seen = first_problem(error)
        raise BadConfig(
            f"a training row holds no record that can be graded: {field}: {problem}, seen"
            f" {str(seen)[:80]!r}; correct the row, docs/refiner.md has the columns."
        ) from None


def judge_for(settings: "RefinerSettings") -> Judge:
    """Return who judges; BadConfig for an address that may not be asked, or a key that is not set."""
    same = ("model", "allow_remote", "mode", "concurrency", "timeout_seconds", "retries")
    return judge_of(
        HttpSettings(
            settings.judge,
            key_variable=settings.judge_key_env,
            seed=settings.seed,
            cache=Path(settings.judge_cache).expanduser() if settings.judge_cache else None,
            **{name: getattr(settings, f"judge_{name}") for name in same},
        )
    )


def judge_facts(settings: "RefinerSettings", judge: Judge) -> dict[str, str]:
    """Return what run.json keeps of the judge, never an address or a key; BadConfig for one that is not fit."""
    is_http = isinstance(judge, HttpJudge)
    probed = fit_judge(judge, settings.judge_deadline_seconds)  # first: from then on the label names the model
    return {
        "judged by": judge.label,
        "judge_mode": settings.judge_mode if is_http else "no language model",
        "judge_prompt": VERSION if is_http else "none",
        "judge_probe": probed,
    }
