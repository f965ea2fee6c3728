"""Run folders and bases small enough for any test: real records and files, no model behind them."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from evals.questions import SYSTEM_PROMPT
from evals.schema import ChainManifest, RunRecord
from evals.schema.runs import BaseOrigin
from hub.adapters import BaseCopy
from tests.hub.cases import CASES

CONFIG: Mapping[str, Any] = CASES["adapter_config"]
RANK, TARGETS = CONFIG["r"], CONFIG["target_modules"]
BASE, REVISION = CONFIG["base_model_name_or_path"], CONFIG["revision"]
ORIGINAL, PACKED = CASES["origin"]["original"], CASES["origin"]["recorded_sha256"]


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


def sums(run: Path) -> dict[str, str]:
    """Return the checksums of an adapter as chain.json names them."""
    files = {"sha256": "adapter_model.safetensors", "config_sha256": "adapter_config.json"}
    return {name: sha256(run / "adapter" / file) for name, file in files.items()}


def write_run(folder: Path, *, stages: tuple[str, ...] = ("sft",), **changes: Any) -> Path:
    """Write the run folders of a chain beside each other and return the last one's.

    `changes` go into the last record; `config` into its configuration.
    """
    known: list[dict[str, Any]] = []
    place = folder
    for number, name in enumerate(stages):
        place = folder / name
        write_adapter(place / "adapter", tensors(number), CONFIG)
        kind = "grpo" if name == "grpo" else "sft"
        known = [{**each, "path": f"../{each['name']}/adapter"} for each in known]
        known.append({**CASES["stage"], "name": name, "kind": kind, **sums(place)})
        chain = {**CASES["chain"], "name": name, "system_prompt": SYSTEM_PROMPT, "stages": known}
        (place / "chain.json").write_text(ChainManifest.model_validate(chain).model_dump_json(indent=1))
        record = json.loads(json.dumps(CASES["run"], default=str).replace("STAGE", name))
        record["stage"] = kind
        (place / "run.json").write_text(RunRecord.model_validate(record).model_dump_json(indent=1))
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
    stages = json.loads((run / "chain.json").read_text())["stages"]
    change_manifest(run, stages=[*stages[:-1], stages[-1] | sums(run)])


def write_base(folder: Path, value: float = 0.5) -> Path:
    """Write a base's weights, configuration and tokenizer as save_pretrained names them."""
    folder.mkdir(parents=True)
    save_file({"model.norm.weight": np.full(8, value, np.float32)}, folder / "model.safetensors")
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_text("{}\n")
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    return folder


def base_copy(folder: Path, **changes: str | None) -> BaseCopy:
    """Return what is published of a base that a package brought along, packed."""
    origin = BaseOrigin.model_validate({**CASES["origin"], "weights_sha256": sha256(folder / "model.safetensors")})
    (licence := folder.parent / "LICENSE").write_text("Apache License\n")
    return BaseCopy(folder, origin.model_copy(update=changes), licence)


def write_packed_run(folder: Path, stages: tuple[str, ...] = ("sft", "grpo")) -> Path:
    """Write the runs of a chain whose base is known by its weights alone, as the embedded one is."""
    last = write_run(folder, stages=stages)
    for number, name in enumerate(stages):
        packed = {"source": "embedded", "hub_id": ORIGINAL, "revision": None}
        change_manifest(folder / name, base={**packed, "weights_sha256": PACKED})
        change_record(folder / name, config={"base": "embedded"})
        config = {**CONFIG, "base_model_name_or_path": ORIGINAL, "revision": None}
        write_adapter(folder / name / "adapter", tensors(number), config)
        refit(folder / name)
    return last
