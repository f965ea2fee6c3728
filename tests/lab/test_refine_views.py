import re

import pytest

from evals.refine.judge import HeuristicJudge, compare_words, missing
from evals.refine.score import explain, prepare
from evals.schema.refiner import AnswerMark, KeptRefinement, RefinedAnswer, RewardConfig, ScoredAnswer
from lab.refine.view import coloured, parts, refined, rubric
from lab.ui.components import escape
from tests.lab.refined import GOOD, HALF, PLAIN, RECORD
from tests.lab.votes import NOON

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
    assert 'title="Claim 1: Its words stand in what it cites. Shows its snippets."' in html
    assert 'title="Claim 2: Its words do not stand in what it cites. Shows its snippets."' in html
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
    assert "hidden" in first and "bears on the claim" in first
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
        (HALF, ASSAY, r"\(0.8 × [\d.]+ \+ 0.2 × [\d.]+ = [\d.]+\) × 10 = [\d.]+"),
        (GOOD, PUBLISHED, r"\(0.8 × [\d.]+ \+ 0.2 × [\d.]+ = [\d.]+\) × 10 = [\d.]+"),
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


def test_the_sum_that_is_shown_adds_up():
    answer = scored(HALF)
    line = words(parts(answer, ASSAY))
    found = re.search(r"\(0.8 × ([\d.]+) \+ 0.2 × ([\d.]+) = ([\d.]+)\) × 10 = ([\d.]+)", line)

    assert found is not None
    a, b, q, reward = map(float, found.groups())
    assert 0.8 * a + 0.2 * b == pytest.approx(q, abs=0.01)
    assert reward == pytest.approx(10 * q, abs=0.01)
    assert reward == pytest.approx(answer.reward, abs=0.005)


def test_a_missing_verdict_shows_no_reward_and_why():
    answer = scored(HALF, is_missing=True)

    assert "a verdict is missing, so there is no reward" in words(parts(answer, ASSAY))
    assert "server away" in parts(answer, ASSAY)
    assert "No verdict" in words(rubric(answer.items))


def test_stages_are_compared_in_a_table_and_the_judge_is_named():
    html = refined(kept(PLAIN, HALF, GOOD))

    assert re.findall(r'data-title="(\w+)"', html) == ["Base", "SFT", "GRPO"]
    assert "Answers compared" in html
    assert "Judge: heuristic (word overlap, no language model; for smoke tests only)" in html
    table = html[: html.index("</table>")]
    assert len(re.findall(r"<td[^>]*><b>", table)) == 1


def test_a_correction_stands_beside_what_it_corrects_and_without_an_answer_the_place_says_what_to_do():
    mark = AnswerMark(answer_id="a0", rating="bad", correction=scored(HALF))

    html = refined(kept(PLAIN), [mark])

    assert re.findall(r'data-title="([^"]+)"', html) == ["Base", "Base, corrected"]
    assert "Use an example or paste a question" in refined(None)
