"""Names and files of chains that are none, told with what to do."""

import pytest

from evals.errors import ChainMismatch, MissingModel
from training.models.chain import load_chain, read_chain


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "is not a chain"),
        ("{", "is not a chain"),
        ('{"name": "x"}', "system_prompt"),
        ('{"schema_version": 2}', "schema_version"),
    ],
)
def test_a_file_that_is_no_chain_says_why(tmp_path, content, words):
    (tmp_path / "chain.json").write_text(content)
    with pytest.raises(ChainMismatch, match=words):
        read_chain(tmp_path)


@pytest.mark.parametrize("name", ["nowhere", "nowhere/chain.json", "base.txt"])
def test_a_name_that_is_nowhere_says_what_names_there_are(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MissingModel, match=r"no chain .* base:embedded .*`assay chain list`"):
        load_chain(name)
