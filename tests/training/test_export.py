"""An exported stage is a plain folder that others load, and computes what the stack does."""

import json
import shutil
from pathlib import Path

import pytest
from transformers import AutoTokenizer
from typer.testing import CliRunner

from evals.errors import BadConfig
from evals.questions import system_prompt
from lab.cli import app
from tests.models import tiny_base, tiny_stage
from training.models.base import Base
from training.models.chain import LoadedChain, load_chain
from training.models.export import Exported, export, serving_lines

QUESTION = "Which way does the liver go?"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny chain whose stages adapt other layers at other ranks."""
    folder = tmp_path_factory.mktemp("export")
    base = tiny_base(folder / "model")
    sft = tiny_stage(folder / "sft", base, prompt="Be short.", seed=0, targets=("q_proj", "v_proj"), strength=0.5)
    tiny_stage(folder / "grpo", base, sft, seed=1, rank=3, targets=("q_proj", "up_proj"), strength=0.5)
    return folder


@pytest.fixture(scope="module")
def chain(folder: Path) -> LoadedChain:
    return load_chain(folder / "grpo", "float32")


@pytest.fixture(scope="module")
def exports(folder: Path) -> dict[str, Exported]:
    """The last stage, exported in both kinds in bfloat16 below `out a`, by kind."""
    out = folder / "out a"
    kinds = ("merged", "joined-lora")
    return {kind: export(folder / "grpo", out / kind, kind, "bfloat16", answer_tokens=12) for kind in kinds}


def test_a_merged_folder_has_the_tokenizer_and_template_that_it_was_trained_with(folder, chain, exports):
    out, messages = folder / "out a" / "merged", [each.model_dump() for each in chain.messages(QUESTION)]
    told = {"tokenize": False, "add_generation_prompt": True}
    text = AutoTokenizer.from_pretrained(out).apply_chat_template(messages, **told)
    assert text == chain.tokenizer.apply_chat_template(messages, **told)
    assert json.loads((out / "config.json").read_text())["dtype"] == "bfloat16"


def test_what_rounding_changes_is_measured_and_written_beside_it(folder, exports):
    for kind, each in exports.items():
        written = json.loads((folder / "out a" / kind / "export.json").read_text())
        assert (written["stage"], list(written["adapters"]), written["dtype"]) == ("grpo", ["sft", "grpo"], "bfloat16")
        assert written["difference"] == each.difference.model_dump()
        assert each.rank == (7 if kind == "joined-lora" else None)
        assert 0.9 < each.difference.top1 <= 1 and 0 < each.difference.kl < 0.01 < each.difference.largest


def test_the_lines_that_serve_an_export_name_its_base_and_folder_as_the_programs_take_them(folder, exports):
    joined, out, base = exports["joined-lora"], folder / "out a" / "joined-lora", folder / "model"
    start, modules = f"vllm serve {base} --enable-lora --max-lora-rank 8", f"--lora-modules 'grpo={out}'"
    assert joined.serve == (f"{start} {modules} --tokenizer '{out}'",)
    of_hub = Base("org/base@abc", base, "0" * 64, "org/base", "abc")
    (line,) = serving_lines(joined, of_hub, out)
    assert line.startswith("vllm serve org/base --enable-lora") and line.endswith("--revision abc")
    embedded = Base("embedded", base, "0" * 64, "org/other-weights")
    assert serving_lines(joined, embedded, out) == joined.serve
    assert "--max-lora-rank 320 " in serving_lines(joined.model_copy(update={"rank": 257}), of_hub, out)[0]
    assert not serving_lines(joined.model_copy(update={"rank": 513}), of_hub, out)

    out = folder / "out a" / "merged"
    assert exports["merged"].serve == (
        f"vllm serve '{out}' --served-model-name grpo",
        f"ollama create grpo -f '{out}/Modelfile'",
        f"python convert_hf_to_gguf.py '{out}' --outfile '{out}.gguf'",
    )
    assert (out / "Modelfile").read_text() == 'FROM .\nSYSTEM """Be short."""\n'
    assert "serve" not in json.loads((out / "export.json").read_text())


def test_the_command_prints_what_was_written_and_the_lines_that_serve_it(folder, tmp_path):
    out, copy = tmp_path / "lora", shutil.copytree(folder, tmp_path / "copy")
    told = json.loads((copy / "grpo/chain.json").read_text()) | {"system_prompt": "Answer: {answer}"}
    (copy / "grpo/chain.json").write_text(json.dumps(told))
    words = f"chain export {copy / 'grpo'} --joined-lora --out {out} --questions 2 --answer-tokens 8 --json"
    told = json.loads(CliRunner().invoke(app, words, catch_exceptions=False).stdout)
    line = told["serve"][0]
    assert told["system_prompt"] == system_prompt("Answer: {answer}", ""), "it is sent as it stands there"
    assert line.startswith("vllm serve ") and f"--lora-modules grpo={out} " in line


@pytest.mark.parametrize(
    ("options", "words"),
    [({"stage": "dpo"}, "no stage 'dpo' .* sft, grpo"), ({"stage": "base"}, "no stage"), ({"dtype": "int3"}, "int3")],
)
def test_what_cannot_be_exported_is_refused_and_nothing_is_left_behind(folder, tmp_path, options, words):
    with pytest.raises(BadConfig, match=words):
        export(folder / "grpo", tmp_path / "out", **{"kind": "merged", **options})
    assert not list(tmp_path.iterdir())
    (tmp_path / "mine").write_text("kept")
    with pytest.raises(BadConfig, match="there already"):
        export(folder / "grpo", tmp_path, "merged")
    assert [each.name for each in tmp_path.iterdir()] == ["mine"]
