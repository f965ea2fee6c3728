"""`assay refiner`: score answers whose claims cite evidence, run a chain on records, compare stages."""

import json
import re
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evals.errors import BadConfig, IncomparableReports
from lab.commands.tables import counted, emit, notes, table_of
from lab.ui.text import say
from training.judge.questions import MAX_VOTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from evals.refine.judge import Inquiry, Judge, Verdicts
    from training.judge.questions import HttpSettings

DEADLINE_SECONDS = 3600.0
Word = Annotated[str, typer.Option("--judge", help="heuristic (word overlap), or the address of a server.")]
Model = Annotated[str, typer.Option(help="Model to ask of the server; empty = the one that it lists.")]
KeyEnv = Annotated[str, typer.Option("--key-env", help="Variable that holds the server's key; empty = no key.")]
Remote = Annotated[
    bool,
    typer.Option("--allow-remote", help="Let a server on another machine read evidence and answers."),
]
Cache = Annotated[
    Path | None,
    typer.Option(help="A file that keeps verdicts, so the same question is asked once."),
]
Votes = Annotated[
    int,
    typer.Option(help=f"Votes of a server on each verdict, 1 to {MAX_VOTES}; the majority stands."),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]


def judge_of_answers(settings: "HttpSettings") -> "tuple[Judge, str]":
    """Return who judges, and how they are asked; `settings.base_url` is the word for the judge.

    BadConfig for the stub judge: it reads a table that such answers do not have.
    """
    from training.judge.judge import backend_of, judge_of

    backend = backend_of(settings.base_url)
    if backend == "stub":
        raise BadConfig(
            "the stub judge reads a table that answers of a model do not have; use heuristic, or the"
            " address of a server."
        )
    if backend == "heuristic":
        return judge_of(backend), "no language model"
    return judge_of(backend, settings), how_asked(settings)


def how_asked(settings: "HttpSettings") -> str:
    """Return how a server is asked, in words."""
    votes = settings.votes
    return settings.mode if votes == 1 else f"{settings.mode}, majority of {votes} votes"


def verdicts_on(
    judge: "Judge", inquiries: "Sequence[Inquiry]", deadline_seconds: float = DEADLINE_SECONDS
) -> "list[Verdicts]":
    """Return a judge's verdicts, counting on standard error how many answers are judged."""
    from training.judge.judge import judged

    of = counted(len(inquiries), "answer")
    with notes.status(f"judging {of}") as status:
        return judged(judge, inquiries, deadline_seconds, lambda n: status.update(f"{n} of {of} judged"))


def judge_words(settings: "HttpSettings") -> dict[str, object]:
    """Return the options that ask the same judge again, without a server's address or a cache."""
    from training.run.folder import public_path

    is_server = settings.base_url.startswith("http")
    return {
        "judge": "URL" if is_server else settings.base_url,
        "model": public_path(settings.model),
        "key-env": settings.key_variable,
        "votes": None if settings.votes == 1 else settings.votes,
        "allow-remote": settings.allow_remote or None,
    }


def command_of(name: str, arguments: "Sequence[str]", options: dict[str, object]) -> str:
    """Return a command as it is typed; options that are None or empty are left out, True has no value."""
    import shlex

    words = ["assay", "refiner", name, *arguments]
    for option, value in options.items():
        if value not in (None, "", False):
            words += [f"--{option}", *([] if value is True else [str(value)])]
    return shlex.join(words)


if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from evals.refine.items import ConsistencySides as Sides
    from evals.refine.items import Judged, Rule
    from evals.refine.judge import Judge
    from evals.schema.refiner import AnswerPair, ItemReport, RefinerRecord
    from training.judge.questions import HttpSettings

REFINER_ITEMS_EXAMPLE = (
    "Example: assay refiner items --degrade refiner-train --share 0.3 --judge heuristic --out items.json"
    " --filtered train.jsonl"
)


def items(
    judge: Annotated[
        str,
        typer.Option(help="heuristic (word overlap), the address of a server, or stub (tables in each pair)."),
    ],
    out: Annotated[Path, typer.Option(help="Where the report goes, a .json file.")],
    pairs: Annotated[
        Path | None,
        typer.Argument(help="JSONL: id, record, better, worse, preferred_by, about."),
    ] = None,
    degrade: Annotated[
        str,
        typer.Option(help="Or records (refiner-train, a JSONL file) whose references a rule makes worse."),
    ] = "",
    share: Annotated[float, typer.Option(help="Share of their groups that pairs are made of, above 0 to 1.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Chooses these groups.")] = 0,
    records: Annotated[str, typer.Option(help="Records for --filtered; as by default those of --degrade.")] = "",
    filtered: Annotated[
        Path | None,
        typer.Option(help="Write the records of other groups here; training drops items from them."),
    ] = None,
    min_decided: Annotated[int, typer.Option(min=1, help="Pairs that have to tell before an item may be dropped.")] = 5,
    min_share: Annotated[
        float,
        typer.Option(min=0.0, max=1.0, help="Least share of them that agrees, a mean over groups."),
    ] = 0.6,
    min_groups: Annotated[int, typer.Option(min=1, help="Groups of records that these pairs have to come from.")] = 3,
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
    from evals.io import rows_write_whole as write_whole
    from evals.refine.items import Rule
    from evals.refine.records import as_jsonl
    from training.judge.questions import HttpSettings

    if (pairs is None) == (not degrade):
        raise BadConfig("items takes a file of pairs or --degrade RECORDS, one of them.")
    if pairs is not None and (share != 1.0 or seed):
        raise BadConfig("--share and --seed choose groups of --degrade; a file of pairs is taken whole.")
    if records and filtered is None:
        raise BadConfig("--records is what --filtered FILE takes records from; name that file too.")
    given = _REFINER_ITEMS_Given(pairs, degrade, share, seed)
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
    emit(report, as_json=as_json, table=_refiner_items_table(report))


@dataclass(frozen=True)
class _REFINER_ITEMS_Given:
    """Where pairs come from: a file, or records whose references are made worse."""

    file: Path | None
    degrade: str
    share: float
    seed: int

    @property
    def name(self) -> str:
        """The pairs in words, without this machine's folders."""
        from training.run.folder import public_path

        if self.file is not None:
            return public_path(str(self.file))
        part = "" if self.share == 1.0 else f", {self.share:g} of the groups, seed {self.seed}"
        return f"references of {public_path(self.degrade)} made worse by rule{part}"

    def pairs(self) -> "Sequence[AnswerPair]":
        """Return the pairs; LabError for a share out of range, for none, or if one is kept for testing."""
        from evals.refine.items import degraded, read_pairs, refuse_tested
        from evals.refine.records import split_by_group
        from training.data.refiner import records_in

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
    given: _REFINER_ITEMS_Given, pairs: "Sequence[AnswerPair]", server: "HttpSettings", rule: "Rule"
) -> "ItemReport":
    from collections import Counter

    from evals.refine.items import figures, lacking, pairs_sha256, sides_of, traces_of
    from evals.schema.refiner import ItemReport
    from training.judge.judge import backend_of, judge_of
    from training.judge.questions import VERSION
    from training.run.folder import versions

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
        command=_refiner_items_command(given, server, rule),
    )


def _judged(sides: "Sequence[Sides]", judge: "Judge") -> "list[Judged]":
    inquiries = [inquiry for each in sides for inquiry in each.inquiries()]
    verdicts = verdicts_on(judge, inquiries, DEADLINE_SECONDS)
    return list(zip(sides, verdicts[::2], verdicts[1::2], strict=True))


def _to_filter(records: str, filtered: Path | None, pairs: "Sequence[AnswerPair]") -> "Sequence[RefinerRecord]":
    """Return the records to be written, of other groups than the pairs; BadConfig if there are none.

    They keep their items, so that training counts in run.json what the report drops.
    """
    from evals.refine.items import is_shared, traces_of
    from training.data.refiner import records_in

    if filtered is None:
        return ()
    if not records:
        raise BadConfig("--filtered takes --records FILE, the records to take those of other groups from.")
    read, groups = records_in(records), {pair.record.group for pair in pairs}
    traces = {trace for pair in pairs for trace in traces_of(pair.record)}
    found = [record for record in read if not is_shared(record, groups, traces)]
    if not found:
        raise BadConfig(
            f"all {len(read)} records share a group, a question or passages with a pair, so none is left to train on; use --share"
            " 0.3, so that pairs are made of a part of the groups, or pairs about other records."
        )
    return found


def _refiner_items_command(given: _REFINER_ITEMS_Given, server: "HttpSettings", rule: "Rule") -> str:
    from evals.refine.items import Rule as Usual
    from training.run.folder import public_path

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
    from evals.schema.refiner import UNDECIDED

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


def _refiner_items_table(report: "ItemReport") -> "Table":
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


if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from evals.refine.items import OtherSet
    from evals.refine.judge import Judge
    from evals.refine.report import Answered
    from evals.schema.refiner import RefinerRecord, RewardConfig
    from evals.schema.reports import Metric, RefinerReport, RefinerRow

SHOWN = ("reward", "rubric", "citation_f1", "wellformed")
"""What 80 columns hold; --json has every metric."""
TESTED = "refiner-test"
OtherItems = Annotated[
    str,
    typer.Option(
        help="Items of another writer, judged beside: a JSONL file, second (our own, for refiner-test), or"
        " none; as by default second for refiner-test."
    ),
]


def records_named(data: str) -> "tuple[RefinerRecord, ...]":
    """Return the records of a data set or a JSONL file; BadConfig for a name that is neither."""
    from evals.refine.bank import DATASETS, refiner_bank
    from evals.refine.records import read_records

    if data in DATASETS:
        return refiner_bank().test if data == TESTED else refiner_bank().train
    if not data.endswith(".jsonl"):
        raise BadConfig(f"no data set is called {data!r}; known are {', '.join(DATASETS)}, or name a JSONL file.")
    return read_records(Path(data))


def other_set(word: str, data: str, records: "Sequence[RefinerRecord]") -> "OtherSet | None":
    """Return the items of another writer that a word names; None if there are to be none."""
    from evals.refine.items import read_other_items, second_set

    if word == "none" or (not word and data != TESTED):
        return None
    if word.endswith(".jsonl"):
        found = read_other_items(Path(word), records, Path(word).name)
        if found.unasked:
            told = f"{counted(found.unasked, 'row')} about records that are not asked"
            notes.print(f"{found.name} has {told}", style="yellow", soft_wrap=True)
        return found
    if word not in ("", "second"):
        raise BadConfig(f"--items is {word!r}; it takes a JSONL file, second, or none.")
    if not any(record.id in second_set().items for record in records):
        raise BadConfig(
            f"--items second has items for the records of {TESTED} alone, and none is asked; name a JSONL"
            " file, or none."
        )
    return second_set()


def graded(
    given: "Sequence[Answered]", config: "RewardConfig", judge: "Judge", others: "OtherSet | None"
) -> "list[RefinerRow]":
    """Return the rows of a report; whatever is well formed is judged, gate or not.

    Items of others are asked about apart, so that they change no verdict on the record's own.
    """
    from evals.refine.report import beside
    from evals.refine.score import judged_items

    known = others.items if others else {}
    prepared = [each.prepared(config) for each in given]
    extra = {
        place: beside(case, known[case.record.id]) for place, case in enumerate(prepared) if case.record.id in known
    }
    asked = [place for place, case in enumerate(prepared) if case.is_judgeable]
    second = [place for place in asked if place in extra]
    inquiries = [prepared[at].inquiry() for at in asked] + [extra[at].inquiry() for at in second]
    verdicts = verdicts_on(judge, inquiries)
    own = dict(zip(asked, verdicts[: len(asked)], strict=True))
    theirs = dict(zip(second, verdicts[len(asked) :], strict=True))
    return [
        each.row(
            case,
            own.get(place),
            judge.label,
            judged_items(extra[place], theirs.get(place)) if place in extra else (),
        )
        for place, (each, case) in enumerate(zip(given, prepared, strict=True))
    ]


def tables(report: "RefinerReport") -> "RenderableType":
    """Return the means of a report, and under them the rubric by who wrote its items."""
    from rich.console import Group

    from evals.refine.items import PREFIX

    names = dict.fromkeys(name for each in report.summaries for name in each.metrics)
    by_writer = [name for name in names if name.startswith(PREFIX)]
    about = f"means with 95 % intervals, judged by {report.judge}"
    first = _refiner_graded_table(report, SHOWN, f"{report.data_name}: {about}")
    if len(by_writer) < 2:
        return first
    title = "the rubric by who wrote its items"
    return Group(first, _refiner_graded_table(report, by_writer, title, PREFIX))


def _refiner_graded_table(
    report: "RefinerReport", metrics: "Sequence[str]", title: str, prefix: str = ""
) -> "RenderableType":
    asked = Counter(row.stage for row in report.rows)
    rows = [
        (each.stage, *(_metric(each.metrics[name], asked[each.stage]) for name in metrics)) for each in report.summaries
    ]
    return table_of(title, ("stage", *(name.removeprefix(prefix) for name in metrics)), rows)


def _metric(metric: "Metric", asked: int) -> str:
    """Return a mean, its interval, and n where it is not over all answers that were asked for."""
    if metric.value is None:
        return "none"
    span = "" if metric.low is None else f"\n{metric.low:.2f} to {metric.high:.2f}"
    return f"{metric.value:.2f}{span}" + (f"\nn {metric.n} of {asked}" if metric.n < asked else "")


if TYPE_CHECKING:
    from rich.table import Table

    from evals.schema.reports import RefinerComparison

REFINER_COMPARE_EXAMPLE = "Example: assay refiner compare report.json --stages sft,refiner"


def compare(
    reports: Annotated[list[Path], typer.Argument(help="One report, or two on the same records.")],
    stages: Annotated[str, typer.Option(help="Two stages, such as sft,refiner.")] = "sft,refiner",
    as_json: Json = False,
) -> None:
    """Compare two stages on the same records: difference, 95 % interval, p.

    Differences are second minus first, over whole studies and tissues. Two reports: the first stage of
    the first, the second stage of the second; another judge or other records are refused.

    "rubric by X" has only the items that X wrote (record: whoever wrote the record). "rubric by record
    above X" is how far the record's own items are ahead of those of X: where its difference is above 0,
    X sees less of the gain.
    """
    from evals.refine.report import compare as compared
    from evals.refine.report import read_report

    names = [name.strip() for name in stages.split(",") if name.strip()]
    if len(names) != 2 or not 1 <= len(reports) <= 2:
        raise BadConfig(
            f"compare takes two stages and one report or two, found {len(names)} and {len(reports)}; such as"
            " --stages sft,refiner report.json."
        )
    read = [read_report(path) for path in reports]
    found = compared((read[0], names[0]), (read[-1], names[1]))
    emit(found, as_json=as_json, table=_differences(found))


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


def _number(value: float | None, form: str = ".3f") -> str:
    return "none" if value is None else format(value, form)


REFINER_EXPORT_EXAMPLE = "Example: assay refiner export --format sft --out refined.jsonl"


class Format(StrEnum):
    """The forms of `lab.refine.export`, as the command line offers them."""

    SFT = "sft"
    DPO = "dpo"
    PAIRS = "pairs"


def export(
    out: Annotated[Path, typer.Option(help="The JSONL file to write.")],
    form: Annotated[
        Format,
        typer.Option(
            "--format",
            help="sft: records whose reference is the answer; dpo: prompt, chosen, rejected; pairs: record,"
            " better, worse.",
            case_sensitive=False,
        ),
    ] = Format.SFT,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
) -> None:
    """Write the answers that people corrected or rated good in the lab's Refine tab.

    The rows of sft are what `assay train sft` takes as records; those of dpo what `assay train dpo`
    takes; those of pairs what `assay refiner items` takes. Records that are kept for testing, and
    answers that are not well formed, are left out and counted.
    """
    from lab.refine.export import export as rows_of
    from lab.refine.export import write
    from lab.refine.session import held_out
    from lab.services import open_store
    from lab.settings import from_environment

    store = open_store(from_environment().database_url)
    worked = store.workbench.everything()
    store.close()
    rows = rows_of(worked, form.value, held_out())
    write(rows, out)
    document = {"format": form.value, "file": str(out), "rows": rows.n, "left_out": rows.left_out}
    counts = [(f"left out: {why.replace('_', ' ')}", n) for why, n in rows.left_out.items()]
    table = table_of(str(out), ("", "count"), [("rows", rows.n), *counts])
    emit(document, as_json=as_json, table=table)
    notes.print(f"from {len(worked)} answered records in the lab", soft_wrap=True)


if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from evals.refine.report import Answered
    from evals.schema.refiner import RefinerRecord
    from training.judge.questions import HttpSettings

REFINER_REPORT_EXAMPLE = "Example: assay refiner run --chain runs/refiner --judge heuristic --out report.json"
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
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first so many records.")] = None,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Longest answer, in tokens.")] = MAX_NEW_TOKENS,
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
    from evals.io import rows_write_whole as write_whole
    from evals.refine.report import Origin, build
    from evals.schema.refiner import RewardConfig
    from training.judge.questions import VERSION, HttpSettings
    from training.run.folder import public_path, versions

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
    notes.print(f"wrote {out}: {counted(len(rows), 'answer')}, judged by {asked.label}", soft_wrap=True)
    emit(report, as_json=as_json, table=tables(report))


@dataclass(frozen=True)
class _Given:
    """What was answered, and by which chain."""

    answers: "list[Answered]"
    chain_name: str
    stage_checksums: dict[str, str]


def _answered(chain: str, stage: str, records: "Sequence[RefinerRecord]", max_new_tokens: int) -> _Given:
    """Return what the stages and those without a model answer to every record."""
    from evals.model import Sampling
    from evals.refine.report import answers, baseline_answers
    from lab.settings import from_environment
    from training.models.chain import load_chain

    with notes.status("loading the chain") as status:
        loaded = load_chain(chain, DTYPE, lambda _, told: status.update(told), cache=from_environment().cache)
        stages = loaded.stages if stage == "all" else tuple(name.strip() for name in stage.split(","))
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


if TYPE_CHECKING:
    from collections.abc import Sequence

    from evals.refine.items import OtherSet
    from evals.refine.report import Answered
    from evals.schema.refiner import RefinerRecord
    from evals.schema.reports import RefinerReport

FIRST = re.compile(r"(?P<name>.+) \(first (?P<count>\d+)\)")
"""What a report on the first records alone says of its data."""
EXAMPLE = "Example: assay refiner rescore report.json --judge http://127.0.0.1:8000/v1 --out again.json"


def rescore(
    report: Annotated[Path, typer.Argument(help="A report of `assay refiner run`.")],
    judge: Word,
    out: Annotated[Path, typer.Option(help="Where the new report goes, a .json file.")],
    data: Annotated[str, typer.Option(help="The records that were answered; as by default those of the report.")] = "",
    items: Annotated[
        str,
        typer.Option(
            help="Items of another writer, judged beside: a JSONL file, second (our own, for refiner-test), or"
            " none; as by default second for refiner-test. Required where the report was judged by any other"
            " set, which would be lost."
        ),
    ] = "",
    model: Model = "",
    key_env: KeyEnv = "",
    allow_remote: Remote = False,
    cache: Cache = None,
    votes: Votes = 1,
    as_json: Json = False,
) -> None:
    """Judge the answers of a report again: by another judge, or by items of another writer too.

    A report keeps every answer in full, so no model is needed; the reward is that of the report. Records
    other than those that were answered are refused.
    """
    from evals.io import rows_write_whole as write_whole
    from evals.refine.report import Origin, build, read_report
    from training.judge.questions import VERSION, HttpSettings
    from training.run.folder import public_path, versions

    old = read_report(report)
    first = FIRST.fullmatch(old.data_name)
    source = data or (first["name"] if first else old.data_name)
    records = _records(old, source, int(first["count"]) if first else None)
    others = other_set(items, source, records)
    if not items:
        _refuse_lost(old, others)
    server = HttpSettings(judge, model, key_env, allow_remote, cache=cache, votes=votes)
    asked, mode = judge_of_answers(server)
    rows = graded(_answers(old, records), old.reward, asked, others)
    options = {"data": public_path(data), "items": public_path(items), **judge_words(server)}
    again = command_of("rescore", ("REPORT.json",), {**options, "out": "REPORT.json"})
    origin = Origin(
        data_name=old.data_name,
        chain_name=old.chain_name,
        stage_checksums=old.stage_checksums,
        judge=asked.label,
        judge_mode=mode,
        reward=old.reward,
        settings=old.settings,
        versions={**versions(), "judge prompt": VERSION},
        created_at=datetime.now(UTC),
        command=f"{old.command.partition(' && ')[0]} && {again}",
        other_items=others,
    )
    new = build(rows, records, origin)
    write_whole(out, new.model_dump_json(indent=1) + "\n")
    notes.print(f"wrote {out}: {counted(len(rows), 'answer')}, judged by {asked.label}", soft_wrap=True)
    emit(new, as_json=as_json, table=tables(new))


def _records(old: "RefinerReport", source: str, count: int | None) -> "Sequence[RefinerRecord]":
    """Return the records that a report is about; IncomparableReports if they are others by now.

    `count`: how many of the first were answered, None for all.
    """
    from evals.refine.records import records_sha256

    records = records_named(source)[:count]
    if records_sha256(records) != old.data_sha256:
        raise IncomparableReports(
            f"{source} holds other records than those that were answered (sha256 {old.data_sha256[:12]}); name"
            " the file of then with --data, or answer anew: assay refiner run."
        )
    return records


def _refuse_lost(old: "RefinerReport", others: "OtherSet | None") -> None:
    """Raise BadConfig if the report was judged by items of another writer that would be left out now."""
    now = others.name if others else None
    if old.other_items in (None, now):
        return
    fate = f"replaced by those of {now}" if now else "left out"
    raise BadConfig(
        f"the report was judged by the items of {old.other_items} too, and they would be {fate}; name that set"
        " with --items (a JSONL file, or second for our own), or leave it out with --items none."
    )


def _answers(old: "RefinerReport", records: "Sequence[RefinerRecord]") -> "list[Answered]":
    from evals.refine.report import Answered

    by_id = {record.id: record for record in records}
    return [
        Answered(row.stage, by_id[row.scored.record_id], row.scored.completion, row.finish_reason) for row in old.rows
    ]


if TYPE_CHECKING:
    from rich.table import Table

    from evals.schema.refiner import ScoredAnswer
    from training.judge.questions import HttpSettings

app = typer.Typer(
    no_args_is_help=True,
    help="Short answers whose claims cite evidence: score them, run a chain on records, compare stages.",
)
app.command("run", epilog=REFINER_REPORT_EXAMPLE)(run)
app.command("rescore", epilog=EXAMPLE)(rescore)
app.command("export", epilog=REFINER_EXPORT_EXAMPLE)(export)
app.command("items", epilog=REFINER_ITEMS_EXAMPLE)(items)
app.command("compare", epilog=REFINER_COMPARE_EXAMPLE)(compare)


JudgeOption = Annotated[
    str,
    typer.Option(
        help="Who judges: stub (a table in each row), heuristic (word overlap, for smoke tests), or the"
        " address of an OpenAI-compatible server, such as http://127.0.0.1:8000/v1."
    ),
]


@app.command(epilog="Example: assay refiner score cases.jsonl --judge http://127.0.0.1:8000/v1 --json")
def score(
    cases: Annotated[Path, typer.Argument(help="JSONL: id, record, completion, config, stub_judge.")],
    judge: JudgeOption,
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
    from training.judge.judge import backend_of
    from training.judge.questions import HttpSettings, check_votes

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
    from evals.refine.records import read_cases
    from evals.refine.score import explain
    from training.judge.judge import backend_of, judge_of

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
    from evals.refine.items import scores_by_writer

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
