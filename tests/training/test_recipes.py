"""The settings files that come with Assay: each loads, can be planned, and says what was published."""

import shlex
from pathlib import Path

from tests.training.cases import cases
from training.config import StageSettings, read_settings
from training.launch.accelerate import FOLDER, Launch
from training.launch.plan import plan_of
from training.stages import STAGES

ROOT = Path(__file__).parents[2]
CONFIGS = ROOT / "training" / "configs"
RECIPES = sorted(file for file in CONFIGS.rglob("*.yaml") if file.parent != FOLDER)
SHAPE_NOT_KNOWN = ("Qwen/Qwen3.5-9B", "google/gemma-4-31b-it")
"""Bases whose sizes no published file here tells; what they need is not estimated."""
CHAT = (
    '{"id": "NAME", "conversations": [{"from": "system", "value": "Review."},'
    ' {"from": "human", "value": "A paper."}, {"from": "gpt", "value": "[]"}]}\n'
)
PAIR = '{"prompt": "Up or down?", "chosen": "Up.", "rejected": "Down."}\n'


def command_of(file: Path) -> list[str]:
    """Return the words of the command that a file starts with."""
    return shlex.split(file.read_text(encoding="utf-8").splitlines()[0].removeprefix("# "))


def stage_of(file: Path) -> str:
    return next(word for word in command_of(file) if word.startswith("training.")).split(".")[1]


def settings_of(name: str) -> StageSettings:
    file = CONFIGS / "biorlhf" / f"{name}.yaml"
    return read_settings(STAGES[stage_of(file)], file)


def test_every_recipe_starts_with_the_command_that_runs_it_and_can_be_planned_without_its_model(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    pairs, rows = tmp_path / "pairs.jsonl", tmp_path / "rows.jsonl"
    pairs.write_text(PAIR, encoding="utf-8")
    rows.write_text("".join(CHAT.replace("NAME", str(n)) for n in range(64)), encoding="utf-8")
    own = {"dpo": ["--data", str(pairs)], "review": ["--data", str(rows)]}
    for file in RECIPES:
        line, stage = command_of(file), stage_of(file)
        assert (line[:2], line[-2:]) == (["accelerate", "launch"], ["--config", file.relative_to(ROOT).as_posix()])
        if "--config_file" in line:
            assert (ROOT / line[line.index("--config_file") + 1]).parent == FOLDER, file
        words = ["--config", str(file), "--output", str(tmp_path / "new"), *own.get(stage, [])]
        plan = plan_of(stage, words, Launch("single-gpu"), is_dry=True)
        bare = plan_of(stage, words[:4], Launch("single-gpu"), is_dry=True)  # without rows of one's own
        assert plan.command.startswith(bare.command) and (bare.data is not None or bare.problems), file
        assert bare.needs(0) is None or bare.needs(0).total > 0, file
        needs = plan.needs(plan.data.count)
        if plan.settings.base in SHAPE_NOT_KNOWN:
            assert needs is None
        else:
            assert needs.steps >= 1 and needs.total > needs.memory["base"] > 0, file
        start = "accelerate launch --config_file training/configs/accelerate/single-gpu.yaml -m training."
        assert plan.command.startswith(start)


CASES = cases("recipes")


def test_a_published_recipe_has_the_published_settings():
    for name, (rank, alpha, epochs, rate, batch, accumulation, others) in CASES["published"].items():
        told = settings_of(name)
        assert (told.lora_r, told.lora_alpha, told.lora_dropout) == (rank, alpha, 0.05), name
        assert (told.epochs, told.learning_rate, told.batch, told.accumulation) == (epochs, rate, batch, accumulation)
        assert (told.schedule, told.warmup, told.seed) == ("cosine", 0.1, 42), name
        assert (told.weights, told.autocast, told.activation_checkpointing) == ("nf4", "bfloat16", True), name
        assert len(told.lora_targets) == 7, name
        if "grpo" in name:
            others |= {"loss_type": "grpo", "scale_rewards": "group", "kl_by_ratio": False}
        assert {key: getattr(told, key) for key in others} == others, name


def test_a_published_grpo_recipe_says_how_many_steps_its_rows_are():
    for file in (CONFIGS / "biorlhf").glob("grpo-*.yaml"):
        told, text = settings_of(file.stem), file.read_text(encoding="utf-8")
        here, published, both = (told.steps(rows) for rows in (72, 577, 144))
        assert f"72 rows are {here} optimizer steps; the published 577 rows are {published}" in text, file
        assert f"144 rows ({both} steps;" in text and ("38 hours" in text) == (published == 2308), file


def test_a_published_reviewer_has_the_published_settings_and_a_folder_of_its_own():
    files = sorted((CONFIGS / "review").glob("*.yaml"))
    assert {file.stem for file in files} == CASES["reviewers"].keys()
    folders = set()
    for file in files:
        told = read_settings(STAGES["review"], file)
        sizes = [told.max_length, told.batch, told.accumulation, told.keep_checkpoints]
        assert CASES["reviewers"][file.stem] == [told.lora_dropout, *sizes], file
        assert (told.lora_r, told.lora_alpha, told.epochs, told.seed) == (16, 32, 3, 42)
        assert (told.learning_rate, told.schedule, told.warmup) == (2e-4, "cosine", 0.03)
        assert (told.weight_decay, told.max_grad_norm) == (0.01, 1.0)
        assert (told.weights, told.optimizer, told.packing) == ("nf4", "adamw_bnb_8bit", False)
        assert len(told.lora_targets) == 7
        folders.add(told.output)
    assert len(folders) == len(files)
