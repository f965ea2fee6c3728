import threading
from dataclasses import replace

import pytest

from evals.errors import LabError
from evals.refine.prompt import messages
from evals.refine.records import as_jsonl
from lab.refine.session import (
    LONGEST,
    MOST,
    Fields,
    answer,
    choices,
    demo,
    fields_of,
    pick,
    read_own,
    record_of,
    records,
    score,
)
from lab.session import stop
from lab.visitors import new_visitor as somebody
from tests.lab.chains import ScriptedChain, lab_with
from tests.lab.refined import GOOD, RECORD, TYPED, refining_lab

USUAL = ("assay", 0, 256, 0.0)


@pytest.fixture
def room(tmp_path):
    """A lab whose stages answer with citations, closed at the end."""
    services = refining_lab(tmp_path)
    yield services
    services.store.close()


def test_every_stage_answers_and_is_graded_with_the_judge_named(room):
    *before, view = answer(room, somebody(), TYPED, USUAL)

    assert all(each.is_busy for each in before)
    assert not view.is_busy
    assert [view.cards.count(f'data-title="{name}"') for name in ("Base", "SFT", "GRPO")] == [1, 1, 1]
    assert "heuristic (word overlap" in view.cards
    assert "3 answers graded" in view.notice


def test_stages_read_the_record_as_the_refiner_was_trained_to(tmp_path):
    chain = ScriptedChain({"base": GOOD}, stages=("base",))
    services = lab_with(tmp_path, chain)

    list(answer(services, somebody(), TYPED, USUAL))

    assert chain.prompts == [messages(RECORD)]
    services.store.close()


def test_an_answer_that_was_pasted_is_graded_without_a_model(room):
    view = score(room, somebody(), TYPED, GOOD, "assay")

    assert 'data-title="Your answer"' in view.cards
    assert room.engine.status.state == "idle"


def test_what_is_no_answer_or_no_setting_is_told_before_anything_is_asked(room):
    for pasted, told in (("  ", "paste an answer first"), ("x" * 20_001, "20,001 characters")):
        assert told in score(room, somebody(), TYPED, pasted, "assay").notice.lower()
    (view,) = answer(room, somebody(), TYPED, ("assay", -1, 256, 0.0))
    assert "problem" in view.notice and "-1" in view.notice


def test_a_stopped_answer_is_graded_as_far_as_it_came(tmp_path):
    gate = threading.Semaphore(4)
    services = lab_with(tmp_path, ScriptedChain({"grpo": GOOD}, stages=("grpo",), gate=gate))
    visitor = somebody()
    views = answer(services, visitor, TYPED, USUAL)
    for view in views:
        if 'data-state="writing"' in view.cards:
            break

    stop(services, visitor, "refine")
    gate.release(50)
    *_, last = views

    assert "not exactly one &lt;answer&gt; block" in last.cards
    assert "stopped" in last.cards
    services.store.close()


def test_every_example_can_be_picked_and_those_kept_for_testing_say_so(room):
    listed = choices()

    assert len(listed) == len(records()) >= 120
    name = next(name for label, name in listed if "kept for testing" in label)
    record, line = pick(name)
    assert record.id == name
    assert "exports for training leave it out" in line
    assert "exports" not in pick(demo(room))[1]


def test_records_of_ones_own_stand_first_and_hide_no_example(tmp_path):
    file = tmp_path / "mine.jsonl"
    example = next(iter(records().values()))
    file.write_text(as_jsonl([RECORD, example.model_copy(update={"prompt": "Mine?"})]))

    own, line = read_own(str(file))

    assert "2 records" in line and "mine.jsonl" in line
    assert [name for _, name in choices(own)[:2]] == list(own)
    assert choices(own)[0][0].endswith("· yours")
    assert pick("yours: r1", own)[0] == RECORD
    assert pick(f"yours: {example.id}", own)[0].asked == "Mine?"
    assert pick(example.id, own)[0] == example
    with pytest.raises(LabError, match="no example record"):
        pick("yours: r1")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "mine.jsonl holds no rows"),
        ("{}\n", "mine.jsonl, line 1, field 'id'"),
        (as_jsonl([RECORD]) * 2, "line 2, field 'id': 'r1' was used in line 1"),
        (as_jsonl([RECORD]).replace("</snippet>", "", 2), "field 'tool_output': <snippet id=S1> is never"),
        ("".join(as_jsonl([RECORD.model_copy(update={"id": f"r{n}"})]) for n in range(MOST + 1)), "1,001 records"),
    ],
    ids=["empty", "no id", "twice", "open passage", "too many"],
)  # fmt: skip
def test_a_file_that_cannot_be_used_is_told_by_its_name_line_and_field(tmp_path, text, told):
    file = tmp_path / "mine.jsonl"
    file.write_text(text)
    with pytest.raises(LabError) as error:
        read_own(str(file))
    assert told in str(error.value) and str(tmp_path) not in str(error.value)


# ---- the form of a record ------------------------------------------------------------------------

FORM = Fields("Which way?", "I looked.", "<snippet id=S1>It is down.</snippet>", "+ A: B.")


def test_a_record_comes_back_from_the_form_as_it_is_and_changed_as_a_new_one():
    assert record_of(fields_of(RECORD), RECORD) is RECORD
    for record in records().values():
        again = record_of(fields_of(record), None)
        assert (again.asked, again.tool_output) == (record.asked, record.tool_output)
        assert again.positive_rubrics == record.positive_rubrics
        assert again.negative_rubrics == record.negative_rubrics
    changed = replace(fields_of(RECORD), question="Which way in kidney?")
    made = record_of(changed, RECORD)
    assert made.id.startswith("typed/")
    assert made == record_of(changed, None)
    assert made.id != record_of(fields_of(RECORD), None).id
    assert not record_of(Fields("Which way?", answerable=False), None).answerable


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
    with pytest.raises(LabError) as caught:
        record_of(replace(FORM, **{field: value}), None)

    assert told in str(caught.value)
