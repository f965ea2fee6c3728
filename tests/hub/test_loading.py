"""What anybody's one line loads from a published chain is the whole chain, and the card's stages are it bit for bit."""

import json
import re
import shutil

import pytest
from transformers import AutoTokenizer
from typer.testing import CliRunner

from evals.schema.questions import Sampling
from hub.checks import lint_card
from lab.cli import app
from tests.hub.cases import CASES
from tests.hub.conftest import as_another_person
from tests.hub.runs import sha256
from tests.models import tiny_adapter, tiny_chain, tiny_stage
from training.models.chain import check_chain, load_chain
from training.models.imported import import_chain
from training.models.manifest import read_chain

LOADED = """
import json, re, sys, torch
from pathlib import Path
from peft import AutoPeftModelForCausalLM, PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

joined, merged, runs = json.loads(sys.argv[1]), json.loads(sys.argv[2]), Path(sys.argv[3])
space = {}
plain, staged = re.findall("```python\\n(import.*?)```", joined["card"], re.S)
exec(plain, space)
by_name = space["model"]
exec(staged, space)
by_stages, ids = space["model"], space["inputs"]["input_ids"]
merged_space = {}
exec(re.findall("```python\\n(import.*?)```", merged["card"], re.S)[0], merged_space)

def logits(model):
    with torch.inference_mode():
        return model.eval()(input_ids=ids).logits

def bare():
    return AutoModelForCausalLM.from_pretrained(runs / "model", dtype=torch.float32)

model = PeftModel.from_pretrained(bare(), runs / "sft/adapter", adapter_name="sft")
model.load_adapter(runs / "grpo/adapter", adapter_name="grpo")
model.base_model.set_adapter(["sft", "grpo"], inference_mode=True)
ours = logits(model)
apart = {
    "plainly": AutoModelForCausalLM.from_pretrained(joined["repo"], dtype=torch.float32),
    "by PEFT": AutoPeftModelForCausalLM.from_pretrained(joined["repo"], dtype=torch.float32),
    "on the base": PeftModel.from_pretrained(bare(), joined["repo"]),
    "by the card": by_name,
    "merged": AutoModelForCausalLM.from_pretrained(merged["repo"], dtype=torch.float32),
    "merged, by the card": merged_space["model"],
    "alone": PeftModel.from_pretrained(bare(), joined["repo"], subfolder="stage"),
}
apart = {how: float((logits(each) - ours).abs().max()) for how, each in apart.items()}
same = torch.equal(logits(by_stages), ours)
text = AutoTokenizer.from_pretrained(joined["repo"]).apply_chat_template(space["messages"], tokenize=False)
print(json.dumps({"apart": apart, "same": same, "text": text}))
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A tiny chain with the records of its training."""
    monkeypatch.setattr("training.models.base.FOLDERS", str(tmp_path / "folders.json"))
    last = tiny_chain(tmp_path / "runs")
    for stage in ("sft", "grpo"):
        record = json.dumps(CASES["run"], default=str).replace("STAGE", stage)
        (last.parent / stage / "run.json").write_text(record)
    return last


def publish(*words):
    done = CliRunner().invoke(app, ["publish", "adapter", *map(str, words), "--json"])
    assert done.exception is None, done.exception
    return json.loads(done.stdout)


@pytest.mark.slow
def test_the_hub_s_line_peft_s_and_the_card_s_load_the_whole_chain(stand, run, tmp_path):
    (tmp_path / "first.yaml").write_text("collection: My first\n")
    (tmp_path / "merged.yaml").write_text("merged: true\n")
    options = ("--repo", "org/loads", "--with-base", "--config", tmp_path / "first.yaml")
    planned = publish(run, *options, "--out", tmp_path / "out")
    assert stand.only_read(), "with --out nothing is sent"
    receipts = publish(run, *options)
    base = tmp_path / "out/org/loads-base"
    files = {str(file.relative_to(base)): file.read_bytes() for file in base.rglob("*") if file.is_file()}
    assert files == {path: stand.read("org/loads-base", path) for path in stand.on_main("org/loads-base")}
    assert [each["repo"] for each in planned] == [each["repo"] for each in receipts]
    assert [each["repo"] for each in receipts] == ["org/loads-base", "org/loads-sft", "org/loads"]
    publish(run, "--repo", "org/merged", "--base", "org/loads-base", "--config", tmp_path / "merged.yaml")
    assert "adapter_model.safetensors" not in stand.on_main("org/merged")
    assert {"tokenizer.json", "stage/adapter_model.safetensors"} <= stand.on_main("org/loads")
    told = [{"repo": repo, "card": stand.read(repo, "README.md").decode()} for repo in ("org/loads", "org/merged")]
    words = (*map(json.dumps, told), str(run.parent))
    found = json.loads(as_another_person(stand.url, tmp_path / "fresh", LOADED, *words)[-1])
    assert found["same"], "stage by stage it is the stack, bit for bit"
    assert found["apart"].pop("alone") > 0.1
    assert max(found["apart"].values()) < 1e-4, found["apart"]
    assert "<|im_start|>system" in found["text"]

    again = publish(run, *options)
    assert {each["outcome"] for each in again} == {"already there"}, "what is joined twice is the same file"
    (collection,) = stand.hub.collections.values()
    assert collection["private"] and collection["title"] == "My first"
    assert [each["id"] for each in collection["items"]] == ["org/loads-base", "org/loads-sft", "org/loads"]
    for source in ("org/loads", "org/merged"):
        back = tmp_path / source
        assert stand.add_chain(source, back) == ["sft", "grpo"]
        for mine, theirs in (("sft/adapter", "stages/sft/adapter"), ("grpo/adapter", "adapter")):
            name = "adapter_model.safetensors"
            assert sha256(run.parent / mine / name) == sha256(back / theirs / name)
    assert re.search(r"whole chain", told[0]["card"]) and "finetune" in told[1]["card"]


def test_a_second_person_trains_on_a_downloaded_chain_and_publishes_on_top_of_it(stand, run, tmp_path):
    first = publish(run, "--repo", "org/below", "--with-base")
    theirs = run.parent / "theirs"
    assert stand.add_chain("org/below", theirs) == ["sft", "grpo"]
    model, folder = run.parent / "model", run.parent / "dpo"
    tiny_stage(folder, model, read_chain(theirs), seed=5, rank=2)
    (folder / "run.json").write_text(json.dumps(CASES["run"], default=str).replace("STAGE", "dpo"))
    (done,) = publish(folder, "--repo", "tester/on-top", "--base", "org/below-base")
    lineage = json.loads(stand.read("tester/on-top", "lineage.json"))
    *below, mine = [(each["repo"], each["revision"]) for each in lineage["stages"]]
    assert (below, mine) == ([(each["repo"], each["revision"]) for each in first[1:]], ("tester/on-top", None))
    assert stand.add_chain(f"tester/on-top@{done['revision']}", tmp_path / "back") == ["sft", "grpo", "dpo"]
    assert all(each.is_ok for each in check_chain(tmp_path / "back", base=str(model)))
    assert "no such version or file" in str(stand.add_chain("tester/on-top@v9", tmp_path / "v9"))
    stand.api().delete_repo("org/below-sft")
    late = ["publish", "adapter", str(folder), "--repo", "tester/late", "--base", "org/below-base"]
    refused = CliRunner().invoke(app, late)
    assert "the stage 'sft' lies in org/below-sft" in str(refused.exception)


TEMPLATE = "{% for each in messages %}<|im_start|>{{ each['content'] }}<|im_end|>{% endfor %}<|im_start|>"
BY_PEFT = """
import json, sys, torch
from peft import AutoPeftModelForCausalLM, PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("org/own")
asked = tokenizer.apply_chat_template([{"role": "user", "content": "Why?"}], return_tensors="pt", return_dict=True)
theirs = AutoPeftModelForCausalLM.from_pretrained("org/own", dtype=torch.float32).eval()
local = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float32), sys.argv[2])
with torch.inference_mode():
    gap = float((theirs(**asked).logits - local.eval()(**asked).logits).abs().max())
print(json.dumps([tokenizer.chat_template, tokenizer.eos_token, asked["input_ids"][0].tolist(), gap]))
"""


@pytest.mark.slow
def test_an_adapter_with_a_template_of_its_own_is_loaded_and_asked_with_it_by_another_person(stand, run, tmp_path):
    runs, mine = run.parent, tmp_path / "mine"
    shutil.copytree(runs / "sft/adapter", mine)
    tokenizer = AutoTokenizer.from_pretrained(runs / "model")
    tokenizer.chat_template, tokenizer.eos_token = {"default": TEMPLATE, "tool_use": "x"}, "<|endoftext|>"
    tokenizer.save_pretrained(mine)
    import_chain(str(runs / "model"), [str(mine)], runs, "own")
    publish(runs / "own", "--repo", "org/own", "--with-base")
    card = stand.read("org/own", "README.md").decode()
    assert "from_pretrained(base" in card and "AutoTokenizer.from_pretrained(base" not in card
    printed = as_another_person(stand.url, tmp_path / "fresh", BY_PEFT, str(runs / "model"), str(mine))
    template, end, asked, gap = json.loads(printed[-1])
    assert template == {"default": TEMPLATE, "tool_use": "x"} and end == "<|endoftext|>" and gap < 1e-5
    assert stand.add_chain("org/own", tmp_path / "back") == ["mine"]
    assert all(each.is_ok for each in check_chain(tmp_path / "back", base=str(runs / "model")))
    back = load_chain(tmp_path / "back", "float32", base=str(runs / "model"))
    assert list(back.rows(back.messages("Why?"), ("mine",), Sampling())[0].prompt) == asked
    (tmp_path / "back/tokenizer/chat_template.jinja").write_text("{{ messages[-1]['content'] }}")
    wrong = [each.detail for each in check_chain(tmp_path / "back", base=str(runs / "model")) if not each.is_ok]
    assert "the chain's chat template is" in wrong[0] and "back/tokenizer as it was written" in wrong[0]


def test_a_chain_on_a_merged_base_is_published_with_it_and_the_cards_say_what_was_merged(stand, run, tmp_path):
    runs = run.parent
    dora = tiny_adapter(runs / "model", tmp_path / "dora", seed=7, rank=2, use_dora=True)
    import_chain(str(runs / "model"), [str(dora), f"second={runs / 'sft/adapter'}"], runs, "mixed")
    receipts = publish(runs / "mixed", "--repo", "org/mixed", "--with-base")
    assert [each["repo"] for each in receipts] == ["org/mixed-base", "org/mixed"]
    base, card = (stand.read(repo, "README.md").decode() for repo in ("org/mixed-base", "org/mixed"))
    assert "`model` with the adapter `dora` (DoRA (use_dora)) merged into it" in base
    assert "Nothing was trained" not in base
    assert "it is model with `dora` merged into its weights" in card and "[org/mixed-base]" in card
    assert not [each for each in lint_card(card, "model", stand.on_main("org/mixed")) if each.is_error]
    assert stand.add_chain("org/mixed", tmp_path / "back") == ["second"]
    back = read_chain(tmp_path / "back").manifest.base
    assert back.hub_id == "org/mixed-base" and back.merged and back.merged.adapters[0].name == "dora"
    import_chain(str(runs / "model"), [str(dora)], runs, "alone")
    alone = CliRunner().invoke(app, ["publish", "adapter", str(runs / "alone"), "--repo", "org/alone"])
    assert "has no adapter to publish: dora cannot be stacked and is merged into its base" in str(alone.exception)
