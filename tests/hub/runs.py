"""Run folders small enough for any test: real records, a real safetensors file, no model behind them."""

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from evals.questions import SYSTEM_PROMPT
from evals.schema import BaseIdentity, ChainManifest, ChainStage, Probe, RunRecord

BASE = "org/base"
REVISION = "ab" * 20
RANK = 2
TARGETS = ("q_proj", "v_proj")
PROBE = Probe(prompt="Which way?", token_ids=(1, 2), logprobs=(-0.1, -2.5))
CONFIG: Mapping[str, Any] = {
    "base_model_name_or_path": BASE,
    "bias": "none",
    "lora_alpha": 4,
    "peft_type": "LORA",
    "r": RANK,
    "revision": REVISION,
    "target_modules": list(TARGETS),
    "task_type": "CAUSAL_LM",
}


def tensors(seed: int = 0) -> dict[str, np.ndarray]:
    """Return the matrices of a LoRA adapter on two layers."""
    generator = np.random.default_rng(seed)
    found = {}
    for layer in range(2):
        for target in TARGETS:
            name = f"base_model.model.model.layers.{layer}.self_attn.{target}.lora_"
            found[f"{name}A.weight"] = generator.random((RANK, 8), dtype=np.float32)
            found[f"{name}B.weight"] = generator.random((8, RANK), dtype=np.float32)
    return found


def write_adapter(folder: Path, weights: Mapping[str, np.ndarray], config: Mapping[str, Any]) -> None:
    """Write an adapter as PEFT does."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file(dict(weights), folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=1))


def sha256(file: Path) -> str:
    """Return a file's checksum."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def write_run(folder: Path, *, stages: tuple[str, ...] = ("sft",), **changes: Any) -> Path:
    """Write the run folders of a chain beside each other and return the last one's.

    `changes` go into the last record; `config` into its configuration.
    """
    known: list[ChainStage] = []
    place = folder
    for number, name in enumerate(stages):
        place = folder / name
        write_adapter(place / "adapter", tensors(number), CONFIG)
        known = [each.model_copy(update={"path": f"../{each.name}/adapter"}) for each in known] + [_stage(name, place)]
        manifest = ChainManifest(
            name=name,
            system_prompt=SYSTEM_PROMPT,
            base=BaseIdentity(
                source=BASE,
                hub_id=BASE,
                revision=REVISION,
                weights_sha256="a" * 64,
                tokenizer_sha256="b" * 64,
                template_sha256="c" * 64,
                vocab_size=400,
                licence="apache-2.0",
            ),
            base_probe=PROBE,
            stages=tuple(known),
        )
        (place / "chain.json").write_text(manifest.model_dump_json(indent=1))
        (place / "run.json").write_text(_record(name).model_dump_json(indent=1))
        (place / "metrics.jsonl").write_text('{"step": 1, "loss": 0.5}\n')
    if changes:
        change_record(place, **changes)
    return place


def change_record(run: Path, **changes: Any) -> None:
    """Change fields of run.json; those of `config` one by one."""
    record = json.loads((run / "run.json").read_text())
    record["config"] |= changes.pop("config", {})
    (run / "run.json").write_text(json.dumps(record | changes))


def change_manifest(run: Path, **changes: Any) -> None:
    """Change fields of chain.json; those of `base` one by one."""
    manifest = json.loads((run / "chain.json").read_text())
    manifest["base"] |= changes.pop("base", {})
    (run / "chain.json").write_text(json.dumps(manifest | changes))


def refit(run: Path) -> None:
    """Let chain.json name the adapter that lies there now."""
    manifest = json.loads((run / "chain.json").read_text())
    last = manifest["stages"][-1]
    last["sha256"] = sha256(run / "adapter/adapter_model.safetensors")
    last["config_sha256"] = sha256(run / "adapter/adapter_config.json")
    (run / "chain.json").write_text(json.dumps(manifest))


def _stage(name: str, place: Path) -> ChainStage:
    return ChainStage(
        name=name,
        kind="grpo" if name == "grpo" else "sft",
        mode="stack",
        path="adapter",
        sha256=sha256(place / "adapter/adapter_model.safetensors"),
        config_sha256=sha256(place / "adapter/adapter_config.json"),
        probe=PROBE,
    )


def _record(name: str) -> RunRecord:
    return RunRecord(
        name=name,
        stage="grpo" if name == "grpo" else "sft",
        command=f"accelerate launch -m training.{name} --config training/configs/embedded/{name}.yaml",
        config={"data": ["kmp-train"], "output": f"runs/{name}", "base": BASE, "lora_r": RANK},
        seed=0,
        data={"sha256": "d" * 64, "rows": 8},
        versions={"python": "3.11.7", "torch": "2.13.0"},
        code_revision="e" * 40,
        host={"system": "Linux", "cores": 2},
        started_at=datetime(2026, 1, 5, 9, 0, tzinfo=UTC),
        ended_at=datetime(2026, 1, 5, 9, 30, tzinfo=UTC),
        status="finished",
        result={"steps": 8, "train_loss": 0.5},
    )
