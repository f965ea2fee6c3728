"""Ask with evidence, without a browser: passages in, cited and graded answers out, rated as any answer, and how all is shown."""

import json
import re
import threading

import pytest

from evals.errors import LabError
from evals.refine.bank import refiner_bank
from evals.refine.judge import HeuristicJudge, compare_words, missing
from evals.refine.score import explain, prepare
from evals.refine.task import messages
from evals.schema.refiner import BehaviourItem, KeptRefinement, RefinedAnswer, RefinerRecord, RewardConfig, ScoredAnswer
from lab.ask.evidence import (
    LONGEST,
    answer,
    claims_html,
    find_refinement,
    form_values,
    items_of,
    parts,
    record_of,
    refinement_html,
    refinement_label,
    refinement_view,
    rubric,
)
from lab.exports import annotations_of
from lab.session import stop
from lab.shared.rater import RATED, Rater
from lab.visitors import new_visitor as somebody
from tests.lab.chains import ScriptedChain, lab_with
from tests.lab.votes import NOON

GOOD = (
    "<answer><snippet id=S1>OXPHOS is down in flight in mouse liver.</snippet> It fell by 40 percent."
    " <snippet id=S9>Adipogenesis <script>alert('claim')</script> is up.</snippet></answer>"
)
PLAIN = "OXPHOS is down. <img src=x onerror=alert(1)>"
HALF = "<answer><snippet id=S1,S2>OXPHOS is down in liver.</snippet></answer>"
RECORD = RefinerRecord(
    id="r1",
    prompt="Which way does OXPHOS move in mouse liver?",
    agent_reasoning="I looked it up.",
    tool_output=(
        "<snippet id=S1>RR-1, mouse liver: OXPHOS NES -1.9, it is down in flight.</snippet>\n"
        "<snippet id=S2>RR-3, mouse kidney <b onclick=alert(2)>${x} {{y}}</b>: no change.</snippet>"
    ),
    positive_rubrics=(BehaviourItem(title="Direction", description='Says that it is "down".'),),
    negative_rubrics=(BehaviourItem(title="Overreach", description='Says that it is "proven".', weight=2.0),),
    sources={"S1": "GLDS-1", "S2": "GLDS-3"},
    split_group="genelab/liver",
)
USUAL = (0, 256, 0.0)
BETTER = "<answer><snippet id=S1>OXPHOS is down in RR-1.</snippet></answer>"


@pytest.fixture
def room(tmp_path):
    return lab_with(tmp_path, ScriptedChain({"base": PLAIN, "sft": HALF, "grpo": GOOD}))


def test_every_stage_answers_as_the_refiner_was_trained_to_and_is_graded_with_the_judge_named(tmp_path):
    chain = ScriptedChain({"base": PLAIN, "sft": HALF, "grpo": GOOD})
    *before, view = answer(lab_with(tmp_path, chain), somebody(), RECORD, USUAL)

    assert chain.prompts == [messages(RECORD)]
    assert all(each.is_busy for each in before) and not view.is_busy
    assert re.findall(r'data-title="(\w+)"', view.cards) == ["Base", "SFT", "GRPO"]
    assert "Judge: heuristic (word overlap, no language model; for smoke tests only)" in view.cards
    table = view.cards[view.cards.index("Answers compared") : view.cards.index("</table>")]
    assert len(re.findall(r"<td[^>]*>(?:<dfn[^>]*></dfn>)?<b>", table)) == 1
    assert "3 answers graded" in view.notice


def test_a_stopped_answer_is_graded_as_far_as_it_came(tmp_path):
    gate = threading.Semaphore(4)
    services = lab_with(tmp_path, ScriptedChain({"grpo": GOOD}, stages=("grpo",), gate=gate))
    visitor = somebody()
    views = answer(services, visitor, RECORD, USUAL)
    next(each for each in views if 'data-state="writing"' in each.cards)

    stop(services, visitor, "ask")
    gate.release(50)
    *_, last = views

    assert "not exactly one &lt;answer&gt; block" in last.cards
    assert "stopped" in last.cards


def test_a_record_of_our_own_is_known_by_what_it_says_and_plain_paragraphs_become_passages():
    for record in (*refiner_bank().train[:20], *refiner_bank().test[:20]):
        assert record_of(*form_values(record)) is record
    question, evidence, wanted = form_values(refiner_bank().train[0])
    made = record_of(f"{question} Why?", evidence, wanted)
    assert made.id.startswith("typed/") and made == record_of(f"{question} Why?", evidence, wanted)
    plain = record_of("Which way?", "It is down.\n\n  It was up, p < 0.05.\n")
    assert plain.tool_output == ("<snippet id=S1>It is down.</snippet>\n<snippet id=S2>It was up, p < 0.05.</snippet>")


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        (0, " \n", "Type a question first"),
        (1, "<snippet>It is down.</snippet>", "has no legal id"),
        (1, "x" * (LONGEST + 1), f"the limit is {LONGEST:,}"),
        (2, "Direction: down", "line 1 of the rubric is 'Direction: down'"),
        (2, "+ [0] B: c", "line 1 of the rubric"),
        (2, "+ A: b\n- A: c", "titles are unique"),
    ],
)
def test_what_is_wrong_with_what_was_typed_is_told(field, value, told):
    typed = ["Which way?", "<snippet id=S1>It is down.</snippet>", "+ A: B."]
    typed[field] = value
    with pytest.raises(LabError) as caught:
        record_of(*typed)
    assert told in str(caught.value)


def test_answers_are_found_again_with_their_thumbs(room):
    visitor = somebody()
    *_, asked = answer(room, visitor, RECORD, (7, 64, 0.0))
    kept = find_refinement(room, visitor, asked.kept)
    assert kept.record == RECORD and find_refinement(room, visitor, kept.answers[1].id) == kept
    assert find_refinement(room, somebody(), asked.kept) is None, "others find nothing"
    assert RECORD.asked in refinement_label(kept)
    rater, (item, *_) = Rater(room, visitor), items_of(kept)
    rater.rate(items_of(kept))
    rater.thumb(item.id, "up")
    assert refinement_view(room, visitor, kept).cards.count('aria-pressed="true"') == 1


def test_what_a_person_stands_by_trains_with_the_whole_prompt_and_records_kept_for_testing_do_not(room):
    visitor = somebody()
    *_, asked = answer(room, visitor, RECORD, USUAL)
    rater, items = Rater(room, visitor), items_of(find_refinement(room, visitor, asked.kept))
    rater.rate(items)
    rater.say_of(items[0].id, "submitted", thumb="down", corrected=BETTER)
    (row,) = map(json.loads, annotations_of(room, RATED, "dpo").files["train.jsonl"].splitlines())
    assert [(turn["role"], turn["content"]) for turn in row["prompt"]] == [
        (turn.role, turn.content) for turn in messages(RECORD)
    ]
    assert (row["chosen"][0]["content"], row["rejected"][0]["content"]) == (BETTER, PLAIN)

    *_, asked = answer(room, visitor, refiner_bank().test[0], USUAL)
    assert items_of(find_refinement(room, visitor, asked.kept)) == []
    assert "not rated" in asked.cards and "data-do=" not in asked.cards


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
    html = claims_html(scored(GOOD), "a")

    assert re.findall(r'class="claim (\w+)"', html) == ["full", "none"]
    assert 'title="Claim 1: Words match. Shows its passages."' in html
    assert 'title="Claim 2: Words do not match, or the claim is a denial. Shows its passages."' in html
    assert '<span class="uncited" title="States something without a citation">It fell by 40' in html


def test_scripts_in_answers_snippets_and_names_are_shown_and_never_run():
    html = refinement_html(kept(GOOD, PLAIN, HALF))

    assert not re.search(r"<(script|img)\b|<b onclick|\$\{|\{\{", html)
    assert "&lt;script&gt;alert(&#x27;claim&#x27;)&lt;/script&gt;" in html
    assert "&lt;b onclick=alert(2)&gt;&#36;&#123;x&#125;" in html.replace("<b>", "").replace("</b>", "")


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


def test_a_missing_verdict_shows_no_reward_and_why():
    answer = scored(HALF, is_missing=True)

    assert "a verdict is missing, so there is no reward" in words(parts(answer, ASSAY))
    assert "server away" in parts(answer, ASSAY)
    assert "No verdict" in words(rubric(answer.items))
