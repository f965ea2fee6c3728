"""Templates that open a thought before an answer, or drop one: DeepSeek-R1's and its kin."""

import json
from pathlib import Path

import pytest
from transformers import PreTrainedTokenizerBase

from evals.errors import BadConfig, BadRow
from evals.review.prompt import Budget
from evals.schema import Message
from evals.schema.questions import Sampling
from tests.models import TEMPLATE, tiny_base, tiny_tokenizer
from tests.training.judge_server import Asked, Reply
from tests.training.reviewers import CONTEXT, paper
from tests.training.runs import COMMON, ready, settings_file
from tests.training.test_review import REPLY, chat, rows
from tests.training.test_reviewer import ROOM, answers
from training.data.reviews import check_replies, read_reviews
from training.data.tokens import ChatCounter, notes_of, sequences_of, with_template
from training.reviewer.engine import asked_about, row_of

R1 = """{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}
{%- set ns = namespace(system='') -%}
{%- for message in messages %}
  {%- if message['role'] == 'system' %}{% set ns.system = message['content'] %}{% endif %}
{%- endfor -%}
{{ '<|endoftext|>' + ns.system }}
{%- for message in messages %}
  {%- if message['role'] == 'user' %}{{ '<|im_start|>user:' + message['content'] }}{% endif %}
  {%- if message['role'] == 'assistant' %}
    {%- set content = message['content'] %}
    {%- if '</think>' in content %}{% set content = content.split('</think>')[-1] %}{% endif %}
    {{- '<|im_start|>reviewer:' + content + '<|im_end|>' }}
  {%- endif %}
{%- endfor -%}
{% if add_generation_prompt %}{{ '<|im_start|>reviewer:<think>\\n' }}{% endif %}
"""
"""As DeepSeek-R1-Distill's: it opens a thought after every question, and drops those of earlier turns."""
KNOWS_HOW_NOT_TO = TEMPLATE.replace(
    "{{ '<|im_start|>assistant\n' }}",
    "{{ '<|im_start|>assistant\n' + ('<think>\n' if enable_thinking is not defined or enable_thinking"
    " else '<think>\n\n</think>\n\n') }}",
)
"""As those of Qwen3.5: told that there is to be no thought, it writes an empty one."""


def reasoner(template: str = R1) -> PreTrainedTokenizerBase:
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = template
    return with_template(tokenizer)


def question(tokenizer: PreTrainedTokenizerBase, **told: object) -> str:
    messages = [{"role": "system", "content": "Be fair."}, {"role": "user", "content": "A paper."}]
    return str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True, **told))


def test_a_thought_that_a_template_opens_is_left_out_where_none_is_wanted_and_only_there():
    tokenizer = reasoner()
    open_one = "<|endoftext|>Be fair.<|im_start|>user:A paper.<|im_start|>reviewer:<think>\n"
    assert question(tokenizer) == question(tokenizer, enable_thinking=True) == open_one
    assert question(tokenizer, enable_thinking=False) == open_one.removesuffix("<think>\n")
    assert "opens a thought" in notes_of(tokenizer)[0]


@pytest.mark.parametrize("template", [TEMPLATE, KNOWS_HOW_NOT_TO])
def test_templates_that_need_no_help_stay_as_they_are(template: str):
    tokenizer = reasoner(template)
    assert tokenizer.chat_template == template
    assert notes_of(tokenizer) == ()


def test_the_reply_alone_is_learned_right_after_what_a_reviewer_will_be_asked(tmp_path: Path):
    tokenizer = reasoner()
    data = read_reviews([rows(tmp_path, chat("a"))])
    check_replies(data, tokenizer, "r1")
    (row,) = data.trl_rows().values()
    found = sequences_of(row, tokenizer)["completion"]
    assert tokenizer.decode(list(found.ids[found.given :])) == f"{REPLY}<|im_end|>"
    assert "think" not in tokenizer.decode(list(found.ids))
    asked = tokenizer.apply_chat_template(
        row["prompt"], tokenize=False, add_generation_prompt=True, enable_thinking=False
    )
    assert tokenizer.decode(list(found.ids[: found.given])) == asked


def test_the_trainer_learns_from_just_these_tokens(tmp_path: Path):
    from training.review import build_trainer

    base = tiny_base(tmp_path / "model", context=CONTEXT)
    config = json.loads((base / "tokenizer_config.json").read_text(encoding="utf-8"))
    (base / "tokenizer_config.json").write_text(json.dumps(config | {"chat_template": R1}))
    (base / "chat_template.jinja").unlink(missing_ok=True)
    values = {**COMMON, "base": str(base), "data": [rows(tmp_path, chat("a"), chat("b"))], "batch": 1}
    file = settings_file(tmp_path, {**values, "max_length": CONTEXT})
    trainer = build_trainer(ready("review", file))
    (batch,) = [next(iter(trainer.get_train_dataloader()))]
    learned = [token for token in batch["labels"][0].tolist() if token != -100]
    tokenizer = trainer.processing_class
    assert tokenizer.decode(learned) == f"{REPLY}<|im_end|>"
    assert "think" not in tokenizer.decode(batch["input_ids"][0].tolist())


def test_a_reviewer_is_asked_as_it_was_taught_and_anybody_else_with_the_thought(tmp_path: Path):
    from training.models.chain import load_chain

    base = tiny_base(tmp_path / "model", context=CONTEXT)
    chain = load_chain(f"base:{base}", "float32")
    chain.tokenizer = reasoner()
    prompt = (Message(role="system", content="Be fair."), Message(role="user", content="A paper."))
    for thinks, end in ((False, "reviewer:"), (True, "reviewer:<think>\n")):
        (row,) = chain.rows(prompt, ("base",), Sampling(max_new_tokens=4), thinks=thinks)
        assert chain.tokenizer.decode(list(row.prompt)).endswith(end)


def test_what_a_request_costs_is_counted_with_the_reply_whole(tmp_path: Path):
    counter = ChatCounter(reasoner(), "r1")
    data = read_reviews([rows(tmp_path, chat("a"))])
    (row,) = data.trl_rows().values()
    whole = sequences_of(row, counter.tokenizer)["completion"]
    assert counter.chat([*row["prompt"], *row["completion"]]) == len(whole.ids)


THOUGHTS = {
    "closed": f"<think>\nThe sample is small [1].\n</think>\n\n{REPLY}",
    "opened by the template": f"The sample is small [1].\n</think>\n{REPLY}",
}


@pytest.mark.parametrize("reply", THOUGHTS.values(), ids=THOUGHTS)
def test_reasoning_in_a_row_is_not_learned_from_and_told(tmp_path: Path, reply: str):
    data = read_reviews([rows(tmp_path, chat("a", reply=reply), chat("b"))])
    assert [row.reply for row in data.items] == [REPLY, REPLY]
    assert data.record()["replies without their reasoning"] == 1
    assert "replies without their reasoning" not in read_reviews([rows(tmp_path, chat("a"))]).record()


def test_a_mark_of_reasoning_inside_a_concern_stays(tmp_path: Path):
    reply = '[{"text": "The prompt holds </think>.", "category": "other", "severity": "minor"}]'
    data = read_reviews([rows(tmp_path, chat("a", reply=reply))])
    assert data.items[0].reply == reply
    with pytest.raises(BadConfig, match="does not let the reply be told"):
        check_replies(data, reasoner(), "r1")  # which would cut it there


def test_a_row_whose_reply_is_reasoning_alone_is_named(tmp_path: Path):
    with pytest.raises(BadRow, match=r"line 2.*reasoning alone"):
        read_reviews([rows(tmp_path, chat("a"), chat("b", reply="<think>Hm, the mice"))])


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_a_server_that_was_cut_off_in_thought_is_not_asked_again_and_the_reason_is_kept(field):
    def thinking(_: Asked) -> Reply:
        message = {"role": "assistant", "content": None, field: "The sample [1] is small"}
        choice = {"message": message, "finish_reason": "length"}
        return 200, json.dumps({"choices": [choice]}).encode()

    (reply,), _, requests = answers(thinking)
    assert (reply.finish_reason, reply.error, len(requests)) == ("length", "", 1)
    row = row_of(asked_about(paper("p"), ROOM, Budget(8192, 300)), [reply], 0.0)
    assert (row.status, row.finish_reason, row.concerns) == ("failed", "length", ())


@pytest.mark.parametrize("template", [R1, KNOWS_HOW_NOT_TO])
def test_pairs_and_answers_are_learned_behind_the_question_as_it_is_asked_with_its_thought_closed(template: str):
    tokenizer = reasoner(template)
    asked = [{"role": "user", "content": "Up?"}]
    told = str(tokenizer.apply_chat_template(asked, tokenize=False, add_generation_prompt=True))
    answers = {
        name: [{"role": "assistant", "content": text}] for name, text in (("chosen", "Up."), ("rejected", "No."))
    }
    rows = {"prompt": asked, **answers}
    found = {
        **sequences_of(rows, tokenizer),
        **sequences_of({"prompt": asked, "completion": answers["chosen"]}, tokenizer),
    }
    for name, text in {"chosen": "Up.", "rejected": "No.", "completion": "Up."}.items():
        ids = list(found[name].ids)
        assert tokenizer.decode(ids[: found[name].given]) == told, name
        assert tokenizer.decode(ids[found[name].given :]).rstrip("\n") == f"\n</think>\n\n{text}<|im_end|>", name
