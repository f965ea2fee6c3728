"""A settings file as a form and back."""

from pathlib import Path

import pytest

from evals.errors import BadConfig
from lab.train.runner import Recipe, read_recipe, recipes, save, text_of


@pytest.mark.parametrize("name", list(recipes(Path("none"))))
def test_every_settings_file_passes_through_the_form_unchanged(name, tmp_path):
    from training.config import STAGES, as_document, read_settings

    file = recipes(tmp_path)[name]
    recipe = read_recipe(file)
    again = tmp_path / "again.yaml"
    again.write_text(text_of(recipe, "the command"))
    kind = STAGES[recipe.stage]
    assert as_document(read_settings(kind, again)) == as_document(read_settings(kind, file))


def test_comments_and_the_profile_of_a_settings_file_are_kept():
    recipe = read_recipe(recipes(Path("none"))["biorlhf/sft"])
    assert (recipe.stage, recipe.profile) == ("sft", "single-gpu")
    assert "about 38 hours" in text_of(recipe, "the command")


def test_a_setting_in_field_and_yaml_is_refused_instead_of_one_winning():
    with pytest.raises(BadConfig, match="beta stands in the YAML"):
        text_of(Recipe("grpo", {"beta": "0.1"}, "seed: 1\nbeta: 0.2\n"), "x")


def test_saving_never_replaces_a_file(tmp_path):
    file = save("seed: 1\n", tmp_path / "configs", "mine")
    with pytest.raises(BadConfig, match="already"):
        save("seed: 2\n", tmp_path / "configs", "mine.yaml")
    assert file.read_text() == "seed: 1\n"
    with pytest.raises(BadConfig, match="letters, digits"):
        save("seed: 2\n", tmp_path / "configs", "../outside")
