"""Small training runs on the tiny model, through the real trainers."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

import torch
import yaml
from safetensors.torch import load_file

from evals.questions import DATASETS
from evals.schema import Example
from tests.examples import write_examples
from tests.models import ALL_LINEAR, tiny_base
from training.config import read_request
from training.data.questions import watched_questions
from training.launch.accelerate import profile_file
from training.models.adapters import WEIGHTS_NAME
from training.run.folder import RunFolder
from training.run.session import Prepared, prepare
from training.stages import STAGES

ROOT = Path(__file__).parents[2]
ACCELERATE = Path(sys.executable).with_name("accelerate")

COMMON: Mapping[str, object] = {
    "max_steps": 2,
    "lora_r": 4,
    "lora_alpha": 8,
    "learning_rate": 3e-3,
    "warmup": 0,
    "schedule": "constant",
    "autocast": "none",
    "log_steps": 1,
}
SFT: Mapping[str, object] = {**COMMON, "batch": 2, "max_length": 1024}
GRPO: Mapping[str, object] = {
    **COMMON,
    "batch": 4,
    "num_generations": 4,
    "beta": 0.2,
    "max_prompt_length": 1024,
    "max_completion_length": 8,
}


SHAPE: Mapping[str, object] = {"lora_r": 8, "lora_alpha": 8, "lora_targets": list(ALL_LINEAR)}
TAUGHT: Mapping[str, object] = {**COMMON, "batch": 3, "max_length": 1024, "max_steps": 80, "learning_rate": 1e-2}
"""Enough for a tiny model to know three answers by heart."""


def on_taught(taught: Path, stage: str, output: Path, **values: object) -> Path:
    """Return a settings file of DPO, KTO or GRPO on the SFT run in `taught`, with an answer's length to spare."""
    known: dict[str, object] = {**COMMON, **SHAPE, "chain": str(taught / "sft"), "output": str(output)}
    if stage in ("dpo", "kto"):
        known |= {"data": [str(taught / "pairs.jsonl")], "batch": 2, "max_length": 1024, "eval_steps": 1}
        known |= {"eval_data": [str(taught / "rows.jsonl")], "eval_tokens": 40}
    if stage == "reward":
        known |= {
            "data": [str(taught / "pairs.jsonl")],
            "batch": 2,
            "max_length": 1024,
            "eval_steps": 1,
            "hold_out": 0.25,
        }
    if stage == "grpo":
        known = {**GRPO, **known}
    output.parent.mkdir(parents=True, exist_ok=True)
    base, rows = str(taught / "model"), str(taught / "rows.jsonl")
    return settings_file(output.parent, {"base": base, "data": [rows], **known, **values})


def settings_file(folder: Path, values: Mapping[str, object]) -> Path:
    """Write a settings file for the tiny model in `folder`, eight KMP questions as its data."""
    base, rows = folder / "model", folder / "rows.jsonl"
    if "base" not in values and not base.is_dir():
        tiny_base(base)
    if "data" not in values and not rows.is_file():
        write_examples(rows, DATASETS["kmp-train"]()[:8])
    document = {"base": str(base), "data": [str(rows)], "output": str(folder / "run"), **values}
    file = folder / "settings.yaml"
    file.write_text(yaml.safe_dump(document), encoding="utf-8")
    return file


def ready(stage: str, file: Path, *words: str) -> Prepared:
    """Return a stage ready to be trained by a settings file."""
    return prepare(stage, read_request(STAGES[stage], ["--config", str(file), *words]))


def train(stage: str, file: Path, *words: str) -> RunFolder:
    """Train a stage in this process and return its run folder."""
    request = read_request(STAGES[stage], ["--config", str(file), *words])
    import_module(f"training.{stage}").train(prepare(stage, request))
    return RunFolder(Path(request.settings.output))


def figures(run: RunFolder, name: str) -> list[float]:
    """Return what a run logged of a figure."""
    return [row[name] for row in run.metric_rows() if name in row]


def adapter(run: RunFolder) -> dict[str, torch.Tensor]:
    """Return the weights that a run trained."""
    return load_file(run.adapter / WEIGHTS_NAME)


def answered_in_lines(count: int) -> list[Example]:
    """Return questions whose answers are the two last lines alone: short enough to be learned by heart."""
    known = sorted(watched_questions(("kmp-dev",), 100, 0), key=lambda row: len(row.prompt))
    rows = [row for row in known if row.ground_truth.kind in ("abstain", "label")][:count]
    return [row.model_copy(update={"answer": row.answer[row.answer.index("Answer: ") :]}) for row in rows]


def sampled_run(folder: Path) -> Path:
    """Return a run folder as GRPO leaves it, with answers that an SFT stage of the embedded base sampled."""
    (folder / "completions").mkdir(parents=True)
    shutil.copy(ROOT / "training" / "embedded" / "grpo" / "run.json", folder)
    shutil.copy(Path(__file__).parent / "files" / "sampled.parquet", folder / "completions")
    return folder


def record(run: Path) -> dict[str, object]:
    """Return run.json."""
    return json.loads((run / "run.json").read_text(encoding="utf-8"))


def environment() -> dict[str, str]:
    """Return what a command of ours is started with: our packages in sight, one thread."""
    places = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(places), "OMP_NUM_THREADS": "1"}


def launched(
    stage: str, file: Path, profile: str | None, *words: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a stage by the command that people type, and return how it ended and what it said."""
    options = ["--config_file", str(profile_file(profile))] if profile else []
    return subprocess.run(
        [str(ACCELERATE), "launch", *options, "-m", f"training.{stage}", "--config", str(file), *words],
        cwd=ROOT,
        env={**environment(), **variables},
        capture_output=True,
        text=True,
        check=False,
    )
