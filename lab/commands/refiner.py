"""`assay refiner`: score answers whose claims cite evidence, run a chain on records, compare stages."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lab.commands import (
    refiner_compare,
    refiner_export,
    refiner_items,
    refiner_report,
    refiner_rescore,
)
from lab.commands.refiner_judge import Cache, Json, KeyEnv, Model, Remote, Votes, verdicts_on
from lab.console import counted, emit, notes, table_of
from lab.wording import say

if TYPE_CHECKING:
    from rich.table import Table

    from evals.schema.refining import ScoredAnswer
    from training.judging.settings import HttpSettings

app = typer.Typer(
    no_args_is_help=True,
    help="Short answers whose claims cite evidence: score them, run a chain on records, compare stages.",
)
app.command("run", epilog=refiner_report.EXAMPLE)(refiner_report.run)
app.command("rescore", epilog=refiner_rescore.EXAMPLE)(refiner_rescore.rescore)
app.command("export", epilog=refiner_export.EXAMPLE)(refiner_export.export)
app.command("items", epilog=refiner_items.EXAMPLE)(refiner_items.items)
app.command("compare", epilog=refiner_compare.EXAMPLE)(refiner_compare.compare)


Judge = Annotated[
    str,
    typer.Option(
        help="Who judges: stub (a table in each row), heuristic (word overlap, for smoke tests), or the"
        " address of an OpenAI-compatible server, such as http://127.0.0.1:8000/v1."
    ),
]


@app.command(
    epilog="Example: assay refiner score cases.jsonl --judge http://127.0.0.1:8000/v1 --json"
)
def score(
    cases: Annotated[
        Path, typer.Argument(help="JSONL: id, record, completion, config, stub_judge.")
    ],
    judge: Judge,
    model: Model = "",
    key_env: KeyEnv = "",
    allow_remote: Remote = False,
    concurrency: Annotated[int, typer.Option(help="Requests to the server at a time.")] = 64,
    deadline: Annotated[float, typer.Option(help="Seconds for all verdicts together.")] = 600.0,
    cache: Cache = None,
    votes: Votes = 1,
    as_json: Json = False,
) -> None:
    """Score answers on file: format checks, claims, rubric, citations and the reward they add up to.

    A row: {"id": "a1", "record": {"id": "r1", "prompt": "Which way?", "tool_output":
    "<snippet id=S1>OXPHOS is down</snippet>", "positive_rubrics": [{"title": "way",
    "description": "Says that it is down."}]}, "completion": "<answer><snippet id=S1>It is
    down</snippet></answer>", "config": {"gate": "require"}}.

    With --judge stub a row also holds its verdicts: {"stub_judge": {"rubric_raw": {"way": 2},
    "claim_support": [1], "attribution_relevant": [{"claim": 0, "id": "S1", "relevant": 1}],
    "uncited_needs_citation": []}}; claims count from 0, null is a missing verdict.

    A reward is null where a verdict is missing: a judge that fails never costs an answer points.
    """
    from training.judging.choice import backend_of
    from training.judging.settings import HttpSettings, check_votes

    check_votes(judge, votes)
    settings = None
    if backend_of(judge) == "http":
        settings = HttpSettings(
            base_url=judge,
            model=model,
            key_variable=key_env,
            allow_remote=allow_remote,
            concurrency=concurrency,
            cache=cache,
            votes=votes,
        )
    scored = _scored(cases, judge, settings, deadline)
    emit([_row(name, each) for name, each in scored], as_json=as_json, table=_table(scored))
    missing = sum(each.reward is None for _, each in scored)
    who = scored[0][1].judge
    notes.print(f"judged {counted(len(scored), 'answer')} by {who}", soft_wrap=True)
    if missing:
        why = dict.fromkeys(problem for _, each in scored for problem in each.problems)
        notes.print(
            f"{counted(missing, 'answer')} without a reward, for want of a verdict"
            + (f": {'; '.join(list(why)[:3])}" if why else ""),
            style="yellow",
            soft_wrap=True,
        )


def _scored(
    cases: Path, judge: str, settings: "HttpSettings | None", deadline: float
) -> "list[tuple[str, ScoredAnswer]]":
    """Return every case with all that was made of it, in the order of the file."""
    from evals.refiner.cases import read_cases
    from evals.refiner.explain import explain
    from training.judging.choice import backend_of, judge_of

    read = read_cases(cases)
    prepared = [case.prepared() for case in read]
    asked = [place for place, each in enumerate(prepared) if each.is_judgeable]
    chosen = judge_of(backend_of(judge), settings)
    inquiries = [read[place].inquiry() for place in asked]
    verdicts = dict(zip(asked, verdicts_on(chosen, inquiries, deadline), strict=True))
    return [
        (case.id, explain(each, verdicts.get(place), chosen.label))
        for place, (case, each) in enumerate(zip(read, prepared, strict=True))
    ]


def _row(name: str, scored: "ScoredAnswer") -> dict[str, object]:
    """Return a row as others read it: the contract's fields, who judged, and the verdicts one by one."""
    from evals.refiner.sources import scores_by_writer

    return {
        "id": name,
        "format_checks": scored.format_checks,
        "format_bonus": scored.format_bonus,
        "claims": [{"text": claim.text, "ids": list(claim.ids)} for claim in scored.claims],
        "rubric": scored.rubric,
        "rubric_by_writer": scores_by_writer(scored),
        "citation_precision": scored.citation_precision,
        "citation_recall": scored.citation_recall,
        "citation_f1": scored.citation_f1,
        "reward": scored.reward,
        "reason": scored.reason,
        "judge": scored.judge,
        "problems": list(scored.problems),
        "verdicts": json.loads(scored.model_dump_json(include={"claims", "uncited", "items"})),
    }


def _table(scored: "list[tuple[str, ScoredAnswer]]") -> "Table":
    rows = [
        (
            name,
            f"{each.format_bonus:.1f}",
            len(each.claims),
            _shown(each.rubric),
            _shown(each.citation_f1),
            _shown(each.reward),
            _why(each),
        )
        for name, each in scored
    ]
    columns = ("id", "format", "claims", "rubric", "citation F1", "reward", "why")
    return table_of("scored answers", columns, rows)


def _why(scored: "ScoredAnswer") -> str:
    """Return the reason with the checks that failed in words."""
    rule, _, names = scored.reason.partition(": ")
    failed = [say(f"refine.check.{name}") for name in names.split(", ") if name]
    return f"{rule}: {'; '.join(failed)}" if failed else rule


def _shown(value: float | None) -> str:
    return "missing" if value is None else f"{value:.3f}"
