"""The refiner's stage: a run and what it leaves, a judge's server that fails, settings, rows, held-out records."""

from pathlib import Path

import pandas
import pytest
import torch

from evals.errors import BadConfig, ChainMismatch
from evals.refine.bank import refiner_bank
from evals.refine.grammar import evidence_of
from evals.refine.task import SYSTEM_PROMPT, Refine
from evals.report import measured
from evals.run import graded
from evals.schema.refiner import RewardConfig
from evals.task import StageAnswer
from tests.training import killing
from tests.training.judge_server import Asked, JudgeServer, Reply, says, well
from tests.training.refiners import RECORDS, command
from tests.training.runs import figures, record, train
from training.config import read_request, read_settings
from training.data.refine import are_records, check_refiner_chain, grpo_row, refiner_data, sft_row
from training.grpo import GrpoSettings
from training.launch.plan import plan_of
from training.models.chain import load_chain
from training.refiner import RefinerSettings
from training.refiner_rewards import judge_for
from training.run.watch import BestWeights

ROOT = Path(__file__).parents[2]
CONFIGS = ROOT / "training" / "configs"
KEY = "sk-this-is-secret"
HERE, AWAY = "http://127.0.0.1:9/v1", "https://example.org/v1"


def settings_of(start: Path, **values: object) -> RefinerSettings:
    settings = read_request(RefinerSettings, command(start, "settings", **values)).settings
    assert isinstance(settings, RefinerSettings)
    return settings


def failing(asked: Asked) -> Reply:
    """Fail at every third request, each time otherwise."""
    failures: list[Reply] = [(429, b""), (500, b""), None, says("I would rather not say."), says({"verdicts": []})]
    return well(asked) if asked.number % 3 else failures[asked.number // 3 % 5]


def test_a_run_learns_from_a_server_that_fails_at_every_third_request(start: Path, monkeypatch, capsys):
    monkeypatch.setenv("REFINER_TEST_KEY", KEY)
    monkeypatch.setattr("training.judge.judge.MAY_FAIL", 8)
    with JudgeServer(failing) as server:
        told = {"judge": server.url, "judge_key_env": "REFINER_TEST_KEY", "judge_retries": 0, "max_none_fraction": 1.0}
        run = train("refiner", Path(command(start, "failing", **told, batch=32, num_generations=8)[1]))
        assert len(server.requests) > 20
    kept = record(run.path)
    assert (kept["status"], kept["stage"]) == ("finished", "refiner")
    assert (kept["data"]["judged by"], kept["data"]["judge_mode"]) == ("http (tiny-judge)", "batched")
    assert kept["data"]["judge_probe"].endswith("of 8 known pairs ordered right")
    table = pandas.read_parquet(run.completions)
    lost = table[table["why"].str.contains("verdict is missing")]
    graded = table[table["why"] == "graded by rubric and citations"]
    assert len(lost) and lost["refiner"].isna().all()
    assert len(graded) and (graded["refiner"] > 0).all()
    assert (table[table["why"].str.startswith("not well formed")]["refiner"] == 0).all()
    assert max(figures(run, "judge/none_rate")) > 0
    assert {"judge/latency_s", "judge/asked", "answer/words"} <= set(run.metric_rows()[0])
    texts = [file.read_bytes() for file in run.path.rglob("*") if file.is_file()]
    assert not any(KEY.encode() in text for text in texts) and KEY not in str(capsys.readouterr())


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


def test_a_judge_that_orders_known_pairs_wrongly_is_refused_before_anything_is_written(start: Path):
    with JudgeServer() as server, pytest.raises(BadConfig, match="of 8 known pairs"):
        train("refiner", Path(command(start, "blind", judge=server.url, judge_retries=0)[1]))
    assert not (start / "blind").exists()


def test_settings_that_make_no_sense_are_refused(start: Path):
    refused = (
        ({"judge": ""}, "It means: heuristic"),
        ({"judge": "stub"}, "It means: heuristic"),
        ({"chain": ""}, "chain is empty"),
        ({"verifier_weights": "phase4"}, "no setting"),
        ({"gate": "perhaps"}, "'off', 'multiply' or 'require'"),
        ({"citation_weight": 1.5}, "less than or equal to 1"),
    )
    for values, says_what in refused:
        with pytest.raises(BadConfig, match=says_what):
            settings_of(start, **values)


def test_a_judge_elsewhere_needs_leave_in_the_plan_as_in_the_run(start, monkeypatch):
    for values in ({"judge": AWAY}, {"judge": f"{HERE}?key=1"}):
        with pytest.raises(BadConfig, match=r"not on this machine|holds a user"):
            judge_for(settings_of(start, **values))
        with pytest.raises(BadConfig, match=r"not on this machine|holds a user"):
            plan_of("refiner", command(start, "new", **values), is_dry=True)
    allowed = {"judge": AWAY, "judge_allow_remote": True}
    assert "example.org" not in judge_for(settings_of(start, **allowed)).label
    assert not plan_of("refiner", command(start, "new", **allowed), is_dry=True).problems


def test_a_key_that_is_not_set_here_is_named_once(start, monkeypatch):
    values = {"judge": HERE, "judge_key_env": "ASSAY_NO_SUCH_KEY"}
    monkeypatch.delenv("ASSAY_NO_SUCH_KEY", raising=False)
    with pytest.raises(BadConfig, match="ASSAY_NO_SUCH_KEY"):
        judge_for(settings_of(start, **values))
    (problem,) = plan_of("refiner", command(start, "new", **values), is_dry=True).problems
    assert "ASSAY_NO_SUCH_KEY" in problem
    monkeypatch.setenv("ASSAY_NO_SUCH_KEY", "x")
    assert not plan_of("refiner", command(start, "new", **values), is_dry=True).problems


def test_new_runs_are_rewarded_by_the_defaults_and_published_ones_as_on_the_card():
    new = read_settings(RefinerSettings, CONFIGS / "refiner" / "grpo.yaml")
    published = read_settings(RefinerSettings, CONFIGS / "refiner" / "published.yaml")
    assert new.reward() == RewardConfig()
    assert published.reward() == RewardConfig.model_validate({"preset": "published"})
    own = {"verifier_weights", "v4"}
    assert set(GrpoSettings.model_fields) - set(RefinerSettings.model_fields) == own


def test_a_dry_run_shows_the_rows_and_the_line_of_both_stages(start: Path):
    words = command(start, "plan")
    plan = plan_of("refiner", words, is_dry=True)
    assert plan.command.startswith("accelerate launch --num_processes 1 -m training.refiner")
    assert set(plan.data.trl_rows()["A"]) == {"prompt", "record"}
    file = start / "sft.yaml"
    file.write_text(f"base: {start / 'model'}\ndata: [{start / 'records.jsonl'}]\noutput: {start / 'new'}\n")
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
        one = next(each for each in shorter.items if each.id == record_id)
        cited = set(evidence_of(one.tool_output))
        assert all(f"id={name}" not in (one.reference or "") for name in shorter.trimmed[record_id])
        assert cited
    assert shorter.record()["passages taken away"] == sum(map(len, shorter.trimmed.values()))


def test_every_training_row_can_be_graded_and_learned_from():
    data = refiner_data(["refiner-train"], is_for_sft=True)
    assert data.count == len(refiner_bank().train)
    one = data.items[0]
    assert sft_row(one)["prompt"] == grpo_row(one)["prompt"]
    assert are_records(["refiner-train"]) and not are_records(["kmp-train"])


# ---- held-out records --------------------------------------------------------------------------


def test_references_score_high_on_records_and_text_without_the_grammar_nothing():
    records, task = refiner_bank().train[:12], Refine()

    def mean(texts: list[str]) -> tuple[float, float]:
        rows = graded(task, records, [StageAnswer("x", text) for text in texts])
        found = measured(rows, Refine, draws=1)
        return found["reward"].value, found["wellformed"].value

    reward, wellformed = mean([str(each.reference) for each in records])
    assert reward > 7 and wellformed == 1.0
    assert mean(["I would rather not say."] * len(records)) == (0.0, 0.0)


@pytest.mark.slow
def test_two_processes_of_which_one_is_killed_at_the_end_go_on_to_the_best_weights(start: Path):
    values = {"eval_steps": 1, "held_out_share": 0.25, "best_metric": "reward"}
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


def test_held_out_records_are_no_training_rows_in_the_plan_either(start: Path):
    words = command(start, "plan", eval_steps=5, held_out_share=0.25)
    assert len(plan_of("refiner", words, is_dry=True).data.trl_rows()) == 3


def test_groups_stay_whole_and_one_group_cannot_be_held_out():
    data, held = refiner_data(["refiner-train"]).parted(0.2, 0)
    groups = [{each.group for each in part.items} for part in (data, held)]
    assert not groups[0] & groups[1] and all(groups)
    with pytest.raises(BadConfig, match="cannot be split"):
        held.without([each.id for each in held.items[1:]], "gone").parted(0.2, 0)
