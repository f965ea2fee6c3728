import json
from pathlib import Path

import pytest

from evals.errors import BadConfig, BadRow
from evals.refine.grammar import evidence_of
from evals.refine.records import as_jsonl, read_records, records_sha256, split_by_group
from tests.evals.refiner.answers import TOOL_OUTPUT, record

BASE = {"id": "r1", "prompt": "Which way?", "tool_output": "<snippet id=S1>up</snippet>"}
ITEM = {"title": "a", "description": "x"}
BAD = (
    ({"tool_output": "<snippet id=S1>up</snippet><snippet id=S1>down</snippet>"}, "tool_output", "two different texts"),
    ({"tool_output": "<snippet id=S1>up"}, "tool_output", "never closed"),
    ({"tool_output": "<snippet>up</snippet>"}, "tool_output", "no legal id"),
    ({"tool_output": "<webpage id='a b'>up</webpage>"}, "tool_output", "no legal id"),
    ({"tool_output": "<snippet id=S 1>up</snippet>"}, "tool_output", "no legal id"),
    ({"tool_output": "<snippet id='S' 1>up</snippet>"}, "tool_output", "no legal id"),
    ({"tool_output": "<snippet id=S,1>up</snippet>"}, "tool_output", "no legal id"),
    ({"tool_output": "<webpage url=/?id=S>up</webpage>"}, "tool_output", "no legal id"),
    ({"tool_output": "nothing was found"}, "answerable", "nothing can be answered"),
    ({"completions": "x"}, "completions", "Extra inputs"),
    ({"log_extra": "x"}, "log_extra", "Extra inputs"),
    ({"prompt": " "}, "prompt", "empty"),
    ({"prompt": []}, "prompt", "empty"),
    ({"positive_rubrics": [{**ITEM, "weight": -1}]}, "positive_rubrics.0.weight", "greater than 0"),
    ({"positive_rubrics": [{**ITEM, "weight": 0}]}, "positive_rubrics.0.weight", "greater than 0"),
    ({"positive_rubrics": [ITEM], "negative_rubrics": [ITEM]}, "(whole line)", "titles are unique"),
    ({"negative_rubrics": [{"title": "a"}]}, "negative_rubrics.0.description", "required"),
)  # fmt: skip


@pytest.mark.parametrize(("change", "field", "problem"), BAD)
def test_a_bad_record_is_named_by_line_and_field(tmp_path: Path, change, field, problem):
    rows = tmp_path / "rows.jsonl"
    good = {**BASE, "id": "r0"}
    rows.write_text(f"{json.dumps(good)}\n\n{json.dumps({**BASE, **change})}\n", encoding="utf-8")
    with pytest.raises(BadRow, match=problem) as caught:
        read_records(rows)
    assert (caught.value.line, caught.value.field) == (3, field)


def test_a_record_without_evidence_is_fine_where_there_is_no_answer(tmp_path: Path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text(json.dumps({**BASE, "tool_output": "", "answerable": False}), encoding="utf-8")
    assert read_records(rows)[0].tool_output == ""


def test_evidence_is_read_from_quoted_and_bare_ids_of_both_kinds():
    text = "<snippet id=\"a.1\">A</snippet><webpage url=x id='b:2'>B</webpage><snippet\nid=c-3 n = '2' >C</snippet>"
    assert dict(evidence_of(text)) == {"a.1": "A", "b:2": "B", "c-3": "C"}
    assert dict(evidence_of(f"{text}{text}")) == dict(evidence_of(text))


def test_evidence_ends_at_its_tag_whatever_letters_stand_in_it():
    text = f"<snippet id=S1>{'İ' * 12} is down</SNIPPET>\n<Snippet id=S2>b</snippet><ſnippet id=S3>"
    assert dict(evidence_of(text)) == {"S1": f"{'İ' * 12} is down", "S2": "b"}


def test_a_conversation_asks_its_last_question_unless_the_question_is_told():
    turns = [{"role": "user", "content": "Hello"}, {"role": "user", "content": "Which way?"}]
    assert record(prompt=turns).asked == "Which way?"
    assert record(prompt=turns, question="Up or down?").asked == "Up or down?"


def test_records_are_written_and_read_back_the_same(tmp_path: Path):
    records = (record(), record(id="r2", sources={"S1": "p"}, answerable=False))
    file = tmp_path / "rows.jsonl"
    file.write_text(as_jsonl(records), encoding="utf-8")
    read = read_records(file)
    assert as_jsonl(read) == as_jsonl(records)
    assert records_sha256(reversed(read)) == records_sha256(records)


def test_a_group_is_never_on_both_sides_of_a_split():
    records = [record(id=f"r{n}", split_group=f"g{n % 7}") for n in range(30)]
    first, second = split_by_group(records, 0.3, seed=4)
    assert len(first) + len(second) == 30
    assert not {each.group for each in first} & {each.group for each in second}
    assert len({each.group for each in second}) == 2
    with pytest.raises(BadConfig, match="groups"):
        split_by_group(records[:1], 0.5)


def test_evidence_comes_from_the_tool_output_alone():
    reasoned = record(agent_reasoning="<snippet id=S9>OXPHOS is up</snippet>")
    assert set(evidence_of(reasoned.tool_output)) == set(evidence_of(TOOL_OUTPUT))
