"""`assay refiner items`: which rubric items side with the better answer of held-out pairs, and which do not."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evals.errors import BadConfig
from lab.commands.refiner_judge import (
    DEADLINE_SECONDS,
    Cache,
    Json,
    KeyEnv,
    Model,
    Remote,
    Votes,
    command_of,
    how_asked,
    judge_words,
    verdicts_on,
)
from lab.console import counted, emit, notes, table_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from evals.refiner.consistency import Judged, Rule, Sides
    from evals.refiner.judging import Judge
    from evals.schema.refinerpairs import AnswerPair, ItemReport
    from evals.schema.refining import RefinerRecord
    from training.judging.settings import HttpSettings

EXAMPLE = (
    "Example: assay refiner items --degrade refiner-train --share 0.3 --judge heuristic --out items.json"
    " --filtered train.jsonl"
)


def items(
    judge: Annotated[
        str,
        typer.Option(
            help="heuristic (word overlap), the address of a server, or stub (tables in each pair)."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Where the report goes, a .json file.")],
    pairs: Annotated[
        Path | None,
        typer.Argument(help="JSONL: id, record, better, worse, preferred_by, about."),
    ] = None,
    degrade: Annotated[
        str,
        typer.Option(
            help="Or records (refiner-train, a JSONL file) whose references a rule makes worse."
        ),
    ] = "",
    share: Annotated[
        float, typer.Option(help="Share of their groups that pairs are made of, above 0 to 1.")
    ] = 1.0,
    seed: Annotated[int, typer.Option(help="Chooses these groups.")] = 0,
    records: Annotated[
        str, typer.Option(help="Records for --filtered; as by default those of --degrade.")
    ] = "",
    filtered: Annotated[
        Path | None,
        typer.Option(
            help="Write the records of other groups here; training drops items from them."
        ),
    ] = None,
    min_decided: Annotated[
        int, typer.Option(min=1, help="Pairs that have to tell before an item may be dropped.")
    ] = 5,
    min_share: Annotated[
        float,
        typer.Option(min=0.0, max=1.0, help="Least share of them that agrees, a mean over groups."),
    ] = 0.6,
    min_groups: Annotated[
        int, typer.Option(min=1, help="Groups of records that these pairs have to come from.")
    ] = 3,
    model: Model = "",
    key_env: KeyEnv = "",
    allow_remote: Remote = False,
    cache: Cache = None,
    votes: Votes = 1,
    as_json: Json = False,
) -> None:
    """Hold rubric items against pairs of answers, and drop those that side with the worse one.

    A row: {"id": "p1", "record": {...}, "better": "<answer>…</answer>", "worse": "<answer>…</answer>",
    "preferred_by": "people"}; `assay refiner export --format pairs` writes what was rated and corrected
    in the lab. --degrade makes pairs by rule, which shows only whether items see such faults.

    Items count by writer, polarity and title, so what other records' pairs show holds for the records that
    are trained on: `assay train refiner --items_report items.json` drops the same items and refuses
    records of the pairs' groups. An item that too few pairs or groups tell about is kept.
    """
    from evals.questions.rows import write_whole
    from evals.refiner.consistency import Rule
    from evals.refiner.records import as_jsonl
    from training.judging.settings import HttpSettings

    if (pairs is None) == (not degrade):
        raise BadConfig("items takes a file of pairs or --degrade RECORDS, one of them.")
    if pairs is not None and (share != 1.0 or seed):
        raise BadConfig(
            "--share and --seed choose groups of --degrade; a file of pairs is taken whole."
        )
    if records and filtered is None:
        raise BadConfig("--records is what --filtered FILE takes records from; name that file too.")
    given = _Given(pairs, degrade, share, seed)
    held = given.pairs()
    rest = _to_filter(records or degrade, filtered, held)
    server = HttpSettings(judge, model, key_env, allow_remote, cache=cache, votes=votes)
    report = _report(given, held, server, Rule(min_decided, min_share, min_groups))
    write_whole(out, report.model_dump_json(indent=1) + "\n")
    _tell(report, out)
    if filtered is not None:
        write_whole(filtered, as_jsonl(rest))
        notes.print(
            f"wrote {filtered}: {counted(len(rest), 'record')} that no pair is about, with all their items;"
            f" --items_report {out} drops those of them that training is to leave out",
            soft_wrap=True,
        )
    emit(report, as_json=as_json, table=_table(report))


@dataclass(frozen=True)
class _Given:
    """Where pairs come from: a file, or records whose references are made worse."""

    file: Path | None
    degrade: str
    share: float
    seed: int

    @property
    def name(self) -> str:
        """The pairs in words, without this machine's folders."""
        from training.runs import public_path

        if self.file is not None:
            return public_path(str(self.file))
        part = "" if self.share == 1.0 else f", {self.share:g} of the groups, seed {self.seed}"
        return f"references of {public_path(self.degrade)} made worse by rule{part}"

    def pairs(self) -> "Sequence[AnswerPair]":
        """Return the pairs; LabError for a share out of range, for none, or if one is kept for testing."""
        from evals.refiner.pairs import degraded, read_pairs, refuse_tested
        from evals.refiner.records import split_by_group
        from training.refining.data import records_in

        if self.file is not None:
            pairs: Sequence[AnswerPair] = read_pairs(self.file)
        else:
            records = records_in(self.degrade)
            if self.share != 1.0:
                _, records = split_by_group(records, self.share, self.seed)
            pairs = degraded(records)
        refuse_tested(pairs)
        return pairs


def _report(
    given: _Given, pairs: "Sequence[AnswerPair]", server: "HttpSettings", rule: "Rule"
) -> "ItemReport":
    from collections import Counter

    from evals.refiner.consistency import figures, lacking, sides_of
    from evals.refiner.pairs import pairs_sha256, traces_of
    from evals.schema.refinerpairs import ItemReport
    from training.judging.choice import backend_of, judge_of
    from training.judging.questions import VERSION
    from training.surroundings import versions

    backend = backend_of(server.base_url)
    asked = judge_of(backend, server)
    sides = sides_of(pairs)
    judged = _judged(sides, asked)
    items = figures(judged, rule)
    if lacks := lacking(judged):
        notes.print(lacks, style="yellow", soft_wrap=True)
    return ItemReport(
        pairs_name=given.name,
        pairs_sha256=pairs_sha256(pairs),
        pairs=len(pairs),
        unreadable=len(pairs) - len(sides),
        preferred_by=dict(Counter(pair.preferred_by for pair in pairs)),
        groups=tuple(sorted({pair.record.group for pair in pairs})),
        traces=tuple(sorted({each for pair in pairs for each in traces_of(pair.record)})),
        judge=asked.label,
        judge_mode=how_asked(server) if backend == "http" else "no language model",
        min_decided=rule.min_decided,
        min_share=rule.min_share,
        min_groups=rule.min_groups,
        items=items,
        versions={**versions(), "judge prompt": VERSION},
        created_at=datetime.now(UTC),
        command=_command(given, server, rule),
    )


def _judged(sides: "Sequence[Sides]", judge: "Judge") -> "list[Judged]":
    inquiries = [inquiry for each in sides for inquiry in each.inquiries()]
    verdicts = verdicts_on(judge, inquiries, DEADLINE_SECONDS)
    return list(zip(sides, verdicts[::2], verdicts[1::2], strict=True))


def _to_filter(
    records: str, filtered: Path | None, pairs: "Sequence[AnswerPair]"
) -> "Sequence[RefinerRecord]":
    """Return the records to be written, of other groups than the pairs; BadConfig if there are none.

    They keep their items, so that training counts in run.json what the report drops.
    """
    from evals.refiner.pairs import is_shared, traces_of
    from training.refining.data import records_in

    if filtered is None:
        return ()
    if not records:
        raise BadConfig(
            "--filtered takes --records FILE, the records to take those of other groups from."
        )
    read, groups = records_in(records), {pair.record.group for pair in pairs}
    traces = {trace for pair in pairs for trace in traces_of(pair.record)}
    found = [record for record in read if not is_shared(record, groups, traces)]
    if not found:
        raise BadConfig(
            f"all {len(read)} records share a group, a question or passages with a pair, so none is left to train on; use --share"
            " 0.3, so that pairs are made of a part of the groups, or pairs about other records."
        )
    return found


def _command(given: _Given, server: "HttpSettings", rule: "Rule") -> str:
    from evals.refiner.consistency import Rule as Usual
    from training.runs import public_path

    usual = Usual()
    options = {
        "degrade": public_path(given.degrade) if given.degrade else None,
        "share": given.share if given.degrade and given.share != 1.0 else None,
        "seed": given.seed or None,
        "min-decided": None if rule.min_decided == usual.min_decided else rule.min_decided,
        "min-share": None if rule.min_share == usual.min_share else rule.min_share,
        "min-groups": None if rule.min_groups == usual.min_groups else rule.min_groups,
        **judge_words(server),
        "out": "ITEMS.json",
    }
    file = [public_path(str(given.file))] if given.file is not None else []
    return command_of("items", file, options)


def _tell(report: "ItemReport", out: Path) -> None:
    from evals.schema.refinerpairs import UNDECIDED

    dropped = sum(not each.is_kept for each in report.items)
    open_ = sum(each.finding in UNDECIDED for each in report.items)
    notes.print(
        f"wrote {out}: {counted(len(report.items), 'kind')} of items, {dropped} dropped, {open_} kept because"
        f" fewer than {counted(report.min_decided, 'pair')} of {counted(report.min_groups, 'group')} tell;"
        f" judged by {report.judge}",
        soft_wrap=True,
    )
    unreadable, by_rule = report.unreadable, report.preferred_by.get("rule", 0)
    told = {
        f"{counted(unreadable, 'pair')} left out: an answer is not well formed": unreadable,
        f"{counted(by_rule, 'pair')} made by rule: they show that items see such faults, not what people"
        " prefer": by_rule,
    }
    for each in (words for words, n in told.items() if n):
        notes.print(each, style="yellow", soft_wrap=True)


def _table(report: "ItemReport") -> "Table":
    rows = [
        (
            f"{each.writer}: {'+' if each.polarity == 'positive' else '-'} {each.title}",
            f"{each.consistent}/{each.decided}",
            each.groups,
            "none"
            if each.share is None or each.interval is None
            else f"{each.share:.2f}\n{each.interval[0]:.2f} to {each.interval[1]:.2f}",
            each.ties,
            each.missing,
            f"{'kept' if each.is_kept else 'dropped'}: {each.finding}",
        )
        for each in report.items
    ]
    read = counted(report.pairs - report.unreadable, "pair")
    title = f"rubric items on {read}, {report.pairs_name}"
    columns = ("item", "agrees", "groups", "share, 95 %", "ties", "missing", "so it is")
    return table_of(title, columns, rows)
