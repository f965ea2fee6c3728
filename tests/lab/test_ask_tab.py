import shutil
import threading
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from evals import questions
from evals.confidence import StagePromise, about_stage, fit_calibrator, promise
from evals.errors import LabError
from evals.report import claims_of, load_report
from evals.stats.calibration import CalibrationSettings
from evals.verifiers.line import read_lines
from lab.ask.session import ask, begin_answer, earlier, find_earlier, find_going, relied_on, show_earlier
from lab.session import LONGEST_QUESTION, BadQuestion, checked_question, checked_sampling, stop
from lab.session import new_visitor as somebody
from lab.ui.components import Card, cards, escape
from tests.lab.chains import ScriptedChain, lab_with
from tests.lab.test_engine import until
from tests.training.cases import not_refused

SETTINGS = (0, 64, 0)
EMBEDDED = Path(__file__).parents[2] / "training/embedded"


def last(views):
    *_, view = views
    return view


def test_every_stage_answers_side_by_side_with_name_and_meaning_and_is_kept_as_it_is_complete(room):
    for view in ask(room, somebody(), "What is HSF1?", (7, 32, 0.5)):
        is_complete = view.cards.count('data-state="done"') == 3
        assert len(room.store.answers()) == (3 if is_complete else 0)

    places = [view.cards.index(name) for name in ("Base", "SFT", "GRPO")]
    assert places == sorted(places)
    assert "The model as published" in view.cards
    assert "grpo on What is HSF1? with seed 7." in view.cards
    assert "in no question set here" in view.cards
    assert 'class="badge' not in view.cards
    assert not view.is_busy
    stored = {row.stage: row for row in room.store.answers()}
    assert set(stored) == {"base", "sft", "grpo"}
    grpo = stored["grpo"]
    assert (grpo.seed, grpo.max_new_tokens, grpo.temperature) == (7, 32, 0.5)
    assert grpo.stage_sha256 == room.engine.chain().stage_checksums["grpo"]
    assert (grpo.chain, grpo.system_prompt, grpo.dtype) == ("scripted", "Be brief.", "float32")
    assert grpo.text == "grpo on What is HSF1? with seed 7.\nConfidence: 80%"
    assert grpo.finish_reason == "stop"


def test_a_page_chooses_which_stages_answer(room):
    view = last(ask(room, somebody(), "What is HSF1?", SETTINGS, None, ("sft",)))
    assert (view.cards.count("<article"), "<h3>SFT</h3>" in view.cards) == (1, True)


def test_the_model_reads_its_chains_system_prompt_with_what_may_answer_then_the_question(tmp_path):
    known = next(row for row in questions.DATASETS["pathways-heldout"]() if row.kind == "direct")
    chain = ScriptedChain()
    chain.manifest = chain.manifest.model_copy(update={"system_prompt": "{answer}"})
    services = lab_with(tmp_path, chain)

    for asked in (known.prompt, "Why?"):
        last(ask(services, somebody(), asked, SETTINGS))

    assert [[turn.content for turn in prompt] for prompt in chain.prompts] == [
        ["up / down / missions disagree / cannot be told from these data", known.prompt],
        ["a name, a number, yes or no, or cannot be told from these data", "Why?"],
    ]


def test_a_stated_confidence_is_shown_and_a_missing_one_is_named(tmp_path):
    said = {
        "base": "It rises.",
        "sft": "I was 10% sure.\nAnswer: up\nConfidence: 80%",
        "grpo": "It rises, I am 70% confident.",
    }
    services = lab_with(tmp_path, ScriptedChain(said))

    view = last(ask(services, somebody(), "What rises?", SETTINGS))

    for words in ("States no confidence", "States 80% confidence", "States 70% confidence"):
        assert view.cards.count(words) == 1
    assert view.cards.count("<mark ") == view.cards.count('<mark class="claim">up</mark>') == 1


def test_a_card_says_what_such_a_confidence_was_worth_and_is_grey_below_the_threshold_of_its_stage(tmp_path):
    shutil.copytree(EMBEDDED / "grpo", tmp_path / "grpo", ignore=lambda *_: ("adapter", "completions", "reports"))
    report = load_report(EMBEDDED / "grpo/reports/kmp-rewordings.json")
    made = fit_calibrator(report, "grpo", "platt", settings=CalibrationSettings(draws=20))
    (tmp_path / "grpo/calibrator.json").write_text(made.model_dump_json())
    _, about = about_stage(report, "grpo", None)
    kept = StagePromise.model_validate({**about, "promise": promise(*claims_of(report, "grpo", None), 0.5)})
    (tmp_path / "grpo/threshold.json").write_text(kept.model_dump_json())

    def page(stage, text, question="What is HSF1?"):
        shown = relied_on(str(tmp_path / "grpo"), [Card("One", text, stage=stage)], question)
        return str(cards(shown))

    sure, unsure = (page("grpo", f"It rises.\nConfidence: {n}%") for n in (90, 85))
    assert "States 90%; answers like this were right in 64% (n 94, kmp-rewordings). Recalibrated: 59%" in sure
    assert (
        "Below 90%, the confidence from which, with 95% certainty, at most 50% of such answers are wrong" in unsure,
        "card below" in unsure,
        "card below" in sure,
    ) == (True, True, False)
    assert "answers like this" not in page("sft", "It rises.\nConfidence: 90%"), "the calibrator is another stage's"
    other = next(row for row in questions.DATASETS["pathways-heldout"]() if row.kind == "direct")
    assert "answers like this" not in page("grpo", "Answer: up\nConfidence: 90%", other.prompt), "and of other kinds"
    (tmp_path / "grpo/calibrator.json").write_text(made.model_copy(update={"stage_sha256": "0" * 64}).model_dump_json())
    assert "answers like this" not in page("grpo", "It rises.\nConfidence: 90%"), "or of other weights"


def test_a_question_of_the_bank_gets_a_verdict_with_its_reason(tmp_path):
    example = questions.kmp_test()[0]
    services = lab_with(tmp_path, ScriptedChain({"base": "Bananas.", "sft": example.answer}, ("base", "sft")))

    view = last(ask(services, somebody(), example.prompt, SETTINGS))

    stored = {row.stage: row for row in services.store.answers()}
    assert stored["sft"].verdict.verdict == "correct"
    assert stored["base"].verdict.verdict != "correct"
    assert ">Correct<" in view.cards
    reason = stored["base"].verdict.reason
    told = f"{reason[:1].upper()}{reason[1:]} (read from the text: it has no answer line)"
    assert escape(told) in view.cards
    assert view.cards.count("read from the text") == 1
    assert f'<mark class="claim good">{read_lines(example.answer).answer}</mark>' in view.cards
    assert stored["sft"].example_id == example.id


@given(st.text())
def test_no_text_can_open_a_tag_or_a_template_in_a_card(text):
    shown = cards([Card(title="Base", text=f"x{text}")])

    assert shown.count("<") == cards([Card(title="Base", text="x")]).count("<")
    assert "${" not in shown
    assert "{{" not in shown


BAD = {
    "": "Type a question first",
    " \n\t ": "Type a question first",
    None: "Type a question first",
    "?!… 🧬": "Type a question first",
    "a" * 100_000: "100,000 characters, and the lab takes up to 2,000",
    "a" * (LONGEST_QUESTION + 1): "2,001 characters",
}
ODD = ["\u202egninnips\u202c?", "a\0b", "\ud800 lone", "مرحبا؟", "𝔊𝔢𝔫𝔢 🧬", "e\u0301" * 50, "x" * 2000]


def test_a_question_that_cannot_be_asked_says_what_to_do_and_odd_ones_are_asked_and_stored(room):
    for text, message in BAD.items():
        with pytest.raises(BadQuestion, match=message[1:]):
            next(ask(room, somebody(), text, SETTINGS))
    assert room.store.answers() == ()
    for n, text in enumerate(ODD, start=1):
        last(ask(room, somebody(), text, SETTINGS))
        assert len(room.store.answers()) == 3 * n
        assert room.store.answers()[0].question == checked_question(text)


def test_a_setting_out_of_range_names_the_value_and_the_range():
    table = yaml.safe_load((Path(__file__).parent / "tables" / "asking.yaml").read_text())["out of range"]
    assert not_refused(table, lambda settings: checked_sampling(*settings)) == []


def asking_slowly(folder, visitor):
    """Return the collaborators of a lab in which a question is being answered, what its page sees, and what lets a word out."""
    gate = threading.Semaphore(2)
    services = lab_with(folder, ScriptedChain({"base": "one two three four"}, gate=gate))
    views = begin_answer(
        services, visitor, ("typed",), lambda *known: ask(services, known[0], "Why?", SETTINGS, going=known[1])
    )
    return services, views, next(view.going for view in views if "writing" in view.cards), gate


def test_a_page_that_is_loaded_again_goes_on_with_the_answer_that_is_being_written_and_may_stop_it(tmp_path):
    visitor, again = somebody("a" * 32), somebody("a" * 32)
    services, views, name, gate = asking_slowly(tmp_path, visitor)
    views.close()
    assert find_going(services, somebody(), name) is None, "somebody else's"
    going = find_going(services, again, name)
    assert going.typed == ("typed",)
    found = iter(going.views)
    assert "writing" in next(found).cards
    stop(services, visitor, "ask")  # a page that is gone
    gate.release()
    assert "stopped" not in next(found).cards
    stop(services, again, "ask")
    gate.release(100)
    view = last(found)
    assert "stopped" in view.cards and view.kept == name and not view.is_busy
    base = next(row for row in services.store.answers() if row.stage == "base")
    assert (base.text, base.finish_reason, base.verdict) == ("one two three", "cancelled", None)
    assert find_earlier(services, again, name).answers
    assert find_going(services, again, name) is None


def test_an_answer_whose_page_does_not_come_back_is_ended_and_kept_so_far(tmp_path, monkeypatch):
    monkeypatch.setattr("lab.ask.session.LEFT_SECONDS", 0.0)
    visitor = somebody()
    services, views, name, gate = asking_slowly(tmp_path, visitor)
    views.close()
    gate.release()
    until(lambda: not services.going)
    (entry,) = earlier(services, visitor)
    assert entry.first.id == name and {row.finish_reason for row in entry.answers} == {"cancelled"}


def test_answers_stay_on_the_page_when_they_cannot_be_stored(room, monkeypatch):
    def refuse(*_):
        raise LabError("the disk is full")

    monkeypatch.setattr(room.store, "add_answers", refuse)
    view = last(ask(room, somebody(), "What is HSF1?", SETTINGS))
    assert "could not be stored: the disk is full" in view.notice
    assert "grpo on What is HSF1?" in view.cards
    assert not view.is_busy


# ---- earlier questions ---------------------------------------------------------------------------


def test_earlier_questions_are_listed_newest_first_for_their_own_browser_and_shown_without_the_model(room):
    visitor = somebody()
    last(ask(room, visitor, "first?", SETTINGS))
    last(ask(room, visitor, "second?", (3, 64, 0)))
    last(ask(room, somebody(), "of another?", SETTINGS))

    entries = earlier(room, somebody(visitor.rater))

    assert [entry.first.question for entry in entries] == ["second?", "first?"]
    assert [answer.stage for answer in entries[0].answers] == ["base", "sft", "grpo"]
    assert "seed 3" in entries[0].label
    asked = len(room.engine.chain().prompts)
    view = show_earlier(room, visitor, find_earlier(room, visitor, entries[1].first.id))
    assert "sft on first? with seed 0." in view.cards
    assert "Stored answers from" in view.notice
    assert len(room.engine.chain().prompts) == asked
