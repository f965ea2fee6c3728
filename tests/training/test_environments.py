"""GRPO with tools: a model that may look gene sets up while it answers, on a tiny model whose template shows tools."""

import json
from pathlib import Path

import pyarrow.parquet as parquet
import pytest
import torch
from tokenizers import AddedToken
from trl.chat_template_utils import qwen3_chat_template

from evals.errors import BadConfig
from evals.questions import SYSTEM_PROMPT, pathway_training, write_examples
from tests.models import tiny_adapter, tiny_chain, tiny_llama, tiny_tokenizer
from tests.training.runs import GRPO, figures, ready, settings_file, train
from training import grpo
from training.environments import EnrichmentTable, environment_of
from training.models.base import find_base
from training.models.start import NewStage, append_stage
from training.rewards import text_of

CALL = '<tool_call>\n{"name": "lookup", "arguments": {"tissue": "liver", "pathway": "HALLMARK_HYPOXIA"}}\n</tool_call>'
UNKNOWN = '<tool_call>\n{"name": "lookup", "arguments": {"tissue": "eye", "pathway": "HALLMARK_HYPOXIA"}}\n</tool_call>'
SAID = "Answer: UP\nConfidence: 70%"


@pytest.fixture(scope="module")
def equipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a base that calls tools and answers in single words, and an SFT stage on it."""
    folder = tmp_path_factory.mktemp("equipped")
    tokenizer = tiny_tokenizer()
    words = [AddedToken(text, normalized=False) for text in (CALL, UNKNOWN, SAID)]
    tokenizer.add_tokens(words)
    tokenizer.chat_template = qwen3_chat_template
    model = tiny_llama(tokenizer, max_position_embeddings=4096, tie_word_embeddings=False)
    likely = [*range(len(tokenizer) - len(words), len(tokenizer)), tokenizer.eos_token_id]
    with torch.no_grad():
        model.lm_head.weight[[at for at in range(len(tokenizer)) if at not in likely]] = 0.0
        model.lm_head.weight[likely] *= 10.0
    model.save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    stage = NewStage("sft", "sft", tiny_adapter(folder / "model", folder / "sft" / "adapter", strength=0.01))
    append_stage(folder / "sft", stage, find_base(str(folder / "model")), None, SYSTEM_PROMPT)
    write_examples(folder / "rows.jsonl", [row for row in pathway_training() if row.ground_truth.kind == "direct"][:4])
    return folder


def told(folder: Path, **values: object) -> Path:
    known = {**GRPO, "chain": str(folder / "sft"), "environment": "enrichment", "tool_turns": 2, "batch": 8}
    return settings_file(folder, {**known, "max_completion_length": 320, "max_prompt_length": 2048, **values})


def test_a_few_steps_with_a_lookup_tool_call_it_read_its_answers_and_learn(equipped: Path, tmp_path: Path):
    run = train("grpo", told(equipped, output=str(tmp_path / "run")))
    assert len(figures(run, "tools/call_frequency")) == 2 and max(figures(run, "tools/call_frequency")) > 0
    rows = [row for file in run.completions.glob("*.parquet") for row in parquet.read_table(file).to_pylist()]
    turns = [json.dumps(row["completion"]) for row in rows]
    assert len(turns) == 16
    assert any("RR-1: NES" in text or "MHU-2: NES" in text for text in turns)
    assert figures(run, "kl")[0] == pytest.approx(0.0, abs=1e-6)


def test_what_a_tool_answers_is_not_learned_from(equipped: Path, tmp_path: Path):
    trainer = grpo.build_trainer(ready("grpo", told(equipped, output=str(tmp_path / "run"))))
    batch = trainer._generate_and_score_completions([dict(trainer.train_dataset[0]) for _ in range(8)])
    texts = trainer.processing_class.batch_decode(
        [ids[mask.bool()] for ids, mask in zip(batch["completion_ids"], batch["tool_mask"], strict=True)]
    )
    assert any(CALL in text for text in texts) and not any("NES" in text for text in texts)


def test_the_lookup_finds_gene_sets_of_training_tissues_alone():
    table = EnrichmentTable()
    assert table.lookup("liver", "HALLMARK_HYPOXIA").startswith("MHU-2: NES +1.34, adjusted p 0.04\n")
    assert table.lookup("liver", "HALLMARK_HYPOXIA") == table.lookup(" Liver", "hypoxia")
    for tissue in ("eye", "thymus", "brain"):
        with pytest.raises(ValueError, match="nothing is known of HALLMARK_HYPOXIA"):
            table.lookup(tissue, "HALLMARK_HYPOXIA")


def test_what_is_no_environment_and_a_template_without_tools_are_refused(equipped: Path, tmp_path: Path):
    assert environment_of("training.environments:EnrichmentTable") is EnrichmentTable
    for name in ("freezer", "nowhere:Freezer", "training.environments:Freezer", "pathlib:Path"):
        with pytest.raises(BadConfig, match="environment"):
            environment_of(name)
    tiny_chain(tmp_path)
    known = {"base": str(tmp_path / "model"), "chain": str(tmp_path / "grpo"), "max_prompt_length": 1500}
    file = told(equipped, output=str(tmp_path / "run"), **known)
    with pytest.raises(BadConfig, match="cannot show a model its tools"):
        grpo.build_trainer(ready("grpo", file))


def test_a_tools_last_words_are_no_answer():
    turns = [{"role": "assistant", "content": "", "tool_calls": []}, {"role": "tool", "content": "Answer: UP"}]
    assert text_of(turns) == "" and text_of(turns[:1]) == ""
