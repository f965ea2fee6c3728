"""What several files of training tests share: one thread, and an SFT run that knows its answers."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from evals.questions import write_examples
from tests.training.refiners import with_chain
from tests.training.runs import SHAPE, TAUGHT, answered_in_lines, settings_file, train


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Compute with one thread: for a tiny model more of them only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def taught(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny base, an SFT run on it that knows the answers to three questions, and pairs."""
    torch.set_num_threads(1)
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


@pytest.fixture(scope="session")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the tiny base of the refiner and an SFT stage on it."""
    return with_chain(tmp_path_factory.mktemp("refiner"))
