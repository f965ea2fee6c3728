"""`assay eval compare` and `assay eval rescore`: reports held against each other, and brought up to date."""

from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evals.errors import BadConfig
from lab.commands import answer_judge
from lab.commands.verify import Read
from lab.console import counted, emit, notes
from lab.standings import change_table, comparison_table, reading_table, rescored_table, shift_table

if TYPE_CHECKING:
    from evals.comparison import Answers
    from evals.schema import EvalReport

Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]


def compare(
    reports: Annotated[
        list[Path], typer.Argument(help="Two reports on the same rows, or one to compare within.")
    ],
    stages: Annotated[
        str | None,
        typer.Option(
            "--stages",
            "--stage",
            help="Stages with commas between. Of one report: all pairs. Of two: one name for both,"
            " or first,second.",
        ),
    ] = None,
    metric: Annotated[
        list[str] | None, typer.Option(help="A metric; may be given several times.")
    ] = None,
    group: Annotated[str, typer.Option(help="all, unaided, or a kind such as direct.")] = "unaided",
    draws: Annotated[int, typer.Option(min=1, help="Draws behind interval and p.")] = 10_000,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same figures.")] = 0,
    as_json: Json = False,
) -> None:
    """Compare stages or models on the same rows: difference, 95 % interval, p.

    Differences are second minus first. Whole clusters of questions are resampled and swapped together;
    "p, Holm" is corrected for every figure in the table. Reports of different verifiers or questions
    are refused. The table says how the answers were read; a note marks two reports that were read in
    different ways.

    Example: assay eval compare before.json after.json --stage grpo --metric accuracy --metric ece

    Example: assay eval compare report.json --stages sft,grpo
    """
    from evals.comparison import COMPARED, Pairing
    from evals.comparison import compare as compare_pairs
    from evals.report import load_report

    if len(reports) > 2:
        raise BadConfig(f"compare takes one report or two, found {len(reports)}; leave some out")
    named = [name.strip() for name in stages.split(",")] if stages else []
    read = [load_report(path) for path in reports]
    pairs = _within(read[0], named) if len(read) == 1 else _between(read[0], read[1], named)
    pairing = Pairing(metrics=metric or COMPARED, group=group, draws=draws, seed=seed)
    found = compare_pairs(pairs, pairing)
    for each in found.comparisons:
        for note in each.notes:
            notes.print(f"note: the two reports differ in {note}")
    emit(found, as_json=as_json, table=comparison_table(found))


def rescore(
    report: Annotated[Path, typer.Argument(help="A report with full texts.")],
    out: Annotated[
        Path | None, typer.Option(help="Where the new report goes; the same file if not given.")
    ] = None,
    read: Read = "auto",
    judge: answer_judge.Url = "",
    judge_model: answer_judge.Model = "",
    key_env: answer_judge.KeyEnv = "",
    allow_remote: answer_judge.Remote = False,
    labels: answer_judge.Labels = None,
    any_judge: answer_judge.AnyJudge = False,
    show: Annotated[bool, typer.Option("--show", help="List every answer that changed.")] = False,
    as_json: Json = False,
) -> None:
    """Judge the answers of a report again, with today's verifiers, and write it whole.

    Nothing is generated: questions and texts are the stored ones. The versions that judged before are
    kept in the report. Answers without an answer line are read from their text, and marked so.

    Example: assay eval rescore reports/kmp-test.json --out reports/kmp-test.new.json --show
    """
    from evals.readers import check_way
    from evals.report import load_report, save_report
    from evals.rescore import rescore as judge_again

    stored = load_report(report)
    tried = answer_judge.tried_judge(
        read, judge, judge_model, key_env, allow_remote, labels, any_judge
    )
    found = judge_again(stored, check_way(read), tried)
    if tried is not None:
        found = found.model_copy(update={"report": tried.marked(found.report)})
    target = out or report
    save_report(found.report, target)
    changed = sum(change.is_of_verdict for change in found.changes)
    notes.print(
        f"wrote {target}: {counted(changed, 'verdict')} of {len(found.report.rows)} changed,"
        f" {counted(len(found.changes) - changed, 'answer')} more in score or confidence"
    )
    if tried is not None:
        tried.tell()
    document = {
        "out": str(target),
        "before": found.before,
        "after": found.report.versions,
        "n": len(found.report.rows),
        "n_changed": changed,
        "read_by": {s.stage: s.read_by for s in found.report.summaries if s.group == "all"},
        **found.model_dump(mode="json", include={"counts", "changes", "shifts"}),
    }
    tables = [reading_table(found), *([rescored_table(found)] if changed else [])]
    tables += [shift_table(found), *([change_table(found)] if show else [])]
    emit(document, as_json=as_json)
    for table in () if as_json else tables:
        emit(document, as_json=False, table=table)


def _within(report: "EvalReport", named: list[str]) -> "list[tuple[Answers, Answers]]":
    """Return all pairs of the stages named in one report; of the chain's own if none is."""
    from evals.report import stages_of

    chosen = named or list(stages_of(report))
    if len(chosen) < 2:
        raise BadConfig(
            f"one report needs two stages to compare, found {', '.join(chosen) or 'none'}; write"
            " --stages sft,grpo, or name a second report"
        )
    return [((report, one), (report, other)) for one, other in combinations(chosen, 2)]


def _between(
    first: "EvalReport", second: "EvalReport", named: list[str]
) -> "list[tuple[Answers, Answers]]":
    """Return the pairs of stages to compare between two reports; those in both if none is named."""
    from evals.report import stages_of

    if len(named) > 2:
        raise BadConfig(
            f"between two reports name one stage, or first,second; found {', '.join(named)}"
        )
    if named:
        return [((first, named[0]), (second, named[-1]))]
    shared = [stage for stage in stages_of(first) if stage in stages_of(second)]
    if not shared:
        raise BadConfig(
            f"no stage is in both reports: {', '.join(stages_of(first))} and"
            f" {', '.join(stages_of(second))}; name one of each, such as --stages sft,grpo"
        )
    return [((first, stage), (second, stage)) for stage in shared]
