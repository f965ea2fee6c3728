"""Ratings from votes, by hand, by SciPy's optimiser and on simulated votes whose truth is known; what speaks against a board."""

import math
import random
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pytest
from scipy.optimize import minimize

from evals.preferences.board import ALARM, checks, exact_share, over_votes
from evals.schema import Choice
from evals.schema.votes import BoardCheck
from evals.stats.ranking import MIDDLE, POINTS, PRIOR, Vote, fit, next_match, ratings

# ---- simulated votes ------------------------------------------------------------------------------


STRENGTHS = np.array([-0.9, -0.3, 0.2, 1.0])
"""True ratings in logits, around 0."""
TIE = -0.5


def voted(counts: dict[tuple[str, str], tuple[int, int, int]]) -> list[Vote]:
    """Return so many wins of the first, of the second and ties; each vote on a question of its own."""
    scores = [
        (*pair, score)
        for pair, n in counts.items()
        for score, k in zip((1.0, 0.0, 0.5), n, strict=True)
        for _ in range(k)
    ]
    return [Vote(*each, str(k), "kim") for k, each in enumerate(scores)]


def votes(generator: np.random.Generator, n: int, questions: int, raters: int, spread: float) -> list[Vote]:
    """Return votes in which every question, and every rater, likes each model more or less than average by `spread`."""
    of_question = generator.normal(0, spread, (questions, len(STRENGTHS)))
    of_rater = generator.normal(0, spread if raters >= 10 else 0, (raters, len(STRENGTHS)))
    made = []
    for _ in range(n):
        question, rater = generator.integers(questions), generator.integers(raters)
        first, second = generator.permutation(len(STRENGTHS))[:2]
        worth = STRENGTHS + of_question[question] + of_rater[rater]
        odds = np.exp([worth[first], worth[second], TIE + (worth[first] + worth[second]) / 2])
        score = (1.0, 0.0, 0.5)[generator.choice(3, p=odds / odds.sum())]
        made.append(Vote(str(first), str(second), score, str(question), str(rater)))
    return made


def truth(spread_question: float, spread_rater: float, seed: int = 1) -> np.ndarray:
    """Return the ratings that endless votes would give: with spread, strengths averaged over questions are shrunk."""
    if not (spread_question or spread_rater):
        return STRENGTHS
    generator = np.random.default_rng(seed)
    n = 400_000
    spread = np.hypot(spread_question, spread_rater)
    worth = STRENGTHS + generator.normal(0, spread, (n, len(STRENGTHS)))
    names = [str(k) for k in range(len(STRENGTHS))]
    pairs = [(a, b) for a in names for b in names if a < b]
    counts = []
    for a, b in pairs:
        one, other = worth[:, int(a)], worth[:, int(b)]
        odds = np.exp(np.stack([one, other, TIE + (one + other) / 2], axis=1))
        counts.append((odds / odds.sum(axis=1, keepdims=True)).sum(axis=0))
    return fit(names, pairs, np.array(counts)).values[:-1]


CASES = ((30, 30, 1, 0.0), (60, 40, 2, 0.0), (200, 80, 3, 0.0), (60, 15, 2, 0.7), (200, 30, 3, 0.7), (400, 80, 20, 0.7))


def coverage(n: int, questions: int, raters: int, spread: float, sets: int) -> float:
    """Return how often an interval holds the true rating."""
    generator = np.random.default_rng(n + questions)
    true = truth(spread, spread if raters >= 10 else 0)
    held = []
    for _ in range(sets):
        rated = ratings(votes(generator, n, questions, raters, spread))
        held += [each.low <= MIDDLE + POINTS * true[int(each.model)] <= each.high for each in rated]
    return float(np.mean(held))


FIELD = {"base": -1.4, "sft": -0.5, "kto": -0.3, "dpo": 0.4, "grpo": 0.5, "next": 1.3}
"""True ratings, in logits, of those among whom matches are chosen."""
REACHED = 0.53
"""Votes are enough once no rating's standard error, in logits, is above this: 92 points."""


def votes_needed(choose: bool, seed: int) -> int:
    """Return after how many votes every rating is known well enough, matches chosen or drawn alike often."""
    chance, fell = random.Random(seed), Counter[tuple[str, str, Choice]]()
    names, pairs = list(FIELD), list(combinations(FIELD, 2))
    centred = np.eye(len(names), len(names) + 1) - np.append(np.full(len(names), 1 / len(names)), 0)
    for n in range(1, 2000):
        left, right = next_match(names, fell, {}, chance) if choose else chance.choice(pairs)
        odds = [math.exp(FIELD[left]), math.exp(FIELD[right]), math.exp(TIE + (FIELD[left] + FIELD[right]) / 2)]
        choices: tuple[Choice, ...] = ("left", "right", "tie")
        fell[left, right, chance.choices(choices, odds)[0]] += 1
        sides = (("left", "right"), ("right", "left"), ("tie", "tie"))
        counts = np.array([[fell[a, b, one] + fell[b, a, other] for one, other in sides] for a, b in pairs])
        covariance = fit(names, pairs, counts).covariance
        if n >= 30 and np.sqrt(np.diag(centred @ covariance @ centred.T)).max() <= REACHED:
            return n
    return n


# ---- ratings --------------------------------------------------------------------------------------


def test_ratings_are_those_that_make_the_votes_likeliest() -> None:
    counts = {("a", "b"): (9, 4, 3), ("b", "c"): (8, 5, 6), ("c", "a"): (3, 10, 2)}

    def unlikely(values: np.ndarray) -> float:
        worth = dict(zip("abc", values, strict=False))
        total = (values**2).sum() / 2 / PRIOR**2
        for (one, other), n in counts.items():
            odds = np.exp([worth[one], worth[other], values[3] + (worth[one] + worth[other]) / 2])
            total -= float(np.dot(n, np.log(odds / odds.sum())))
        return total

    best = minimize(unlikely, np.zeros(4)).x
    found = {each.model: each for each in ratings(voted(counts))}
    for name, value in zip("abc", best, strict=False):
        assert found[name].rating == pytest.approx(MIDDLE + POINTS * value, abs=0.1)
    assert [(each.votes, each.wins, each.ties) for each in found.values()] == [(31, 19, 5), (35, 12, 9), (34, 8, 8)]
    assert found["a"].win_rate == pytest.approx(21.5 / 31)


def test_odds_of_ten_to_one_are_400_points_apart() -> None:
    first, second = ratings(voted({("a", "b"): (1000, 100, 0)}))
    assert first.rating - second.rating == pytest.approx(400, abs=2)
    assert first.rating + second.rating == pytest.approx(2 * MIDDLE)
    assert (first.rank, second.rank) == (1, 2)


def test_who_won_every_vote_has_a_rating_and_an_interval_that_says_how_little_is_known() -> None:
    first, second = ratings(voted({("a", "b"): (5, 0, 0)}))
    assert math.isfinite(first.rating)
    assert first.high - first.low > 800
    assert first.rank == second.rank == 1, "five votes show nothing"


def test_who_was_never_compared_with_the_others_stands_in_a_group_of_its_own() -> None:
    found = ratings(voted({("a", "b"): (30, 3, 2), ("x", "y"): (0, 8, 1)}))
    ranks = [(each.model, each.group, each.rank) for each in found]
    assert ranks == [("a", 1, 1), ("b", 1, 2), ("y", 2, 1), ("x", 2, 2)]
    for group in (1, 2):
        assert sum(each.rating for each in found if each.group == group) == pytest.approx(2 * MIDDLE)
    assert ratings([]) == []


def test_votes_that_repeat_each_other_on_few_questions_widen_the_interval() -> None:
    many = voted({("a", "b"): (40, 20, 0)})
    few = [vote._replace(question=str(int(vote.question) // 10)) for vote in many]
    widths = [row.high - row.low for row in (ratings(each)[0] for each in (many, few))]
    assert widths[1] > 1.5 * widths[0]


@pytest.mark.parametrize("case", CASES[1::2])
def test_intervals_hold_the_true_rating_about_95_times_of_100(case: tuple[int, int, int, float]) -> None:
    assert 0.92 <= coverage(*case, sets=60) <= 0.995


def test_chosen_matches_reach_known_ratings_with_fewer_votes_than_matches_drawn_alike_often() -> None:
    chosen, drawn = ([votes_needed(choose, seed) for seed in range(9)] for choose in (True, False))
    assert np.median(chosen) < 0.95 * np.median(drawn)


# ---- what speaks against a board ------------------------------------------------------------------


OF_STAGES = {"base": -0.8, "sft": -0.2, "dpo": 0.3, "grpo": 0.7}
"""True ratings in logits."""
OF_TIES = -0.7


class Cast(NamedTuple):
    """Votes with the texts they are on; the first is the left one."""

    votes: list[Vote]
    texts: list[tuple[str, str]]

    def checked(self) -> dict[str, BoardCheck]:
        return {each.name: each for each in checks(self.votes, self.texts)}


Pull = Callable[[str, str, str, tuple[str, str]], float]
"""What makes the left answer win beside who wrote it, in logits: left, right, rater, the two texts."""


def cast(
    seed: int, n: int = 240, raters: int = 6, pull: Pull = lambda *_: 0.0, strengths: Mapping[str, float] = OF_STAGES
) -> Cast:
    """Return votes of raters on sixty questions, whose answers are of any length and hold a list now and then."""
    chance = np.random.default_rng(seed)
    found = Cast([], [])
    for k in range(n):
        left, right = chance.permutation(list(strengths))[:2]
        words, points = chance.integers(20, 200, 2), chance.integers(0, 4, 2)
        one, other = ("word " * a + "\n- point" * b for a, b in zip(words, points, strict=True))
        rater = f"rater {chance.integers(raters)}"
        lead = strengths[left] - strengths[right] + pull(left, right, rater, (one, other))
        odds = np.exp([lead / 2, -lead / 2, OF_TIES])
        score = (1.0, 0.0, 0.5)[chance.choice(3, p=odds / odds.sum())]
        found.votes.append(Vote(str(left), str(right), score, f"question {k % 60}", rater))
        found.texts.append((one, other))
    return found


def test_votes_without_a_fault_raise_none() -> None:
    seeds = 40
    raised = Counter(each.name for seed in range(seeds) for each in cast(seed).checked().values() if each.is_fault)
    assert raised.total() <= 5 * ALARM * seeds + 2, raised


def test_a_side_that_wins_as_a_side_is_told_with_the_interval_of_its_share() -> None:
    found = cast(1, pull=lambda *_: 0.9).checked()["sides"]
    assert (found.is_fault, found.says) == (True, ("sides.left",))
    assert 50 < found.figures["low"] < 100 * found.figures["left"] / found.figures["n"] < found.figures["high"]


def test_one_rater_who_always_takes_the_left_is_told_though_the_side_wins_no_more_than_half() -> None:
    found = cast(2, raters=12, pull=lambda left, right, rater, _: 9.0 * (rater == "rater 3")).checked()["sides"]
    assert (found.says, found.figures["rater"]) == (("sides.rater",), "rater 3")
    assert found.figures["own"] == found.figures["of"]


def test_models_that_beat_each_other_in_a_circle_are_told_in_its_order() -> None:
    beats = {("base", "sft"), ("sft", "dpo"), ("dpo", "base")}
    found = cast(
        3,
        strengths=dict.fromkeys(OF_STAGES, 0.0),
        pull=lambda left, right, *_: 1.4 * (((left, right) in beats) - ((right, left) in beats)),
    ).checked()["circles"]
    one, other, third = (found.figures[each] for each in ("one", "other", "third"))
    assert found.is_fault
    assert {(one, other), (other, third), (third, one)} == beats


def test_an_order_that_hangs_on_one_rater_is_told_with_how_many_votes_are_theirs() -> None:
    def biased(left: str, right: str, rater: str, _: tuple[str, str]) -> float:
        return 6.0 * ((left == "base") - (right == "base")) * (rater == "rater 0")

    found = cast(4, raters=3, pull=biased).checked()["raters"]
    assert (found.is_fault, found.figures["rater"], found.figures["one"]) == (True, "rater 0", "base")


@pytest.mark.parametrize("style", ["length", "markdown"])
def test_length_and_markdown_that_win_votes_whoever_wrote_the_answer_are_told_apart(style: str) -> None:
    def swayed(left: str, right: str, rater: str, texts: tuple[str, str]) -> float:
        one, other = (len(each) if style == "length" else each.count("\n- ") for each in texts)
        return 2.5 * (one - other) / max(one + other, 1)

    found = cast(5, pull=swayed).checked()["style"]
    assert (found.is_fault, found.says[0]) == (True, f"style.{style}.more")
    assert found.figures["odds"] > 1.5


def test_an_order_that_turns_around_once_ties_count_for_nothing_is_told() -> None:
    votes = voted({("base", "sft"): (12, 1, 90), ("dpo", "sft"): (70, 25, 8)})
    found = Cast(votes, [("a", "b")] * len(votes)).checked()["ties"]
    assert (found.is_fault, found.figures["one"], found.figures["other"]) == (True, "dpo", "base")


def test_a_share_of_votes_has_the_exact_binomial_interval_and_a_wider_one_where_raters_go_together() -> None:
    assert exact_share([[1.0] * 8 + [0.0] * 2], 0.05) == pytest.approx((0.4439, 0.9748), abs=1e-4)
    assert exact_share([[1.0] * 5], 0.05) == pytest.approx((0.4782, 1.0), abs=1e-4)
    apart = exact_share([[1.0, 0.0] * 5] * 12, 0.05)
    together = exact_share([[1.0] * 10, [0.0] * 10] * 6, 0.05)
    assert together[1] - together[0] > 2 * (apart[1] - apart[0])


def test_ratings_over_votes_end_in_those_of_all_votes_and_their_intervals_narrow() -> None:
    points = [each for each in over_votes(cast(6).votes) if each.model == "grpo"]
    assert (points[0].votes, points[-1].votes, len(points)) == (12, 240, 20)
    assert points[-1].high - points[-1].low < 0.6 * (points[1].high - points[1].low)
    assert points[-1].low < points[-1].rating < points[-1].high
