"""How often 95 % intervals of ratings hold the true rating, and what choosing matches saves, on simulated votes."""

import math
import random
from collections import Counter
from itertools import combinations

import numpy as np

from evals.schema import Choice
from evals.stats.ranking import MIDDLE, POINTS, Vote, fit, next_match, ratings

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
