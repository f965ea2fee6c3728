"""`assay refiner`: score answers whose claims cite evidence, run a chain on records, compare stages."""

import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.table import Table

from evals.errors import BadConfig, IncomparableReports
from evals.io import public_path, write_whole
from evals.model import Sampling
from evals.refine.judge import Inquiry, Judge, Verdicts
from evals.report import build_report, load_report, save_report
from evals.run import RunSettings, baseline_rows, graded, run_task
from evals.schema.refiner import RefinerRecord, RewardConfig, ScoredAnswer
from evals.schema.reports import RefinerReport
from evals.task import GradedAnswer, StageAnswer
from lab.commands import Json, KeyEnv, Remote, with_options
from lab.commands.terminal import counted, emit, figure, notes, summary_table, table_of
from lab.refine import by_words, support_word
from lab.services import open_store
from lab.settings import from_environment
from lab.ui.text import say
from training.judge.prompts import VERSION, HttpSettings

if TYPE_CHECKING:
    from evals.refine.task import Refine

DEADLINE_SECONDS = 3600.0
DTYPE = "float32"
"""In it an answer does not depend on what else is in the batch."""
MAX_NEW_TOKENS = 128
FIRST = re.compile(r"(?P<name>.+) \(first (?P<count>\d+)\)")
"""What a report on the first records alone says of its data."""
JUDGE_OR_STUB = (
    "Who judges: stub (a table in each row), heuristic (word overlap, for smoke tests), or the address of an"
    " OpenAI-compatible server, such as http://127.0.0.1:8000/v1."
)
CITATIONS = {"citation_f1": "citation F1", "citation_precision": "precision", "alce_precision": "ALCE precision"}
CITATIONS |= {"alce_recall": "ALCE recall"}
app = typer.Typer(
    no_args_is_help=True,
    help="Short answers whose claims cite evidence: score them, run a chain on records, compare stages.",
)


def judge_options(
    judge_help: str = "heuristic (word overlap), or the address of a server.", *, is_needed: bool = True
) -> Callable[..., HttpSettings]:
    """Return the options of a judge of cited answers."""

    def options(
        judge: Annotated[str, typer.Option("--judge", help=judge_help)],
        model: Annotated[str, typer.Option(help="Model to ask of the server; empty = the one that it lists.")] = "",
        key_env: KeyEnv = "",
        allow_remote: Remote = False,
        cache: Annotated[
            Path | None, typer.Option(help="A file that keeps verdicts, so the same question is asked once.")
        ] = None,
    ) -> HttpSettings:
        return HttpSettings(judge, model, key_env, allow_remote, cache=cache)

    if not is_needed:
        options.__defaults__ = ("", *(options.__defaults__ or ()))
    return options


def verdicts_on(judge: Judge, inquiries: Sequence[Inquiry], deadline_seconds: float) -> list[Verdicts]:
    """Return a judge's verdicts, counting on standard error how many answers are judged."""
    from training.judge.judge import judged

    of = counted(len(inquiries), "answer")
    with notes.status(f"judging {of}") as status:
        return judged(judge, inquiries, deadline_seconds, lambda n: status.update(f"{n} of {of} judged"))


def command_of(name: str, options: dict[str, object], server: HttpSettings) -> str:
    """Return a command as it is typed, without a judge's address or cache; options without a value are left out."""
    judge: dict[str, object] = {
        "judge": "URL" if server.base_url.startswith("http") else server.base_url,
        "model": public_path(server.model),
        "key-env": server.key_variable,
        "allow-remote": server.allow_remote or None,
    }
    words = ["assay", "refiner", *name.split()]
    for option, value in {**options, **judge, "out": "REPORT.json"}.items():
        if value not in (None, "", False):
            words += [f"--{option}", *([] if value is True else [str(value)])]
    return shlex.join(words)


def records_named(data: str) -> tuple[RefinerRecord, ...]:
    """Return the records of a data set or a file; BadConfig for a name that is neither."""
    from evals.refine.bank import DATASETS, refiner_bank
    from evals.refine.files import SUFFIXES, read_records

    if data in DATASETS:
        return refiner_bank().test if data == "refiner-test" else refiner_bank().train
    if not data.endswith(SUFFIXES):
        raise BadConfig(
            f"no data set is called {data!r}; known are {', '.join(DATASETS)}, or name a file ({', '.join(SUFFIXES)})."
        )
    return read_records(Path(data))


def task_by(server: HttpSettings, config: RewardConfig) -> "tuple[Refine, dict[str, Any]]":
    """Return the task with the judge that the options name, and what a report keeps of it; BadConfig for the stub."""
    from evals.refine.task import Refine
    from training.judge.judge import judge_of

    if server.base_url == "stub":
        raise BadConfig(say("command.stub"))
    judge = judge_of(server)
    mode = "no language model" if server.base_url == "heuristic" else server.mode
    task = Refine(None, lambda asked: verdicts_on(judge, asked, DEADLINE_SECONDS), judge.label, config)
    return task, {"judge": judge.label, "judge_mode": mode, "reward": config}


def _write(
    records: Sequence[RefinerRecord], rows: Sequence[GradedAnswer], out: Path, as_json: bool, **origin: Any
) -> None:
    from evals.refine.task import Refine
    from training.run.folder import versions

    made: dict[str, Any] = {"versions": {**versions(), "judge prompt": VERSION}, "created_at": datetime.now(UTC)}
    report = build_report(records, rows, Refine, **origin, **made)
    save_report(report, out)
    notes.print(f"wrote {out}: {counted(len(rows), 'answer')}, judged by {origin['judge']}", soft_wrap=True)
    emit(report, as_json=as_json, table=summary_table(report))


@app.command(epilog="Example: assay refiner run --chain runs/refiner --judge heuristic --out report.json")
@with_options(judge_options(), "server")
def run(
    chain: Annotated[str, typer.Option(help="A run folder or chain.json of a refiner.")],
    out: Annotated[Path, typer.Option(help="Where the report goes, a .json file.")],
    server: HttpSettings,
    data: Annotated[
        str, typer.Option(help="refiner-test, refiner-train, or a file of records, also in RAGAS' columns.")
    ] = "refiner-test",
    stage: Annotated[str, typer.Option(help="Stages with commas between, or all.")] = "all",
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first so many records.")] = None,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Longest answer, in tokens.")] = MAX_NEW_TOKENS,
    preset: Annotated[str, typer.Option(help="How to reward: assay, or published.")] = "assay",
    as_json: Json = False,
) -> None:
    """Answer held-out records with every stage, judge all answers alike, write a report.

    Answers that take no model stand beside the stages: saying nothing, abstaining always, pasting the
    first passage, and the reference. Means have 95 % intervals over whole studies and tissues.
    """
    from training.models.chain import load_chain

    records = records_named(data)[:limit]
    task, own = task_by(server, RewardConfig.model_validate({"preset": preset}))
    with notes.status("loading the chain") as status:
        loaded = load_chain(chain, DTYPE, lambda _, told: status.update(told), cache=from_environment().cache)
        stages = loaded.stages if stage == "all" else tuple(name.strip() for name in stage.split(","))
        settings = RunSettings(Sampling(max_new_tokens=max_new_tokens))
        rows = run_task(task, loaded, records, stages, settings, lambda _, told: status.update(told))
    name = public_path(data)
    options: dict[str, object] = {"chain": public_path(chain), "data": name, "stage": stage, "preset": preset}
    options |= {"limit": limit, "max-new-tokens": None if max_new_tokens == MAX_NEW_TOKENS else max_new_tokens}
    ordered = [row for stage in stages for row in rows if row.stage == stage]
    _write(
        records,
        [*ordered, *baseline_rows(task, records)],
        out,
        as_json,
        data_name=name if limit is None else f"{name} (first {len(records)})",
        chain_name=loaded.manifest.name,
        stage_checksums={name: loaded.stage_checksums[name] for name in stages},
        settings={"max_new_tokens": max_new_tokens, "temperature": 0.0, "dtype": DTYPE},
        command=command_of("run", options, server),
        **own,
    )


@app.command(epilog="Example: assay refiner rescore report.json --judge http://127.0.0.1:8000/v1 --out again.json")
@with_options(judge_options(), "server")
def rescore(
    report: Annotated[Path, typer.Argument(help="A report of `assay refiner run`.")],
    out: Annotated[Path, typer.Option(help="Where the new report goes, a .json file.")],
    server: HttpSettings,
    data: Annotated[str, typer.Option(help="The records that were answered; as by default those of the report.")] = "",
    as_json: Json = False,
) -> None:
    """Judge the answers of a report again, by another judge.

    A report keeps every answer in full, so no model is needed; the reward is that of the report. Records
    other than those that were answered are refused.
    """
    from evals.refine.records import records_sha256

    old = load_report(report, RefinerReport)
    first = FIRST.fullmatch(old.data_name)
    source = data or (first["name"] if first else old.data_name)
    records = records_named(source)[: int(first["count"]) if first else None]
    if records_sha256(records) != old.data_sha256:
        raise IncomparableReports(say("command.other_records", source=source, sha256=old.data_sha256))
    task, own = task_by(server, old.reward)
    by_id = {record.id: record for record in records}
    answers = [StageAnswer(row.stage, row.completion, row.finish_reason) for row in old.rows]
    again = command_of("rescore REPORT.json", {"data": public_path(data)}, server)
    _write(
        records,
        graded(task, [by_id[row.id] for row in old.rows], answers),
        out,
        as_json,
        data_name=old.data_name,
        chain_name=old.chain_name,
        stage_checksums=old.stage_checksums,
        settings=old.settings,
        command=f"{old.command.partition(' && ')[0]} && {again}",
        **own,
    )


@app.command(epilog="Example: assay refiner export --format sft --out refined.jsonl")
def export(
    out: Annotated[Path, typer.Option(help="The JSONL file to write.")],
    form: Annotated[
        Literal["sft", "dpo"],
        typer.Option(
            "--format",
            help="sft: records whose reference is the answer; dpo: prompt, chosen, rejected.",
            case_sensitive=False,
        ),
    ] = "sft",
    as_json: Json = False,
) -> None:
    """Write the answers that people corrected or rated good in the lab's Refine tab.

    The rows of sft are what `assay train sft` takes as records; those of dpo what `assay train dpo`
    takes. Records that are kept for testing, and answers that are
    not well formed, are left out and counted.
    """
    from lab.refine.export import export as rows_of
    from lab.refine.session import held_out

    store = open_store(from_environment().database_url)
    graded = store.documents("refine").everything()
    store.close()
    rows = rows_of(graded, form, held_out())
    write_whole(out, rows.text)
    document = {"format": form, "file": str(out), "rows": rows.n, "left_out": rows.left_out}
    counts = [(f"left out: {why.replace('_', ' ')}", n) for why, n in rows.left_out.items()]
    table = table_of(str(out), ("", "count"), [("rows", rows.n), *counts])
    emit(document, as_json=as_json, table=table)
    notes.print(f"from {len(graded)} answered records in the lab", soft_wrap=True)


@app.command(epilog="Example: assay refiner score cases.jsonl --judge http://127.0.0.1:8000/v1 --json")
@with_options(judge_options(JUDGE_OR_STUB), "server")
def score(
    cases: Annotated[
        Path,
        typer.Argument(
            help="JSONL: id, record, completion, config, stub_judge. Or .jsonl, .json, .csv, .xlsx or .parquet with RAGAS'"
            " columns: question, contexts, answer, ground_truth."
        ),
    ],
    server: HttpSettings,
    concurrency: Annotated[int, typer.Option(help="Requests to the server at a time.")] = 64,
    deadline: Annotated[float, typer.Option(help="Seconds for all verdicts together.")] = 600.0,
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

    Of RAGAS' columns each context is a passage S1, S2, …, and the ground truth a wanted behaviour. A sentence of the answer
    is a claim that cites what it names as [1]; where an answer names none, each sentence is held against all contexts.

    A reward is null where a verdict is missing: a judge that fails never costs an answer points. The exit code is then 1.
    """
    from evals.refine.files import ORIGIN, read_cases
    from evals.refine.judge import judge_citations
    from evals.refine.score import explain
    from training.judge.judge import judge_of

    judge = judge_of(replace(server, concurrency=concurrency))
    read = read_cases(cases)
    prepared = [case.prepared() for case in read]
    asked = [place for place, each in enumerate(prepared) if each.is_judgeable]
    inquiries = [read[at].inquiry() for at in asked]
    verdicts = dict(
        zip(asked, judge_citations(inquiries, lambda some: verdicts_on(judge, some, deadline)), strict=True)
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
    emit(document, as_json=as_json, table=_table(scored, judge.label))
    missing = sum(each.reward is None for _, each in scored)
    notes.print(f"judged {counted(len(scored), 'answer')} by {judge.label}", soft_wrap=True)
    if any(case.record.origin == ORIGIN for case in read):
        notes.print(say("command.ragas"), soft_wrap=True)
    if missing:
        why = "; ".join([*dict.fromkeys(problem for _, each in scored for problem in each.problems)][:3])
        told = f"{counted(missing, 'answer')} without a reward, for want of a verdict{f': {why}' if why else ''}"
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
