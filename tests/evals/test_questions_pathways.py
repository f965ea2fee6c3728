"""Pathway questions: exact counts, nothing of a held-out tissue in training, answers as the figures say."""

import json
import re
from collections import Counter
from itertools import combinations

import pytest

from evals.errors import BadConfig
from evals.facts import load_enrichment, pathway_names
from evals.questions import find, pathway_halves, pathway_heldout, pathway_training
from evals.questions.pathways import pathway_tissues, succession
from evals.schema import ComparisonTruth, DirectTruth, UncertaintyTruth

STANDARD = ("eye", "thymus")
CONFIDENCE = re.compile(r"\nConfidence: (\d{1,2})%\Z")
WORDS = {
    "UP": r"\b(upregulated|goes up|higher|activated)\b",
    "DOWN": r"\b(downregulated|goes down|lower|suppressed)\b",
}


def everything():
    return pathway_training(held_out=())


def test_holding_out_eye_and_thymus_tests_on_107_questions():
    rows = pathway_heldout(STANDARD)
    assert Counter(row.kind for row in rows) == {
        "direct": 48,
        "mechanism": 48,
        "uncertainty": 9,
        "conservation": 2,
    }
    assert Counter(row.tissue for row in rows) == {"thymus": 82, "eye": 25}
    assert {row.split for row in rows} == {"test"}


def test_training_keeps_144_of_the_169_other_questions():
    rows = pathway_training(STANDARD)
    kinds = {"direct": 50, "mechanism": 50, "uncertainty": 39, "conservation": 4, "comparison": 1}
    assert Counter(row.kind for row in rows) == kinds
    assert Counter(row.tissue for row in rows) == {
        "liver": 72,
        "skin": 42,
        "kidney": 25,
        "gastrocnemius": 4,
        "multi": 1,
    }
    assert {row.split for row in rows} == {"train"}
    others = [row for row in everything() if row.tissue not in STANDARD]
    assert Counter(row.kind for row in others) == kinds | {"comparison": 26}
    assert len(others) == 169 and len(rows) == 144


def test_holding_out_the_eye_alone_tests_on_25_questions():
    rows = pathway_heldout(("eye",))
    assert Counter(row.kind for row in rows) == {
        "direct": 10,
        "mechanism": 10,
        "uncertainty": 4,
        "conservation": 1,
    }


def test_the_directions_of_the_held_out_sets_are_those_of_the_table():
    truths = [row.ground_truth for row in pathway_heldout() if isinstance(row.ground_truth, DirectTruth)]
    counted = Counter((truth.tissue, truth.direction) for truth in truths)
    assert counted == {
        ("thymus", "DOWN"): 30,
        ("thymus", "UP"): 8,
        ("eye", "UP"): 9,
        ("eye", "DOWN"): 1,
    }


def test_five_of_26_comparisons_agree_between_tissues():
    truths = [row.ground_truth for row in everything() if isinstance(row.ground_truth, ComparisonTruth)]
    assert Counter(truth.is_consistent for truth in truths) == {True: 5, False: 21}


@pytest.mark.parametrize(
    "held_out",
    [(), *((tissue,) for tissue in pathway_tissues()), *combinations(pathway_tissues(), 2)],
    ids="+".join,
)
def test_no_training_row_names_a_held_out_tissue(held_out):
    for row in pathway_training(held_out):
        text = json.dumps(row.model_dump(mode="json")).casefold()
        for tissue in held_out:
            assert not re.search(rf"(?<![a-z]){tissue}(?![a-z])", text), row.id


@pytest.mark.parametrize("held_out", [(), ("eye",), STANDARD, pathway_tissues()])
def test_training_and_test_share_no_id_cluster_wording_or_fact(held_out):
    train, test = pathway_training(held_out), pathway_heldout(held_out)
    for key in ("id", "cluster", "prompt", "facts"):
        assert {getattr(row, key) for row in train}.isdisjoint(getattr(row, key) for row in test)


def test_holding_out_nothing_gives_no_test_and_everything_no_training():
    assert pathway_heldout(()) == ()
    assert len(everything()) == 276
    assert pathway_training(pathway_tissues()) == ()


@pytest.mark.parametrize("function", [pathway_training, pathway_heldout])
@pytest.mark.parametrize("name", ["Eye", "lung", "", "multi"])
def test_an_unknown_tissue_is_refused_with_the_known_ones(function, name):
    with pytest.raises(BadConfig, match=rf"{name!r}.*known are liver, .*eye"):
        function(("thymus", name))


def test_ids_and_wordings_are_unique_and_ids_say_what_is_asked():
    rows = everything()
    assert len({row.id for row in rows}) == len({row.prompt for row in rows}) == len(rows)
    assert "genelab/direct/thymus/HALLMARK_E2F_TARGETS" in {row.id for row in rows}


def test_questions_about_one_set_in_one_tissue_share_a_cluster():
    ids = {row.cluster: set() for row in everything()}
    for row in everything():
        ids[row.cluster].add(row.kind)
    assert ids["thymus/HALLMARK_OXIDATIVE_PHOSPHORYLATION"] == {
        "direct",
        "mechanism",
        "uncertainty",
    }
    for row in everything():
        if row.kind == "mechanism":
            assert {"direct", "mechanism"} <= ids[row.cluster]


def test_answers_are_short_and_end_with_the_confidence_of_their_row():
    for row in everything():
        match = CONFIDENCE.search(row.answer)
        assert match and int(match[1]) == round(100 * row.confidence), row.id
        assert len(row.answer[: match.start()].split()) <= 60, row.id
        assert row.answer.splitlines()[-2].startswith("Answer: "), row.id
        assert not re.search(r"[{}_]|None", row.prompt + row.answer), row.id


def test_direct_answers_state_set_tissue_and_direction_and_half_of_them_how_many_missions():
    supported: list[bool] = []
    for row in everything():
        truth = row.ground_truth
        if not isinstance(truth, DirectTruth):
            continue
        name = pathway_names()[truth.pathway][0]
        assert name in row.answer and name in row.prompt and truth.tissue in row.answer
        text = row.answer.replace(name, "")
        other = "DOWN" if truth.direction == "UP" else "UP"
        assert re.search(WORDS[truth.direction], text), row.answer
        assert not re.search(WORDS[other], text), row.answer
        signs = [1 if one.nes > 0 else -1 for one in truth.missions.values() if one.padj < 0.05]
        sign = 1 if truth.direction == "UP" else -1
        supported.append(f"in {signs.count(sign)} of {len(truth.missions)} missions" in row.answer)
        assert ("missions" in row.answer) == supported[-1]
        assert ("against)" in row.answer) == (supported[-1] and -sign in signs)
    assert 0.4 < sum(supported) / len(supported) < 0.6


@pytest.mark.parametrize(
    ("one", "other"),
    [("upregulated", "downregulated"), ("raise", "lower"), ("higher", "lower"), ("up or", "down?")],
)
def test_a_direct_question_offers_both_directions_or_none(one, other):
    for row in everything():
        if row.kind == "direct":
            text = row.prompt.replace(pathway_names()[row.ground_truth.pathway][0], "")
            assert (one in text) <= (other in text), row.prompt


def test_a_mechanism_question_names_the_direction():
    for row in everything():
        if row.kind == "mechanism":
            name = pathway_names()[row.ground_truth.pathway][0]
            assert re.search(WORDS[row.ground_truth.direction], row.prompt.replace(name, "")), row.prompt


def test_uncertainty_answers_name_the_missions_on_both_sides_or_none():
    named: list[bool] = []
    for row in everything():
        truth = row.ground_truth
        if isinstance(truth, UncertaintyTruth):
            assert truth.missions_up and truth.missions_down
            assert "disagree" in row.answer and "single direction" in row.answer
            missions = (*truth.missions_up, *truth.missions_down)
            found = [mission.replace("_", " ") in row.answer for mission in missions]
            assert all(found) or (not any(found) and "in some and down in" in row.answer), row.id
            named.append(all(found))
    assert 0.3 < sum(named) / len(named) < 0.7


def test_consensus_and_disagreement_follow_the_rules_recounted_from_the_table():
    votes: dict[tuple[str, str], list[int]] = {}
    for row in load_enrichment():
        sign = 0 if row.padj is None or row.padj >= 0.05 else (1 if row.nes > 0 else -1)
        votes.setdefault((row.tissue, row.pathway), []).append(sign)
    agreed, disputed = {}, set()
    for key, signs in votes.items():
        up, down = signs.count(1), signs.count(-1)
        if max(up, down) >= 2 and up != down:
            agreed[key] = "UP" if up > down else "DOWN"
        if up and down:
            disputed.add(key)
    rows = everything()
    truths = [row.ground_truth for row in rows if row.kind == "direct"]
    assert {(t.tissue, t.pathway): t.direction for t in truths} == agreed
    truths = [row.ground_truth for row in rows if row.kind == "uncertainty"]
    assert {(t.tissue, t.pathway) for t in truths} == disputed


@pytest.mark.parametrize(
    ("agreeing", "total", "percent"),
    [
        (0, 0, 50),
        (2, 6, 40),
        (2, 2, 75),
        (3, 3, 80),
        (2, 3, 60),
        (3, 6, 50),
        (1, 1, 65),
        (0, 3, 20),
    ],
)
def test_confidence_is_the_rule_of_succession_in_steps_of_five(agreeing, total, percent):
    assert succession(agreeing, total) == percent


@pytest.mark.parametrize(("agreeing", "total"), [(3, 2), (-1, 2)])
def test_an_impossible_number_of_missions_is_refused(agreeing, total):
    with pytest.raises(ValueError, match=f"{agreeing} of {total}"):
        succession(agreeing, total)


def test_confidence_differs_between_answers_of_every_kind():
    levels = {kind: set() for kind in ("direct", "mechanism", "uncertainty", "comparison")}
    for row in everything():
        levels.get(row.kind, set()).add(row.confidence)
    assert all(len(found) >= 4 for found in levels.values()), levels


def test_halves_keep_clusters_whole_and_share_kinds_and_directions():
    rows = pathway_training()
    first, second = pathway_halves(rows)
    assert sorted(row.id for row in (*first, *second)) == sorted(row.id for row in rows)
    assert {row.cluster for row in first}.isdisjoint(row.cluster for row in second)
    for kind in ("direct", "mechanism", "uncertainty", "conservation"):
        assert abs(sum(r.kind == kind for r in first) - sum(r.kind == kind for r in second)) <= 2
    ups = [
        sum(isinstance(r.ground_truth, DirectTruth) and r.ground_truth.direction == "UP" for r in half)
        for half in (first, second)
    ]
    assert abs(ups[0] - ups[1]) <= 2


def test_halves_do_not_depend_on_the_order_of_the_rows():
    rows = pathway_training()
    forwards, backwards = pathway_halves(rows), pathway_halves(rows[::-1])
    assert [{row.id for row in half} for half in forwards] == [{row.id for row in half} for half in backwards]


def test_every_question_is_found_by_its_wording():
    for row in (*pathway_training(), *pathway_heldout()):
        assert find(row.prompt) == row
    for row in everything():
        found = find(row.prompt)
        assert found is not None and found.ground_truth == row.ground_truth
