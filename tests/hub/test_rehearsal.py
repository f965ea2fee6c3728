"""A newcomer's rehearsal on a Hub of their own: train, publish, show, and a second person who trains on top of it."""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from hub.spaces import ROOT
from tests.hub.conftest import client_settings
from tests.models import tiny_base

SETTINGS = {"lora_r": 2, "max_steps": 2, "batch": 2, "max_length": 512, "weights": "float32", "learning_rate": 0.05}
ASSAY = [sys.executable, "-c", "from lab.cli import main; main()"]
PAIR = {
    "prompt": [{"role": "user", "content": "What does catalase split?"}],
    "chosen": [{"role": "assistant", "content": "Hydrogen peroxide."}],
    "rejected": [{"role": "assistant", "content": "Water."}],
}
SNIPPET = """
import sys, torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from training.models.chain import load_chain

plain = AutoModelForCausalLM.from_pretrained("bob/second", dtype=torch.float32).eval()
ids = AutoTokenizer.from_pretrained("bob/second")("What does catalase split?", return_tensors="pt").input_ids
stack = load_chain(sys.argv[1], "float32")
with torch.inference_mode():
    by_name = plain(input_ids=ids).logits
    with stack.stack.lock, stack.stack.rows([stack.adapters_of_stage["dpo"]]):
        by_stages = stack.stack.model(input_ids=ids, use_cache=False).logits
    with stack.stack.lock, stack.stack.rows([stack.adapters_of_stage["base"]]):
        bare = stack.stack.model(input_ids=ids, use_cache=False).logits
print(float((by_name - by_stages).abs().max()), float((bare - by_stages).abs().max()))
"""


class Person:
    """Somebody with a project folder, a home and a token of their own, who types commands."""

    def __init__(self, folder: Path, name: str, url: str) -> None:
        self.folder = folder / name
        self.folder.mkdir()
        home = {"HOME": str(self.folder), "ASSAY_CACHE": str(self.folder / "cache"), "PYTHONPATH": str(ROOT)}
        own = client_settings(url, self.folder / "hf") | {"HF_TOKEN": f"hf_{name}"}
        self.environment = os.environ | home | own | {"OMP_NUM_THREADS": "1"}

    def types(self, *words: object) -> str:
        """Run a command and return what it printed; it must succeed."""
        done = self.runs([*ASSAY, *map(str, words)])
        assert done.returncode == 0, f"{words}\n{done.stderr[-3000:]}"
        return done.stdout

    def runs(self, line: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(line, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False)

    def trains(self, stage: str, **settings: object) -> None:
        file = self.folder / f"{stage}.yaml"
        file.write_text(json.dumps({**SETTINGS, **settings, "output": f"runs/{stage}"}))
        self.types("train", stage, "--config", file.name)


@pytest.fixture
def hub(tmp_path):
    """The address of a Hub with two users."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    words = [tmp_path / "hub", "--port", port, "--user", "hf_ann=ann", "--user", "hf_bob=bob"]
    with subprocess.Popen([sys.executable, "-m", "tests.hub.local", *words], cwd=ROOT) as server:
        url = f"http://127.0.0.1:{port}"
        for _ in range(600):
            try:
                httpx.get(url, timeout=1)
                break
            except httpx.TransportError:
                time.sleep(0.2)
        yield url
        server.terminate()


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_one_person_trains_and_publishes_and_another_trains_on_top_of_that(hub, tmp_path):
    ann, bob = Person(tmp_path, "ann", hub), Person(tmp_path, "bob", hub)
    tiny_base(ann.folder / "model")
    ann.trains("sft", base="model", data=["kmp-train[count:8]"])
    words = ("publish", "adapter", "runs/sft", "--repo", "ann/first", "--with-base", "--public", "--json")
    plans = json.loads(ann.types(*words, "--dry-run"))
    receipts = json.loads(ann.types(*words))
    assert [each["repo"] for each in plans] == [each["repo"] for each in receipts] == ["ann/first-base", "ann/first"]
    (ann.folder / "space.yaml").write_text("wait: false\n")
    told = ann.types("publish", "space", "arena", "--repo", "ann/arena", "--public", "--config", "space.yaml", "--json")
    assert json.loads(told)[0]["visibility"] == "public"
    assert "arena" in httpx.get(f"{hub}/api/spaces/ann/arena").text

    bob.types("chain", "add", "ann/first@v1.0")
    (bob.folder / "pairs.jsonl").write_text(f"{json.dumps(PAIR)}\n" * 4)
    bob.trains("dpo", chain="runs/first", base="ann/first-base", data=["pairs.jsonl"])
    refused = bob.runs([*ASSAY, "publish", "adapter", "runs/dpo", "--repo", "ann/second", "--dry-run"])
    assert refused.returncode == 1 and "the namespace of somebody else" in refused.stderr
    (receipt,) = json.loads(bob.types("publish", "adapter", "runs/dpo", "--repo", "bob/second", "--public", "--json"))
    assert (receipt["repo"], receipt["visibility"]) == ("bob/second", "public")

    ann.types("chain", "add", "bob/second")
    done = ann.runs([sys.executable, "-c", SNIPPET, "runs/second"])
    assert done.returncode == 0, done.stderr[-3000:]
    apart, learned = map(float, done.stdout.split()[-2:])
    assert apart < 1e-4 < learned, "the plain line loads the whole chain"
