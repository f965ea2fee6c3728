"""The whole proof: the embedded chain, published, and loaded by the code on its card in a fresh cache."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hub import calls, publishing
from tests.hub.client import environment
from tests.hub.runs import sha256

EMBEDDED = Path(__file__).parents[2] / "training/embedded"
BASE = "HuggingFaceTB/SmolLM2-135M-Instruct"
NAME = "org/embedded"

LOADED = """
import json, sys, torch
from pathlib import Path
card, folder = Path(sys.argv[1]).read_text(), Path(sys.argv[2])
torch.set_num_threads(1)
spoken = card.split("```python\\n")[1].split("```")[0]
space = {}
exec(compile(spoken, "card", "exec"), space)
with torch.inference_mode():
    by_card = space["model"](**space["inputs"]).logits

model = space["AutoModelForCausalLM"].from_pretrained(space["base"], dtype=torch.float32)
model = space["PeftModel"].from_pretrained(model, str(folder / "sft/adapter"), adapter_name="sft")
model.load_adapter(str(folder / "grpo/adapter"), adapter_name="grpo")
model.base_model.set_adapter(["sft", "grpo"], inference_mode=True)
model.eval()
with torch.inference_mode():
    local = model(**space["inputs"]).logits
    model.base_model.set_adapter(["grpo"], inference_mode=True)
    alone = model(**space["inputs"]).logits
print(json.dumps({"same": bool(torch.equal(by_card, local)), "alone": bool(torch.equal(by_card, alone))}))
"""


@pytest.fixture
def base_on_the_hub(lfs_stand):
    """Put the embedded base on the local Hub under its own name."""
    from tests.models import embedded_cache
    from training.base import find_base

    base = find_base("embedded", cache=embedded_cache())
    lfs_stand.hub.options = with_namespace(lfs_stand.hub.options, BASE.split("/")[0])
    if lfs_stand.hub.repositories.find("model", BASE) is None:
        lfs_stand.run(calls.upload_folder, BASE, base.folder)


def with_namespace(options, name):
    from dataclasses import replace

    return replace(options, organisations=(*options.organisations, name))


@pytest.mark.embedded
@pytest.mark.usefixtures("base_on_the_hub")
def test_the_embedded_chain_loads_by_its_card_with_the_very_same_logits(stand, tmp_path):
    folder = tmp_path / "embedded"
    shutil.copytree(EMBEDDED, folder)
    receipts = stand.run(publishing.publish_run, folder / "grpo", NAME)
    assert [each.repo for each in receipts] == [f"{NAME}-sft", NAME]
    card = tmp_path / "card.md"
    card.write_bytes(stand.run(calls.fetch, NAME, "README.md"))

    done = subprocess.run(
        [sys.executable, "-c", LOADED, str(card), str(folder)],
        env=os.environ | environment(stand.url, str(tmp_path / "fresh"), is_xet=False),
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-2000:]
    *said, verdict = done.stdout.splitlines()
    assert "".join(said).strip(), "the code on the card prints an answer"
    assert json.loads(verdict) == {"same": True, "alone": False}

    assert stand.run(publishing.add_chain, NAME, tmp_path / "back") == ["sft", "grpo"]
    for name, place in (("sft", "stages/sft/adapter"), ("grpo", "adapter")):
        file = "adapter_model.safetensors"
        assert sha256(folder / name / "adapter" / file) == sha256(tmp_path / "back" / place / file)
    from tests.models import embedded_cache
    from training.chain import check_chain

    findings = check_chain(tmp_path / "back", cache=embedded_cache())
    assert all(each.is_ok for each in findings), findings
