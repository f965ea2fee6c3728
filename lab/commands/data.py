"""`assay data`: question sets of one's own; questions, preference pairs and reviewed papers as JSONL files."""

import random
import shlex
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Group
from rich.table import Table

from evals import questions
from evals.errors import BadConfig, LabError
from evals.io import as_jsonl, json_text, write_whole
from evals.jsonl import jsonl_text
from evals.model import Sampling
from evals.questions import checking
from evals.questions.layouts import ImportOptions, benchmark_rows, import_rows
from evals.questions.sets import EXAMPLES, SPLITS, QuestionSet, examine, examples_of, file_of
from evals.questions.statistics import set_statistics
from evals.schema import Example, ReviewExample
from lab.commands import Json
from lab.commands.terminal import emit, notes, table_of
from lab.settings import from_environment

if TYPE_CHECKING:
    from evals.questions.pairs import Sample
    from evals.review.corpus import Recipe
    from evals.schema.reviewruns import CorpusStatistics
    from training.data.samples import Draws

TAUGHT: tuple[Literal["train", "dev"], ...] = ("train", "dev")
"""Splits that a corpus has rows of; test papers are never taught."""

Out = Annotated[Path, typer.Option("--out", help="Folder for train.jsonl, test.jsonl, statistics.json.")]

app = typer.Typer(
    no_args_is_help=True,
    help="Question sets of your own, and training and test questions, pairs and reviewed papers as JSONL files.",
)

# ---- question sets of one's own ----------------------------------------------------------------


@app.command()
def check(
    file: Annotated[
        str, typer.Argument(help="A .jsonl, .csv, .tsv, .xlsx, .ods or .yaml file, a set's name, or hub:OWNER/NAME.")
    ],
    sheet: Annotated[str | None, typer.Option(help="The sheet of an .xlsx or .ods file. Else its first.")] = None,
    as_json: Json = False,
) -> None:
    """Say what is wrong with a question set, what is in it, and what answers without a model would score.

    Every bad row is named with its line, its field and what to do; exit code 1 if there is one. Warnings
    tell of groups or near-duplicates in several splits, of prompts that give the answer away, and of
    training rows without an explanation. Tricks (one constant answer, the question itself, the first
    option) should score no better than chance.

    Example: assay data check my-questions.yaml
    """
    path = file_of(file)
    if path is not None:
        report = checking.report_on(examine(path, sheet), path.name)
    else:
        report = checking.report_on(QuestionSet(questions.load_questions(file, fetch), (), is_own=True), file)
    _show(report, as_json=as_json)
    if report.faults:
        bad = f"{len({fault.line for fault in report.faults})} of {report.rows} rows of {report.file}"
        notes.print(f"error: {bad} cannot be used, so none is; mend them and check again", style="red")
        raise typer.Exit(1)


@app.command()
def new(
    out: Annotated[Path | None, typer.Option("--out", help="A new .yaml file; without it, it is printed.")] = None,
) -> None:
    """Write a small question set with comments on every field, to be changed into one's own. It runs as it is.

    Example: assay data new --out my-questions.yaml
    """
    text = (EXAMPLES.parent / "example.yaml").read_text(encoding="utf-8")
    if out is None:
        sys.stdout.write(text)
        return
    if out.suffix not in (".yaml", ".yml"):
        raise BadConfig(f"{out} would hold YAML; give it a name that ends in .yaml")
    if out.exists():
        raise LabError(f"{out} is there already and is left as it is; choose another name")
    write_whole(out, text)
    notes.print(f"wrote {out}; look at it with: assay data check {out}", soft_wrap=True)


Sheet = Annotated[str | None, typer.Option(help="The sheet of an .xlsx or .ods file. Else its first.")]


@app.command("import")
def import_set(
    file: Annotated[
        Path, typer.Argument(help="A .jsonl, .json, .csv, .tsv, .xlsx, .ods, .yaml or .parquet file of a benchmark.")
    ],
    out: Annotated[Path, typer.Option("--out", help="The question set to write, a .jsonl file.")],
    layout: Annotated[
        str | None, typer.Option(help="mmlu, arc, bioasq, … (docs/question-sets.md). Else the fields of the rows tell.")
    ] = None,
    answers_from: Annotated[
        Literal["0", "1", "letter", "text"] | None,
        typer.Option(help="How an answer column is read: an index from 0 or 1, a letter, the text of an option."),
    ] = None,
    sheet: Sheet = None,
    split: Annotated[
        str | None,
        typer.Option(help="train, dev or test for all rows. Else their field `split`, or 70, 10, 20 % by group."),
    ] = None,
    group: Annotated[
        str | None, typer.Option(help="The field that groups questions on the same facts. Else each is its own.")
    ] = None,
    source: Annotated[str | None, typer.Option(help="Where the questions come from. Else the file's name.")] = None,
    licence: Annotated[str | None, typer.Option("--licence", "--license", help="Kept with every row.")] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave out rows that cannot be used, and name them.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Turn a file of a public benchmark, or a table of one's own, into a question set.

    The fields of the rows tell how they are laid out (docs/question-sets.md has the table); the first row is shown as it
    was read, and how each answer column was. Where a column may count from 0 or from 1 the import stops and asks. Where
    the right answer always comes first, options are shuffled, the same way every time.

    Example: assay data import test.csv --layout mmlu --split test --out medical.jsonl
    """
    if out.suffix != ".jsonl":
        raise BadConfig(f"{out} would hold JSONL; give it a name that ends in .jsonl")
    if split is not None and split not in SPLITS:
        raise BadConfig(f"there is no split {split!r}; use one of {', '.join(SPLITS)}")
    rows, note = benchmark_rows(file, layout, sheet)
    if note:
        notes.print(note, soft_wrap=True)
    options = ImportOptions(split, group, source, licence, skip_bad, answers_from)
    made = import_rows(rows, file.stem, layout, options)
    for each in made.skipped:
        notes.print(f"left out: {each}", soft_wrap=True)
    write_whole(out, jsonl_text(made.rows))
    report = checking.report_on(examples_of(zip(made.lines, made.rows, strict=True), file.stem), out.name)
    found = checking.ImportReport(
        **dict(report), layout=made.layout, answers=made.answers, unread=made.unread, first=made.rows[0]
    )
    _show(found, as_json=as_json)
    notes.print(f"wrote {out}: {len(made.rows)} questions", soft_wrap=True)


def _show(report: checking.SetReport, *, as_json: bool) -> None:
    faults = [(each.line, each.id or "", each.field, each.problem, each.remedy) for each in report.faults]
    found = [(each.check, each.problem, ", ".join(each.rows), each.remedy) for each in report.warnings]
    counted = {"split": "splits", "kind of truth": "kinds", "choices": "options", "licence": "licences"}
    counts = [(by, name, n) for by, field in counted.items() for name, n in getattr(report, field).items()]
    counts += [("groups", "", report.groups), ("with explanation", "", report.explained)]
    scores = [(each.policy, f"{each.correct} of {each.n}", f"{each.accuracy:.2f}") for each in report.scores]
    title = f"What answers without a model score on {report.scored_on} rows"
    first: list[tuple[object, ...]] = []
    if isinstance(report, checking.ImportReport):
        first = [("layout", report.layout)]
        first += [(f"column {name!r} is read as", way) for name, way in report.answers.items()]
        first += checking.shown(report.first)
        first += [("fields that were not read", ", ".join(report.unread))] * bool(report.unread)
    tables = (
        ("The first row as it was read", ("", ""), first),
        (f"Bad rows of {report.file}", ("line", "id", "field", "what is wrong", "what to do"), faults),
        ("To look at", ("", "what was found", "rows, such as", "what to do"), found),
        (f"{report.file}: {report.rows} rows", ("by", "", "n"), counts),
        (title, ("policy", "right", "share"), scores),
    )
    shown = (table_of(*each) for each in tables if each[2] or each[2] is scores)
    emit(report, as_json=as_json, table=Group(*shown))


def _write(out: Path, texts: Mapping[str, str], document: object, table: Table, *, as_json: bool) -> None:
    """Write files, each whole, the last one as the seal; and print what was written. An edited card is not written over."""
    from hub.cards.own import write_card
    from lab.compare.export import CARD

    if CARD in texts:
        write_card(out / CARD, texts[CARD])
    for name, text in texts.items():
        if name != CARD:
            write_whole(out / name, text)
    emit(document, as_json=as_json, table=table)
    notes.print(f"written to {out}: {', '.join(texts)}", soft_wrap=True)


@app.command()
def export(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SET", help="A set's name, a .jsonl, .csv or .yaml file or hub:OWNER/NAME; several with commas."
        ),
    ],
    tool: Annotated[str, typer.Option("--as", help="lm-eval, inspect or verifiers.")],
    out: Annotated[Path, typer.Option("--out", help="A new folder.")],
    as_json: Json = False,
) -> None:
    """Write a question set as a folder that the tool's own command runs, with Assay's grader inside.

    lm-eval and inspect measure the test rows; verifiers trains on the train rows and measures the test rows.
    The folder needs the tool and pydantic, not Assay. Its README.md has the commands. Questions that only a
    judge can grade are left out and counted.

    Example: assay data export codons-and-enzymes --as inspect --out codons
    """
    from evals.questions.export import export_questions

    parts = [part.strip() for part in source.split(",") if part.strip()]
    done = export_questions([row for part in parts for row in questions.load_questions(part, fetch)], source, tool, out)
    rows = [(split, kind, n) for split, kinds in done.questions.items() for kind, n in kinds.items()]
    rows += [("left out", reason, n) for reason, n in done.left_out.items()]
    table = table_of(f"{done.name} for {done.tool}", ("split", "kind", "questions"), rows)
    emit(done, as_json=as_json, table=table)
    notes.print(f"written to {out}: {len(done.files)} files. To run it, in the folder above:", soft_wrap=True)
    for line in done.run:
        notes.print(f"  {line}", soft_wrap=True)


def fetch(name: str, revision: str | None, config: str | None) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Return the rows of a data set of the Hub. Imports datasets when it is called."""
    from training.data.tables import from_hub

    return from_hub(name, revision, config)


def know(sources: Iterable[str]) -> None:
    """Let Ask, pairs and preferences know the questions of these sets; LabError for a set with errors."""
    questions.register([row for source in sources for row in questions.load_questions(source, fetch)])


# ---- questions, pairs and papers made here -----------------------------------------------------


@app.command(epilog="Example: assay data kmp --out data/kmp --seed 7")
def kmp(
    out: Out,
    seed: Annotated[int, typer.Option(help="Chooses wordings and order.")] = 0,
    drill: Annotated[int, typer.Option(help="How often each row is there, 1 to 20.")] = 1,
    as_json: Json = False,
) -> None:
    """Write the questions about the kaempferol mouse study: training rows and 20 test questions."""
    settings: dict[str, int | str] = {"seed": seed, "drill": drill}
    _write_questions(out, "kmp", settings, questions.kmp_training(seed, drill), questions.kmp_test(), as_json=as_json)


@app.command(epilog="Example: assay data pathways --out data/pathways --hold-out eye,thymus")
def pathways(
    out: Out,
    hold_out: Annotated[
        str, typer.Option(help="Tissues kept for the test, with commas between; '' keeps none.")
    ] = "eye,thymus",
    seed: Annotated[int, typer.Option(help="Order of the training rows; 0 = table order.")] = 0,
    as_json: Json = False,
) -> None:
    """Write the questions about gene sets in spaceflown mice, split by tissue."""
    tissues = tuple(dict.fromkeys(name.strip() for name in hold_out.split(",") if name.strip()))
    train = list(questions.pathway_training(tissues))
    if seed:
        random.Random(seed).shuffle(train)
    settings: dict[str, int | str] = {"seed": seed, "hold_out": ",".join(tissues)}
    _write_questions(out, "pathways", settings, train, questions.pathway_heldout(tissues), as_json=as_json)


def _write_questions(
    out: Path,
    name: str,
    settings: dict[str, int | str],
    train: Sequence[Example],
    test: Sequence[Example],
    *,
    as_json: bool,
) -> None:
    splits = {split: (found, as_jsonl(found)) for split, found in (("train", train), ("test", test))}
    statistics = set_statistics(name, settings, splits)
    files = {f"{split}.jsonl": text for split, (_, text) in splits.items()}
    files["statistics.json"] = json_text(statistics)
    cells: list[tuple[object, ...]] = []
    for group in ("kind", "tissue"):
        counts = [Counter(each[f"{group}s"]) for each in statistics["splits"].values()]
        cells += [(group, each, *(count[each] for count in counts)) for each in sum(counts, Counter())]
    cells.append(("total", "", len(train), len(test)))
    table = table_of(f"{name} questions", ("by", "name", "train", "test"), cells)
    _write(out, files, statistics, table, as_json=as_json)


@app.command(epilog="Example: assay data pairs --chain embedded --stage sft --data pathways-grpo-half --out data/pairs")
def pairs(
    out: Out,
    chain: Annotated[str | None, typer.Option(help="Draw answers from this chain (with --data).")] = None,
    run: Annotated[Path | None, typer.Option(help="Or take the answers that a GRPO run has sampled.")] = None,
    stage: Annotated[str, typer.Option(help="Stage of the chain; 'last' = its last one.")] = "last",
    data: Annotated[
        str, typer.Option(help="Training questions to draw for, as in `assay train`, with commas.")
    ] = "pathways-grpo-half",
    samples: Annotated[int, typer.Option(help="Answers drawn per question, 2 or more.")] = 8,
    temperature: Annotated[float, typer.Option(help="Of the drawing, above 0.")] = 1.0,
    max_new_tokens: Annotated[int, typer.Option(help="Longest answer, tokens.")] = 80,
    limit: Annotated[int | None, typer.Option(help="Only the first so many questions.")] = None,
    margin: Annotated[float, typer.Option(help="Least difference of rewards, 0 to 1.")] = 0.2,
    per_question: Annotated[int, typer.Option(help="Most pairs of one question.")] = 2,
    seed: Annotated[int, typer.Option(help="Of the first answer; the others count up.")] = 0,
    as_json: Json = False,
) -> None:
    """Write preference pairs chosen by the verifiers, labelled as synthetic, from sampled answers.

    They state how often claims of their kind are right; up to --per-question more pairs differ in the confidence
    alone, by ten points or more.
    """
    from evals.questions.pairs import make_pairs
    from hub.cards.dataset import pairs_card
    from lab.compare.export import CARD, ROWS, STATISTICS
    from training.data.questions import public_name
    from training.data.samples import Draws, RunSamples, run_samples
    from training.run.folder import RunFolder

    settings: dict[str, str | int | float] = {"margin": margin, "pairs per question": per_question}
    if (chain is None) == (run is None):
        raise BadConfig("name one source of answers: --chain NAME to draw them, or --run FOLDER.")
    if run is not None:
        know(from_environment().questions)
        found = run_samples(RunFolder(run))
        settings["answers from"] = f"the run {run.resolve().name}"
    else:
        draws = Draws(stage, samples, Sampling(max_new_tokens, temperature, seed=seed))
        found = RunSamples(_drawn(str(chain), data, draws, limit), 0)
        settings |= {
            "answers from": f"the chain {Path(str(chain)).name}",
            "stage": found.samples[0].origin.stage,
            "questions": ", ".join(public_name(name.strip()) for name in data.split(",")),
            "answers per question": samples,
            "temperature": temperature,
            "longest answer": max_new_tokens,
            "seed": seed,
        }
    made = make_pairs(found.samples, margin, per_question, found.unknown_questions)
    lines = jsonl_text(made.rows)
    statistics = made.statistics(settings, ROWS, lines.encode())
    right = {kind: f"{part.right} of {part.claims}" for kind, part in statistics.accuracy.items()}
    rows: list[tuple[str, object]] = [
        *((f"{rule} pairs", count) for rule, count in statistics.by_rule.items()),
        *((f"of kind {kind}", count) for kind, count in statistics.by_kind.items()),
        *((f"left out: {why}", count) for why, count in statistics.left_out.items()),
        *((f"right, of the claims to questions of kind {kind}", of) for kind, of in right.items()),
        ("pairs", statistics.rows),
    ]
    files = {ROWS: lines, CARD: str(pairs_card(statistics)), STATISTICS: statistics.model_dump_json(indent=1) + "\n"}
    table = table_of(f"synthetic pairs from {statistics.samples} answers", ("what", "count"), rows)
    _write(out, files, statistics, table, as_json=as_json)


def _drawn(chain: str, data: str, draws: "Draws", limit: int | None) -> "tuple[Sample, ...]":
    """Return answers of a stage of a chain to training questions; test questions are refused."""
    from evals.questions.pairs import SampleOrigin
    from training.data.questions import grpo_data
    from training.data.samples import chain_samples
    from training.models.chain import load_chain

    sources = [name.strip() for name in data.split(",") if name.strip()]
    examples = grpo_data(sources, draws.sampling.seed).items[:limit]
    loaded = load_chain(chain, cache=from_environment().cache)
    stage = loaded.stages[-1] if draws.stage == "last" else draws.stage
    origin = SampleOrigin(source=loaded.manifest.name, stage=stage, stage_sha256=loaded.stage_checksums.get(stage))
    notes.print(f"drawing {draws.count} answers to {len(examples)} questions from {stage}")
    prompt = loaded.manifest.system_prompt
    return tuple(chain_samples(loaded, origin, examples, prompt, draws._replace(stage=stage)))


@app.command(epilog="Example: assay data refiner --out data/refiner")
def refiner(
    out: Annotated[Path, typer.Option("--out", help="Folder for train.jsonl, test.jsonl, README.md, statistics.json.")],
    seed: Annotated[int, typer.Option(help="Chooses records, passages beside, and order.")] = 0,
    as_json: Json = False,
) -> None:
    """Write questions with passages to cite, rubric items and reference answers (synthetic).

    Made from the study figures and from invented studies; some have no answer in
    their passages. Eye, thymus and what the KMP test asks are in no training row.
    """
    from evals.refine import records
    from evals.refine.bank import refiner_bank

    splits = {name: (found, records.as_jsonl(found)) for name, found in refiner_bank(seed)._asdict().items()}
    statistics = records.statistics_of(splits, seed)
    files = {f"{name}.jsonl": text for name, (_, text) in splits.items()}
    files |= {"README.md": records.card(statistics), "statistics.json": json_text(statistics)}
    rows = [
        (what.replace("_", " "), *(statistics["splits"][split][what] for split in ("train", "test")))
        for what in ("records", "unanswerable", "groups", "passages", "rubric_items")
    ]
    table = table_of("refiner records (synthetic)", ("what", "train", "test"), rows)
    _write(out, files, statistics, table, as_json=as_json)


@app.command(epilog="Example: assay data review --corpus a --out data/review")
def review(
    out: Annotated[Path, typer.Option("--out", help="Folder to write to.")],
    corpus: Annotated[
        str | None, typer.Option(help="Make training rows too: a (every usable concern) or b (sure ones, 3 or more).")
    ] = None,
    papers: Annotated[
        str, typer.Option(help="A folder of split files, one file (.jsonl, .parquet), or demonstration.")
    ] = "demonstration",
    base: Annotated[
        str, typer.Option(help="The model whose tokenizer counts: embedded, a folder, a Hub id.")
    ] = "embedded",
    context: Annotated[int, typer.Option(help="Tokens of a row in all.")] = 16_384,
    reply_reserve: Annotated[int, typer.Option(help="Tokens kept free for the reply.")] = 2_048,
    max_parts: Annotated[int, typer.Option(help="Rows that a long paper is divided into before it is shortened.")] = 4,
    overlap: Annotated[int, typer.Option(help="Tokens that a part repeats of the one before.")] = 200,
    min_confidence: Annotated[float | None, typer.Option(help="Instead of the corpus's own, 0 to 1.")] = None,
    min_concerns: Annotated[int | None, typer.Option(help="Instead of the corpus's own, 1 or more.")] = None,
    seed: Annotated[int, typer.Option(help="Of the split, where papers come without one.")] = 0,
    strict: Annotated[bool, typer.Option("--strict", help="Stop at a bad row instead of skipping it.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count everything, write nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Write reviewed papers by split, versions of one manuscript together, and corpora to train on.

    train, dev and test.jsonl hold papers with their concerns; scoring takes them as references. With
    --corpus, sft_train and sft_dev.jsonl hold chat rows in which no reply is ever cut, each with a
    statistics file, and the instructions they teach. A bad row of a split file is told with its line,
    counted and skipped.
    """
    from evals.papers.collection import read_collection
    from evals.papers.families import split_by_family, without_leaks
    from evals.review.corpus import CORPORA, Recipe
    from evals.review.prompt import Budget, system_prompt
    from hub.cards.dataset import write_rows_card

    if corpus is not None and corpus.lower() not in CORPORA:
        raise BadConfig(f"corpus is {corpus!r}; it takes {' or '.join(CORPORA)}.")
    collection = read_collection(
        papers, lambda file, rows: notes.print(f"read {rows} rows, now {file}"), skips=not strict
    )
    for each in collection.skipped:
        notes.print(f"skipped: {each}", soft_wrap=True)
    left_out = {"paper: bad row": len(collection.skipped)} if collection.skipped else {}
    left_out |= {f"concern: {why}": count for why, count in collection.left_out.items()}
    if collection.has_splits:
        examples, leaks = without_leaks(collection.examples)
        left_out |= {f"paper: {why}": count for why, count in leaks.items()}
    else:
        examples = split_by_family(collection.examples, seed)
    made: dict[str, tuple[CorpusStatistics, str]] = {}
    if corpus:
        from training.data.tokens import ChatCounter
        from training.models.base import find_base, load_tokenizer

        given = {"min_confidence": min_confidence, "min_concerns": min_concerns}
        rules = replace(CORPORA[corpus.lower()], **{name: each for name, each in given.items() if each is not None})
        found = find_base(base, lambda _, message: notes.print(message))
        budget = Budget(context, reply_reserve, overlap, max_parts)
        recipe = Recipe(rules, budget, ChatCounter(load_tokenizer(found), found.public_name))
        made = {split: _corpus(examples, split, recipe, papers) for split in TAUGHT}
    by_split = {split: [each for each in examples if each.split == split] for split in SPLITS}
    if not dry_run:
        for split, mine in by_split.items():
            write_whole(out / f"{split}.jsonl", jsonl_text(mine))
        if made:
            write_whole(out / "system_prompt.txt", system_prompt())
        for split, (statistics, text) in made.items():
            write_whole(out / f"sft_{split}.jsonl", text)
            write_whole(out / f"sft_{split}_stats.json", statistics.model_dump_json(indent=1) + "\n")
        written = (*SPLITS, *(f"sft_{name}" for name in made))
        write_rows_card(out, "reviews", [f"{name}.jsonl" for name in written])
    counts = {
        split: {
            "papers": len(mine),
            "families": len({each.family for each in mine}),
            "concerns": sum(len(each.concerns) for each in mine),
            "synthetic": sum(each.synthetic for each in mine),
        }
        for split, mine in by_split.items()
    }
    corpora = {split: statistics for split, (statistics, _) in made.items()}
    rows = [(split, *row.values()) for split, row in counts.items()]
    tables = [table_of("reviewed papers", ("split", *counts["train"]), rows), *map(_corpus_table, corpora.values())]
    emit({"splits": counts, "left_out": left_out, "corpora": corpora}, as_json=as_json, table=Group(*tables))
    for why, count in left_out.items():
        notes.print(f"left out, {why}: {count}")
    dry = f"nothing was written: this was a dry run of --out {shlex.quote(str(out))}"
    notes.print(dry if dry_run else f"written to {out}", soft_wrap=True)


def _corpus(
    examples: tuple[ReviewExample, ...], split: Literal["train", "dev"], recipe: "Recipe", papers: str
) -> "tuple[CorpusStatistics, str]":
    from evals.review.corpus import make_corpus, statistics_of

    with notes.status("counting papers") as status:
        made = make_corpus(examples, split, recipe, lambda done, of: status.update(f"{done} of {of} papers counted"))
    text = jsonl_text((each.row for each in made.rows), by_alias=True)
    return statistics_of(made, recipe, Path(papers).name, (f"sft_{split}.jsonl", text)), text


def _corpus_table(found: "CorpusStatistics") -> Table:
    tokens, budget, audit = found.input_tokens, found.budget, found.truncation.overall
    rows = [
        ("papers kept", f"{found.articles_kept} of {found.articles_read}"),
        *((f"papers dropped: {why}", count) for why, count in found.articles_dropped.items()),
        ("concerns", f"{found.concerns_after} of {found.concerns_before}"),
        *((f"concerns dropped: {why}", count) for why, count in found.concerns_dropped.items()),
        ("rows", found.rows),
        *((f"papers in {parts} part(s)", count) for parts, count in found.parts.items()),
        ("papers shortened", f"{audit.cut} ({audit.share_lost:.1%} of all tokens lost)"),
        ("tokens read: median, longest", f"{tokens.median:g}, {tokens.high:g}"),
        ("reply: median, longest", f"{found.reply_tokens.median:g}, {found.reply_tokens.high:g}"),
        ("context, counted by", f"{budget.context}, {budget.tokenizer}"),
    ]
    return table_of(f"corpus {found.corpus}, {found.split}", ("what", "value"), rows)
