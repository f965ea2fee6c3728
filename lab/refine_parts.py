"""The parts of a reward, as HTML: rubric items with verdict and quote, checks, citations, the sum."""

from collections.abc import Sequence

from evals.refiner.checks import HARD, SOFT
from evals.refiner.heuristic import QUOTED
from evals.schema.refining import JudgedItem, RewardConfig, ScoredAnswer
from lab.views import escape
from lab.wording import say


def rubric(items: Sequence[JudgedItem], *, is_judged: bool = True) -> str:
    """Return each item with what was seen of it, the quote it rests on and what it earns.

    Closed where nobody judged: there is nothing to see in an answer that cannot be read.
    """
    rows = "".join(_item(item) for item in items)
    head = escape(say("refine.rubric" if is_judged else "refine.rubric.not_judged"))
    state = " open" if is_judged else ""
    return f'<details class="rubric"{state}><summary>{head}</summary><ul>{rows}</ul></details>'


def parts(scored: ScoredAnswer, reward: RewardConfig) -> str:
    """Return how the reward comes about: checks, rubric, citations and how they are put together."""
    rows = (
        (say("refine.part.format"), _checks(scored)),
        (say("refine.part.rubric"), escape(_share(scored.rubric))),
        (say("refine.part.citation"), escape(_citation(scored))),
        (say("refine.part.sum"), escape(_sum(scored, reward))),
    )
    listed = "".join(f"<dt>{escape(name)}</dt><dd>{value}</dd>" for name, value in rows)
    problems = "".join(f"<li>{escape(problem)}</li>" for problem in scored.problems)
    told = f'<ul class="judge-problems">{problems}</ul>' if problems else ""
    head = escape(say("refine.parts"))
    return f'<details class="reward-parts" open><summary>{head}</summary><dl>{listed}</dl>{told}</details>'


def _item(item: JudgedItem) -> str:
    wanted = item.polarity == "positive"
    tone = "missing" if item.value is None else "good" if item.value >= 0.5 else "bad"
    seen = "missing" if item.score is None else "yes" if item.score >= 0.5 else "no"
    verdict = say(f"refine.item.{seen}", percent=_percent(item.score))
    earns = say("refine.item.earns", value=_share(item.value))
    quote = f"<q>{escape(item.quote)}</q>" if item.quote and item.score else ""
    kind = say("refine.item.wanted" if wanted else "refine.item.unwanted")
    weight = "" if item.weight == 1.0 else f" · {say('refine.item.weight', weight=item.weight)}"
    static = f" · {say('refine.item.static')}" if item.origin == "static" else ""
    if item.source:
        static += f" · {say('refine.item.source', source=item.source)}"
    return (
        f'<li class="{tone}"><b>{escape(item.title)}</b> <small>{escape(kind + weight + static)}</small>'
        f'<p>{escape(in_words(item.description))}</p><p><span class="badge {_badge(tone)}">{escape(verdict)}</span>'
        f" <small>{escape(earns)}</small></p>{quote}</li>"
    )


def in_words(description: str) -> str:
    """Return an item's description with its alternatives as a person would write them.

    >>> in_words('Names a mission: "RR-1|RR-6|MHU-2".')
    'Names a mission: "RR-1", "RR-6" or "MHU-2".'
    """
    return QUOTED.sub(lambda quoted: _listed(quoted[1].split("|")), description)


def _listed(ways: Sequence[str]) -> str:
    named = [f'"{way.strip()}"' for way in ways if way.strip()]
    return (
        say("refine.item.or", most=", ".join(named[:-1]), last=named[-1])
        if named[1:]
        else "".join(named)
    )


def _badge(tone: str) -> str:
    return "quiet" if tone == "missing" else tone


def _checks(scored: ScoredAnswer) -> str:
    checks = scored.format_checks
    passed = sum(checks.values())
    line = say("refine.checks", passed=passed, n=len(checks), bonus=scored.format_bonus)
    failed = [name for name in (*HARD, *SOFT) if not checks.get(name, True)]
    listed = "".join(f"<li>{escape(say(f'refine.check.{name}'))}</li>" for name in failed)
    return escape(line) + (f"<ul>{listed}</ul>" if listed else "")


def _citation(scored: ScoredAnswer) -> str:
    if scored.citation_f1 is None:
        return say("refine.not_measured")
    return say(
        "refine.citation",
        precision=_share(scored.citation_precision),
        recall=_share(scored.citation_recall),
        f1=_share(scored.citation_f1),
    )


def _sum(scored: ScoredAnswer, reward: RewardConfig) -> str:
    """Return the sum in figures; where a rule decided, the rule in words."""
    if scored.reward is None or scored.quality is None or scored.reason[:6] != "graded":
        value = "–" if scored.reward is None else f"{scored.reward:.2f}"
        rule = scored.reason.partition(":")[0]  # which checks failed stands above, in words
        return say("refine.sum.rule", reason=rule, reward=value)
    weight = reward.citation_weight
    return say(
        "refine.sum",
        first=1.0 - weight if reward.combine == "convex" else 1.0,
        rubric=_share(scored.rubric),
        second=weight,
        citation=_share(getattr(scored, f"citation_{reward.citation_metric}")),
        quality=scored.quality,
        scale=reward.verification_reward,
        reward=scored.reward,
    )


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.0f}%"
