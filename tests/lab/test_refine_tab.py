"""The Refine tab without a browser: records in, graded answers out, what a person makes of them, how all is shown."""

import json
import re
import threading
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evals.errors import LabError
from evals.refine.files import read_records
from evals.refine.judge import HeuristicJudge, compare_words, missing
from evals.refine.score import explain, prepare
from evals.refine.task import messages
from evals.schema.refiner import KeptRefinement, RefinedAnswer, RewardConfig, ScoredAnswer
from lab.cli import app
from lab.refine import session
from lab.refine.export import export
from lab.refine.session import LONGEST, Fields, answer, correct, label, pick, rate, record_of, score, view
from lab.refine.view import coloured, parts, refined, rubric
from lab.session import Own, stop
from lab.ui.components import escape
from lab.visitors import new_visitor as somebody
from tests.lab.chains import ScriptedChain, lab_with
from tests.lab.refined import GOOD, HALF, PLAIN, RECORD, refining_lab
from tests.lab.votes import NOON, url_in

USUAL = (0, 256, 0.0)


@pytest.fixture
def room(tmp_path):
    return refining_lab(tmp_path)


def test_every_stage_answers_and_is_graded_with_the_judge_named(room):
    *before, view = answer(room, somebody(), RECORD, USUAL)

    assert all(each.is_busy for each in before)
    assert not view.is_busy
    assert [view.cards.count(f'data-title="{name}"') for name in ("Base", "SFT", "GRPO")] == [1, 1, 1]
    assert "heuristic (word overlap" in view.cards
    assert "3 answers graded" in view.notice


def test_stages_read_the_record_as_the_refiner_was_trained_to(tmp_path):
    chain = ScriptedChain({"base": GOOD}, stages=("base",))
    services = lab_with(tmp_path, chain)

    list(answer(services, somebody(), RECORD, USUAL))

    assert chain.prompts == [messages(RECORD)]


def test_an_answer_that_was_pasted_is_graded_without_a_model(room):
    view = score(room, somebody(), RECORD, GOOD)

    assert 'data-title="Your answer"' in view.cards
    assert room.engine.status.state == "idle"


def test_what_is_no_answer_or_no_setting_is_told_before_anything_is_asked(room):
    for pasted, told in (("  ", "aste an answer first"), ("x" * 20_001, "20,001 characters")):
        with pytest.raises(LabError, match=told):
            score(room, somebody(), RECORD, pasted)
    with pytest.raises(LabError, match="-1"):
        next(answer(room, somebody(), RECORD, (-1, 256, 0.0)))


def test_a_stopped_answer_is_graded_as_far_as_it_came(tmp_path):
    gate = threading.Semaphore(4)
    services = lab_with(tmp_path, ScriptedChain({"grpo": GOOD}, stages=("grpo",), gate=gate))
    visitor = somebody()
    views = answer(services, visitor, RECORD, USUAL)
    next(each for each in views if 'data-state="writing"' in each.cards)

    stop(services, visitor, "refine")
    gate.release(50)
    *_, last = views

    assert "not exactly one &lt;answer&gt; block" in last.cards
    assert "stopped" in last.cards


def test_every_example_can_be_picked_and_those_kept_for_testing_say_so(room):
    listed = session.choices()

    assert len(listed) == len(session.records()) >= 120
    name = next(name for label, name in listed if "kept for testing" in label)
    record, line = pick(name)
    assert record.id == name
    assert "exports for training leave it out" in line
    assert "exports" not in pick(session.demo(room))[1]


# ---- the form of a record ------------------------------------------------------------------------

FORM = Fields("Which way?", "I looked.", "<snippet id=S1>It is down.</snippet>", "+ A: B.")


def test_a_record_comes_back_from_the_form_as_it_is_and_changed_as_a_new_one():
    assert record_of(session.fields_of(RECORD), RECORD) is RECORD
    for record in session.records().values():
        again = record_of(session.fields_of(record), None)
        assert (again.asked, again.tool_output) == (record.asked, record.tool_output)
        assert again.positive_rubrics == record.positive_rubrics
        assert again.negative_rubrics == record.negative_rubrics
    changed = session.fields_of(RECORD)._replace(question="Which way in kidney?")
    made = record_of(changed, RECORD)
    assert made.id.startswith("typed/")
    assert made == record_of(changed, None)
    assert made.id != record_of(session.fields_of(RECORD), None).id
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
        record_of(FORM._replace(**{field: value}), None)

    assert told in str(caught.value)


BETTER = "<answer><snippet id=S1>OXPHOS is down in RR-1.</snippet></answer>"


class Marking:
    """One visitor with three graded answers of one record: PLAIN by base, HALF by sft, GOOD by grpo."""

    def __init__(self, folder):
        self.room, self.visitor = refining_lab(folder), somebody()
        *_, view = answer(self.room, self.visitor, RECORD, USUAL)
        self.kept = view.kept or ""

    @property
    def here(self):
        return self.room, self.visitor, self.kept

    @property
    def own(self):
        return Own(self.room, self.visitor, "refine")

    @property
    def worked(self):
        return self.own.get(self.kept)

    def named(self, stage):
        return next(each.id for each in self.worked.document.answers if each.name == stage)

    def rows(self, form):
        made = export(self.own.documents.everything(self.own.session), form, session.held_out())
        return made, [json.loads(each) for each in made.text.splitlines()]


@pytest.fixture
def mine(tmp_path):
    return Marking(tmp_path)


def test_a_rating_is_kept_shown_and_taken_away_by_the_same_click(mine):
    name = mine.named("sft")

    view = rate(*mine.here, name, "good")
    assert f'data-do="good" data-id="{name}" aria-pressed="true"' in view.cards
    assert [mark.rating for mark in mine.worked.parts] == ["good"]

    rate(*mine.here, name, "good")
    assert [mark.rating for mark in mine.worked.parts] == [None]


def test_a_correction_is_graded_and_stands_beside_the_answer(mine):
    name = mine.named("base")
    assert session.to_correct(*mine.here, name) == ("Base", PLAIN)

    view = correct(*mine.here, name, BETTER)

    assert 'data-title="Base, corrected"' in view.cards
    (mark,) = mine.worked.parts
    assert mark.correction.reward > 5
    assert session.to_correct(*mine.here, name) == ("Base", BETTER)


def test_what_is_no_correction_is_refused_and_nothing_changes(mine):
    for text, told in (("", "aste an answer"), (PLAIN, "word for word")):
        with pytest.raises(LabError, match=told):
            correct(*mine.here, mine.named("base"), text)
    assert mine.worked.parts == ()


def test_the_last_change_can_be_taken_back_until_none_is_left(mine):
    rate(*mine.here, mine.named("sft"), "good")
    correct(*mine.here, mine.named("base"), BETTER)

    assert "Taken back: the correction" in mine.own.undo(mine.kept)[1]
    assert [mark.rating for mark in mine.worked.parts] == ["good"]
    assert "Taken back: the rating" in mine.own.undo(mine.kept)[1]
    with pytest.raises(LabError, match="nothing to take back"):
        mine.own.undo(mine.kept)


def test_earlier_answers_come_back_with_their_record_and_marks(mine):
    rate(*mine.here, mine.named("sft"), "bad")
    ((told, name),) = mine.own.choices(label)

    standing, line = mine.own.earlier(name)

    assert RECORD.asked in told and standing.document.record == RECORD
    assert view(standing, line).cards.count('aria-pressed="true"') == 1


def test_exported_records_are_what_training_reads(mine, tmp_path):
    rate(*mine.here, mine.named("sft"), "good")
    correct(*mine.here, mine.named("base"), BETTER)

    made, _ = mine.rows("sft")
    line, file = mine.own.write(tmp_path / "out", made)

    assert "2 rows" in line
    found = read_records(Path(file))
    assert {row.reference for row in found} == {HALF, BETTER}
    assert {row.group for row in found} == {RECORD.group}
    assert len({row.id for row in found} | {RECORD.id}) == 3
    assert {row.tool_output for row in found} == {RECORD.tool_output}


def test_pairs_set_what_a_person_stands_by_before_what_they_refused(mine):
    rate(*mine.here, mine.named("sft"), "good")
    rate(*mine.here, mine.named("grpo"), "bad")
    correct(*mine.here, mine.named("base"), BETTER)

    _, rows = mine.rows("dpo")

    said = {(row["chosen"][0]["content"], row["rejected"][0]["content"]) for row in rows}
    assert said == {(chosen, bad) for chosen in (BETTER, HALF) for bad in (PLAIN, GOOD)}
    assert rows[0]["prompt"] == [turn.model_dump() for turn in messages(RECORD)]
    assert {row["chosen_by"] for row in rows} == {"base, corrected", "sft"}


def test_what_nobody_should_learn_from_is_left_out_and_counted_and_without_a_row_the_export_says_what_to_do(mine):
    for form in ("sft", "dpo"):
        with pytest.raises(LabError, match="ate"):
            mine.rows(form)
    rate(*mine.here, mine.named("base"), "good")
    rate(*mine.here, mine.named("sft"), "good")

    made, rows = mine.rows("sft")

    assert made.left_out == {"malformed": 1}
    assert [row["reference"] for row in rows] == [HALF]


def test_records_kept_for_testing_never_reach_a_training_file(tmp_path):
    name = next(name for name in session.records() if name in session.held_out())
    record, _ = pick(name)
    room, visitor = refining_lab(tmp_path), somebody()
    kept = score(room, visitor, record, record.reference).kept
    own = Own(room, visitor, "refine")
    rate(room, visitor, kept, own.get(kept).document.answers[0].id, "good")

    with pytest.raises(LabError, match="1 on records kept for testing"):
        export(own.documents.everything(own.session), "sft", session.held_out())


def test_the_command_writes_the_answers_of_all_visitors_as_records(tmp_path, monkeypatch):
    room = refining_lab(tmp_path)
    for _ in range(2):
        visitor = somebody()
        kept = score(room, visitor, RECORD, HALF).kept
        rate(room, visitor, kept, Own(room, visitor, "refine").get(kept).document.answers[0].id, "good")
    monkeypatch.setenv("ASSAY_DATABASE_URL", url_in(tmp_path))
    out = tmp_path / "rows" / "refined.jsonl"

    done = CliRunner().invoke(app, ["refiner", "export", "--out", str(out), "--json"])

    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["rows"] == 1
    assert [row.reference for row in read_records(out)] == [HALF]


ASSAY = RewardConfig()
PUBLISHED = RewardConfig.model_validate({"preset": "published"})


def scored(text: str, config: RewardConfig = ASSAY, *, is_missing: bool = False) -> ScoredAnswer:
    prepared = prepare(RECORD, text, config)
    inquiry = prepared.inquiry()
    verdicts = missing(inquiry, "server away") if is_missing else compare_words(inquiry)
    return explain(prepared, verdicts if prepared.is_judgeable else None, HeuristicJudge.label)


def kept(*texts: str) -> KeptRefinement:
    names = ("base", "sft", "grpo")
    answers = tuple(
        RefinedAnswer(id=f"a{n}", name=names[n], finish_reason="stop", scored=scored(text))
        for n, text in enumerate(texts)
    )
    return KeptRefinement(id="k", made_at=NOON, session="s", record=RECORD, reward=ASSAY, answers=answers)


def words(html: str) -> str:
    return re.sub(r"<[^>]+>", " ", html)


def test_each_claim_has_the_colour_of_its_citation_check_and_says_it_in_words():
    html = coloured(scored(GOOD), "a")

    assert re.findall(r'class="claim (\w+)"', html) == ["full", "none"]
    assert 'title="Claim 1: Words match. Shows its snippets."' in html
    assert 'title="Claim 2: Words do not match, or the claim denies. Shows its snippets."' in html
    assert '<span class="uncited" title="States something without a citation">It fell by 40' in html


def test_what_a_colour_says_depends_on_the_judge_and_without_a_verdict_it_says_nothing():
    html = coloured(scored(GOOD).model_copy(update={"judge": "a model on a server"}), "a")
    assert 'title="Claim 1: Supported. Shows its snippets."' in html
    assert 'title="Claim 2: Not supported. Shows its snippets."' in html
    html = coloured(scored(HALF, is_missing=True), "a")
    assert re.findall(r'class="claim (\w+)"', html) == ["missing"]
    assert coloured(scored(PLAIN)) == "OXPHOS is down. &lt;img src=x onerror=alert(1)&gt;"


def test_the_panel_of_a_claim_holds_its_snippets_and_says_which_is_not_in_the_evidence():
    html = refined(kept(GOOD))

    first, second = re.findall(r'<section class="claim-why.*?</section>', html)
    assert "hidden" in first and "shares words with the claim" in first
    assert "RR-1, mouse" in words(first).replace("  ", " ")
    assert "<b>OXPHOS</b>" in first
    assert "S9" in second and "is not in the evidence" in second


def test_scripts_in_answers_snippets_and_names_are_shown_and_never_run():
    html = refined(kept(GOOD, PLAIN, HALF))

    assert not re.search(r"<(script|img)\b|<b onclick|\$\{|\{\{", html)
    assert "&lt;script&gt;alert(&#x27;claim&#x27;)&lt;/script&gt;" in html
    assert "&lt;b onclick=alert(2)&gt;&#36;&#123;x&#125;" in html.replace("<b>", "").replace("</b>", "")


def test_rubric_items_show_verdict_quote_weight_and_which_grade_every_answer():
    html = words(rubric(scored(GOOD).items))

    assert re.search(r"Direction\s+wanted", html)
    assert "Overreach" in html and "unwanted · weight 2" in html
    assert html.count("for every answer") == 3
    assert "OXPHOS is down in flight in mouse liver." in html
    assert "Seen, 100%" in html


@pytest.mark.parametrize(
    ("text", "config", "told"),
    [
        (PLAIN, ASSAY, "0.00: not well formed *$"),
        ("<answer></answer>", ASSAY, "0.00: the answer is empty"),
        (GOOD, ASSAY, "0.00: format checks failed *$"),
        (HALF, ASSAY, r"\(0.8 × 1.00 \+ 0.2 × 0.67 = 0.933\) × 10 = 9.33"),
        (GOOD, PUBLISHED, r"\(0.8 × 0.78 \+ 0.2 × 0.40 = 0.702\) × 10 = 7.02"),
    ],
)
def test_the_reward_is_told_as_a_sum_or_as_the_rule_that_decided(text, config, told):
    assert re.search(told, words(parts(scored(text, config), config)))


def test_alternatives_of_an_item_are_shown_as_a_person_would_write_them():
    for description, shown in (
        ('Names a mission: "MHU-2|RR-6".', 'Names a mission: "MHU-2" or "RR-6".'),
        ('Says "a|b|c" in "eye".', 'Says "a", "b" or "c" in "eye".'),
        ("No quotes | at all", "No quotes | at all"),
        ('Empty "|" ways', "Empty  ways"),
    ):
        item = scored(HALF).items[0].model_copy(update={"description": description})
        assert escape(shown) in rubric([item])


def test_a_missing_verdict_shows_no_reward_and_why():
    answer = scored(HALF, is_missing=True)

    assert "a verdict is missing, so there is no reward" in words(parts(answer, ASSAY))
    assert "server away" in parts(answer, ASSAY)
    assert "No verdict" in words(rubric(answer.items))


def test_stages_are_compared_in_a_table_and_the_judge_is_named():
    html = refined(kept(PLAIN, HALF, GOOD))

    assert "Use an example or paste a question" in refined(None)
    assert re.findall(r'data-title="(\w+)"', html) == ["Base", "SFT", "GRPO"]
    assert "Answers compared" in html
    assert "Judge: heuristic (word overlap, no language model; for smoke tests only)" in html
    table = html[: html.index("</table>")]
    assert len(re.findall(r"<td[^>]*><b>", table)) == 1
