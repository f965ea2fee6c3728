"""One task is one class, one metric one line: they then stand in every summary."""

import pytest

from evals.errors import BadConfig
from evals.papers.collection import read_collection
from evals.questions import kmp_test
from evals.review.report import Wanted, measuring_of
from evals.task import TASKS, task_class


def _questions():
    task = task_class("questions")(kmp_test())
    return task, task.examples("test")[:4], "answer"


def _refine():
    task = task_class("refine")()
    return task, task.examples("test")[:4], "reference"


@pytest.mark.parametrize("made", [_questions, _refine])
def test_a_task_gives_full_reward_to_its_own_answers_and_less_to_every_baseline(made):
    task, asked, reference = made()
    taught = [getattr(row, reference) for row in asked]

    best = [grade.reward for grade in task.grade(asked, taught)]
    said = {name: task.grade(asked, texts) for name, texts in task.baselines([], asked).items() if name != "reference"}

    assert min(best) > 0.9
    assert said
    assert all(sum(grade.reward for grade in grades) < sum(best) for grades in said.values())


def test_a_review_is_graded_by_the_concerns_that_humans_share():
    papers = read_collection("demonstration").examples[:4]
    own = task_class("review")(
        papers, lambda panel: measuring_of(panel, None, Wanted("lexical", has_controls=False), None)
    )
    same = ["\n".join(f"- {each.concern_text}" for each in paper.concerns) for paper in papers]

    found = own.grade(papers, same)
    generic = own.grade(papers, own.baselines([], papers)["generic list"])

    assert all(grade.reward > 0.8 for grade in found)
    assert all(low.reward < high.reward for low, high in zip(generic, found, strict=True))
    assert papers[0].title in own.prompt(papers[0])[-1].content


def test_an_unknown_task_is_refused_with_the_names_of_all():
    with pytest.raises(BadConfig, match=", ".join(TASKS)):
        task_class("poetry")
