"""`assay refiner run` and `compare`: what the stages of a chain answer to held-out records, and how they differ."""

import shlex
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evals.errors import BadConfig
from lab.console import counted, emit, notes, table_of
from training.judging.settings import MAX_VOTES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.table import Table

    from evals.refiner.answering import Answered
    from evals.refiner.judging import Judge
    from evals.schema.refinerreports import RefinerComparison, RefinerReport, RefinerRow
    from evals.schema.refining import RefinerRecord, RewardConfig
    from evals.schema.reports import Metric
    from training.judging.settings import HttpSettings

EXAMPLE_RUN = "Example: assay refiner run --chain runs/refiner --judge heuristic --out report.json"
EXAMPLE_COMPARE = "Example: assay refiner compare report.json --stages sft,refiner"
SHOWN = ("reward", "rubric", "citation_f1", "wellformed")
"""What 80 columns hold; --json has every metric."""
DEADLINE_SECONDS = 3600.0
DTYPE = "float32"
"""In it an answer does not depend on what else is in the batch."""
MAX_NEW_TOKENS = 128
Votes = Annotated[
    int,
    typer.Option(help=f"Votes of a server on each verdict, 1 to {MAX_VOTES}; the majority stands."),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]


def run(
    chain: Annotated[str, typer.Option(help="A run folder or chain.json of a refiner.")],
    judge: Annotated[
        str, typer.Option(help="heuristic (word overlap), or the address of a server.")
    ],
    out: Annotated[Path, typer.Option(help="Where the report goes, a .json file.")],
    data: Annotated[
        str, typer.Option(help="refiner-test, refiner-train, or a JSONL file of records.")
    ] = "refiner-test",
    stage: Annotated[str, typer.Option(help="Stages with commas between, or all.")] = "all",
    limit: Annotated[
        int | None, typer.Option(min=1, help="Only the first so many records.")
    ] = None,
    max_new_tokens: Annotated[
        int, typer.Option(min=1, help="Longest answer, in tokens.")
    ] = MAX_NEW_TOKENS,
    preset: Annotated[str, typer.Option(help="How to reward: assay, or published.")] = "assay",
    model: Annotated[str, typer.Option(help="Model to ask of the server.")] = "",
    key_env: Annotated[
        str, typer.Option("--key-env", help="Variable that holds the server's key.")
    ] = "",
    allow_remote: Annotated[
        bool, typer.Option("--allow-remote", help="Let another machine read all that is judged.")
    ] = False,
    cache: Annotated[Path | None, typer.Option(help="A file that keeps verdicts.")] = None,
    votes: Votes = 1,
    as_json: Json = False,
) -> None:
    """Answer held-out records with every stage, judge all answers alike, write a report.

    Answers that take no model stand beside the stages: saying nothing, abstaining always, pasting the
    first passage, and the reference. Means have 95 % intervals over whole studies and tissues.
    """
    from evals.questions.rows import write_whole
    from evals.refiner.report import Origin, build
    from evals.schema.refining import RewardConfig
    from training.judging.questions import VERSION
    from training.judging.settings import HttpSettings
    from training.runs import public_path
    from training.surroundings import versions

    records = _records(data)[:limit]
    config = RewardConfig.model_validate({"preset": preset})
    server = HttpSettings(judge, model, key_env, allow_remote, cache=cache, votes=votes)
    asked, mode = _judge(judge, server)
    given = _answered(chain, stage, records, max_new_tokens)
    rows = _judged(given.answers, config, asked)
    name = public_path(data)
    origin = Origin(
        data_name=name if limit is None else f"{name} (first {len(records)})",
        chain_name=given.chain_name,
        stage_checksums=given.stage_checksums,
        judge=asked.label,
        judge_mode=mode,
        reward=config,
        settings={"max_new_tokens": max_new_tokens, "temperature": 0.0, "dtype": DTYPE},
        versions={**versions(), "judge prompt": VERSION},
        created_at=datetime.now(UTC),
        command=_command(
            {"chain": public_path(chain), "data": name, "stage": stage, "preset": preset}
            | {"limit": limit, "max-new-tokens": max_new_tokens},
            server,
        ),
    )
    report = build(rows, records, origin)
    write_whole(out, report.model_dump_json(indent=1) + "\n")
    notes.print(
        f"wrote {out}: {counted(len(rows), 'answer')}, judged by {asked.label}", soft_wrap=True
    )
    emit(report, as_json=as_json, table=_table(report))


def compare(
    reports: Annotated[list[Path], typer.Argument(help="One report, or two on the same records.")],
    stages: Annotated[str, typer.Option(help="Two stages, such as sft,refiner.")] = "sft,refiner",
    as_json: Json = False,
) -> None:
    """Compare two stages on the same records: difference, 95 % interval, p.

    Differences are second minus first, over whole studies and tissues. Two reports: the first stage of
    the first, the second stage of the second; another judge or other records are refused.
    """
    from evals.refiner.report import compare as compared
    from evals.refiner.report import read_report

    names = [name.strip() for name in stages.split(",") if name.strip()]
    if len(names) != 2 or not 1 <= len(reports) <= 2:
        raise BadConfig(
            f"compare takes two stages and one report or two, found {len(names)} and {len(reports)}; such as"
            " --stages sft,refiner report.json."
        )
    read = [read_report(path) for path in reports]
    found = compared((read[0], names[0]), (read[-1], names[1]))
    emit(found, as_json=as_json, table=_differences(found))


@dataclass(frozen=True)
class _Given:
    """What was answered, and by which chain."""

    answers: "list[Answered]"
    chain_name: str
    stage_checksums: dict[str, str]


def _answered(
    chain: str, stage: str, records: "Sequence[RefinerRecord]", max_new_tokens: int
) -> _Given:
    """Return what the stages and those without a model answer to every record."""
    from evals.model import Sampling
    from evals.refiner.answering import answers, baseline_answers
    from lab.settings import from_environment
    from training.chain import load_chain

    with notes.status("loading the chain") as status:
        loaded = load_chain(
            chain, DTYPE, lambda _, told: status.update(told), cache=from_environment().cache
        )
        stages = (
            loaded.stages if stage == "all" else tuple(name.strip() for name in stage.split(","))
        )
        sampling = Sampling(max_new_tokens=max_new_tokens)
        found = answers(loaded, records, stages, sampling, lambda _, told: status.update(told))
    checksums = {name: loaded.stage_checksums[name] for name in stages}
    return _Given([*found, *baseline_answers(records)], loaded.manifest.name, checksums)


def _records(data: str) -> "tuple[RefinerRecord, ...]":
    from evals.refiner.bank import DATASETS, refiner_bank
    from evals.refiner.records import read_records

    if data in DATASETS:
        return refiner_bank().test if data == "refiner-test" else refiner_bank().train
    if not data.endswith(".jsonl"):
        raise BadConfig(
            f"no data set is called {data!r}; known are {', '.join(DATASETS)}, or name a JSONL file."
        )
    return read_records(Path(data))


def _judge(word: str, settings: "HttpSettings") -> "tuple[Judge, str]":
    """Return who judges, and how they are asked; refused before any answer is written.

    `settings` are for a server.
    """
    from training.judging.choice import backend_of, judge_of

    backend = backend_of(word)
    if backend == "stub":
        raise BadConfig(
            "the stub judge reads a table that answers of a model do not have; use heuristic, or the"
            " address of a server."
        )
    if backend == "heuristic":
        return judge_of(backend), "no language model"
    votes = settings.votes
    mode = settings.mode if votes == 1 else f"{settings.mode}, majority of {votes} votes"
    return judge_of(backend, settings), mode


def _judged(
    given: "Sequence[Answered]", config: "RewardConfig", judge: "Judge"
) -> "list[RefinerRow]":
    """Return the rows of a report; whatever is well formed is judged, gate or not."""
    from training.judging.batch import judged

    prepared = [each.prepared(config) for each in given]
    asked = [place for place, each in enumerate(prepared) if each.is_judgeable]
    inquiries = [prepared[at].inquiry() for at in asked]
    with notes.status(f"judging {counted(len(asked), 'answer')}"):
        verdicts = dict(zip(asked, judged(judge, inquiries, DEADLINE_SECONDS), strict=True))
    return [
        each.row(case, verdicts.get(place), judge.label)
        for place, (each, case) in enumerate(zip(given, prepared, strict=True))
    ]


def _command(answering: "Mapping[str, object]", judge: "HttpSettings") -> str:
    """Return the command that makes the report again, without this machine's folders or a judge's address.

    `answering` are options by name. What is unset or as by default is left out, so is a cache.
    """
    from training.runs import public_path

    given = {
        **answering,
        "judge": "URL" if judge.base_url.startswith("http") else judge.base_url,
        "model": public_path(judge.model),
        "key-env": judge.key_variable,
        "votes": judge.votes,
        "out": "REPORT.json",
    }
    usual = {"max-new-tokens": MAX_NEW_TOKENS, "votes": 1}
    words = ["assay", "refiner", "run"]
    for option, value in given.items():
        if value not in (None, "", usual.get(option)):
            words += [f"--{option}", str(value)]
    return shlex.join([*words, *(["--allow-remote"] if judge.allow_remote else [])])


def _table(report: "RefinerReport") -> "Table":
    rows = [
        (each.stage, *(_metric(each.metrics[name]) for name in SHOWN)) for each in report.summaries
    ]
    title = f"{report.data_name}: means with 95 % intervals, judged by {report.judge}"
    return table_of(title, ("stage", *SHOWN), rows)


def _differences(found: "RefinerComparison") -> "Table":
    rows = [
        (
            each.metric,
            each.n,
            f"{_number(each.first)}, {_number(each.second)}",
            _number(each.difference, "+.3f"),
            f"{each.interval[0]:+.3f} to {each.interval[1]:+.3f}" if each.interval else "none",
            _number(each.p_permutation),
            _number(each.p_holm),
        )
        for each in found.differences
    ]
    title = (
        f"{found.data_name}: {found.second} minus {found.first}, {found.n} records in"
        f" {found.n_clusters} clusters; judged by {found.judge}"
    )
    columns = ("metric", "n", "first,\nsecond", "difference", "95 % interval", "p", "p, Holm")
    return table_of(title, columns, rows)


def _metric(metric: "Metric") -> str:
    if metric.value is None:
        return "none"
    span = "" if metric.low is None else f"\n{metric.low:.2f} to {metric.high:.2f}"
    return f"{metric.value:.2f}{span}"


def _number(value: float | None, form: str = ".3f") -> str:
    return "none" if value is None else format(value, form)
