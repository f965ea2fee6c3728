"""Every family of bases goes from SFT to plain transformers and PEFT as docs/chain.md says."""

import json
import re
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from evals.errors import BadConfig
from tests.training.families.bases import described, write_base
from tests.training.families.sequence import taken_through
from tests.training.families.table import PAGE, TOWERS, row_of, rows_of
from training.models.base import find_base, load_model, skeleton
from training.models.trial import check_base
from training.sft import SftSettings

FAMILIES = [
    pytest.param(name, marks=() if told.get("is_quick") else pytest.mark.slow)
    for name, told in described()["families"].items()
]


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_goes_through_the_whole_sequence_as_the_page_says(name: str, tmp_path: Path):
    found = taken_through(name, tmp_path)
    assert row_of(name, found) == rows_of(PAGE.read_text(encoding="utf-8"))[name], found.refusals
    assert not [layer for layer in found.layers if any(tower in layer for tower in TOWERS)]


def test_gpt_oss_in_mxfp4_becomes_a_base_by_the_lines_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    published = write_base("GPT-OSS", tmp_path / "gpt-oss-20b")
    weights, file = load_file(published / "model.safetensors"), published / "config.json"
    source = torch.Generator().manual_seed(0)
    for name in [name for name in weights if name.endswith(("experts.gate_up_proj", "experts.down_proj"))]:
        experts, inputs, outputs = weights.pop(name).shape
        shape, options = (experts, outputs, inputs // 32), {"dtype": torch.uint8, "generator": source}
        weights[f"{name}_blocks"] = torch.randint(0, 256, (*shape, 16), **options)
        weights[f"{name}_scales"] = torch.randint(120, 126, shape, **options)
    save_file(weights, published / "model.safetensors", metadata={"format": "pt"})
    quantised = {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "model.embed_tokens"]}
    file.write_text(json.dumps(json.loads(file.read_text()) | {"quantization_config": quantised}))
    with pytest.raises(BadConfig, match=r"quantised \(mxfp4\).* docs/chain.md has the lines"):
        skeleton(published)
    (lines,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(lines.replace("openai/gpt-oss-20b", str(published)), {})
    settings = SftSettings.model_validate({"data": ("x",), "output": "x"})
    targets, _ = check_base(skeleton(tmp_path / "gpt-oss-20b-bf16"), settings)
    assert len(targets.layers) == 8
    load_model(find_base(str(tmp_path / "gpt-oss-20b-bf16")))


def test_the_page_has_each_family_once():
    assert sorted(rows_of(PAGE.read_text(encoding="utf-8"))) == sorted(described()["families"])
