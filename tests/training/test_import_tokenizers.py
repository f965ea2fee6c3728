"""An adapter's own tokenizer and chat template: compared with the base's, taken into the chain, or refused by name."""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from evals.errors import ChainMismatch
from evals.questions import SYSTEM_PROMPT
from evals.schema.questions import Sampling
from tests.models import TEMPLATE, VOCABULARY, tiny_adapter, tiny_llama, tiny_tokenizer
from tests.training.runs import SFT, settings_file, train
from training.launch.plan import plan_of
from training.launch.preview import preview
from training.models.chain import check_chain, load_chain
from training.models.export import write_for_hub
from training.models.imported import import_chain

QUESTION = "Which way does the liver go?"
OTHER = "{% for m in messages %}{{ m['role'] + ': ' + m['content'] + '<|im_end|>\n' }}{% endfor %}assistant: "
Tokenizer = PreTrainedTokenizerFast


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A base with more embeddings than tokens, the same without a chat template, and a plain adapter."""
    folder = tmp_path_factory.mktemp("tokenizers")
    model, tokenizer = tiny_llama(tiny_tokenizer(), 31, vocab_size=VOCABULARY + 8), tiny_tokenizer()
    for name, template in (("base", TEMPLATE), ("bare", None)):
        tokenizer.chat_template = template
        model.save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
    tiny_adapter(folder / "base", folder / "adapter", targets=("q_proj", "v_proj"))
    return folder


def saved(change: Callable[[Tokenizer], object] = lambda _: None, into: str = ".") -> Callable[[Path], None]:
    """Write the base's tokenizer, changed, as a trainer would."""

    def write(adapter: Path) -> None:
        tokenizer = tiny_tokenizer()
        change(tokenizer)
        tokenizer.save_pretrained(adapter / into)

    return write


def template(text: str | dict[str, str] | None) -> Callable[[Tokenizer], object]:
    return lambda tokenizer: setattr(tokenizer, "chat_template", text)


def files(**contents: object) -> Callable[[Path], None]:
    """Write single files beside the adapter: text, or a document as JSON."""

    def write(adapter: Path) -> None:
        for name, content in contents.items():
            kind, text = ("jinja", content) if isinstance(content, str) else ("json", json.dumps(content))
            (adapter / f"{name}.{kind}").write_text(text)

    return write


def in_its_configuration(adapter: Path) -> None:
    """Put the template where transformers kept it until version 4.51."""
    saved(template(None))(adapter)
    file = adapter / "tokenizer_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"chat_template": OTHER}))


def of_another_model(adapter: Path) -> None:
    file = adapter / "tokenizer.json"
    saved()(adapter)
    read = json.loads(file.read_text())
    names = list(read["model"]["vocab"])
    read["model"]["vocab"] = dict(zip(names, reversed(range(len(names))), strict=True))
    file.write_text(json.dumps(read))


def of_another_class(adapter: Path) -> None:
    saved()(adapter)
    file = adapter / "tokenizer_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"tokenizer_class": "PreTrainedTokenizerFast"}))


def broken(adapter: Path) -> None:
    saved()(adapter)
    (adapter / "tokenizer.json").write_text('{"model": 1}')


@dataclass(frozen=True)
class Case:
    """What lies in the adapter's folder, what import says of it, and whether the chain is asked with it."""

    write: Callable[[Path], None]
    said: str
    is_taken: bool = True
    base: str = "base"


SAME, TEMPLATE_TOLD = "reads text as that of base does", "has another chat template, where base has others"
CASES = {
    "the base's own": Case(saved(), SAME, is_taken=False),
    "of another class that does the same": Case(of_another_class, SAME, is_taken=False),
    "a pad token that the model never had": Case(
        saved(lambda each: each.add_special_tokens({"pad_token": f"[PAD{'!' * 9}]"})), SAME, is_taken=False
    ),
    "none": Case(lambda _: None, "none saved with the adapter; that of base is used", is_taken=False),
    "no template": Case(saved(template(None)), "without a chat template, and that of base is used", is_taken=False),
    "another template": Case(saved(template(OTHER)), TEMPLATE_TOLD),
    "a template that differs in a blank": Case(saved(template(TEMPLATE + " ")), TEMPLATE_TOLD),
    "a template in tokenizer_config.json": Case(in_its_configuration, TEMPLATE_TOLD),
    "a template alone": Case(files(chat_template=OTHER), TEMPLATE_TOLD),
    "the template of a processor": Case(files(chat_template={"chat_template": OTHER}), TEMPLATE_TOLD),
    "a template beside another for tools": Case(saved(template({"default": OTHER, "tool_use": "x"})), TEMPLATE_TOLD),
    "a template that the base lacks": Case(
        saved(template(OTHER)), "has another chat template, where bare has others", base="bare"
    ),
    "another end token": Case(
        saved(lambda each: setattr(each, "eos_token", "<|endoftext|>")), "has eos_token '<|endoftext|>', where base"
    ),
    "new tokens that the base has embeddings for": Case(
        saved(lambda each: each.add_tokens(["<up>", "<down>"])), "has 2 more tokens ('<up>', '<down>')"
    ),
    "in the folder above": Case(saved(template(OTHER), ".."), TEMPLATE_TOLD),
}


@pytest.mark.parametrize("name", CASES)
def test_a_chain_is_asked_as_its_adapter_was_trained_and_import_says_with_which_tokenizer(name, folder, tmp_path):
    case, adapter = CASES[name], tmp_path / "out" / "theirs"
    shutil.copytree(folder / "adapter", adapter)
    case.write(adapter)
    chain, found = import_chain(str(folder / case.base), [str(adapter)], tmp_path / "runs")
    (told,) = (each for each in found if each.check == "tokenizer")
    assert case.said in told.detail, told.detail
    assert chain.manifest.tokenizer == ("tokenizer" if case.is_taken else None)
    assert all(each.is_ok for each in check_chain(chain.folder))
    if case.is_taken:
        loaded = load_chain(chain.folder, "float32")
        place = adapter.parent if name == "in the folder above" else adapter
        theirs = AutoTokenizer.from_pretrained(folder / "base" if "alone" in name or "processor" in name else place)
        written = OTHER if "alone" in name or "processor" in name else theirs.get_chat_template()
        asked = theirs.apply_chat_template(
            [{"role": "user", "content": QUESTION}], chat_template=written, add_generation_prompt=True, return_dict=True
        )["input_ids"]
        rows = loaded.rows(loaded.messages(QUESTION), ("theirs",), Sampling())
        assert list(rows[0].prompt) == asked
        assert loaded.tokenizer.eos_token == theirs.eos_token and theirs.eos_token_id in loaded.ends


def test_an_adapter_that_is_merged_without_a_tokenizer_is_asked_with_the_base_s_and_it_is_said(folder, tmp_path):
    tiny_adapter(folder / "base", tmp_path / "theirs", use_dora=True)
    chain, found = import_chain(str(folder / "base"), [str(tmp_path / "theirs")], tmp_path / "runs")
    (told,) = (each for each in found if each.check == "tokenizer")
    assert told.detail == "none saved with the adapter; that of base is used" and not chain.manifest.tokenizer


def test_a_base_without_a_template_is_said_to_be_asked_by_instruction_and_response(folder, tmp_path):
    shutil.copytree(folder / "adapter", tmp_path / "theirs")
    _, found = import_chain(str(folder / "bare"), [str(tmp_path / "theirs")], tmp_path / "runs")
    (told,) = (each.detail for each in found if each.check == "chat template")
    assert "no chat template, so questions are put as ### Instruction:" in told


REFUSED = {
    "tokens without embeddings": (
        saved(lambda each: each.add_tokens([f"<{number}>" for number in range(20)])),
        r"420 tokens, and base has embeddings for 408: .*save_embedding_layers=True.*move the tokenizer's files away",
    ),
    "a tokenizer of another model": (of_another_model, "is of another model than base: most tokens have other numbers"),
    "a broken one": (broken, "cannot be used .*put a whole one there, or move its files away"),
    "a broken template": (saved(template("{% for")), "cannot be used .*put a whole one there"),
    "templates without a default": (saved(template({"a": OTHER, "b": OTHER})), "cannot be used .*no default"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_tokenizer_that_the_base_cannot_be_asked_with_is_refused_with_the_way_on(name, folder, tmp_path):
    write, words = REFUSED[name]
    shutil.copytree(folder / "adapter", tmp_path / "theirs")
    write(tmp_path / "theirs")
    with pytest.raises(ChainMismatch, match=words):
        import_chain(str(folder / "base"), [str(tmp_path / "theirs")], tmp_path / "runs")
    assert not [*(tmp_path / "runs").glob("*")]


def test_adapters_that_were_saved_with_two_templates_are_no_one_chain(folder, tmp_path):
    for name, text in (("sft", TEMPLATE), ("dpo", OTHER)):
        shutil.copytree(folder / "adapter", tmp_path / name)
        saved(template(text))(tmp_path / name)
    named = [str(tmp_path / "sft"), str(tmp_path / "dpo")]
    with pytest.raises(ChainMismatch, match=r"saved with 'dpo' has another chat template.*import them as two chains"):
        import_chain(str(folder / "base"), named, tmp_path / "runs")


def test_what_is_trained_on_such_a_chain_and_published_of_it_has_the_same_template(folder, tmp_path):
    shutil.copytree(folder / "adapter", tmp_path / "theirs")
    saved(template(OTHER))(tmp_path / "theirs")
    chain, _ = import_chain(
        str(folder / "base"), [str(tmp_path / "theirs")], tmp_path / "runs", system_prompt=SYSTEM_PROMPT
    )
    values = {**SFT, "base": str(folder / "base"), "chain": str(chain.folder), "output": str(tmp_path / "runs" / "sft")}
    file = settings_file(tmp_path, values)
    (shown, *_) = preview(plan_of("sft", ["--config", str(file)], is_dry=True)).examples
    assert "".join(shown.tokens).startswith("system: Answer")
    run = train("sft", file)
    loaded = load_chain(run.path, "float32")
    assert loaded.manifest.tokenizer == "../theirs/tokenizer" and loaded.stages == ("base", "theirs", "sft")
    assert loaded.tokenizer.get_chat_template() == OTHER
    (tmp_path / "hub").mkdir()
    places = write_for_hub(run.path, tmp_path / "hub")
    assert {AutoTokenizer.from_pretrained(each).get_chat_template() for each in places.values()} == {OTHER}
    beside = load_chain("base:" + str(folder / "base"), "float32", beside=[loaded])
    assert beside.stack is not loaded.stack and beside.tokenizer.get_chat_template() == TEMPLATE
