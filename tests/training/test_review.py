"""Fine-tuning of a reviewer on the tiny model."""

import json
from pathlib import Path

import pytest
import yaml

from evals.errors import BadConfig, BadRow, ChainMismatch, LabError
from evals.review.prompt import PROMPT_VERSION, prompt_sha256, system_prompt
from tests.models import tiny_base, tiny_tokenizer
from tests.training.reviewers import CONTEXT, paper, review_article
from tests.training.runs import COMMON, record, train
from training.data.reviews import check_chain_prompt, check_replies, read_reviews
from training.data.tokens import notes_of, with_template
from training.models.chain import load_chain
from training.reviewer.engine import Asking, ChainEngine

REPLY = '[{"text": "There is no control.", "category": "design_flaw", "severity": "major"}]'


def chat(name: str, prompt: str | None = None, reply: str = REPLY, key: str = "from") -> dict:
    """Return a ShareGPT row, or one of messages where `key` is role."""
    said = (prompt or system_prompt(), f"Review the paper {name}.", reply)
    if key == "from":
        turns = [{"from": who, "value": text} for who, text in zip(("system", "human", "gpt"), said, strict=True)]
        return {"id": name, "article_id": name, "source": "demo", "conversations": turns}
    roles = zip(("system", "user", "assistant"), said, strict=True)
    return {"id": name, "messages": [{"role": who, "content": text} for who, text in roles]}


def rows(folder: Path, *documents: dict) -> str:
    file = folder / "rows.jsonl"
    file.write_text("".join(json.dumps(each) + "\n" for each in documents), encoding="utf-8")
    return str(file)


def settings_file(folder: Path, **values: object) -> Path:
    base = tiny_base(folder / "model", context=CONTEXT)
    data = rows(folder, *(chat(f"demo:{n}") for n in range(4)))
    known = {"base": str(base), "data": [data], "output": str(folder / "run"), **COMMON}
    file = folder / "settings.yaml"
    known |= {"batch": 2, "max_length": 4096, **values}
    file.write_text(yaml.safe_dump(known), encoding="utf-8")
    return file


def test_a_run_leaves_a_reviewer_that_carries_its_instructions_and_reviews(tmp_path: Path):
    run = train("review", settings_file(tmp_path)).path
    chain = json.loads((run / "chain.json").read_text(encoding="utf-8"))
    assert chain["system_prompt"] == system_prompt()
    assert [(stage["name"], stage["kind"]) for stage in chain["stages"]] == [("review", "review")]
    kept = record(run)
    assert (kept["status"], kept["stage"], kept["result"]["steps"]) == ("finished", "review", 2)
    data = {"prompt_version": PROMPT_VERSION, "prompt_sha256": prompt_sha256(), "rows": 4, "rows of rows.jsonl": 4}
    assert data.items() <= kept["data"].items()
    asking = Asking(max_new_tokens=32)
    engine = ChainEngine(load_chain(run, "float32", base=str(tmp_path / "model")), asking)
    row = review_article(paper("mice"), engine, asking)
    assert row.parts[0].tokens_read > 1000 and not row.parts[0].error


def test_a_row_that_is_too_long_stops_the_run_before_it_begins(tmp_path: Path):
    with pytest.raises(BadConfig, match="none is ever cut"):
        train("review", settings_file(tmp_path, max_length=512))
    assert not (tmp_path / "run").exists()


def test_rows_of_both_forms_are_read_and_a_repeated_one_is_counted(tmp_path: Path):
    data = read_reviews([rows(tmp_path, chat("a"), chat("b", key="role"), chat("a"))])
    assert [row.name for row in data.items] == ["a", "b"]
    assert data.left_out == {"the same row again": 1}
    assert data.items[0].reply == data.items[1].reply == REPLY


def test_rows_that_cannot_be_learned_from_are_refused(tmp_path):
    short = {"id": "a", "conversations": chat("a")["conversations"][1:]}
    refused = (
        ([chat("a"), chat("b", prompt="Be kind.")], BadConfig, "different system prompts"),
        ([chat("a"), chat("a", reply="[]")], BadConfig, "two different rows are called 'a'"),
        ([chat("a", reply=" ")], BadRow, "conversations.2.value.: is empty"),
        ([short], BadRow, "they have to be system, user, assistant"),
    )
    for documents, error, said in refused:
        with pytest.raises(error, match=said):
            read_reviews([rows(tmp_path, *documents)])
    with pytest.raises(LabError, match="assay data review --corpus a"):
        read_reviews([str(tmp_path / "none.jsonl")])


TEMPLATES = {
    "before the paper": "{{ messages[2]['content'] if messages|length > 2 else '' }}"
    "{{ messages[0]['content'] }}{{ messages[1]['content'] }}",
    "changed": "{% for each in messages %}{{ each['content']|upper }}{% endfor %}",
}


def test_a_template_that_hides_the_reply_is_refused_rather_than_trained_on_whole(tmp_path):
    data = read_reviews([rows(tmp_path, chat("a"))])
    tokenizer = tiny_tokenizer()
    check_replies(data, tokenizer, "tiny")
    for template in TEMPLATES.values():
        tokenizer.chat_template = template
        with pytest.raises(BadConfig, match="Training on the whole text is refused"):
            check_replies(data, tokenizer, "tiny")


GEMMA = (
    "{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}"
    "{% endif %}{% for each in messages %}<{{ each['role'] }}>{{ each['content'] }}</turn>"
    "{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
)


def test_a_template_without_a_turn_for_instructions_has_them_before_the_paper(tmp_path: Path):
    data = read_reviews([rows(tmp_path, chat("a"))])
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = GEMMA
    with_template(tokenizer)
    check_replies(data, tokenizer, "gemma")
    (row,) = data.trl_rows().values()
    text = tokenizer.apply_chat_template(row["prompt"] + row["completion"], tokenize=False)
    assert text.startswith(f"<user>{system_prompt()}\n\nReview the paper a.</turn>")
    assert "before the first question" in notes_of(tokenizer)[0]


def test_a_chain_that_was_trained_with_other_instructions_is_not_gone_on_with(tmp_path: Path):
    data = read_reviews([rows(tmp_path, chat("a"))])
    check_chain_prompt(data, None)
    check_chain_prompt(data, system_prompt())
    with pytest.raises(ChainMismatch, match="another system prompt"):
        check_chain_prompt(data, "Answer in one sentence.")
