"""What several files of training tests share: an SFT run that knows its answers."""

import json
from pathlib import Path

import pytest

from tests.examples import write_examples
from tests.training.runs import SHAPE, TAUGHT, answered_in_lines, settings_file, train


@pytest.fixture(autouse=True)
def folders(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that bases far from their chain are noted in, of the tests' own."""
    file = tmp_path_factory.getbasetemp() / "folders.json"
    monkeypatch.setattr("training.models.base.FOLDERS", str(file))
    return file


@pytest.fixture(scope="session")
def taught(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny base, an SFT run on it that knows the answers to three questions, and pairs."""
    folder = tmp_path_factory.mktemp("taught")
    write_examples(folder / "rows.jsonl", answered_in_lines(3))
    pairs = [
        {
            "prompt": [{"role": "user", "content": f"What of tissue {number}?"}],
            "chosen": [{"role": "assistant", "content": f"It goes up {number} times."}],
            "rejected": [{"role": "assistant", "content": "It goes down."}],
            "vote_id": f"vote-{number}",
        }
        for number in range(8)
    ]
    (folder / "pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs), encoding="utf-8")
    train("sft", settings_file(folder, {**TAUGHT, **SHAPE, "output": str(folder / "sft")}))
    return folder
