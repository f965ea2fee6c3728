"""What the ranking and the calibration of a report have in common: what is shown of it, the answers behind a figure, its source."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import combinations

from evals.compare import Comparisons, Pairing, compare
from evals.leaderboard import LeaderboardRow, leaderboard
from evals.report import HEADLINE, MEASURES, calibration_of, instrument, rows_behind, rows_of, stages_of
from evals.schema import EvalReport, EvalRow
from evals.stats.calibration import OVERCONFIDENT, SHARES, UNDERCONFIDENT
from lab.shared.evaluations import Outdated
from lab.shared.rows import Behind, Place, metric_label
from lab.ui.components import Html, Scale, as_html, render, stage_name
from lab.ui.text import say

draw = partial(render, "results/view.html.jinja")
KEPT = 128


@dataclass(frozen=True)
class Counted:
    """How many answers of a stage there are, and how many of them enter calibration.

    `stated` make a claim and state a confidence; `missing` and `invalid` make one without. `sure` and
    `unsure` are those of the stated that the rates of over- and underconfidence are shares of.
    """

    all: int
    stated: int
    missing: int
    invalid: int
    no_claim: int
    sure: int
    unsure: int


@lru_cache(maxsize=KEPT)
def stage_ranking(report: EvalReport, group: str, order: str) -> tuple[LeaderboardRow, ...]:
    """Return stages and baselines of one group, the best by `order` first, with their ranks."""
    return leaderboard([report], group, order)


@lru_cache(maxsize=KEPT)
def differences(report: EvalReport, group: str, metrics: tuple[str, ...]) -> Comparisons | None:
    """Return the paired differences between every two stages; None where there is one stage only, or answers are left out."""
    if report.settings.get("abstain_below"):
        return None
    pairs = [((report, one), (report, other)) for one, other in combinations(stages_of(report), 2)]
    return compare(pairs, Pairing(metrics=metrics, group=group)) if pairs else None


behind = lru_cache(maxsize=4 * KEPT)(rows_behind)
"""The rows that a metric of a stage in a group is over."""

calibrated = lru_cache(maxsize=KEPT)(calibration_of)
"""The calibration of one stage in one group, over the answers that make a claim."""


@lru_cache(maxsize=KEPT)
def answer_counts(report: EvalReport, stage: str, group: str) -> Counted:
    """Return how many answers of a stage count in its calibration, and why the others do not."""
    rows = rows_of(report, stage, group)
    claims = [row.verdict.confidence for row in rows if row.verdict.verdict != "no_claim"]
    by_status = Counter(claim.status for claim in claims)
    values = [claim.value for claim in claims if claim.value is not None]
    return Counted(
        all=len(rows),
        stated=len(values),
        missing=by_status["missing"],
        invalid=by_status["invalid"],
        no_claim=len(rows) - len(claims),
        sure=sum(value > OVERCONFIDENT for value in values),
        unsure=sum(value < UNDERCONFIDENT for value in values),
    )


def orders_of(report: EvalReport) -> tuple[str, ...]:
    """Return the metrics that every entry of the report has and that have a better end."""
    held = [summary.metrics for summary in report.summaries]
    return tuple(name for name, each in MEASURES.items() if each.better and all(name in metrics for metrics in held))


def scale_of(metric: str) -> Scale:
    """Return how a metric is written: in percent where it is a share of answers."""
    if metric == "log_loss":
        return "open"
    return "share" if metric in MEASURES and MEASURES[metric].is_share else "number"


def metric_heading(metric: str) -> str:
    """Return the name of a metric as a heading, with an arrow towards its better end.

    >>> headed("accuracy"), headed("ece")
    ('Accuracy ↑', 'ECE ↓')
    """
    name = metric_label(metric)
    name = name[:1].upper() + name[1:]
    better = MEASURES[metric].better
    return say(f"metric.{better}", name=name) if better else name


def chosen_report(reports: Sequence[EvalReport], name: str | None) -> EvalReport:
    """Return the report on the data called `name`, the first one if there is none of that name."""
    return next((report for report in reports if report.data_name == name), reports[0])


def chosen_group(report: EvalReport, name: str | None) -> str:
    """Return the group called `name`, the first one, which is the headline, if there is none."""
    known = groups_of(report)
    return name if name in known else known[0]


def chosen_stages(report: EvalReport, names: str | None) -> tuple[str, ...]:
    """Return the stages of these names, with commas between, in the order of the report; all if there is none of them."""
    stages, wanted = stages_of(report), (names or "").split(",")
    return tuple(each for each in stages if each in wanted) or tuple(stages)


def groups_of(report: EvalReport) -> tuple[str, ...]:
    """Return the groups of questions, the headline first."""
    known = dict.fromkeys(summary.group for summary in report.summaries)
    return tuple(sorted(known, key=lambda group: group != HEADLINE))


def behind_figure(report: EvalReport, group: str, place: Place, back: str) -> Behind:
    """Return the answers behind the figure that the address names: a metric of a stage or baseline."""
    every = tuple(dict.fromkeys(row.stage for row in report.rows))
    stages = stages_of(report)
    stage = place.get("stage") or (stages or every or ("",))[-1]
    metric = place["rows"]
    rows = behind(report, stage, group, metric if metric in MEASURES else "ece") if every else []
    beside: dict[str, list[EvalRow]] = defaultdict(list)
    for row in report.rows:
        beside[row.id].append(row)
    if metric in SHARES:
        rows = [row for row in rows if SHARES[metric](row.grade.confidence)]
    return Behind(
        title=say("rows.title", metric=metric_label(metric), stage=stage_name(stage)),
        rows=rows,
        beside=beside,
        back=back,
        choices={"stage": [(each, stage_name(each)) for each in every]},
        trivial=frozenset(every) - frozenset(stages),
    )


def source(report: EvalReport) -> Html:
    """Return where the figures come from: chain, date, instrument, questions, settings, command."""
    parts = {
        "chain": report.chain_name,
        "date": f"{report.created_at:%Y-%m-%d}",
        **{name: report.versions.get(name) for name in ("verifiers", "confidence", "metrics")},
        "earlier": "; ".join(map(_listed, report.earlier_versions)),
        "questions": say("report.source.questions.cell", name=report.data_name, sha256=report.data_sha256[:12]),
        "settings": _listed(report.settings),
        "libraries": _listed(report.libraries),
    }
    return draw("source", facts=parts, command=report.command)


def outdated_notices(outdated: Sequence[Outdated]) -> Html:
    """Return one line per report that no longer holds: its file, why, and the command that helps."""
    found = ""
    for one in outdated:
        line = say("report.outdated.gone", file=one.file, reason=one.reason)
        if one.report is not None:
            then, now = (", ".join(each.values()) for each in (one.report.versions, instrument()))
            line = say("report.outdated.judged", file=one.file, then=then, now=now)
        found += f'<p class="notice info" role="status">{as_html(line)} <code>{as_html(one.command)}</code></p>'
    return Html(found)


def _listed(facts: dict[str, str] | dict[str, str | int | float | None]) -> str:
    return ", ".join(f"{name} {value}" for name, value in facts.items() if value is not None)
