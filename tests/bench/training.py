"""Our SFT and GRPO against a plain TRL script with the same settings: throughput and peak memory.

Each run is a process of its own; the median of its steps after the first is compared. Both train the embedded base
(GRPO: on the shipped SFT stage, which both add to the weights, the plain script on disk) on the same rows, with the same
adapter, batch, lengths, steps, types and seed; every answer is as long as it may be, so that both sample the same number
of tokens. Both write a checkpoint on the way. The memory is the resident set of the whole run: ours writes its chain and
its records as well. ASSAY_BENCH_STEPS says how many steps are measured, ASSAY_BENCH_ROUNDS how often the ways take turns.
"""

import os
import statistics
import tempfile
import time
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from rich.table import Table

from tests.bench._measure import ROOT, SMALL, apart, in_turns, resident, show, spread

PLAIN, OURS = "a plain TRL script", "this repository"
SPEED_LIMIT, MEMORY_LIMIT = 1.0, 1.0
SEED = 0
CHAIN, BASE = ROOT / "training" / "embedded" / "sft", "embedded"
WARM, MEASURED = 1, 1 if SMALL else 3
BATCH = {"sft": 2, "grpo": 4} if SMALL else {"sft": 8, "grpo": 8}
DATA = {"sft": ("kmp-train", "pathways-sft-half"), "grpo": ("pathways-grpo-half",)}
RATE = {"sft": 2e-3, "grpo": 2e-4}
WEIGHTS = {"sft": "float32", "grpo": "bfloat16"}
"""As the recipes of the embedded base hold it."""
LENGTH, PROMPT, ANSWER, GROUP, BETA = 256, 160, 4 if SMALL else 48, 2 if SMALL else 8, 0.02


def steps() -> int:
    """Return how many steps are trained, the first ones included."""
    return WARM + int(os.environ.get("ASSAY_BENCH_STEPS", MEASURED))


def main() -> None:
    """Print a table per stage."""
    with tempfile.TemporaryDirectory() as place:
        apart(__name__, "prepare", place)
        for stage, unit in (("sft", "tokens"), ("grpo", "answers")):
            ways = {way: partial(apart, __name__, "measure", stage, way, place) for way in (PLAIN, OURS)}
            title = f"{stage.upper()}, {steps()} steps of {BATCH[stage]} rows"
            table = Table("way", f"{unit}/s", "ratio", "per cpu second", "peak MB", "ratio", "loss", title=title)
            plain: dict[str, float] = {}
            for way, runs in in_turns(1, ways).items():
                values = {name: statistics.median(each[name] for each in runs) for name in runs[0]}
                plain = plain or values
                speed, cpu, peak = (f"{values[name] / plain[name]:.2f}" for name in ("speed", "cpu_speed", "peak"))
                speeds = spread([each["speed"] for each in runs])
                table.add_row(way, speeds, speed, cpu, f"{values['peak']:.0f}", peak, f"{runs[-1]['loss']:.4f}")
            table.add_row("limit", "", f">= {SPEED_LIMIT}", "", "", f"<= {MEMORY_LIMIT}", "")
            show(table)


def prepare(place: str) -> None:
    """Write what the plain script starts from: the base, the base with the SFT stage merged in."""
    from peft import PeftModel

    from tests.models import load_base
    from training.models.base import find_base
    from training.models.manifest import read_chain

    model, tokenizer = load_base(find_base(BASE), "float32")
    chain = read_chain(CHAIN)
    for name in ("sft", "grpo"):
        if name == "grpo":
            folder = chain.adapter_folder(chain.manifest.stages[0])
            model = PeftModel.from_pretrained(model, str(folder)).merge_and_unload()
        model.save_pretrained(f"{place}/{name}")
        tokenizer.save_pretrained(f"{place}/{name}")


def measure(stage: str, way: str, place: str) -> dict[str, float]:
    """Train once and return tokens or answers a second, of the clock and the processor, peak memory and loss."""
    from transformers import TrainerCallback

    times: list[tuple[float, float]] = []
    units: list[float] = []
    loss = [0.0]

    class Clock(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            times.append((time.perf_counter(), time.process_time()))

        def on_log(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            loss[0] = state.log_history[-1].get("loss", loss[0]) if state.log_history else loss[0]

    def watch(trainer: Any) -> Any:
        """Let a trainer count what it is given, and note the time after each step."""
        trainer.add_callback(Clock())
        if stage == "grpo":
            trainer.generation_config.min_new_tokens = ANSWER
        step = trainer.training_step

        def counted(model: Any, inputs: Any, *more: Any) -> Any:
            units.append(float(inputs["attention_mask"].sum()) if stage == "sft" else BATCH[stage])
            return step(model, inputs, *more)

        trainer.training_step = counted
        return trainer

    with tempfile.TemporaryDirectory(dir=place) as folder:
        if way != PLAIN:
            _ours(stage, Path(folder), watch)
        else:
            trainer = watch(_plain(stage, place, folder))
            trainer.train()
            trainer.save_model()
    taken = list(zip(units[WARM:], pairwise(times), strict=True))
    speed, cpu_speed = (statistics.median(n / (to[by] - since[by]) for n, (since, to) in taken) for by in (0, 1))
    return {"speed": speed, "cpu_speed": cpu_speed, "peak": resident("VmHWM"), "loss": loss[0]}


def _plain(stage: str, place: str, output: str) -> Any:
    from datasets import Dataset
    from peft import LoraConfig
    from trl import GRPOConfig, GRPOTrainer, SFTConfig, SFTTrainer

    from evals.questions import SYSTEM_PROMPT
    from training.data.questions import grpo_data, grpo_row, sft_data, sft_row
    from training.rewards import VerifierReward

    options = {
        "output_dir": output, "max_steps": steps(), "learning_rate": RATE[stage],
        "lr_scheduler_type": "constant", "per_device_train_batch_size": BATCH[stage], "bf16": True,
        "gradient_checkpointing": False, "logging_steps": 1, "save_steps": max(steps() // 2, 1),
        "seed": SEED, "data_seed": SEED, "report_to": "none", "use_cpu": True,
        "model_init_kwargs": {"dtype": WEIGHTS[stage]},
    }  # fmt: skip
    lora = LoraConfig(r=8, lora_alpha=16, target_modules="all-linear", task_type="CAUSAL_LM")
    if stage == "sft":
        rows = [sft_row(each, SYSTEM_PROMPT) for each in sft_data(DATA["sft"], SEED).items]
        args = SFTConfig(**options, max_length=LENGTH)
        return SFTTrainer(f"{place}/sft", args, train_dataset=Dataset.from_list(rows), peft_config=lora)
    rows = [grpo_row(each, SYSTEM_PROMPT) for each in grpo_data(DATA["grpo"], SEED).items]
    args = GRPOConfig(
        **options, num_generations=GROUP, max_completion_length=ANSWER, beta=BETA, loss_type="grpo",
        log_completions=True, num_completions_to_print=0,
    )  # fmt: skip
    return GRPOTrainer(
        f"{place}/grpo", VerifierReward(None), args, train_dataset=Dataset.from_list(rows), peft_config=lora
    )


def _ours(stage: str, folder: Path, watch: Any) -> None:
    """Train as the command does, the clock put into the trainer."""
    import yaml

    from training import grpo, sft
    from training.config import read_request
    from training.run import session
    from training.stages import STAGES

    module: Any = {"sft": sft, "grpo": grpo}[stage]
    build = module.build_trainer
    module.build_trainer = lambda *parts, **named: watch(build(*parts, **named))
    own = {"chain": str(CHAIN), "num_generations": GROUP, "beta": BETA}
    own |= {"max_prompt_length": PROMPT, "max_completion_length": ANSWER}
    values = {
        "base": BASE, "data": list(DATA[stage]), "output": str(folder / "run"), "seed": SEED, "max_steps": steps(),
        "learning_rate": RATE[stage], "schedule": "constant", "warmup": 0, "batch": BATCH[stage],
        "log_steps": 1, "save_steps": max(steps() // 2, 1), "weights": WEIGHTS[stage],
        **(own if stage == "grpo" else {"max_length": LENGTH}),
    }  # fmt: skip
    file = folder / "settings.yaml"
    file.write_text(yaml.safe_dump(values), encoding="utf-8")
    module.train(session.prepare(stage, read_request(STAGES[stage], ["--config", str(file)])))
