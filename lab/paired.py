"""A paired difference in words: what is shown, what is not, and by which figures."""

from evals.comparison import PairedComparison
from evals.difference import Difference
from evals.measures import MEASURES
from lab.answers import stage_name
from lab.grid import Html, Scale, interval, measure, number, shown
from lab.measured import scale_of
from lab.wording import say


def difference_cell(found: Difference) -> Html:
    """Return a difference with its interval, p and n, and in words whether it is more than chance."""
    scale = _scale(found.metric)
    if found.value is None:
        found = found.model_copy(update={"note": MEASURES[found.metric].undefined})
    if found.value is None or found.low is None or found.high is None:
        return measure(found, scale)
    tone = "open" if not found.is_shown else "good" if found.is_better else "bad"
    verdict = tone if found.is_tested else "untested"
    span = interval(found.low, found.high, scale, plus=True)
    told = [say("leaderboard.n", interval=span, n=found.n)]
    if found.p_permutation is not None and found.p_holm is not None:
        told.append(
            say(
                "leaderboard.p",
                p=probability(found.p_permutation),
                corrected=probability(found.p_holm),
            )
        )
    if found.note:
        told.append(found.note)
    small = "".join(f"<small>{shown(line)}</small>" for line in told)
    return Html(
        f'<span class="assay-measure assay-{tone}">'
        f"<b>{number(found.value, scale, plus=True)}</b>{small}"
        f"<em>{shown(say(f'leaderboard.{verdict}'))}</em></span>"
    )


def sentence(compared: PairedComparison, metric: str, tests: int) -> str:
    """Return what one metric shows of two stages; `tests` is how many p were corrected together."""
    found = next(each for each in compared.differences if each.metric == metric)
    names = {
        "first": stage_name(compared.first.stage),
        "second": stage_name(compared.second.stage),
        "metric": say(f"metric.{metric}"),
    }
    if found.value is None:
        silent = [names[side] for side in ("first", "second") if getattr(found, side) is None]
        return say(
            "leaderboard.sentence.undefined",
            **names,
            silent=f" {say('leaderboard.and')} ".join(silent),
            why=MEASURES[metric].undefined,
        )
    scale = _scale(metric)
    change = number(found.value, scale, plus=True)
    if found.low is None or found.high is None:
        key = "same" if not found.value else "constant" if found.is_tested else "bare"
        return say(f"leaderboard.sentence.{key}", **names, difference=change, n=found.n)
    tone = "open" if not found.is_shown else "better" if found.is_better else "worse"
    tone = tone if found.is_tested else "untested"
    span = interval(found.low, found.high, scale, plus=True)
    return say(f"leaderboard.sentence.{tone}", **names, figures=_figures(found, span, tests))


def probability(p: float) -> str:
    """Return a p-value with two digits that count.

    >>> probability(0.16898), probability(0.0076), probability(0.00002)
    ('0.17', '0.0076', '< 0.001')
    """
    return say("leaderboard.p.small") if p < 0.001 else f"{p:.2g}"


def _figures(found: Difference, span: str, tests: int) -> str:
    difference = number(found.value or 0.0, _scale(found.metric), plus=True)
    if found.p_holm is None:
        return say("leaderboard.figures.untested", difference=difference, interval=span, n=found.n)
    return say(
        "leaderboard.figures",
        difference=difference,
        interval=span,
        tests=tests,
        p=probability(found.p_holm),
        n=found.n,
    )


def _scale(metric: str) -> Scale:
    scale = scale_of(metric)
    return "points" if scale == "share" else scale
