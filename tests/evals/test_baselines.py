import pytest

from evals.baselines import BASELINES, tissue_majorities
from evals.questions import DATASETS, pathway_heldout
from evals.verifiers import verify

HELD_OUT = pathway_heldout()


def rewards(name: str) -> list[float]:
    return [verify(example, BASELINES[name](example)).reward for example in HELD_OUT]


@pytest.mark.parametrize("data", sorted(DATASETS))
@pytest.mark.parametrize("name", BASELINES)
def test_a_baseline_answers_every_question(name: str, data: str) -> None:
    assert all(isinstance(BASELINES[name](example), str) for example in DATASETS[data]())


def test_always_down_is_right_as_often_as_the_data_go_down() -> None:
    direct = [example for example in HELD_OUT if example.ground_truth.kind == "direct"]
    policy = BASELINES["always down, 60%"]
    right = sum(verify(example, policy(example)).verdict == "correct" for example in direct)
    assert (right, len(direct)) == (31, 48)


def test_constants_get_nothing_where_the_question_names_the_direction() -> None:
    mechanism = [example for example in HELD_OUT if example.ground_truth.kind == "mechanism"]
    for name in (
        "always down, 60%",
        "always up, 60%",
        "echo the question, 62%",
        "first option of the question, 60%",
    ):
        policy = BASELINES[name]
        assert all(verify(example, policy(example)).verdict != "correct" for example in mechanism)


@pytest.mark.parametrize(
    "name",
    [
        "echo the question, 62%",
        "echo as a statement, 62%",
        "only a confidence, 50%",
        "both directions, 60%",
        "empty answer",
    ],
)
def test_saying_nothing_earns_nothing(name: str) -> None:
    assert set(rewards(name)) == {0.0}


def test_restating_the_finding_is_right_only_where_the_question_names_it() -> None:
    policy = BASELINES["restate the finding, 80%"]
    right = {
        example.ground_truth.kind
        for example in HELD_OUT
        if verify(example, policy(example)).verdict == "correct"
    }
    assert right == {"mechanism"}


def test_the_first_option_of_a_question_is_a_coin_toss() -> None:
    direct = [example for example in HELD_OUT if example.ground_truth.kind == "direct"]
    policy = BASELINES["first option of the question, 60%"]
    right = sum(verify(example, policy(example)).verdict == "correct" for example in direct)
    assert 0.2 < right / len(direct) < 0.65


def test_the_tissue_rule_knows_which_way_a_tissue_mostly_goes() -> None:
    assert tissue_majorities()["thymus"] == "DOWN"
    assert tissue_majorities()["eye"] == "UP"
