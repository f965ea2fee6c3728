"""Records that are held out while a refiner is trained: what is seen of them, and when that ends the run."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import TrainerCallback

from evals.errors import BadConfig
from evals.refine.bank import refiner_bank
from evals.schema.refiner import RewardConfig
from tests.training import killing
from tests.training.refiners import command, with_chain
from tests.training.runs import record
from training import refiner
from training.config import RefinerSettings, read_request
from training.data.refiner import refiner_data
from training.launch.accelerate import Launch
from training.launch.plan import plan_of
from training.refine.watch import SCORE, WELLFORMED, BestWeights, HeldOut, Pace, best_of
from training.run.folder import RunFolder


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the tiny base and an SFT stage on it."""
    return with_chain(tmp_path_factory.mktemp("plateau"))


def test_training_is_over_when_so_many_looks_saw_nothing_better():
    table = (
        (0, [3.0, 2.0, 1.0], False),
        (1, [3.0], False),
        (1, [3.0, 3.0], True),
        (2, [3.0, 2.0], False),
        (2, [3.0, 2.0, 3.0], True),
        (2, [3.0, 2.0, 3.1], False),
        (2, [1.0, 3.0, 2.0], False),
        (2, [1.0, 3.0, 2.0, 2.5], True),
    )
    assert [(patience, scores, Pace(1, patience).is_over(scores)) for patience, scores, _ in table] == list(table)


def test_references_score_high_on_held_out_records_and_text_without_the_grammar_nothing():
    records = refiner_bank().train[:12]
    held = HeldOut(records, RewardConfig(), 96)
    best = held.graded([str(each.reference) for each in records])
    worst = held.graded(["I would rather not say."] * len(records))
    assert best[SCORE] > 7 and best[WELLFORMED] == 1.0
    assert worst == {SCORE: 0.0, WELLFORMED: 0.0}


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
    assert kept["result"]["kept_weights"].startswith("of step 1, which has the best held-out score")
    assert (run.path / "adapter").is_dir() and (run.path / "chain.json").is_file()


class Worse(TrainerCallback):
    """Ruins the policy after a step, so that every look from then on is worse."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_end(self, args, state, control, model=None, **others):
        if state.global_step == self.step:
            with torch.no_grad():
                for name, weight in model.named_parameters():
                    if weight.requires_grad and "lora_B" in name:
                        weight.copy_(torch.full_like(weight, 3.0))


def test_a_run_that_may_end_early_keeps_its_best_weights_unless_told_otherwise(start: Path):
    for patience, keep, is_best in ((0, "auto", False), (3, "auto", True), (0, "best", True), (3, "last", False)):
        words = command(start, "keeps", held_out_patience=patience, held_out_keep=keep)
        settings = read_request(RefinerSettings, words).settings
        assert isinstance(settings, RefinerSettings) and settings.keeps_best is is_best


@pytest.mark.parametrize(("keep", "largest"), [("best", 0.0), pytest.param("last", 3.0, marks=pytest.mark.slow)])
def test_a_run_ends_with_the_weights_of_its_best_look_or_of_its_last_step(
    start: Path, monkeypatch: pytest.MonkeyPatch, keep: str, largest: float
):
    name = f"keep-{keep}"
    words = command(start, name, held_out_steps=1, held_out_share=0.25, held_out_keep=keep)
    words += ["--max_steps", "3", "--learning_rate", "1e-9"]
    watch = refiner.PlateauWatch

    def ruined(trainer, *others):
        trainer.add_callback(Worse(2))
        return watch(trainer, *others)

    monkeypatch.setattr(refiner, "PlateauWatch", ruined)
    monkeypatch.setattr(HeldOut, "graded", graded_by_turns(3.0, 4.0, 1.0, 1.0))
    refiner.train(read_request(RefinerSettings, words))
    kept, run = record(start / name), RunFolder(start / name)
    assert kept["result"]["kept_weights"].startswith(
        "of step 1, which has the best" if keep == "best" else "of the last step, 3"
    )
    weights = load_file(run.path / "adapter" / "adapter_model.safetensors")
    found = max(float(each.abs().max()) for name, each in weights.items() if "lora_B" in name)
    assert found == pytest.approx(largest, abs=0.01)
    assert not list(run.path.glob("best-*"))


@pytest.mark.slow
def test_two_processes_of_which_one_is_killed_at_the_end_go_on_to_the_best_weights(start: Path):
    values = {"held_out_steps": 1, "held_out_share": 0.25, "held_out_keep": "best"}
    values |= {"learning_rate": 0.05, "max_steps": 4, "save_steps": 3, "batch": 4}
    words = command(start, "pair", **values)
    settings, whole, parts = Path(words[1]), start / "whole", start / "parts"
    assert killing.run_two("refiner", settings, "--output", str(whole)) == [0, 0]
    killing.kill_two_while_leaving("refiner", settings, "--output", str(parts))
    assert list(parts.glob("best-*")) and record(parts)["status"] == "running"
    assert killing.run_two("refiner", settings, "--output", str(parts)) == [0, 0]
    kept = record(parts)["result"]["kept_weights"]
    assert kept == record(whole)["result"]["kept_weights"]
    assert kept.startswith("of step") and "the last" not in kept
    assert killing.differing(whole, parts) == []
    assert not list(parts.glob("best-*"))


def graded_by_turns(*scores: float):
    """Return a grader that gives these scores, one a look."""
    left = iter(scores)
    return lambda held, texts: {SCORE: next(left), WELLFORMED: 1.0}


def test_weights_are_on_file_for_each_checkpoint_that_may_be_gone_on_from(tmp_path: Path):
    model, best = torch.nn.Linear(2, 2), BestWeights(tmp_path)
    best.keep(model, 0, [(0, 1.0)])
    (tmp_path / "checkpoint-2").mkdir()
    looks = [(0, 1.0), (2, 0.5), (4, 2.0)]
    first = model.weight.clone()
    with torch.no_grad():
        model.weight.zero_()
    best.keep(model, 4, looks)
    assert {each.name for each in tmp_path.glob("best-*")} == {"best-0.safetensors", "best-4.safetensors"}
    assert best.give_back(model, 0) and torch.equal(model.weight, first)
    assert not best.give_back(model, 2)
    (tmp_path / "checkpoint-2").rename(tmp_path / "checkpoint-6")
    best.keep(model, 8, [*looks, (8, 3.0)])
    assert {each.name for each in tmp_path.glob("best-*")} == {"best-4.safetensors", "best-8.safetensors"}


def test_the_best_look_is_the_first_of_equals_and_the_start_only_if_nothing_is_as_good():
    table = (
        ([(0, 1.0)], 0),
        ([(0, 1.0), (5, 1.0), (10, 1.0)], 5),
        ([(0, 2.0), (5, 1.0), (10, 1.5)], 0),
        ([(0, 0.0), (5, 1.0), (10, 2.0), (15, 2.0)], 10),
    )
    assert [(looks, best_of(looks)[0]) for looks, _ in table] == list(table)


def test_held_out_records_are_no_training_rows_in_the_plan_either(start: Path):
    words = command(start, "plan", held_out_steps=5, held_out_share=0.25)
    assert len(plan_of("refiner", words, is_dry=True).data.trl_rows()) == 3


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
