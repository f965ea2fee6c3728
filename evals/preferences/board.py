"""The board that is made of votes: ratings, how they went as votes came in, and what speaks against believing them.

`checks` says of five faults whether the votes show them: a side that wins as a side, circles, one rater on whom an order
hangs, length and markdown that sway, ties that decide. Each is raised in about one of a hundred boards that have none.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from statistics import fmean

import numpy as np
from scipy.special import betaincinv

from evals.questions import find
from evals.schema import Answer
from evals.schema.votes import Board, BoardCheck, BoardPoint, Boards, JudgedPair, Reason, names_itself, rater_of
from evals.stats.intervals import NORMAL, Floats, Interval, student
from evals.stats.ranking import FEWEST_RATERS, FittedRatings, Vote, fit_ratings, ratings

SCORES = {"left": 1.0, "right": 0.0, "tie": 0.5, "both_bad": 0.5}
"""What the left answer gets; that both are bad says as little of who is better as a tie."""
ALL, OWN = "all", "own"
"""Every question; questions that are in no question set."""
ALARM = 0.01
"""How often a check may find a fault by chance."""
MOST_RATERS = 50
"""Raters that are left out one by one, those with most votes."""
POINTS_OVER_VOTES = 20
FIRST_POINT = 10
"""Votes before which a rating is not drawn."""
MARKDOWN = r"(?m)^#{1,6} |^\s*(?:[-*+]|\d+[.)]) |\*\*[^*\n]+\*\*"
"""Headings, list items and bold words."""
STYLES = ("length", "markdown")


def reason_not_blind(pair: JudgedPair) -> Reason | None:
    """Return why a vote says nothing of who is better: both are one model, one names itself, or both say the same."""
    if model_of(pair.left) == model_of(pair.right):
        return "same_model"
    if names_itself(pair.left, pair.right):
        return "names_itself"
    return "identical_texts" if pair.left.text == pair.right.text else None


def model_of(answer: Answer) -> tuple[str, str]:
    """Return what makes a model one: its stage, and the checksum of that, whatever the chain it is used in is called."""
    return answer.stage.partition("@")[0], answer.stage_sha256 or answer.chain


def boards(pairs: Sequence[JudgedPair]) -> Boards:
    """Return the board of all votes that count, then those of each kind of question by their votes."""
    reasons = [reason_not_blind(pair) for pair in pairs]
    kept = [pair for pair, reason in zip(pairs, reasons, strict=True) if reason is None]
    newest = {model_of(each): each for pair in kept for each in (pair.left, pair.right)}
    sharing = Counter(stage for stage, _ in newest)
    twice = Counter((each.stage, each.chain) for each in newest.values())
    names = {}
    for (stage, sha256), each in newest.items():
        chain = f"@{each.chain}" if sharing[stage] > 1 else ""
        names[stage, sha256] = f"{stage}{chain}" + (f" {sha256[:6]}" if twice[each.stage, each.chain] > 1 else "")
    by_kind: dict[str, list[Vote]] = {ALL: []}
    for pair in kept:
        known = find(pair.vote.question)
        left, right = (names[model_of(each)] for each in (pair.left, pair.right))
        vote = Vote(
            left, right, SCORES[pair.vote.choice], known.id if known else pair.vote.question, rater_of(pair.vote)
        )
        for kind in (ALL, known.ground_truth.kind if known else OWN):
            by_kind.setdefault(kind, []).append(vote)
    order = sorted(by_kind, key=lambda kind: (-len(by_kind[kind]), kind != ALL, kind))
    left_out = Counter(reason for reason in reasons if reason)
    texts = [(pair.left.text, pair.right.text) for pair in kept]
    return Boards(
        votes=len(pairs),
        left_out={
            reason: left_out[reason]
            for reason in ("names_itself", "identical_texts", "same_model")
            if left_out[reason] or reason != "same_model"
        },
        boards=tuple(_board(kind, by_kind[kind]) for kind in order),
        checks=tuple(checks(by_kind[ALL], texts)) if kept else (),
        over_votes=tuple(over_votes(by_kind[ALL])),
    )


def _board(kind: str, votes: Sequence[Vote]) -> Board:
    return Board(
        kind=kind,
        votes=len(votes),
        questions=len({vote.question for vote in votes}),
        raters=len({vote.rater for vote in votes}),
        rows=tuple(ratings(votes)),
        against=outcomes(votes),
    )


def outcomes(votes: Sequence[Vote]) -> dict[str, dict[str, tuple[float, int]]]:
    """Return what share of its votes against each other model one has won, and how many those are."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for vote in votes:
        found[vote.first][vote.second].append(vote.score)
        found[vote.second][vote.first].append(1 - vote.score)
    return {one: {other: (fmean(scores), len(scores)) for other, scores in each.items()} for one, each in found.items()}


def over_votes(votes: Sequence[Vote]) -> Iterator[BoardPoint]:
    """Yield the rating of each model after the first so many votes, the last point after all of them."""
    for n in sorted({-(-len(votes) * k // POINTS_OVER_VOTES) for k in range(1, POINTS_OVER_VOTES + 1)}):
        for row in ratings(votes[:n]) if n >= min(FIRST_POINT, len(votes)) else ():
            yield BoardPoint(votes=n, **row.model_dump(include={"model", "rating", "low", "high"}))


# ---- what speaks against a board -----------------------------------------------------------------


def checks(votes: Sequence[Vote], texts: Sequence[tuple[str, str]]) -> list[BoardCheck]:
    """Return what the votes, of which the first is the left one, and the texts of both sides say of five faults."""
    found = fit_ratings(votes)
    return [_sides(votes), _circles(votes), _raters(votes, found), _style(votes, texts, found), _ties(votes, found)]


def reversals(before: FittedRatings, after: FittedRatings) -> Iterator[tuple[str, str, bool]]:
    """Yield which two stand the other way round after than before, the one ahead before first, and whether either fit shows it."""
    for one, other in combinations(before.names, 2):
        lead, later = before.ahead(one, other), after.ahead(one, other)
        if lead is not None and later is not None and lead * later < 0:
            is_shown = abs(lead) > before.half(one, other) or abs(later) > after.half(one, other)
            yield (one, other, is_shown) if lead > 0 else (other, one, is_shown)


def _sides(votes: Sequence[Vote]) -> BoardCheck:
    """Say whether a side wins as a side, over all votes or those of one rater: models stand on both sides equally often."""
    decided = _decided(votes)
    by_rater: dict[str, list[float]] = defaultdict(list)
    for vote in decided:
        by_rater[vote.rater].append(vote.score)
    left, n = sum(vote.score for vote in decided), len(decided)
    low, high = exact_share(list(by_rater.values()), ALARM)
    figures = {"left": int(left), "n": n, "low": 100 * low, "high": 100 * high}
    if not n:
        return BoardCheck(name="sides", says=("sides.none",))
    if not low <= 0.5 <= high:
        return BoardCheck(
            name="sides", says=("sides.left" if low > 0.5 else "sides.right",), is_fault=True, figures=figures
        )
    for rater, scores in by_rater.items():
        span = exact_share([scores], ALARM / len(by_rater))
        if not span[0] <= 0.5 <= span[1]:
            own = {"rater": rater, "own": int(sum(scores)), "of": len(scores)}
            return BoardCheck(name="sides", says=("sides.rater",), is_fault=True, figures=figures | own)
    return BoardCheck(name="sides", says=("sides.fine",), figures=figures)


def exact_share(clusters: Sequence[Sequence[float]], alarm: float) -> Interval:
    """Return the exact binomial interval of a share of zeros and ones at the level 1 - `alarm` (Clopper and Pearson 1934).

    From `FEWEST_RATERS` clusters on as many votes count as independent ones would tell as much (Korn and Graubard 1998,
    Survey Methodology 24:193).
    """
    values = [value for each in clusters for value in each]
    n, m = float(len(values)), len(clusters)
    share = fmean(values) if values else 0.5
    spread = m / max(m - 1, 1) * sum(sum(value - share for value in each) ** 2 for each in clusters)
    if m >= FEWEST_RATERS and spread > 0:
        t, t_of_clusters = (student(1 - alarm / 2, degrees) for degrees in (int(n) - 1, m - 1))
        n = min(n, n**2 * share * (1 - share) / spread * (t / t_of_clusters) ** 2)
    hits = share * n
    low = float(betaincinv(hits, n - hits + 1, alarm / 2)) if share > 0 else 0.0
    return low, float(betaincinv(hits + 1, n - hits, 1 - alarm / 2)) if share < 1 else 1.0


def _circles(votes: Sequence[Vote]) -> BoardCheck:
    """Say whether three models beat each other in a circle, by more than chance.

    In any order by ratings the three log odds of winning around the circle add up to 0: a Wald test of their sum, whose
    variance is the larger of that of independent votes and that over questions.
    """
    wins = Counter((vote.first, vote.second) if vote.score else (vote.second, vote.first) for vote in _decided(votes))
    names = sorted({name for pair in wins for name in pair})
    trios = [trio for trio in combinations(names, 3) if all(wins[a, b] + wins[b, a] for a, b in combinations(trio, 2))]
    found: list[tuple[float, tuple[str, str, str]]] = []
    for a, b, c in trios:
        around = ((a, b), (b, c), (c, a))
        if len({np.sign(wins[one, other] - wins[other, one]) for one, other in around}) > 1:
            continue
        n = {pair: wins[pair] + wins[pair[::-1]] + 1.0 for pair in around}
        share = {pair: (wins[pair] + 0.5) / n[pair] for pair in around}
        total = sum(np.log(each / (1 - each)) for each in share.values())
        of_question: dict[str, float] = defaultdict(float)
        for vote in _decided(votes):
            for pair in around:
                if {vote.first, vote.second} == {*pair}:
                    won = float((vote.score == 1) == (vote.first == pair[0]))
                    of_question[vote.question] += (won - share[pair]) / (n[pair] * share[pair] * (1 - share[pair]))
        m = len(of_question)
        spread = m / max(m - 1, 1) * sum(each**2 for each in of_question.values())
        spread = max(spread, sum(1 / (n[pair] * share[pair] * (1 - share[pair])) for pair in around))
        found.append((abs(total) / math.sqrt(spread), (a, b, c) if total > 0 else (c, b, a)))
    if not trios:
        return BoardCheck(name="circles", says=("circles.none",))
    distance, (one, other, third) = max(found, default=(0.0, ("", "", "")))
    if distance > NORMAL.inv_cdf(1 - ALARM / 2 / len(trios)):
        circle = {"one": one, "other": other, "third": third, "n": len(trios)}
        return BoardCheck(name="circles", says=("circles.fault",), is_fault=True, figures=circle)
    return BoardCheck(name="circles", says=("circles.fine",), figures={"n": len(trios)})


def _decided(votes: Sequence[Vote]) -> list[Vote]:
    return [vote for vote in votes if vote.score != 0.5]


def _raters(votes: Sequence[Vote], found: FittedRatings) -> BoardCheck:
    """Say whether two models stand the other way round once one rater is left out.

    Chance alone turns those around who are level: the difference must be shown, or be another in this rater's votes than
    in those of all others (a Wald test).
    """
    by_rater = Counter(vote.rater for vote in votes)
    if len(by_rater) == 1:
        return BoardCheck(name="raters", says=("raters.one",))
    tests = min(len(by_rater), MOST_RATERS) * math.comb(len(found.names), 2)
    distance = NORMAL.inv_cdf(1 - ALARM / 2 / tests)
    for rater, n in by_rater.most_common(MOST_RATERS):
        without = fit_ratings([vote for vote in votes if vote.rater != rater])
        for one, other, is_shown in reversals(found, without):
            alone = fit_ratings([vote for vote in votes if vote.rater == rater])
            own, rest = alone.ahead(one, other), without.ahead(one, other)
            if not is_shown and own is not None and rest is not None:
                error = math.hypot(alone.error(one, other), without.error(one, other))
                is_shown = abs(own - rest) > distance * error
            if is_shown:
                told = {"rater": rater, "own": n, "n": len(votes), "one": one, "other": other}
                return BoardCheck(name="raters", says=("raters.fault",), is_fault=True, figures=told)
    return BoardCheck(name="raters", says=("raters.fine",), figures={"n": len(by_rater)})


def styles(texts: Sequence[tuple[str, str]]) -> Floats:
    """Return by how much the left text is longer, and holds more markdown, than the right one: shape (pairs, 2).

    Differences over sums, in standard deviations over all pairs; 0 where no two texts differ.
    """
    counts = np.array([[(len(each), len(re.findall(MARKDOWN, each))) for each in both] for both in texts], dtype=float)
    apart = (counts[:, 0] - counts[:, 1]) / np.maximum(counts.sum(axis=1), 1)
    return apart / np.where(apart.std(axis=0) > 0, apart.std(axis=0), 1)


def _style(votes: Sequence[Vote], texts: Sequence[tuple[str, str]], found: FittedRatings) -> BoardCheck:
    """Say whether length or markdown wins votes whoever wrote it, and what the order is with both held equal.

    Style control of Chatbot Arena (Li, Angelopoulos and Chiang 2024, "Does style matter?", lmsys.org/blog/2024-08-28-style-control;
    `lmarena/arena-rank`): normalised differences as covariates of the Bradley-Terry regression. Here ties stay ties.
    """
    beside = styles(texts)
    differ = [k for k in range(len(STYLES)) if beside[:, k].any()]
    if not differ:
        return BoardCheck(name="style", says=("style.none",))
    held = fit_ratings(votes, beside[:, differ])
    effects: dict[str, str | float] = {STYLES[k]: float(x) for k, x in zip(differ, held.effects, strict=True)}
    distance = np.abs(held.effects) / held.errors
    strongest = int(distance.argmax())
    if distance[strongest] <= student(1 - ALARM / 2 / len(differ), held.degrees):
        return BoardCheck(name="style", says=("style.fine",), figures=effects)
    odds = float(np.exp(held.effects[strongest]))
    says = f"style.{STYLES[differ[strongest]]}.{'more' if odds > 1 else 'less'}"
    figures = effects | {"odds": max(odds, 1 / odds)}
    changed = next((each for each in reversals(found, held) if each[2]), None)
    if changed:
        figures = {**figures, "one": changed[0], "other": changed[1]}
    told = (says, "style.turned" if changed else "style.same")
    return BoardCheck(name="style", says=told, is_fault=True, figures=figures)


def _ties(votes: Sequence[Vote], found: FittedRatings) -> BoardCheck:
    """Say whether two models stand the other way round once ties, which count as half a win of each, are left out."""
    decided = _decided(votes)
    figures: Mapping[str, str | float] = {"n": len(votes) - len(decided)}
    if len(decided) == len(votes) or not decided:
        return BoardCheck(name="ties", says=("ties.none" if decided else "ties.all",), figures=figures)
    changed = next((each for each in reversals(found, fit_ratings(decided)) if each[2]), None)
    if not changed:
        return BoardCheck(name="ties", says=("ties.fine",), figures=figures)
    figures = {**figures, "one": changed[0], "other": changed[1]}
    return BoardCheck(name="ties", says=("ties.fault",), is_fault=True, figures=figures)
