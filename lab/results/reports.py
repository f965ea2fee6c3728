"""What the Leaderboard and Calibration tabs have in common: which report is shown, and its source."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import gradio as gr

from evals.compare import Comparisons, Pairing, compare
from evals.leaderboard import LeaderboardRow, leaderboard
from evals.report import HEADLINE, MEASURES, calibration_of, instrument, rows_of, stages_of
from evals.schema import EvalReport
from evals.stats.calibration import Calibration
from evals.stats.scores import OVERCONFIDENT, UNDERCONFIDENT
from lab.results.evaluations import Evaluations, Outdated
from lab.services import REPORTS, Services, chain_folder
from lab.ui.components import Html, Scale, shown
from lab.ui.text import lines, page, say

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
def ranked(report: EvalReport, group: str, order: str) -> tuple[LeaderboardRow, ...]:
    """Return stages and baselines of one group, the best by `order` first, with their ranks."""
    return leaderboard([report], group, order)


@lru_cache(maxsize=KEPT)
def differences(report: EvalReport, group: str, metrics: tuple[str, ...]) -> Comparisons | None:
    """Return the paired differences between every two stages; None where there is one stage only."""
    pairs = [((report, one), (report, other)) for one, other in combinations(stages_of(report), 2)]
    return compare(pairs, Pairing(metrics=metrics, group=group)) if pairs else None


@lru_cache(maxsize=KEPT)
def calibrated(report: EvalReport, stage: str, group: str) -> Calibration:
    """Return the calibration of one stage in one group, over the answers that make a claim."""
    return calibration_of(report, stage, group)


@lru_cache(maxsize=KEPT)
def counted(report: EvalReport, stage: str, group: str) -> Counted:
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


def called(metric: str) -> str:
    """Return the name of a metric as people read it; one without a line of its own by its own name."""
    try:
        return say(f"metric.{metric}")
    except KeyError:
        return metric.replace("_", " ")


def headed(metric: str) -> str:
    """Return the name of a metric as a heading, with an arrow towards its better end.

    >>> headed("accuracy"), headed("ece")
    ('Accuracy ↑', 'ECE ↓')
    """
    name = called(metric)
    name = name[:1].upper() + name[1:]
    better = MEASURES[metric].better
    return say(f"metric.{better}", name=name) if better else name


Choices = list[tuple[str, str]]


def chosen_report(reports: Sequence[EvalReport], name: str | None) -> EvalReport:
    """Return the report on the data called `name`, the first one if there is none of that name."""
    return next((report for report in reports if report.data_name == name), reports[0])


def chosen_group(report: EvalReport, name: str | None) -> str:
    """Return the group called `name`, the first one, which is the headline, if there is none."""
    known = groups_of(report)
    return name if name in known else known[0]


def groups_of(report: EvalReport) -> tuple[str, ...]:
    """Return the groups of questions, the headline first."""
    known = dict.fromkeys(summary.group for summary in report.summaries)
    return tuple(sorted(known, key=lambda group: group != HEADLINE))


def group_choices(report: EvalReport) -> Choices:
    """Return label and name of every group of questions, with how many it holds."""
    return [(_group_label(report, group), group) for group in groups_of(report)]


def data_radio(measured: Evaluations, report: EvalReport) -> gr.Radio:
    """Return the choice between reports; hidden where there is nothing to choose."""
    choices = [(_data_label(one, measured.is_outdated(one)), one.data_name) for one in measured.reports]
    return gr.Radio(choices=choices, value=report.data_name, visible=len(choices) > 1)


def reading(name: str) -> None:
    """Lay out the closed page that explains how the figures of a tab are read."""
    with gr.Accordion(say(f"{name}.reading"), open=False, elem_classes="assay-reading"):
        gr.Markdown(page(f"{name}-reading"))


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
    told = "".join(
        f"<div><dt>{shown(say(f'report.source.{name}'))}</dt><dd>{shown(value)}</dd></div>"
        for name, value in parts.items()
        if value
    )
    again = shown(say("report.source.command"))
    return Html(
        f'<section class="assay-source"><h3>{shown(say("report.source"))}</h3><dl>{told}'
        f"<div><dt>{again}</dt><dd><code>{shown(report.command)}</code></dd></div></dl></section>"
    )


def outdated_notices(outdated: Sequence[Outdated]) -> Html:
    """Return one line per report that no longer holds: its file, why, and the command that helps."""
    return Html("".join(map(_outdated_notice, outdated)))


def command(services: Services) -> str:
    """Return the command that makes a report for the chain the lab shows."""
    folder = chain_folder(services.settings.chain) / REPORTS
    return (
        f"assay eval run --chain {services.settings.chain} --stage all --data pathways-heldout "
        f"--out {folder / 'pathways-heldout.json'}"
    )


def _outdated_notice(one: Outdated) -> str:
    line = say("report.outdated.gone", file=one.file, reason=one.reason)
    if one.report is not None:
        versions = {"then": one.report.versions, "now": instrument()}
        named = {when: ", ".join(each.values()) for when, each in versions.items()}
        line = say("report.outdated.judged", file=one.file, **named)
    return f'<p class="notice info" role="status">{shown(line)} <code>{shown(one.command)}</code></p>'


def _listed(facts: dict[str, str] | dict[str, str | int | float | None]) -> str:
    return ", ".join(f"{name} {value}" for name, value in facts.items() if value is not None)


def _data_label(report: EvalReport, is_outdated: bool) -> str:
    name = lines().get(f"data.{report.data_name}", report.data_name)
    key = "report.data.outdated" if is_outdated else "report.data"
    return say(key, name=name, n=len({row.example.id for row in report.rows}))


def _group_label(report: EvalReport, group: str) -> str:
    name = lines().get(f"group.{group}", group.capitalize())
    stage = stages_of(report)[0] if stages_of(report) else report.summaries[0].stage
    n = next(
        (
            summary.metrics["accuracy"].n
            for summary in report.summaries
            if summary.group == group and summary.stage == stage
        ),
        0,
    )
    return f"{name} ({n})"
