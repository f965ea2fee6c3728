"""Which pairs the Compare tab offers, and what is said where there is none to choose between."""

import random
from dataclasses import replace

from evals import questions
from lab.compare.tab import Comparing, bank_question, next_pair
from lab.visitors import new_visitor
from tests.lab.chains import ScriptedChain, lab_with

SAID = {"base": "alpha words", "sft": "beta words", "grpo": "gamma words"}


def last(steps):
    *_, step = steps
    return step


def test_offered_questions_are_all_of_the_training_half_and_none_comes_twice():
    train = {row.prompt for row in (*questions.kmp_training(), *questions.pathway_training())}
    n = len(train)

    offered = [bank_question(Comparing(seed=5, place=place)) for place in range(1, n + 1)]

    assert set(offered) == train
    assert bank_question(Comparing(seed=6, place=1)) != offered[0]


def test_equal_answers_are_pointed_out(tmp_path):
    services = lab_with(tmp_path, ScriptedChain(dict.fromkeys(SAID, "the same words")))

    _, view = last(next_pair(services, new_visitor(), None))

    assert "Both wrote the same words" in view.notice
    assert view.may_vote


def test_a_chain_with_one_stage_says_why_it_cannot_be_compared(tmp_path):
    services = lab_with(tmp_path, ScriptedChain(stages=("base",)))

    _, view = last(next_pair(services, new_visitor(), None))

    assert "has only 1 stage" in view.notice
    assert "--chain NAME" in view.notice


def test_the_same_seed_draws_the_same_pairs(tmp_path):
    drawn = []
    for name in ("a", "b"):
        services = replace(lab_with(tmp_path / name, ScriptedChain(SAID)), random=random.Random(3))
        desk, _ = last(next_pair(services, new_visitor(), None))
        drawn.append((desk.pair.left.stage, desk.pair.question))

    assert drawn[0] == drawn[1]
