from collections.abc import Sequence
from pathlib import Path

import pytest

from evals.errors import BadConfig
from evals.model import Sampling, ScriptedModel
from evals.questions import DATASETS, SYSTEM_PROMPT, answer_form
from evals.questions.task import Questions
from evals.run import RunSettings, baseline_rows, run_task
from evals.schema import Completion, Message
from evals.verifiers import Read, verify
from tests.evals.reports import few, scripted

EXAMPLES = few(7)
STAGES = ("base", "sft")
Q = Questions()


class Interrupted(ScriptedModel):
    """A model that stops after so many batches, and counts them."""

    def __init__(self, model: ScriptedModel, batches: int) -> None:
        self.stages = model.stages
        self.model = model
        self.left = batches
        self.asked = 0

    def generate(
        self, prompts: Sequence[Sequence[Message]], stages: Sequence[str], sampling: Sampling
    ) -> list[list[Completion]]:
        if self.left == 0:
            raise KeyboardInterrupt
        self.left -= 1
        self.asked += len(prompts)
        return self.model.generate(prompts, stages, sampling)


def settings(partial: Path | None = None, batch_size: int = 2) -> RunSettings:
    return RunSettings(batch_size=batch_size, partial=partial)


def test_every_stage_answers_every_question_and_rows_hold_everything() -> None:
    rows = run_task(Q, scripted(EXAMPLES), EXAMPLES, STAGES, settings())
    assert [(row.example.id, row.stage) for row in rows] == [
        (example.id, stage) for example in EXAMPLES for stage in STAGES
    ]
    for row in rows:
        assert [message.role for message in row.prompt] == ["system", "user"]
        form = answer_form(row.example.prompt, row.example.ground_truth)
        assert row.prompt[0].content == SYSTEM_PROMPT.replace("{answer}", form)
        assert row.prompt[1].content == row.example.prompt
        assert row.verdict == verify(row.example, row.completion)


def test_progress_ends_at_one() -> None:
    seen: list[float] = []
    run_task(Q, scripted(EXAMPLES), EXAMPLES, STAGES, settings(), lambda share, words: seen.append(share))
    assert seen == sorted(seen)
    assert seen[-1] == 1.0


def test_a_stopped_run_goes_on_where_it_was(tmp_path: Path) -> None:
    partial = tmp_path / "report.json.partial.jsonl"
    whole = run_task(Q, scripted(EXAMPLES), EXAMPLES, STAGES, settings())
    with pytest.raises(KeyboardInterrupt):
        stopping = Interrupted(scripted(EXAMPLES), 2)
        run_task(Q, stopping, EXAMPLES, STAGES, settings(partial))
    again = Interrupted(scripted(EXAMPLES), 99)
    assert run_task(Q, again, EXAMPLES, STAGES, settings(partial)) == whole
    assert again.asked == len(EXAMPLES) - 4


def test_a_line_that_was_cut_off_is_answered_again(tmp_path: Path) -> None:
    partial = tmp_path / "partial.jsonl"
    whole = run_task(Q, scripted(EXAMPLES), EXAMPLES, STAGES, settings(partial))
    partial.write_text(partial.read_text()[:-200])
    again = Interrupted(scripted(EXAMPLES), 99)
    assert run_task(Q, again, EXAMPLES, STAGES, settings(partial)) == whole
    assert again.asked == 1
    third = Interrupted(scripted(EXAMPLES), 0)
    assert run_task(Q, third, EXAMPLES, STAGES, settings(partial)) == whole


@pytest.mark.parametrize("change", ["questions", "sampling", "batch", "weights", "dtype", "prompt"])
def test_an_unfinished_run_of_something_else_is_not_continued(change: str, tmp_path: Path) -> None:
    partial = tmp_path / "partial.jsonl"
    run_task(Q, scripted(EXAMPLES), EXAMPLES, STAGES, settings(partial))
    examples = EXAMPLES[:-1] if change == "questions" else EXAMPLES
    other = RunSettings(
        sampling=Sampling(max_new_tokens=7) if change == "sampling" else Sampling(),
        batch_size=3 if change == "batch" else 2,
        stage_checksums={"base": "other"} if change == "weights" else None,
        dtype="float32" if change == "dtype" else None,
        partial=partial,
    )
    with pytest.raises(BadConfig, match="delete"):
        run_task(Questions((), "Say.") if change == "prompt" else Q, scripted(EXAMPLES), examples, STAGES, other)


def test_an_unknown_stage_is_refused_with_the_known_ones() -> None:
    with pytest.raises(BadConfig, match="dpo; this chain has base, sft"):
        run_task(Q, scripted(EXAMPLES), EXAMPLES, ("dpo",), settings())


def test_two_questions_with_one_id_are_refused() -> None:
    twice = (EXAMPLES[0], EXAMPLES[0])
    with pytest.raises(BadConfig, match="same id"):
        run_task(Q, scripted(EXAMPLES), twice, STAGES, settings())


@pytest.mark.parametrize("read", ["auto", "answer", "text"])
def test_baselines_are_judged_like_a_model(read: Read) -> None:
    task = Questions(read=read)
    rows = baseline_rows(task, EXAMPLES, DATASETS["pathways-train"]())
    assert "most frequent in training, 60%" in {row.stage for row in rows}
    model = run_task(task, scripted(EXAMPLES), EXAMPLES, STAGES, RunSettings())
    for row in (*rows, *model):
        assert row.verdict == verify(row.example, row.completion, read=read)
        assert row.prompt[1].content == row.example.prompt
