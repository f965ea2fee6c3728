from dataclasses import replace

import pytest

from evals.errors import LabError
from evals.refine.bank import refiner_bank
from lab.refine.session import LONGEST, Fields, fields_of, record_of
from tests.lab.refined import RECORD

TYPED = Fields("Which way?", "I looked.", "<snippet id=S1>It is down.</snippet>", "+ A: B.")


def test_a_picked_record_that_was_not_changed_is_the_record_with_all_it_knows():
    assert record_of(fields_of(RECORD), RECORD) is RECORD


def test_every_example_record_comes_back_from_the_form_with_the_same_rubric():
    bank = refiner_bank()
    for record in (*bank.test, *bank.train):
        again = record_of(fields_of(record), None)
        assert (again.asked, again.tool_output) == (record.asked, record.tool_output)
        assert again.positive_rubrics == record.positive_rubrics
        assert again.negative_rubrics == record.negative_rubrics


def test_a_changed_record_is_a_new_one_named_after_what_it_says():
    fields = fields_of(RECORD)
    changed = replace(fields, question="Which way in kidney?")

    made = record_of(changed, RECORD)

    assert made.id.startswith("typed/")
    assert made == record_of(changed, None)
    assert made.id != record_of(fields, None).id


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("question", " \n", "type the question first"),
        ("tool_output", "", "paste the tool output first"),
        ("tool_output", "no tags here", "holds no <snippet id=…>"),
        ("tool_output", "<snippet>It is down.</snippet>", "has no legal id"),
        ("tool_output", "<snippet id=S1>It is down.", "never closed"),
        ("tool_output", "x" * (LONGEST + 1), f"up to {LONGEST:,} can be read"),
        ("rubric", "Direction: down", "line 1 of the rubric is 'Direction: down'"),
        ("rubric", "+ A: b\n\n+ [x] B: c", "line 3 of the rubric"),
        ("rubric", "+ [0] B: c", "line 1 of the rubric"),
        ("rubric", "+ A: b\n- A: c", "titles are unique"),
    ],
)
def test_what_is_wrong_with_a_typed_record_is_told(field, value, told):
    with pytest.raises(LabError, match=r".") as caught:
        record_of(replace(TYPED, **{field: value}), None)

    assert told in str(caught.value)


def test_without_evidence_a_record_says_that_there_is_no_answer():
    made = record_of(Fields("Which way?", answerable=False), None)

    assert not made.answerable
