"""Ask with evidence, without a browser: passages in, cited and graded answers out, rated as any answer, and how all is shown."""

import json
import re
import threading
from pathlib import Path

import pytest
import yaml

from evals.errors import LabError
from evals.refine.bank import refiner_bank
from evals.refine.grammar import evidence_of
from evals.refine.judge import HeuristicJudge, compare_words, missing
from evals.refine.score import explain, prepare
from evals.refine.task import messages
from evals.schema.refiner import KeptRefinement, RefinedAnswer, RefinerRecord, RewardConfig, ScoredAnswer
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
from lab.session import new_visitor as somebody
from lab.session import stop
from lab.shared.exports import annotations_of
from lab.shared.rater import RATED, Rater
from tests.lab.chains import ScriptedChain, lab_with
from tests.lab.votes import NOON

TABLE = yaml.safe_load((Path(__file__).parent / "tables" / "evidence.yaml").read_text(encoding="utf-8"))
GOOD, PLAIN, HALF = (TABLE["answers"][name] for name in ("good", "plain", "half"))
RECORD = RefinerRecord.model_validate(TABLE["record"])
USUAL = (0, 256, 0.0)
BETTER = TABLE["answers"]["better"]


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
    page = record_of("Which way?", "<webpage id=W1>It is down.\n\nIt was up.</webpage>")
    assert dict(evidence_of(page.tool_output)) == {"W1": "It is down.\n\nIt was up."}
    plain = record_of("Which way?", "It is down.\n\n  It was up, p < 0.05.\n")
    assert plain.tool_output == ("<snippet id=S1>It is down.</snippet>\n<snippet id=S2>It was up, p < 0.05.</snippet>")


@pytest.mark.parametrize(
    ("field", "value", "told"), [*TABLE["typed"], (1, "x" * (LONGEST + 1), f"the limit is {LONGEST:,}")]
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
    rater.add_items(items_of(kept))
    rater.set_thumb(item.id, "up")
    assert refinement_view(room, visitor, kept).cards.count('aria-pressed="true"') == 1


def test_what_a_person_stands_by_trains_with_the_whole_prompt_and_records_kept_for_testing_do_not(room):
    visitor = somebody()
    *_, asked = answer(room, visitor, RECORD, USUAL)
    rater, items = Rater(room, visitor), items_of(find_refinement(room, visitor, asked.kept))
    rater.add_items(items)
    rater.annotate(items[0].id, "submitted", thumb="down", corrected=BETTER)
    (row,) = map(json.loads, annotations_of(room, RATED, "dpo").files["train.jsonl"].splitlines())
    assert [(turn["role"], turn["content"]) for turn in row["prompt"]] == [
        (turn.role, turn.content) for turn in messages(RECORD)
    ]
    assert (row["chosen"][0]["content"], row["rejected"][0]["content"]) == (BETTER, PLAIN)

    *_, asked = answer(room, visitor, refiner_bank().test[0], USUAL)
    assert items_of(find_refinement(room, visitor, asked.kept)) == []
    assert "not rated" in asked.cards and "data-do=" not in asked.cards


ASSAY = RewardConfig()


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


@pytest.mark.parametrize(("name", "preset", "told"), TABLE["rewards"])
def test_the_reward_is_told_as_a_sum_or_as_the_rule_that_decided(name, preset, told):
    config = RewardConfig.model_validate({"preset": preset})
    assert re.search(told, words(parts(scored(TABLE["answers"][name], config), config)))


def test_a_missing_verdict_shows_no_reward_and_why():
    answer = scored(HALF, is_missing=True)

    assert "a verdict is missing, so there is no reward" in words(parts(answer, ASSAY))
    assert "server away" in parts(answer, ASSAY)
    assert "No verdict" in words(rubric(answer.items))
