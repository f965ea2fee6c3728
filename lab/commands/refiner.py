"""`assay refiner`: answers whose claims cite evidence: scored on file, run as `assay eval run --task refine`."""

from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.table import Table

from evals.schema.refiner import ScoredAnswer
from lab.ask import by_words, support_word
from lab.commands import JsonSettings, command, eval
from lab.commands.terminal import emit, figure, notes, plural, table_of
from lab.commands.verify import judge_server
from lab.ui.text import say

CITATIONS = {"citation_f1": "citation F1", "citation_precision": "precision", "alce_precision": "ALCE precision"}
CITATIONS |= {"alce_recall": "ALCE recall"}
app = typer.Typer(
    no_args_is_help=True, help="Short answers whose claims cite evidence: score them, run a chain on records."
)


class CasesSettings(JsonSettings):
    """Settings of `assay refiner score`."""

    cases: Path
    """JSONL: id, record, completion, config, stub_judge. Or .jsonl, .json, .csv, .xlsx or .parquet with RAGAS' columns:
    question, contexts, answer, ground_truth."""
    judge: Annotated[str, typer.Option()]
    """Who judges: stub (a table in each row), heuristic (word overlap, for smoke tests), or an OpenAI-compatible server, URL
    or URL#MODEL, such as http://127.0.0.1:8000/v1. Its key: ASSAY_JUDGE_KEY."""
    allow_remote: bool = False
    """Let a server on another machine read what is sent."""
    deadline: float = 600.0
    """Seconds for all verdicts together."""


class RefinerRunSettings(eval.EvalRunSettings):
    """Settings of `assay refiner run`: those of `assay eval run`, of this task."""

    task: Literal["refine"] = "refine"
    """The task."""
    chain: str = "refiner"
    """A run folder or chain.json of a refiner."""


@command(app)
def run(settings: RefinerRunSettings) -> None:
    """Answer held-out records with every stage, judge all answers alike, write a report: `assay eval run --task refine`.

    Answers that take no model stand beside the stages: saying nothing, abstaining always, pasting the
    first passage, and the reference. Means have 95 % intervals over whole studies and tissues.

    Example: assay refiner run --chain runs/refiner --judge heuristic --out report.json
    """
    eval.run(settings)


@command(app)
def score(settings: CasesSettings) -> None:
    """Score answers on file: format checks, claims, rubric, citations and the reward they add up to.

    A row: {"id": "a1", "record": {"id": "r1", "prompt": "Which way?", "tool_output":
    "<snippet id=S1>OXPHOS is down</snippet>", "positive_rubrics": [{"title": "way",
    "description": "Says that it is down."}]}, "completion": "<answer><snippet id=S1>It is
    down</snippet></answer>", "config": {"gate": "require"}}.

    With --judge stub a row also holds its verdicts: {"stub_judge": {"rubric_raw": {"way": 2},
    "claim_support": [1], "attribution_relevant": [{"claim": 0, "id": "S1", "relevant": 1}],
    "uncited_needs_citation": []}}; claims count from 0, null is a missing verdict.

    Of RAGAS' columns each context is a passage S1, S2, …, and the ground truth a wanted behaviour. A sentence of the answer
    is a claim that cites what it names as [1]; where an answer names none, each sentence is held against all contexts.

    A reward is null where a verdict is missing: a judge that fails never costs an answer points. The exit code is then 1.

    Example: assay refiner score cases.jsonl --judge http://127.0.0.1:8000/v1 --json
    """
    from evals.refine.cases import ORIGIN, read_cases
    from evals.refine.judge import judge_citations
    from evals.refine.score import explain
    from training.judge.judge import judge_of

    judge = judge_of(judge_server(settings.judge, settings.allow_remote))
    read = read_cases(settings.cases)
    prepared = [case.prepare() for case in read]
    asked = [place for place, each in enumerate(prepared) if each.is_judgeable]
    inquiries = [read[at].inquiry() for at in asked]
    verdicts = dict(
        zip(
            asked,
            judge_citations(inquiries, lambda some: eval.verdicts_on(judge, some, settings.deadline)),
            strict=True,
        )
    )
    explained = [explain(each, verdicts.get(place), judge.label) for place, each in enumerate(prepared)]
    scored = [(case.id, each) for case, each in zip(read, explained, strict=True)]
    document = []
    for name, each in scored:  # the contract's fields, who judged, and the verdicts one by one
        told = each.model_dump(mode="json", exclude={"record_id", "completion", "is_judged", "quality"})
        one = {key: told.pop(key) for key in ("claims", "uncited", "items")}
        claims = [{"text": claim.text, "ids": list(claim.ids)} for claim in each.claims]
        for said, claim in zip(one["claims"], each.claims, strict=True):
            said["verdict"] = support_word(claim.support, judge.label)
        document.append({"id": name, **told, "claims": claims, "verdicts": one})
    emit(document, as_json=settings.as_json, table=_table(scored, judge.label))
    missing = sum(each.reward is None for _, each in scored)
    notes.print(f"judged {plural(len(scored), 'answer')} by {judge.label}", soft_wrap=True)
    if any(case.record.origin == ORIGIN for case in read):
        notes.print(say("command.ragas"), soft_wrap=True)
    if missing:
        why = "; ".join([*dict.fromkeys(problem for _, each in scored for problem in each.problems)][:3])
        told = f"{plural(missing, 'answer')} without a reward, for want of a verdict{f': {why}' if why else ''}"
        notes.print(told, style="yellow", soft_wrap=True)
        raise typer.Exit(1)


def _table(scored: list[tuple[str, ScoredAnswer]], judge: str) -> Table:
    rows = []
    for name, each in scored:
        rule, _, names = each.reason.partition(": ")
        failed = "; ".join(say(f"refine.check.{name}") for name in names.split(", ") if name)
        found = (each.rubric, *(getattr(each, key) for key in CITATIONS), each.reward)
        numbers = ("missing" if one is None else figure(one) for one in found)
        why = f"{rule}: {failed}" if failed else "" if rule.startswith("graded") else rule
        rows.append((name, f"{each.format_bonus:.1f}", len(each.claims), *numbers, why))
    columns = ("id", "format", "claims", "rubric", *CITATIONS.values(), "reward", "why")
    return table_of(say(f"command.citations{by_words(judge)}"), columns, rows)
