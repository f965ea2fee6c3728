import threading

import pytest

from evals.errors import LabError
from evals.refine.prompt import messages
from evals.refine.records import as_jsonl
from lab.refine.session import MOST, answer, choices, demo, pick, read_own, records, score
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
    assert [view.cards.count(f'data-title="{name}"') for name in ("Base", "SFT", "GRPO")] == [
        1,
        1,
        1,
    ]
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


@pytest.mark.parametrize(("pasted", "told"), [("  ", "paste an answer first"), ("x" * 20_001, "20,001 characters")])
def test_what_is_no_answer_is_refused_with_a_reason(room, pasted, told):
    assert told in score(room, somebody(), TYPED, pasted, "assay").notice.lower()


def test_a_wrong_setting_is_told_before_anything_is_asked(room):
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
    record, fields, line = pick(name)
    assert (record.id, fields.question) == (name, record.asked)
    assert "exports for training leave it out" in line
    assert "exports" not in pick(demo(room))[2]


def test_records_of_ones_own_stand_first_and_hide_no_example(tmp_path):
    file = tmp_path / "mine.jsonl"
    example = next(iter(records().values()))
    file.write_text(as_jsonl([RECORD, example.model_copy(update={"prompt": "Mine?"})]))

    own, line = read_own(str(file))

    assert "2 records" in line and "mine.jsonl" in line
    assert [name for _, name in choices(own)[:2]] == list(own)
    assert choices(own)[0][0].endswith("· yours")
    assert pick("yours: r1", own)[0] == RECORD
    assert pick(f"yours: {example.id}", own)[1].question == "Mine?"
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
