"""What the Leaderboard and Calibration tabs have in common: which report is shown, and its source."""

from collections.abc import Sequence

import gradio as gr

from evals.report import HEADLINE
from evals.schema import EvalReport
from lab.evaluations import Outdated
from lab.grid import Html, shown
from lab.services import REPORTS, Services, chain_folder
from lab.views import notice
from lab.wording import lines, say

Choices = list[tuple[str, str]]


def chosen_report(reports: Sequence[EvalReport], name: str | None) -> EvalReport:
    """Return the report on the data called `name`, the first one if there is none of that name."""
    return next((report for report in reports if report.data_name == name), reports[0])


def stages_of(report: EvalReport) -> tuple[str, ...]:
    """Return the stages of the chain in their order, without the baselines."""
    named = (summary.stage for summary in report.summaries if not summary.is_baseline)
    return tuple(dict.fromkeys(named))


def groups_of(report: EvalReport) -> tuple[str, ...]:
    """Return the groups of questions, the headline first."""
    known = dict.fromkeys(summary.group for summary in report.summaries)
    return tuple(sorted(known, key=lambda group: group != HEADLINE))


def data_choices(reports: Sequence[EvalReport]) -> Choices:
    """Return label and name of every report's questions."""
    return [(_data_label(report), report.data_name) for report in reports]


def group_choices(report: EvalReport) -> Choices:
    """Return label and name of every group of questions, with how many it holds."""
    return [(_group_label(report, group), group) for group in groups_of(report)]


def data_radio(reports: Sequence[EvalReport], report: EvalReport) -> gr.Radio:
    """Return the choice between reports; hidden where there is nothing to choose."""
    choices = data_choices(reports)
    return gr.Radio(choices=choices, value=report.data_name, visible=len(choices) > 1)


def source(report: EvalReport) -> Html:
    """Return where the figures come from: chain, date, instrument, settings and the command."""
    settings = ", ".join(f"{name} {value}" for name, value in report.settings.items())
    versions = ", ".join(f"{name} {version}" for name, version in report.versions.items())
    line = say(
        "report.source",
        chain=report.chain_name,
        date=f"{report.created_at:%Y-%m-%d}",
        versions=versions,
        settings=settings or "–",
        sha256=report.data_sha256[:12],
    )
    return Html(
        f'<p class="assay-source">{shown(line)}<br><code>{shown(report.command)}</code></p>'
    )


def outdated_notices(outdated: Sequence[Outdated]) -> Html:
    """Return one line per report that is not shown: its file, why, and how to measure again."""
    told = (
        say("report.outdated", file=one.file, reason=one.reason, command=one.command)
        for one in outdated
    )
    return Html("".join(notice(line) for line in told))


def command(services: Services) -> str:
    """Return the command that makes a report for the chain the lab shows."""
    folder = chain_folder(services.settings.chain) / REPORTS
    return (
        f"assay eval run --chain {services.settings.chain} --stage all --data pathways-heldout "
        f"--out {folder / 'pathways-heldout.json'}"
    )


def _data_label(report: EvalReport) -> str:
    name = lines().get(f"data.{report.data_name}", report.data_name)
    return say("report.data", name=name, n=len({row.example.id for row in report.rows}))


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
