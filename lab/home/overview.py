"""What there is in this lab, and the next sensible step, by plain rules."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec

from evals.errors import LabError
from evals.report import HEADLINE
from evals.schema import EvalReport
from lab.home.work import own_runs
from lab.results.batch import sets_to_ask
from lab.results.rows import link
from lab.services import REPORTS, Services, load_reports
from lab.session import stage_name
from lab.train.chains import choices_of_chains
from lab.train.runner import refusal
from lab.train.runs import Training
from lab.train.view import is_measured
from lab.ui.components import number
from lab.ui.text import counted, lines, say
from lab.visitors import Visitor

ENOUGH_PAIRS = 20
"""From so many preference pairs on, training on them is proposed."""
RESULTS = 5
RECEIPTS = "published"
"""The folder of a run with what the Hub took of it."""
Row = tuple[str, str, str]
"""What, what there is to say of it, and where it leads."""


@dataclass(frozen=True)
class Step:
    """What to do next, why, and the address that leads there; `is_training`: the votes are first made a data set."""

    name: str
    what: str
    why: str
    href: str = ""
    is_training: bool = False


@dataclass(frozen=True)
class Overview:
    """Everything the page shows but the long work."""

    step: Step
    figures: Sequence[tuple[str, int]]
    chains: Sequence[Row]
    sets: Sequence[Row]
    results: Sequence[Row]


def overview(services: Services, visitor: Visitor | None = None) -> Overview:
    """Return what there is; LabError where the database cannot be read."""
    counts, own = services.store.counts(), own_runs(services)
    figures = {"answers": counts.answers, "votes": counts.votes, "usable": counts.usable}
    figures |= {"ratings": services.store.annotations.count(), "runs": len(own)}
    return Overview(
        step=next_step(services, own, votes=counts.votes, usable=counts.usable),
        figures=[(say(f"home.figure.{name}"), n) for name, n in figures.items()],
        chains=_chains(services, own),
        sets=_sets(services, visitor),
        results=_results(services, own),
    )


def next_step(services: Services, own: Sequence[Training], *, votes: int, usable: int) -> Step:
    """Return the first step that what is there asks for: a run goes on to its end before the next is begun."""
    live = next((each for each in own if each.is_live), None)
    if live is not None:
        return _step("watch", href=link({"tab": "train", "run": live.name}), run=live.name)
    last = next((each for each in own if each.state == "finished"), None)
    if last is not None and is_measured(last):
        if not any((last.path / REPORTS).glob("*.json")):
            return _step("measure", href=link({"tab": "train", "run": last.name}), run=last.name)
        if not any((last.path / RECEIPTS).glob("*.json")):
            return _step("publish", href=link({"tab": "publish", "run": last.name}), run=last.name)
    if usable >= ENOUGH_PAIRS and not refusal(services.settings.training) and _has_new_votes(services, own):
        return _step("train", is_training=True, pairs=usable, votes=counted(votes, "vote"))
    if not votes:
        return _step("compare", href=link({"tab": "compare"}))
    return _step("more", href=link({"tab": "compare"}), pairs=usable, enough=ENOUGH_PAIRS)


def _step(name: str, href: str = "", *, is_training: bool = False, **values: object) -> Step:
    words = (say(f"home.step.{name}.{part}", **values) for part in ("what", "why"))
    return Step(name, *words, href=href, is_training=is_training)


def _has_new_votes(services: Services, own: Sequence[Training]) -> bool:
    """Whether anybody voted since the newest DPO run began."""
    trained = [each.begun for each in own if each.record and each.record.stage == "dpo"]
    last = services.store.mark()[-1]
    return last is not None and all(last > begun for begun in trained)


def _chains(services: Services, own: Sequence[Training]) -> list[Row]:
    """Return the lab's chain, then the runs of one's own that can be asked as well."""
    names = {each.name for each in own}
    (first, _), *others = choices_of_chains(services)
    found = [(label, "", link({"tab": "ask", "chain": name})) for label, name in others if name in names]
    return [(first, "", link({"tab": "ask"})), *found]


def _sets(services: Services, visitor: Visitor | None) -> list[Row]:
    """Return the question sets that are known here by name, then those of the Questions tab: versions, and own drafts."""
    known = [(called, name, "") for called, name in sets_to_ask(services)]
    if find_spec("lab.questions") is None:  # on a Space
        return known
    from lab.questions.session import QuestionSets

    listed = QuestionSets(services, visitor).listed()
    return known + [(called, "", link({"tab": "questions", "set": id})) for called, id in listed]


def _results(services: Services, own: Sequence[Training]) -> list[Row]:
    """Return the newest reports, of the lab's chain and of runs of one's own, with the accuracy of each stage."""
    found: list[tuple[EvalReport, str]] = [(each, "") for each in services.reports().reports]
    measured = [each for each in own if any((each.path / REPORTS).glob("*.json"))]
    for run in measured[:RESULTS]:
        try:
            found += [(each, run.name) for each in load_reports(str(run.path)).reports]
        except LabError:
            continue  # what is no report of questions, or no chain, is shown where it belongs
    found.sort(key=lambda each: each[0].created_at, reverse=True)
    return [_result(report, chain) for report, chain in found[:RESULTS]]


def _result(report: EvalReport, chain: str) -> Row:
    right = {each.stage: each.metrics["accuracy"].value for each in report.summaries if each.group == HEADLINE}
    known = {stage: share for stage in report.stage_checksums if (share := right.get(stage)) is not None}
    told = [f"{stage_name(stage)} {number(share, 'share')}" for stage, share in known.items()]
    where = {"tab": "leaderboard", "chain": chain, "questions": report.data_name}
    called = lines().get(f"data.{report.data_name}", report.data_name)
    what = say("home.result", chain=chain or report.chain_name, data=called)
    return what, f"{say('home.right')}: {', '.join(told)} · {report.created_at:%Y-%m-%d}", link(where)
