"""The refiner's stage: a run and what it leaves, a judge's server that fails, settings, rows."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pandas
import pytest
from transformers import TrainerCallback, TrainerState

from evals.errors import BadConfig, ChainMismatch
from evals.refine.bank import refiner_bank
from evals.refine.grammar import evidence_of
from evals.refine.prompt import SYSTEM_PROMPT
from evals.schema.refiner import RewardConfig
from tests.training.expert import expert, failing
from tests.training.judge_server import JudgeServer
from tests.training.refiners import GRPO, RECORDS, command, with_chain
from tests.training.runs import environment, figures, ready, record, train
from training import refiner
from training.config import GrpoSettings, RefinerSettings, read_request, read_settings
from training.data.refiner import are_records, check_refiner_chain, grpo_row, refiner_data, sft_row
from training.grpo import options
from training.launch.plan import plan_of
from training.models.chain import load_chain
from training.refine.reward import judging_of
from training.run.folder import RunFolder

ROOT = Path(__file__).parents[2]
CONFIGS = ROOT / "training" / "configs"
KEY = "sk-this-is-secret"
HERE, AWAY = "http://127.0.0.1:9/v1", "https://example.org/v1"


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the tiny base and an SFT stage on it."""
    return with_chain(tmp_path_factory.mktemp("refiner"))


def settings_of(start: Path, **values: object) -> RefinerSettings:
    settings = read_request(RefinerSettings, command(start, "settings", **values)).settings
    assert isinstance(settings, RefinerSettings)
    return settings


@pytest.mark.slow
def test_a_launched_run_learns_from_a_server_that_fails_at_every_third_request(start: Path):
    with JudgeServer(failing) as server:
        words = command(
            start,
            "launched",
            judge=server.url,
            judge_key_env="REFINER_TEST_KEY",
            judge_retries=0,
            max_none_fraction=1.0,
            batch=32,
            num_generations=8,
            max_steps=3,
        )
        line = [sys.executable, "-c", "from lab.cli import main; main()", "train", "refiner", *words]
        done = subprocess.run(
            [*line, "--json"],
            cwd=ROOT,
            env={**environment(), "REFINER_TEST_KEY": KEY},
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        assert len(server.requests) > 50
    run = start / "launched"
    kept = record(run)
    assert (kept["status"], kept["stage"]) == ("finished", "refiner")
    assert kept["data"]["judged by"] == "http (tiny-judge)"
    assert kept["data"]["judge_mode"] == "batched"
    assert kept["data"]["judge_probe"] == "8 of 8 known pairs ordered right"
    table = pandas.read_parquet(run / "completions")
    lost = table[table["why"].str.contains("verdict is missing")]
    graded = table[table["why"] == "graded by rubric and citations"]
    assert len(lost) and lost["refiner"].isna().all()
    assert len(graded) and (graded["refiner"] > 0).all()
    assert (table[table["why"].str.startswith("not well formed")]["refiner"] == 0).all()
    rows = [row for row in RunFolder(run).metric_rows() if "judge/none_rate" in row]
    assert max(row["judge/none_rate"] for row in rows) > 0
    assert {"judge/latency_s", "judge/asked", "items/retired", "answer/words"} <= set(rows[0])
    texts = [file.read_bytes() for file in run.rglob("*") if file.is_file()]
    assert not any(KEY.encode() in text for text in texts) and KEY not in done.stderr


def test_a_run_adds_one_stage_to_the_chain_and_starts_at_its_reference(start: Path):
    run = train("refiner", Path(command(start, "plain")[1]))
    chain = load_chain(run.path, "float32", base=str(start / "model"))
    assert chain.stages == ("base", "sft", "refiner")
    assert chain.manifest.system_prompt == SYSTEM_PROMPT
    assert figures(run, "kl")[0] == pytest.approx(0.0, abs=1e-5)
    data = record(run.path)["data"]
    assert "heuristic" in data["judged by"]
    assert (data["judge_mode"], data["judge_probe"]) == ("no language model", "8 of 8 known pairs ordered right")
    assert not (run.path / "adapter" / "ref").exists()


class StopAt(TrainerCallback):
    """Saves and stops after so many steps."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_end(self, args, state, control, **others):
        if state.global_step == self.step:
            control.should_save = control.should_training_stop = True


def test_retired_items_are_taken_up_from_a_checkpoint(start: Path):
    settings = settings_of(start, retire_after=1, batch=16, max_steps=4)
    file = Path(command(start, "settings", retire_after=1, batch=16, max_steps=4)[1])
    trainer = refiner.build_trainer(ready("refiner", file), judging_of(settings))
    trainer.add_callback(StopAt(2))
    trainer.train()
    callback = next(each for each in trainer.callback_handler.callbacks if isinstance(each, refiner.JudgeCallback))
    known = json.loads(json.dumps(callback._reward.book.state()))
    assert known["alike"]
    file = Path(settings.output) / "checkpoint-2" / "trainer_state.json"
    callback._reward.book.load({"alike": {}})
    callback.on_train_begin(trainer.args, TrainerState.load_from_json(str(file)), trainer.control)
    assert callback._reward.book.state() == known
    shutil.rmtree(settings.output)


def test_a_judge_that_orders_known_pairs_wrongly_is_refused_before_anything_is_written(start: Path):
    def blind(asked):
        return expert(asked) if asked.number % 2 else (500, b"")

    with JudgeServer(blind) as server, pytest.raises(BadConfig, match="of 8 known pairs"):
        train("refiner", Path(command(start, "blind", judge=server.url, judge_retries=0)[1]))
    assert not (start / "blind").exists()


def test_settings_that_make_no_sense_are_refused(start: Path):
    refused = (
        ({"judge": ""}, "takes heuristic"),
        ({"judge": "stub"}, "takes heuristic"),
        ({"chain": ""}, "chain is empty"),
        ({"verifier_weights": "phase4"}, "no setting"),
        ({"gate": "perhaps"}, "one of off, multiply, require"),
        ({"citation_weight": 1.5}, "from 0 to 1"),
        ({"judge_votes": 3}, "the same verdicts every time"),
        ({"judge": HERE, "judge_votes": 16}, "judge_votes"),
    )
    for values, says_what in refused:
        with pytest.raises(BadConfig, match=says_what):
            settings_of(start, **values)


def test_a_judge_elsewhere_needs_leave_in_the_plan_as_in_the_run(start, monkeypatch):
    for values in ({"judge": AWAY}, {"judge": f"{HERE}?key=1"}):
        with pytest.raises(BadConfig, match=r"not on this machine|holds a user"):
            judging_of(settings_of(start, **values))
        with pytest.raises(BadConfig, match=r"not on this machine|holds a user"):
            plan_of("refiner", command(start, "new", **values), is_dry=True)
    allowed = {"judge": AWAY, "judge_allow_remote": True}
    assert "example.org" not in judging_of(settings_of(start, **allowed)).judge.label
    assert not plan_of("refiner", command(start, "new", **allowed), is_dry=True).problems


def test_a_key_that_is_not_set_here_is_named_once(start, monkeypatch):
    values = {"judge": HERE, "judge_key_env": "ASSAY_NO_SUCH_KEY"}
    monkeypatch.delenv("ASSAY_NO_SUCH_KEY", raising=False)
    with pytest.raises(BadConfig, match="ASSAY_NO_SUCH_KEY"):
        judging_of(settings_of(start, **values))
    (problem,) = plan_of("refiner", command(start, "new", **values), is_dry=True).problems
    assert "ASSAY_NO_SUCH_KEY" in problem
    monkeypatch.setenv("ASSAY_NO_SUCH_KEY", "x")
    assert not plan_of("refiner", command(start, "new", **values), is_dry=True).problems


def test_new_runs_are_rewarded_by_the_defaults_and_published_ones_as_on_the_card():
    new = read_settings(RefinerSettings, CONFIGS / "refiner" / "grpo.yaml")
    published = read_settings(RefinerSettings, CONFIGS / "refiner" / "published.yaml")
    assert new.reward() == RewardConfig()
    assert published.reward() == RewardConfig.model_validate({"preset": "published"})
    own = {"verifier_weights", "v4", "aggregation"}
    assert set(GrpoSettings.model_fields) - set(RefinerSettings.model_fields) == own


def test_the_published_run_tells_trl_what_the_card_says():
    told = options(read_settings(RefinerSettings, CONFIGS / "refiner" / "published.yaml"))
    assert {
        "num_generations": 8,
        "generation_batch_size": 256,
        "beta": 0.001,
        "use_bias_correction_kl": False,
        "learning_rate": 5e-6,
        "lr_scheduler_type": "constant",
        "max_completion_length": 1024,
        "vllm_max_model_length": 7168,
        "temperature": 1.0,
        "loss_type": "dapo",
        "scale_rewards": "group",
        "mask_truncated_completions": False,
        "seed": 42,
        "bf16": True,
    }.items() <= told.items()


def test_a_dry_run_shows_the_rows_and_the_line_of_both_stages(start: Path):
    words = command(start, "plan")
    plan = plan_of("refiner", words, is_dry=True)
    assert plan.command.startswith("accelerate launch --num_processes 1 -m training.refiner")
    assert set(plan.data.trl_rows()["A"]) == {"prompt", "record"}
    values = json.loads(json.dumps({key: GRPO[key] for key in ("lora_r", "max_steps")}))
    file = start / "sft.yaml"
    file.write_text(
        f"base: {start / 'model'}\ndata: [{start / 'records.jsonl'}]\noutput: {start / 'new'}\n"
        f"lora_r: {values['lora_r']}\n"
    )
    grammar = plan_of("sft", ["--config", str(file)], is_dry=True)
    assert grammar.data.trl_rows()["A"]["completion"][0]["content"] == RECORDS[0]["reference"]


def test_records_kept_for_testing_are_never_trained_on(tmp_path: Path):
    with pytest.raises(BadConfig, match="kept for testing"):
        refiner_data(["refiner-test"])
    file = tmp_path / "mine.jsonl"
    one = refiner_bank().test[0]
    file.write_text(one.model_dump_json(exclude_defaults=True) + "\n")
    with pytest.raises(BadConfig, match=f"such as {one.id}"):
        refiner_data([str(file)])


def test_a_chain_with_other_instructions_is_refused():
    check_refiner_chain(None)
    check_refiner_chain(SYSTEM_PROMPT)
    with pytest.raises(ChainMismatch, match="another system prompt"):
        check_refiner_chain("You are helpful.")


def test_long_records_lose_passages_that_nothing_rests_on_and_it_is_told():
    data = refiner_data(["refiner-train"], is_for_sft=True)
    budget = 1000

    def size(row) -> int:
        return len(row["prompt"][1]["content"])

    shorter = data.shortened(budget, size)
    assert shorter.trimmed
    for record_id in shorter.trimmed:
        one = next(each for each in shorter.records if each.id == record_id)
        cited = set(evidence_of(one.tool_output))
        assert all(f"id={name}" not in (one.reference or "") for name in shorter.trimmed[record_id])
        assert cited
    assert shorter.record()["passages taken away"] == sum(map(len, shorter.trimmed.values()))


def test_every_training_row_can_be_graded_and_learned_from():
    data = refiner_data(["refiner-train"], is_for_sft=True)
    assert data.count == len(refiner_bank().train)
    one = data.records[0]
    assert sft_row(one)["prompt"] == grpo_row(one)["prompt"]
    assert are_records(["refiner-train"]) and not are_records(["kmp-train"])
