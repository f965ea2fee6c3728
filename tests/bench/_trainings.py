"""The two ways of training that `tests.bench.training` compares, each run in a process of its own."""

import json
import os
import resource
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SEED = 0
WARM: Mapping[str, int] = {"sft": 2, "grpo": 1}
MEASURED: Mapping[str, int] = {"sft": 10, "grpo": 3}
STEPS: Mapping[str, int] = {
    stage: WARM[stage] + int(os.environ.get("ASSAY_BENCH_STEPS", count)) for stage, count in MEASURED.items()
}
BATCH: Mapping[str, int] = {"sft": 8, "grpo": 16}
DATA: Mapping[str, tuple[str, ...]] = {
    "sft": ("kmp-train", "pathways-sft-half"),
    "grpo": ("pathways-grpo-half",),
}
RATE: Mapping[str, float] = {"sft": 2e-3, "grpo": 2e-4}
LENGTH, PROMPT, ANSWER, GROUP, BETA = 256, 160, 48, 8, 0.02
PLAIN, OURS = "a plain TRL script", "this repository"


def prepare(what: str, place: Path) -> None:
    """Write what the plain script starts from: the base, the base with the SFT stage merged in."""
    from peft import PeftModel

    from training.models.base import find_base, load_base
    from training.models.manifest import read_chain

    model, tokenizer = load_base(find_base("embedded"), "float32")
    chain = read_chain(_chain())
    for name in ("sft", "grpo"):
        if name == "grpo":
            folder = chain.adapter_folder(chain.manifest.stages[0])
            model = PeftModel.from_pretrained(model, str(folder)).merge_and_unload()
        model.save_pretrained(place / name)
        tokenizer.save_pretrained(place / name)


def measure(what: str, place: Path) -> None:
    """Train once and print what was measured."""
    stage, _, way = what.partition("/")
    clock = _clock(stage)
    with tempfile.TemporaryDirectory(dir=place) as folder:
        WAYS[stage, way](place, Path(folder) / "run", clock)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(clock.result() | {"peak_mb": peak}), flush=True)


def _clock(stage: str) -> Any:
    from transformers import TrainerCallback

    class Clock(TrainerCallback):
        """Notes the time after each step, and counts what a trainer was given."""

        def __init__(self) -> None:
            self.times: list[tuple[float, float]] = []
            self.units: list[float] = []
            self.loss = 0.0

        def watch(self, trainer: Any) -> Any:
            trainer.add_callback(self)
            step = trainer.training_step

            def counted(model: Any, inputs: Any, *more: Any) -> Any:
                self.units.append(float(inputs["attention_mask"].sum()) if stage == "sft" else BATCH[stage])
                return step(model, inputs, *more)

            trainer.training_step = counted
            return trainer

        def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            self.times.append((time.perf_counter(), time.process_time()))

        def on_log(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            self.loss = state.log_history[-1].get("loss", self.loss) if state.log_history else 0.0

        def result(self) -> dict[str, float]:
            (wall, cpu), (wall_end, cpu_end) = self.times[WARM[stage] - 1], self.times[-1]
            units = sum(self.units[WARM[stage] :])
            return {
                "per_second": units / (wall_end - wall),
                "per_cpu_second": units / (cpu_end - cpu),
                "loss": self.loss,
            }

    return Clock()


def _chain() -> Path:
    return ROOT / "training" / "embedded" / "sft"


def _plain_options(stage: str, output: Path) -> dict[str, Any]:
    return {
        "output_dir": str(output),
        "max_steps": STEPS[stage],
        "learning_rate": RATE[stage],
        "lr_scheduler_type": "constant",
        "per_device_train_batch_size": BATCH[stage],
        "bf16": True,
        "gradient_checkpointing": False,
        "logging_steps": 1,
        "save_steps": STEPS[stage] // 2,
        "seed": SEED,
        "data_seed": SEED,
        "report_to": "none",
        "use_cpu": True,
    }


def _lora() -> Any:
    from peft import LoraConfig

    return LoraConfig(r=8, lora_alpha=16, target_modules="all-linear", task_type="CAUSAL_LM")


def _plain_sft(place: Path, output: Path, clock: Any) -> None:
    from datasets import Dataset
    from trl import SFTConfig, SFTTrainer

    from evals.questions import SYSTEM_PROMPT
    from training.data.questions import sft_data, sft_row

    rows = sft_data(DATA["sft"], SEED).examples
    trainer = SFTTrainer(
        model=str(place / "sft"),
        args=SFTConfig(**_plain_options("sft", output), max_length=LENGTH),
        train_dataset=Dataset.from_list([sft_row(each, SYSTEM_PROMPT) for each in rows]),
        peft_config=_lora(),
    )
    clock.watch(trainer).train()
    trainer.save_model()


def _plain_grpo(place: Path, output: Path, clock: Any) -> None:
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    from evals.questions import SYSTEM_PROMPT
    from training.data.questions import grpo_data, grpo_row
    from training.rewards import VerifierReward

    rows = grpo_data(DATA["grpo"], SEED).examples
    trainer = GRPOTrainer(
        model=str(place / "grpo"),
        args=GRPOConfig(
            **_plain_options("grpo", output),
            num_generations=GROUP,
            max_completion_length=ANSWER,
            beta=BETA,
            loss_type="grpo",
            log_completions=True,
            num_completions_to_print=0,
        ),
        train_dataset=Dataset.from_list([grpo_row(each, SYSTEM_PROMPT) for each in rows]),
        reward_funcs=VerifierReward(None),
        peft_config=_lora(),
    )
    clock.watch(trainer).train()
    trainer.save_model()


def _ours(stage: str, output: Path, clock: Any, extra: Mapping[str, object]) -> None:
    """Train as the command does, the clock put into the trainer."""
    import yaml

    from training import grpo, sft
    from training.config import STAGES, read_request

    module: Any = {"sft": sft, "grpo": grpo}[stage]
    build = module.build_trainer
    module.build_trainer = lambda *parts: clock.watch(build(*parts))
    values = {
        "data": list(DATA[stage]),
        "output": str(output),
        "seed": SEED,
        "max_steps": STEPS[stage],
        "learning_rate": RATE[stage],
        "schedule": "constant",
        "warmup": 0,
        "batch": BATCH[stage],
        "log_steps": 1,
        "save_steps": STEPS[stage] // 2,
        **extra,
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    file = output.parent / "settings.yaml"
    file.write_text(yaml.safe_dump(values), encoding="utf-8")
    module.train(read_request(STAGES[stage], ["--config", str(file)]))


def _our_sft(place: Path, output: Path, clock: Any) -> None:
    _ours("sft", output, clock, {"max_length": LENGTH})


def _our_grpo(place: Path, output: Path, clock: Any) -> None:
    extra = {
        "chain": str(_chain()),
        "num_generations": GROUP,
        "max_prompt_length": PROMPT,
        "max_completion_length": ANSWER,
        "beta": BETA,
    }
    _ours("grpo", output, clock, extra)


WAYS: Mapping[tuple[str, str], Callable[[Path, Path, Any], None]] = {
    ("sft", PLAIN): _plain_sft,
    ("sft", OURS): _our_sft,
    ("grpo", PLAIN): _plain_grpo,
    ("grpo", OURS): _our_grpo,
}
