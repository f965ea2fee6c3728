import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evals.errors import BadConfig
from evals.refine.judge import Verdicts
from evals.refine.rubric import items_of, static_items
from evals.refine.score import Prepared, explain, prepare, settle
from evals.schema.refiner import PRESETS, RewardConfig, RubricItem
from tests.evals.refiner.answers import GOOD, PARTS, prepared, record, verdicts, written

OFF = {"preset": "published"}
SHARES = st.sampled_from([0.0, 0.5, 1.0])
EMPTY = "<answer></answer>"


def random_verdicts(case: Prepared, seed: int) -> Verdicts:
    source = random.Random(seed)
    return Verdicts(
        raws=tuple(source.choice([0.0, 0.7, 2.0]) for _ in case.items),
        quotes=("",) * len(case.items),
        support=tuple(source.choice([0.0, 0.5, 1.0]) for _ in case.reading.claims),
        relevance=tuple(tuple(float(source.random() < 0.5) for _ in ids) for ids in case.cited),
        needs=tuple(float(source.random() < 0.5) for _ in case.reading.uncited),
    )


def test_the_reward_is_the_convex_sum_of_rubric_and_f1_times_ten():
    case = prepared(GOOD)
    good = verdicts(case)
    raws = (2.0, 0.0, 2.0, 0.0, 1.0)
    settled = settle(case, replace(good, raws=raws))
    assert settled.rubric == pytest.approx(4.5 / 5)
    assert settled.citation.f1 == 1.0
    assert settled.reward == pytest.approx(10 * (0.8 * 0.9 + 0.2))


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, 0.8 * 0.9 + 0.2 * 2 / 3),
        ({"combine": "additive"}, 0.9 + 0.2 * 2 / 3),
        ({"citation_weight": 0.5}, 0.5 * 0.9 + 0.5 * 2 / 3),
        ({"citation_metric": "precision"}, 0.8 * 0.9 + 0.2 * 0.5),
        ({"citation_metric": "recall"}, 0.8 * 0.9 + 0.2),
        ({"apply_citation": False}, 0.9),
        ({"verification_reward": 1}, (0.8 * 0.9 + 0.2 * 2 / 3) / 10),
    ],
)
def test_each_setting_of_the_total_does_what_it_says(config, expected):
    case = prepared("<answer><snippet id=S1,S2>OXPHOS is down</snippet></answer>", **config)
    given = replace(verdicts(case), raws=(2.0, 0.0, 2.0, 0.0, 1.0), relevance=((1.0, 0.0),))
    assert settle(case, given).reward == pytest.approx(10 * expected)


def test_a_wanted_and_an_unwanted_behaviour_weigh_what_they_are_given():
    about = record(
        positive_rubrics=(RubricItem(title="a", description="x", weight=3.0),),
        negative_rubrics=(RubricItem(title="b", description="y", weight=1.0),),
    )
    case = prepared(GOOD, about, static_rubrics=False)
    assert settle(case, replace(verdicts(case), raws=(2.0, 2.0))).rubric == pytest.approx(0.75)
    assert settle(case, replace(verdicts(case), raws=(0.0, 0.0))).rubric == pytest.approx(0.25)


def test_numbers_beyond_the_scale_count_as_its_ends():
    case = prepared(GOOD, static_rubrics=False)
    assert settle(case, replace(verdicts(case), raws=(7.0, -3.0))).rubric == 1.0


def test_silence_is_paid_only_by_the_published_settings():
    about = record(negative_rubrics=())
    silent = {"raws": (0.0,) * 4}
    published = prepared(EMPTY, about, **OFF)
    assert settle(published, replace(verdicts(published), **silent)).reward == pytest.approx(4.0)
    for config in ({}, {"gate": "multiply"}, {"gate": "off", "empty_answer": "zero"}):
        case = prepared(EMPTY, about, **config)
        assert settle(case, replace(verdicts(case), **silent)).reward == 0.0
        assert settle(case, None).reward == 0.0


def test_a_gate_costs_nothing_a_share_or_everything():
    text = f"Sure. {GOOD}"
    rewards = {}
    for gate in ("off", "multiply", "require"):
        case = prepared(text, gate=gate)
        rewards[gate] = settle(case, replace(verdicts(case), raws=(2.0, 0.0, 2.0, 0.0, 0.0))).reward
    assert rewards == {"off": 10.0, "multiply": pytest.approx(10 * (0.8 * 0.8 + 0.2)), "require": 0.0}


def test_a_hard_fault_earns_nothing_without_a_judge_whatever_the_gate():
    for gate in ("off", "multiply", "require"):
        case = prepared("<answer><snippet id=S1>cut off", gate=gate)
        assert not case.is_judgeable
        assert settle(case, None).reward == 0.0


def test_a_missing_verdict_makes_the_reward_missing_and_never_a_number():
    case = prepared(GOOD)
    for gone in (
        {"raws": (2.0, None, 2.0, 0.0, 0.0)},
        {"support": (None,)},
        {"relevance": ((None,),)},
        {"needs": (None,) * len(case.reading.uncited)},
    ):
        assert settle(case, replace(verdicts(case), **gone)).reward is None
    without = prepared(GOOD, apply_citation=False)
    assert settle(without, verdicts(without, share=None)).reward is not None


def test_a_missing_verdict_hides_no_fault_of_form():
    case = prepared(f"Sure. {GOOD}")
    assert settle(case, verdicts(case, raw=None)).reward == 0.0


def test_nobody_is_asked_about_an_id_that_is_not_in_the_evidence():
    case = prepared("<answer><snippet id=X1>a</snippet> <snippet id=S1,X1>b</snippet></answer>", **OFF)
    assert case.cited == ((), ("S1",))
    settled = settle(case, Verdicts((0.0,) * 5, ("",) * 5, (None, 1.0), ((), (1.0,)), ()))
    assert settled.citation.precision == pytest.approx(1 / 3)
    assert settled.citation.recall == pytest.approx(1 / 2)


def test_citations_can_be_counted_by_document():
    about = record(sources={"S1": "paper", "S2": "paper", "X9": "paper"})
    text = "<answer><snippet id=S1,S2,W:3.a-b_c>a</snippet></answer>"
    case = prepared(text, about, citation_level="paper")
    given = replace(verdicts(case), relevance=((1.0, 0.0, 0.0),))
    assert settle(case, given).citation.precision == pytest.approx(1 / 2)
    assert settle(prepared(text, about), given).citation.precision == pytest.approx(1 / 3)


def test_saying_nothing_checkable_is_right_only_where_there_is_no_answer():
    text = "<answer>The evidence does not say.</answer>"
    for answerable, score in ((False, 1.0), (True, 0.0)):
        case = prepared(text, record(answerable=answerable), gate="off")
        assert settle(case, verdicts(case)).citation.f1 == score
        assert settle(case, verdicts(case, need=1.0)).citation.f1 == 0.0


def test_one_giant_claim_with_every_id_counts_as_unsupported():
    many = ",".join(f"S{n}" for n in range(9))
    long = "word " * 81
    for text in (f"<snippet id={many}>a</snippet>", f"<snippet id=S1>{long}</snippet>"):
        case = prepared(f"<answer>{text}</answer>", gate="off")
        assert case.cited == ((),)
        assert settle(case, verdicts(case)).citation.f1 == 0.0
        assert "unsupported" in str(explain(case, verdicts(case), "test").claims[0].note)


def test_the_static_items_are_three_and_can_be_left_out():
    assert [item.polarity for item in static_items()] == ["positive", "negative", "negative"]
    assert len(items_of(record(), RewardConfig(static_rubrics=False))) == 2
    bare = record(positive_rubrics=(), negative_rubrics=())
    with pytest.raises(BadConfig, match="nothing to"):
        prepare(bare, GOOD, RewardConfig(static_rubrics=False))


def test_presets_are_read_by_name_and_can_be_changed_key_by_key():
    published = RewardConfig.model_validate({"preset": "published", "gate": False, "w": 0.3})
    assert (published.gate, published.zero_if_empty, published.citation_weight) == ("off", False, 0.3)
    assert RewardConfig().gate == "require"
    assert RewardConfig().zero_if_empty
    assert set(PRESETS) == {"assay", "published"}


def test_every_verdict_is_shown_at_its_place_in_the_text():
    text = '<answer>It falls by 1.9. <snippet id="S1,X9">OXPHOS is down</snippet></answer>'
    case = prepared(text, gate="off")
    shown = explain(case, verdicts(case, need=1.0), "test")
    claim, passage = shown.claims[0], shown.uncited[0]
    assert text[claim.start : claim.end] == "OXPHOS is down"
    assert [(each.id, each.is_known, each.relevant) for each in claim.citations] == [
        ("S1", True, 1.0),
        ("X9", False, 0.0),
    ]
    assert (text[passage.start : passage.end], passage.needs_citation) == ("It falls by 1.9.", 1.0)
    assert [item.polarity for item in shown.items].count("negative") == 3
    assert shown.judge == "test"


# what section 4 of the specification wants to hold for every answer


@given(PARTS, st.integers(0, 99), st.sampled_from(["off", "multiply", "require"]))
@settings(max_examples=80)
def test_a_convex_reward_stays_between_0_and_10(parts, seed, gate):
    case = prepared(written(parts), gate=gate)
    reward = settle(case, random_verdicts(case, seed)).reward
    assert reward is not None
    assert 0.0 <= reward <= 10.0


@given(PARTS, st.integers(0, 99), st.randoms())
@settings(max_examples=60)
def test_the_order_of_items_and_of_claims_changes_nothing(parts, seed, source):
    case = prepared(written(parts), gate="off", max_words_per_claim=0)
    given = random_verdicts(case, seed)
    items = list(range(len(case.items)))
    claims = list(range(len(case.reading.claims)))
    source.shuffle(items)
    source.shuffle(claims)
    other = replace(
        case,
        items=tuple(case.items[at] for at in items),
        cited=tuple(case.cited[at] for at in claims),
        reading=replace(case.reading, claims=tuple(case.reading.claims[at] for at in claims)),
    )
    shuffled = replace(
        given,
        raws=tuple(given.raws[at] for at in items),
        support=tuple(given.support[at] for at in claims),
        relevance=tuple(given.relevance[at] for at in claims),
        needs=given.needs[::-1],
    )
    assert settle(case, given).reward == settle(other, shuffled).reward


@given(PARTS, st.integers(0, 99), st.sampled_from(["off", "multiply", "require"]), st.integers(0, 5))
@settings(max_examples=80)
def test_an_unknown_id_never_raises_the_reward(parts, seed, gate, place):
    spans = [at for at, part in enumerate(parts) if not isinstance(part, str)]
    if not spans:
        return
    before = prepared(written(parts), gate=gate)
    given = random_verdicts(before, seed)
    chosen = spans[place % len(spans)]
    changed = [*parts]
    changed[chosen] = ([*parts[chosen][0], "unknown-id"], parts[chosen][1])
    after = prepared(written(changed), gate=gate)
    rewards = [settle(case, given).reward for case in (before, after)]
    assert rewards[1] <= rewards[0] + 1e-12


@given(st.integers(1, 4), st.integers(0, 3))
def test_a_claim_said_twice_never_raises_a_perfect_f1(n, twice):
    claims = ["<snippet id=S1>OXPHOS is down</snippet>"] * n
    claims += claims[: twice + 1]
    case = prepared(f"<answer>{' '.join(claims)}</answer>")
    assert len(case.reading.claims) == len(claims)
    assert settle(case, verdicts(case)).citation.f1 <= 1.0
    one_less = replace(verdicts(case), support=(1.0,) * (len(claims) - 1) + (0.0,))
    assert settle(case, one_less).citation.f1 < 1.0
