"""`assay refiner run`: what the stages of a chain answer to held-out records, judged."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lab.commands.refiner_graded import OtherItems, graded, other_set, records_named, tables
from lab.commands.refiner_judge import (
    Cache,
    Json,
    KeyEnv,
    Model,
    Remote,
    Votes,
    Word,
    command_of,
    judge_of_answers,
    judge_words,
)
from lab.console import counted, emit, notes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from evals.refiner.answering import Answered
    from evals.schema.refining import RefinerRecord
    from training.judging.settings import HttpSettings

EXAMPLE = "Example: assay refiner run --chain runs/refiner --judge heuristic --out report.json"
DTYPE = "float32"
"""In it an answer does not depend on what else is in the batch."""
MAX_NEW_TOKENS = 128


def run(
    chain: Annotated[str, typer.Option(help="A run folder or chain.json of a refiner.")],
    judge: Word,
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
    items: OtherItems = "",
    model: Model = "",
    key_env: KeyEnv = "",
    allow_remote: Remote = False,
    cache: Cache = None,
    votes: Votes = 1,
    as_json: Json = False,
) -> None:
    """Answer held-out records with every stage, judge all answers alike, write a report.

    Answers that take no model stand beside the stages: saying nothing, abstaining always, pasting the
    first passage, and the reference. Means have 95 % intervals over whole studies and tissues.

    The rubric is told by who wrote its items too. --items judges answers by items of another writer
    beside the record's: a gain that only the record's own show was learned from their writer. A row:
    {"record": "r1", "source": "Ada", "positive_rubrics": [{"title": …, "description": …}]}.
    """
    from evals.questions.rows import write_whole
    from evals.refiner.report import Origin, build
    from evals.schema.refining import RewardConfig
    from training.judging.questions import VERSION
    from training.judging.settings import HttpSettings
    from training.runs import public_path
    from training.surroundings import versions

    records = records_named(data)[:limit]
    others = other_set(items, data, records)
    config = RewardConfig.model_validate({"preset": preset})
    server = HttpSettings(judge, model, key_env, allow_remote, cache=cache, votes=votes)
    asked, mode = judge_of_answers(server)
    given = _answered(chain, stage, records, max_new_tokens)
    rows = graded(given.answers, config, asked, others)
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
            | {"limit": limit, "max-new-tokens": max_new_tokens, "items": public_path(items)},
            server,
        ),
        other_items=others,
    )
    report = build(rows, records, origin)
    write_whole(out, report.model_dump_json(indent=1) + "\n")
    notes.print(
        f"wrote {out}: {counted(len(rows), 'answer')}, judged by {asked.label}", soft_wrap=True
    )
    emit(report, as_json=as_json, table=tables(report))


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


def _command(answering: "Mapping[str, object]", judge: "HttpSettings") -> str:
    """Return the command that makes the report again, without this machine's folders or a judge's address.

    `answering` are options by name. What is unset or as by default is left out, so is a cache.
    """
    usual = {"max-new-tokens": MAX_NEW_TOKENS}
    given = {name: None if usual.get(name) == value else value for name, value in answering.items()}
    return command_of("run", (), {**given, **judge_words(judge), "out": "REPORT.json"})
