"""Records that are held out while a refiner is trained: what is seen of them, and when that ends the run."""

from pathlib import Path

import pytest
from transformers import TrainerState

from evals.errors import BadConfig
from evals.refiner.bank import refiner_bank
from evals.schema.refining import RewardConfig
from tests.training.refiners import command, with_chain
from tests.training.runs import one_thread, record
from training import refiner
from training.launch import Launch
from training.plan import plan_of
from training.refining.data import refiner_data
from training.refining.plateau import SCORE, HeldOut, Pace, seen
from training.refining.settings import RefinerSettings
from training.request import read_request
from training.runs import RunFolder

__all__ = ["one_thread"]


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the tiny base and an SFT stage on it."""
    return with_chain(tmp_path_factory.mktemp("plateau"))


@pytest.mark.parametrize(
    ("patience", "scores", "is_over"),
    [
        (0, [3.0, 2.0, 1.0], False),
        (1, [3.0], False),
        (1, [3.0, 3.0], True),
        (2, [3.0, 2.0], False),
        (2, [3.0, 2.0, 3.0], True),
        (2, [3.0, 2.0, 3.1], False),
        (2, [1.0, 3.0, 2.0], False),
        (2, [1.0, 3.0, 2.0, 2.5], True),
    ],
)
def test_training_is_over_when_so_many_looks_saw_nothing_better(patience, scores, is_over):
    assert Pace(1, patience).is_over(scores) is is_over


def test_references_score_high_on_held_out_records_and_text_without_the_grammar_nothing():
    records = refiner_bank().train[:12]
    held = HeldOut(records, RewardConfig(), 96)
    best = held.graded([str(each.reference) for each in records])
    worst = held.graded(["I would rather not say."] * len(records))
    assert best.score > 7 and best.wellformed == 1.0
    assert (worst.score, worst.wellformed) == (0.0, 0.0)


def test_a_run_that_has_stopped_learning_is_finished_early_and_says_so(start: Path):
    values = {"held_out_steps": 1, "held_out_share": 0.25, "held_out_patience": 2}
    words = command(start, "still", **values, learning_rate=1e-12, max_steps=9, save_steps=100)
    refiner.train(read_request(RefinerSettings, words))
    kept, run = record(start / "still"), RunFolder(start / "still")
    assert (kept["status"], kept["result"]["steps"]) == ("finished", 2)
    assert "have not become better in 2 looks" in kept["result"]["ended_early"]
    assert kept["data"]["left out, held out to see when to stop"] == 1
    assert kept["data"]["rows"] == 3
    looks = [row for row in run.metric_rows() if SCORE in row]
    assert [row["step"] for row in looks] == [0, 1, 2]
    assert (run.path / "adapter").is_dir() and (run.path / "chain.json").is_file()


def test_looks_are_remembered_from_the_log_of_a_checkpoint():
    state = TrainerState(
        log_history=[{"step": 0, SCORE: 1.0}, {"loss": 1}, {"step": 5, SCORE: 2.0}]
    )
    assert seen(state) == [(0, 1.0), (5, 2.0)]


def test_held_out_records_are_no_training_rows_in_the_plan_either(start: Path):
    words = command(start, "plan", held_out_steps=5, held_out_share=0.25)
    assert len(plan_of("refiner", words, is_dry=True).rows()) == 3


def test_a_profile_that_divides_weights_is_refused_before_anything_is_loaded(start: Path):
    words = command(start, "divided", held_out_steps=5)
    settings = read_request(RefinerSettings, words).settings
    with pytest.raises(BadConfig, match="set held_out_steps to 0"):
        Launch(profile="zero3").check(settings)


def test_groups_stay_whole_and_one_group_cannot_be_held_out():
    data, held = refiner_data(["refiner-train"]).parted(0.2, 0)
    groups = [{each.group for each in part.records} for part in (data, held)]
    assert not groups[0] & groups[1] and all(groups)
    with pytest.raises(BadConfig, match="cannot be split"):
        held.without([each.id for each in held.records[1:]], "gone").parted(0.2, 0)
