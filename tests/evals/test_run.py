"""Models asked every question of a task, stopped and gone on with; and old answers under today's verifiers."""

import math
from pathlib import Path

import pytest

from evals.confidence import more_confidences
from evals.errors import BadConfig
from evals.questions import DATASETS, SYSTEM_PROMPT, answer_form
from evals.questions.task import Questions
from evals.readers import Reading
from evals.report import instrument, summarise
from evals.run import Rescored, RunSettings, baseline_rows, rescore, run_task
from evals.schema import EvalReport, EvalRow, Verdict
from evals.schema.questions import Sampling, TokenScore
from evals.verifiers import Read, verify
from tests.evals.reports import ScriptedModel, few, scripted, small_report

EXAMPLES = few(7)
STAGES = ("base", "sft")
Q = Questions()


class Interrupted(ScriptedModel):
    """A model that stops after so many batches of a stage, and counts what it is asked."""

    def __init__(self, batches: int) -> None:
        self.model = scripted(EXAMPLES)
        self.stages = self.model.stages
        self.left, self.asked = batches, 0

    def generate(self, prompts, stages, sampling):
        if self.left == 0:
            raise KeyboardInterrupt
        self.left -= 1
        self.asked += len(prompts)
        return self.model.generate(prompts, stages, sampling)


def run(model: ScriptedModel | None = None, partial: Path | None = None, **others: object) -> tuple[EvalRow, ...]:
    settings = RunSettings(batch_size=2, partial=partial)
    return run_task(Q, model or scripted(EXAMPLES), EXAMPLES, STAGES, settings, **others)


def test_every_stage_answers_every_question_and_rows_hold_everything() -> None:
    seen: list[float] = []
    rows = run(progress=lambda share, words: seen.append(share))
    assert seen == sorted(seen) and seen[-1] == 1.0
    assert [(row.example.id, row.stage) for row in rows] == [(each.id, s) for each in EXAMPLES for s in STAGES]
    for row in rows:
        form = answer_form(row.example.prompt, row.example.ground_truth)
        told = [("system", SYSTEM_PROMPT.replace("{answer}", form)), ("user", row.example.prompt)]
        assert [(message.role, message.content) for message in row.prompt] == told
        assert row.verdict == verify(row.example, row.completion)


def test_a_stopped_run_goes_on_where_it_was_and_a_line_that_was_cut_off_is_answered_again(tmp_path: Path) -> None:
    partial, whole = tmp_path / "report.json.partial.jsonl", run()
    with pytest.raises(KeyboardInterrupt):
        run(Interrupted(2 * len(STAGES)), partial)
    for asked in (len(EXAMPLES) - 4, 1):
        again = Interrupted(99)
        assert run(again, partial) == whole and again.asked == asked * len(STAGES)
        assert run(Interrupted(0), partial) == whole
        partial.write_text(partial.read_text()[:-200])


class Measured(Interrupted):
    """Tells likelihoods, too, and stops after so many batches of either."""

    def token_scores(self, prompts, stage, texts, sampling):
        self.generate(prompts, (stage,), sampling)
        return [[TokenScore(text, math.log(0.5), ((" up", math.log(0.5)),))] * 2 for text in texts]


def test_a_run_stopped_at_any_batch_draws_no_sample_and_measures_no_likelihood_twice(tmp_path: Path) -> None:
    how = RunSettings(batch_size=3, partial=tmp_path / "partial.jsonl")

    def rows_of(model: Measured) -> tuple[EvalRow, ...]:
        rows = run_task(Q, model, EXAMPLES, STAGES, how)
        return (*rows, *more_confidences(Q, model, rows, ("likelihood", "samples:2"), how, lambda *_: None))

    once, asked, stopped = Measured(99), 0, 0
    whole = rows_of(once)
    how.partial.unlink()
    found = ()
    while not found:
        model = Measured(2)  # a batch of both stages, as it is kept
        try:
            found = rows_of(model)
        except KeyboardInterrupt:
            stopped += 1
        asked += model.asked
    assert (found, asked) == (whole, once.asked) and stopped == 11


def test_an_unfinished_run_of_something_else_is_not_continued(tmp_path: Path) -> None:
    partial = tmp_path / "partial.jsonl"
    run(partial=partial)
    changes = [{"batch_size": 3}, {"sampling": Sampling(max_new_tokens=7)}, {"dtype": "float32"}]
    changes += [{"stage_checksums": {"base": "other"}}]
    others = [(Q, EXAMPLES, change) for change in changes]
    for task, examples, change in (*others, (Q, EXAMPLES[:-1], {}), (Questions("Say."), EXAMPLES, {})):
        settings = RunSettings(**{"batch_size": 2, "partial": partial} | change)
        with pytest.raises(BadConfig, match="delete"):
            run_task(task, scripted(EXAMPLES), examples, STAGES, settings)


def test_an_unknown_stage_is_refused_with_the_known_ones_and_two_questions_with_one_id() -> None:
    for examples, stages, told in (
        (EXAMPLES, ("dpo",), "dpo; this chain has base, sft"),
        (EXAMPLES[:1] * 2, STAGES, "same id"),
    ):
        with pytest.raises(BadConfig, match=told):
            run_task(Q, scripted(EXAMPLES), examples, stages, RunSettings())


@pytest.mark.parametrize("read", ["auto", "answer", "text"])
def test_baselines_are_judged_like_a_model(read: Read) -> None:
    task = Questions(read=read)
    rows = baseline_rows(task, EXAMPLES, DATASETS["pathways-train"]())
    assert "most frequent in training, 60%" in {row.stage for row in rows}
    for row in (*rows, *run_task(task, scripted(EXAMPLES), EXAMPLES, STAGES, RunSettings())):
        assert row.verdict == verify(row.example, row.completion, read=read)
        assert row.prompt[1].content == row.example.prompt


# ---- old answers under today's verifiers ------------------------------------------------------

TODAY = small_report(12, "always abstain, 60%", "empty answer")
SFT = tuple(row for row in TODAY.rows if row.stage in STAGES)
LONG_AGO = {"verifiers": "verifiers-0", "confidence": "confidence-0"}


def older(*rows: EvalRow, **changes: object) -> EvalReport:
    return TODAY.model_copy(update={"rows": rows, "versions": LONG_AGO, **changes})


@pytest.fixture(scope="module")
def wronged() -> EvalReport:
    """Return the report as verifiers would have left it that called every answer of sft wrong."""

    def judge(row: EvalRow) -> EvalRow:
        spoilt = row.verdict.model_dump() | {"verdict": "incorrect", "reward": 0.1}
        return row.model_copy(update={"verdict": Verdict.model_validate(spoilt)}) if row.stage == "sft" else row

    rows = tuple(map(judge, TODAY.rows))
    return older(*rows, summaries=summarise(rows, draws=10))


@pytest.fixture(scope="module")
def found(wronged: EvalReport) -> Rescored:
    return rescore(wronged)


def test_old_rows_get_todays_verdicts_and_summaries_and_keep_texts_and_origin(
    wronged: EvalReport, found: Rescored
) -> None:
    kept = {"rows": TODAY.rows, "summaries": TODAY.summaries, "versions": instrument()}
    kept |= {"earlier_versions": (LONG_AGO,), "settings": {**wronged.settings, "read": "auto"}}
    assert found.report == wronged.model_copy(update=kept)
    again = rescore(found.report)  # today's versions are not added twice
    assert (again.report.earlier_versions, again.changes) == ((LONG_AGO,), ())


def test_it_is_counted_and_named_which_verdicts_changed_and_metrics_stand_before_and_after(
    wronged: EvalReport, found: Rescored
) -> None:
    pairs = list(zip(wronged.rows, TODAY.rows, strict=True))
    differ = {(a.example.id, a.stage) for a, b in pairs if a.verdict.verdict != b.verdict.verdict}
    assert differ and {(each.example_id, each.stage) for each in found.changes if each.is_of_verdict} == differ
    changed = [each for each in found.counts if each.before != each.after]
    assert sum(each.n for each in changed) == len(differ) and {each.stage for each in changed} == {"sft"}
    assert sum(each.n for each in found.counts) == len(wronged.rows)
    shifts = {s.stage: s for s in found.shifts if s.metric == "accuracy"}
    assert shifts["sft"].before.value == 0.0 < shifts["sft"].after.value
    assert shifts["base"].before.value == shifts["base"].after.value


def test_a_change_of_score_alone_is_listed_but_is_no_change_of_verdict() -> None:
    row, *others = SFT
    cheap = row.model_copy(update={"verdict": row.verdict.model_copy(update={"scores": {"V1": 0.5}})})
    (change,) = rescore(older(cheap, *others)).changes
    assert (change.is_of_verdict, change.before, change.after) == (False, cheap.verdict, row.verdict)


def test_answers_without_an_answer_line_are_read_from_text_or_by_a_judge_and_say_so() -> None:
    said = [row.model_copy(update={"completion": "It is downregulated."}) for row in SFT if row.stage == "base"]
    old, n = older(*said), len(said)
    ways = {"auto": {"text": n}, "answer": {"none": n}, "text": {"text": n}, "judge": {"judge": n}}
    reports = {way: rescore(old, way, lambda tasks: [Reading("down") for _ in tasks]).report for way in ways}
    read_by = {way: [s.read_by for s in each.summaries if s.group == "all"] for way, each in reports.items()}
    assert read_by == {way: [counted] for way, counted in ways.items()}
    assert [each.settings["read"] for each in reports.values()] == list(ways)
    right = [row for row in reports["auto"].rows if row.verdict.verdict == "correct"]
    assert right and {row.verdict.read_by for row in right} == {"text"}
    with pytest.raises(BadConfig, match="none is named"):
        rescore(old, "judge")


def test_a_baseline_of_an_older_report_stays_a_baseline() -> None:
    name = "both directions, 60%"
    rows = tuple(row.model_copy(update={"stage": name}) for row in SFT if row.stage == "base")
    again = rescore(older(*rows, summaries=summarise(rows, draws=10, baselines=(name,)))).report
    assert {s.is_baseline for s in again.summaries} == {True}
