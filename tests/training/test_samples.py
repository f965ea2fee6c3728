import shutil
from pathlib import Path

import pytest

from evals.errors import BadConfig, LabError
from evals.model import Sampling
from evals.questions import DATASETS, SYSTEM_PROMPT
from evals.questions.pairs import SampleOrigin, make_pairs
from tests.models import tiny_chain
from tests.training.runs import sampled_run
from training.data.preferences import read_preferences
from training.data.samples import Draws, chain_samples, run_samples
from training.models.chain import load_chain
from training.run.folder import RunFolder

EMBEDDED = Path(__file__).parents[2] / "training" / "embedded" / "grpo"
EXAMPLES = DATASETS["pathways-train"]()[:3]
ORIGIN = SampleOrigin(source="tiny", stage="sft")


def test_the_answers_of_a_run_come_with_their_question_and_step(tmp_path: Path):
    found = run_samples(RunFolder(sampled_run(tmp_path / "grpo")))
    assert found.unknown_questions == 0
    assert len(found.samples) > 100
    first = found.samples[0]
    assert (first.origin.source, first.origin.stage, first.origin.step) == ("grpo", "grpo", 1)
    assert first.prompt[-1].content == first.example.prompt
    assert {sample.example.split for sample in found.samples} == {"train"}


def test_pairs_from_a_run_are_rows_that_dpo_trains_on(tmp_path: Path):
    made = make_pairs(run_samples(RunFolder(sampled_run(tmp_path / "grpo"))).samples, 0.2, 2)
    file = tmp_path / "train.jsonl"
    file.write_text("".join(row.model_dump_json() + "\n" for row in made.rows), encoding="utf-8")
    read = read_preferences([str(tmp_path)], SYSTEM_PROMPT)
    assert len(read.items) == len(made.rows)
    assert read.facts == {}


def test_a_folder_without_sampled_answers_says_where_to_find_some(tmp_path: Path):
    with pytest.raises(LabError, match="run folder of a GRPO stage"):
        run_samples(RunFolder(tmp_path))


def test_a_damaged_table_is_named(tmp_path: Path):
    shutil.copy(EMBEDDED / "run.json", tmp_path)
    (tmp_path / "completions").mkdir()
    (tmp_path / "completions" / "completions_00001.parquet").write_bytes(b"PAR1 cut off")
    with pytest.raises(LabError, match=r"completions_00001.parquet is no table"):
        run_samples(RunFolder(tmp_path))


def test_a_chain_answers_each_question_as_often_as_asked_each_time_with_its_own_seed(tmp_path: Path):
    chain = load_chain(tiny_chain(tmp_path), "float32", base=str(tmp_path / "model"))
    draws = Draws("sft", 3, Sampling(max_new_tokens=6, temperature=1.0, seed=5))
    found = chain_samples(chain, ORIGIN, EXAMPLES, "Be brief.", draws)
    again = chain_samples(chain, ORIGIN, EXAMPLES, "Be brief.", draws)
    assert [sample.text for sample in found] == [sample.text for sample in again]
    assert len(found) == 9
    assert [sample.origin.seed for sample in found] == [5, 5, 5, 6, 6, 6, 7, 7, 7]
    assert len({sample.text for sample in found}) > 3
    assert all(sample.was_cut for sample in found if len(sample.text) > 30)


@pytest.mark.parametrize(("count", "temperature"), [(1, 1.0), (4, 0.0)])
def test_answers_that_cannot_differ_are_not_drawn(count: int, temperature: float, tmp_path: Path):
    draws = Draws("sft", count, Sampling(temperature=temperature))
    with pytest.raises(BadConfig, match="no two different ones"):
        chain_samples(None, ORIGIN, EXAMPLES, "Be brief.", draws)  # ty: ignore
