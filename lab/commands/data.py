"""`assay data`: question sets of one's own; questions, preference pairs and reviewed papers as JSONL files."""

import random
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Group

from evals import questions
from evals.errors import BadConfig, LabError
from evals.io import as_jsonl, first_of, json_text, jsonl_text, write_whole
from evals.schema import Example
from lab.commands import CommandSettings, FileSettings, InFile, JsonSettings, command
from lab.commands.terminal import as_table, emit, notes, progress_shown, table_of
from lab.settings import comma_separated, from_environment

if TYPE_CHECKING:
    from evals.questions.checking import SetReport
    from evals.questions.pairs import Sample
    from evals.review.corpus import CorpusRecipe
    from evals.schema import ReviewExample

app = typer.Typer(
    no_args_is_help=True,
    help="Question sets of your own, and training and test questions, pairs and reviewed papers as JSONL files.",
)
Sheet = str | None
TAUGHT: tuple[Literal["train", "dev"], ...] = ("train", "dev")
"""Splits that a corpus has rows of; test papers are never taught."""


# ---- question sets of one's own ----------------------------------------------------------------


class SetCheckSettings(JsonSettings):
    """Settings of `assay data check`."""

    file: str
    """A .jsonl, .csv, .tsv, .xlsx, .ods or .yaml file, a set's name, or hub:OWNER/NAME."""
    sheet: Sheet = None
    """The sheet of an .xlsx or .ods file. Else its first."""


class NewSettings(CommandSettings):
    """Settings of `assay data new`."""

    out: Path | None = None
    """A new .yaml file; without it, it is printed."""


class BenchmarkSettings(JsonSettings):
    """Settings of `assay data import`."""

    file: Path
    """A .jsonl, .json, .csv, .tsv, .xlsx, .ods, .yaml or .parquet file of a benchmark."""
    out: Annotated[Path, typer.Option()]
    """The question set to write, a .jsonl file."""
    layout: str | None = None
    """mmlu, arc, bioasq, … (docs/question-sets.md). Else the fields of the rows tell."""
    answers_from: Literal["0", "1", "letter", "text"] | None = None
    """How an answer column is read: an index from 0 or 1, a letter, the text of an option."""
    sheet: Sheet = None
    """The sheet of an .xlsx or .ods file. Else its first."""
    columns: str = ""
    """Which columns hold what: "question=Q,answer=Key,options=A|B|C|D"; also wrong, unit, explanation, group, split, id."""
    cannot_tell: bool = False
    """Some questions cannot be answered. Else "cannot be told" is offered where a row has it as its answer."""
    split: str | None = None
    """train, dev or test for all rows. Else their field `split`, or 70, 10, 20 % by group."""
    group: str | None = None
    """The field that groups questions on the same facts. Else each is its own."""
    source: str | None = None
    """Where the questions come from. Else the file's name."""
    licence: Annotated[str | None, typer.Option("--licence", "--license")] = None
    """Kept with every row."""
    skip_bad: bool = False
    """Leave out rows that cannot be used, and name them."""


class ToolSettings(JsonSettings):
    """Settings of `assay data export`."""

    source: Annotated[str, typer.Argument(metavar="SET")]
    """A set's name, a .jsonl, .csv or .yaml file or hub:OWNER/NAME; several with commas."""
    tool: Annotated[str, typer.Option("--as")]
    """lm-eval, inspect or verifiers."""
    out: Annotated[Path, typer.Option()]
    """A new folder."""


@command(app)
def check(settings: SetCheckSettings) -> None:
    """Say what is wrong with a question set, what is in it, and what answers without a model would score.

    Every bad row is named with its line, its field and what to do; exit code 1 if there is one. Warnings
    tell of groups or near-duplicates in several splits, of prompts that give the answer away, and of
    training rows without an explanation. Tricks (one constant answer, the question itself, the first
    option) should score no better than chance.

    Example: assay data check my-questions.yaml
    """
    from evals.questions.checking import report_on
    from evals.questions.sets import QuestionSet, file_of, read_question_set

    file = settings.file
    path = file_of(file)
    if path is not None:
        found = read_question_set(path, settings.sheet)
        if found.note:
            notes.print(found.note, soft_wrap=True)
        report = report_on(found, path.name)
    else:
        report = report_on(QuestionSet(questions.load_questions(file, fetch), (), is_own=True), file)
    _show(report, as_json=settings.as_json)
    if report.faults:
        bad = f"{len({fault.line for fault in report.faults})} of {report.rows} rows of {report.file}"
        notes.print(f"error: {bad} cannot be used, so none is; correct them and check again", style="red")
        raise typer.Exit(1)


@command(app)
def new(settings: NewSettings) -> None:
    """Write a small question set with comments on every field, to be changed into one's own. It runs as it is.

    Example: assay data new --out my-questions.yaml
    """
    from evals.questions.sets import EXAMPLES

    out, text = settings.out, (EXAMPLES.parent / "example.yaml").read_text(encoding="utf-8")
    if out is None:
        sys.stdout.write(text)
        return
    if out.suffix not in (".yaml", ".yml"):
        raise BadConfig(f"{out} would hold YAML; give it a name that ends in .yaml")
    if out.exists():
        raise LabError(f"{out} already exists and is not overwritten; choose another name")
    write_whole(out, text)
    notes.print(f"wrote {out}; look at it with: assay data check {out}", soft_wrap=True)


@command(app, "import")
def import_(settings: BenchmarkSettings) -> None:
    """Turn a file of a public benchmark, or a table of one's own, into a question set.

    The fields of the rows tell how they are laid out (docs/question-sets.md names them); the first row is shown as it
    was read, and how each answer column was. Where a column may count from 0 or from 1 the import stops and asks. Where
    the right answer always comes first, options are shuffled, the same way every time.

    Example: assay data import test.csv --layout mmlu --split test --out medical.jsonl
    """
    from evals.questions.checking import ImportReport, report_on
    from evals.questions.layouts import ImportOptions, import_rows, question_rows
    from evals.questions.sets import SPLITS, examples_of

    file, out, split = settings.file, settings.out, settings.split
    if out.suffix != ".jsonl":
        raise BadConfig(f"{out} would hold JSONL; give it a name that ends in .jsonl")
    if split is not None and split not in SPLITS:
        raise BadConfig(f"there is no split {split!r}; use one of {', '.join(SPLITS)}")
    rows, faults, note = question_rows(file, settings.layout, settings.sheet)
    if note:
        notes.print(note, soft_wrap=True)
    chosen = [part.partition("=") for part in comma_separated(settings.columns)]
    options = ImportOptions(
        split,
        settings.group,
        settings.source,
        settings.licence,
        settings.skip_bad,
        settings.answers_from,
        {role.strip(): [name.strip() for name in names.split("|")] for role, _, names in chosen},
        settings.cannot_tell,
    )
    made = import_rows(rows, file.stem, settings.layout, options, faults)
    if not made.rows:
        raise first_of([each.error(file.name) for each in made.skipped])
    for each in made.skipped:
        notes.print(f"left out: {each.error(file.name)}", soft_wrap=True)
    write_whole(out, jsonl_text(made.rows))
    report = report_on(examples_of(zip(made.lines, made.rows, strict=True), file.stem), out.name)
    found = ImportReport(
        **dict(report), layout=made.layout, answers=made.answers, unread=made.unread, first=made.rows[0]
    )
    _show(found, as_json=settings.as_json)
    notes.print(f"wrote {out}: {len(made.rows)} questions", soft_wrap=True)


def _show(report: "SetReport", *, as_json: bool) -> None:
    from evals.questions.checking import ImportReport, row_lines

    counted = {"split": "splits", "kind of truth": "kinds", "choices": "options", "licence": "licences"}
    counts = [(by, name, n) for by, field in counted.items() for name, n in getattr(report, field).items()]
    counts += [("groups", "", report.groups), ("with explanation", "", report.explained)]
    title = f"How baselines without a model score on {report.scored_on} rows"
    first: list[tuple[object, ...]] = []
    if isinstance(report, ImportReport):
        first = [("layout", report.layout)]
        first += [(f"column {name!r} is read as", way) for name, way in report.answers.items()]
        first += row_lines(report.first)
        first += [("fields that were not read", ", ".join(report.unread))] * bool(report.unread)
    tables = [table_of("The first row as it was read", ("", ""), first)] if first else []
    if report.faults:
        names = ("line", "id", "field", "problem", "remedy")
        tables.append(as_table(f"Bad rows of {report.file}", report.faults, *names))
    tables += [as_table("To look at", report.warnings)] if report.warnings else []
    tables.append(table_of(f"{report.file}: {report.rows} rows", ("by", "", "n"), counts))
    emit(report, as_json=as_json, table=Group(*tables, as_table(title, report.scores)))


@command(app)
def export(settings: ToolSettings) -> None:
    """Write a question set as a folder that the tool's own command runs, with Assay's grader inside.

    lm-eval and inspect measure the test rows; verifiers trains on the train rows and measures the test rows.
    The folder needs the tool and pydantic, not Assay. Its README.md has the commands. Questions that only a
    judge can grade are left out and counted.

    Example: assay data export codons-and-enzymes --as inspect --out codons
    """
    from evals.questions.export import export_questions

    source, out = settings.source, settings.out
    examples = [row for part in comma_separated(source) for row in questions.load_questions(part, fetch)]
    done = export_questions(examples, source, settings.tool, out)
    counts = {"questions": done.questions, "left out": done.left_out}
    emit(done, as_json=settings.as_json, table=as_table(f"{done.name} for {done.tool}", counts))
    notes.print(f"written to {out}: {len(done.files)} files. To run it, in the folder above:", soft_wrap=True)
    for line in done.run:
        notes.print(f"  {line}", soft_wrap=True)


def fetch(name: str, revision: str | None, config: str | None) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Return the rows of a data set of the Hub. Imports datasets when it is called."""
    from training.data.tables import from_hub

    return from_hub(name, revision, config)


def register_question_sets(sources: Iterable[str]) -> None:
    """Let Ask, pairs and preferences know the questions of these sets; LabError for a set with errors."""
    questions.register([row for source in sources for row in questions.load_questions(source, fetch)])


# ---- questions, pairs and papers made here -----------------------------------------------------


class MadeSettings(JsonSettings):
    """Settings of a command that writes a data set made here."""

    out: Annotated[Path, typer.Option()]
    """Folder for the rows by split, with a statistics file."""
    seed: int = 0
    """Seed that chooses wordings, records and order; 0 = as they stand."""


class KmpSettings(MadeSettings):
    """Settings of `assay data kmp`."""

    drill: int = 1
    """How often each row is there, 1 to 20."""


class PathwaysSettings(MadeSettings):
    """Settings of `assay data pathways`."""

    hold_out: str = "eye,thymus"
    """Tissues kept for the test, with commas between; '' keeps none."""


class PairsSettings(MadeSettings):
    """Settings of `assay data pairs`."""

    chain: str | None = None
    """Draw answers from this chain (with --data)."""
    run: Path | None = None
    """Or take the answers that a GRPO run has sampled."""
    stage: str = "last"
    """Stage of the chain; 'last' = its last one."""
    data: str = "pathways-grpo-half"
    """Training questions to draw for, as in `assay train`, with commas."""
    samples: int = 8
    """Answers drawn per question, 2 or more."""
    temperature: float = 1.0
    """Temperature of the answers, above 0."""
    max_new_tokens: int = 80
    """Maximum answer length, in tokens."""
    limit: int | None = None
    """Only the first so many questions."""
    margin: float = 0.2
    """Least difference of rewards, 0 to 1."""
    per_question: int = 2
    """Most pairs of one question."""


class ReviewDataSettings(FileSettings):
    """Settings of `assay data review`."""

    out: Annotated[Path, typer.Option()]
    """Folder to write to."""
    corpus: str | None = None
    """Make training rows too: a (every usable concern) or b (sure ones, 3 or more)."""
    papers: str = "demonstration"
    """A folder of split files, one file (.jsonl, .parquet), or demonstration."""
    base: str = "embedded"
    """The model whose tokenizer counts: embedded, a folder, a Hub id."""
    context: int = 16_384
    """Tokens of a row in all."""
    reply_reserve: int = 2_048
    """Tokens kept free for the reply."""
    max_parts: int = 4
    """Rows that a long paper is divided into before it is shortened."""
    overlap: Annotated[int, InFile()] = 200
    """Tokens that a part repeats of the one before."""
    min_confidence: float | None = None
    """How sure the resolution of a concern must be, 0 to 1; else as the corpus says."""
    min_concerns: Annotated[int | None, InFile()] = None
    """Concerns that a paper must have; else as the corpus says."""
    seed: int = 0
    """Seed of the split, where papers come without one."""
    strict: bool = False
    """Stop at a bad row instead of skipping it."""
    dry_run: bool = False
    """Count everything, write nothing."""


def _write(out: Path, texts: Mapping[str, str], document: object, title: str, *, as_json: bool) -> None:
    """Write files, each whole, the last one as the seal; and print what was written. An edited card is not written over."""
    from evals.preferences.rows import CARD
    from hub.cards import write_card

    if CARD in texts:
        write_card(out / CARD, texts[CARD])
    for name, text in texts.items():
        if name != CARD:
            write_whole(out / name, text)
    emit(document, as_json=as_json, table=title)
    notes.print(f"written to {out}: {', '.join(texts)}", soft_wrap=True)


@command(app)
def kmp(settings: KmpSettings) -> None:
    """Write the questions about the kaempferol mouse study: training rows and 20 test questions.

    Example: assay data kmp --out data/kmp --seed 7
    """
    about: dict[str, int | str] = {"seed": settings.seed, "drill": settings.drill}
    _write_questions(
        settings, "kmp", about, questions.kmp_training(settings.seed, settings.drill), questions.kmp_test()
    )


@command(app)
def pathways(settings: PathwaysSettings) -> None:
    """Write the questions about gene sets in spaceflown mice, split by tissue.

    Example: assay data pathways --out data/pathways --hold-out eye,thymus
    """
    tissues = tuple(dict.fromkeys(comma_separated(settings.hold_out)))
    train = list(questions.pathway_training(tissues))
    if settings.seed:
        random.Random(settings.seed).shuffle(train)
    about: dict[str, int | str] = {"seed": settings.seed, "hold_out": ",".join(tissues)}
    _write_questions(settings, "pathways", about, train, questions.pathway_heldout(tissues))


def _write_questions(
    settings: MadeSettings, name: str, about: dict[str, int | str], train: Sequence[Example], test: Sequence[Example]
) -> None:
    from evals.questions.sets import set_statistics

    splits = {split: (found, as_jsonl(found)) for split, found in (("train", train), ("test", test))}
    statistics = set_statistics(name, about, splits)
    files = {f"{split}.jsonl": text for split, (_, text) in splits.items()}
    files["statistics.json"] = json_text(statistics)
    _write(settings.out, files, statistics, f"{name} questions", as_json=settings.as_json)


@command(app)
def pairs(settings: PairsSettings) -> None:
    """Write preference pairs chosen by the verifiers, labelled as synthetic, from sampled answers.

    They state how often claims of their kind are right; up to --per-question more pairs differ in the confidence
    alone, by ten points or more.

    Example: assay data pairs --chain embedded --stage sft --data pathways-grpo-half --out data/pairs
    """
    from evals.preferences.rows import CARD, ROWS, STATISTICS
    from evals.questions.pairs import make_pairs
    from hub.cards.dataset import pairs_card
    from training.data.preferences import RunSamples, run_samples
    from training.data.questions import public_name
    from training.run.folder import RunFolder

    about: dict[str, str | int | float] = {"margin": settings.margin, "pairs per question": settings.per_question}
    if (settings.chain is None) == (settings.run is None):
        raise BadConfig("name one source of answers: --chain NAME to draw them, or --run FOLDER.")
    if settings.run is not None:
        register_question_sets(from_environment().questions)
        found = run_samples(RunFolder(settings.run))
        about["answers from"] = f"the run {settings.run.resolve().name}"
    else:
        found = RunSamples(_draw_answers(settings), 0)
        about |= {
            "answers from": f"the chain {Path(str(settings.chain)).name}",
            "stage": found.samples[0].origin.stage,
            "questions": ", ".join(public_name(name) for name in comma_separated(settings.data)),
            "answers per question": settings.samples,
            "temperature": settings.temperature,
            "longest answer": settings.max_new_tokens,
            "seed": settings.seed,
        }
    made = make_pairs(found.samples, settings.margin, settings.per_question, found.unknown_questions)
    lines = jsonl_text(made.rows)
    statistics = made.statistics(about, ROWS, lines.encode())
    files = {ROWS: lines, CARD: str(pairs_card(statistics)), STATISTICS: statistics.model_dump_json(indent=1) + "\n"}
    title = f"synthetic pairs from {statistics.samples} answers"
    _write(settings.out, files, statistics, title, as_json=settings.as_json)


def _draw_answers(settings: PairsSettings) -> "tuple[Sample, ...]":
    """Return answers of a stage of a chain to training questions; test questions are refused."""
    from evals.questions.pairs import SampleOrigin
    from evals.schema.questions import Sampling
    from training.data.preferences import Draws, chain_samples
    from training.data.questions import grpo_data
    from training.models.chain import load_chain

    examples = grpo_data(comma_separated(settings.data), settings.seed).items[: settings.limit]
    sampling = Sampling(settings.max_new_tokens, settings.temperature, seed=settings.seed)
    draws = Draws(settings.stage, settings.samples, sampling)
    loaded = load_chain(str(settings.chain), cache=from_environment().cache)
    stage = loaded.stages[-1] if draws.stage == "last" else draws.stage
    origin = SampleOrigin(source=loaded.manifest.name, stage=stage, stage_sha256=loaded.stage_checksums.get(stage))
    notes.print(f"drawing {draws.count} answers to {len(examples)} questions from {stage}")
    prompt = loaded.manifest.system_prompt
    with progress_shown("answers to each question", draws.count) as progress:
        return tuple(chain_samples(loaded, origin, examples, prompt, draws._replace(stage=stage), progress))


@command(app)
def refiner(settings: MadeSettings) -> None:
    """Write questions with passages to cite, rubric items and reference answers (synthetic).

    Made from the study figures and from invented studies; some have no answer in
    their passages. Eye, thymus and what the KMP test asks are in no training row.

    Example: assay data refiner --out data/refiner
    """
    from evals.refine.bank import refiner_bank
    from evals.refine.cases import record_statistics, records_jsonl
    from hub.cards import render

    seed = settings.seed
    splits = {name: (found, records_jsonl(found)) for name, found in refiner_bank(seed)._asdict().items()}
    statistics = record_statistics(splits, seed)
    files = {f"{name}.jsonl": text for name, (_, text) in splits.items()}
    files |= {"README.md": render("refiner.md", **statistics), "statistics.json": json_text(statistics)}
    _write(settings.out, files, statistics, "refiner records (synthetic)", as_json=settings.as_json)


@command(app)
def review(settings: ReviewDataSettings) -> None:
    """Write reviewed papers by split, versions of one manuscript together, and corpora to train on.

    train, dev and test.jsonl hold papers with their concerns; scoring takes them as references. With
    --corpus, sft_train and sft_dev.jsonl hold chat rows in which no reply is ever cut, each with a
    statistics file, and the instructions they teach. A bad row of a split file is told with its line,
    counted and skipped.

    Example: assay data review --corpus a --out data/review
    """
    from evals.papers.collection import read_collection, split_by_family, without_leaks
    from evals.questions.sets import SPLITS
    from evals.review.corpus import CORPORA

    out, corpus = settings.out, settings.corpus
    if corpus is not None and corpus.lower() not in CORPORA:
        raise BadConfig(f"corpus is {corpus!r}; it takes {' or '.join(CORPORA)}.")
    collection = read_collection(
        settings.papers, lambda file, rows: notes.print(f"read {rows} rows, now {file}"), skips=not settings.strict
    )
    for each in collection.skipped:
        notes.print(f"skipped: {each}", soft_wrap=True)
    left_out = {"paper: bad row": len(collection.skipped)} if collection.skipped else {}
    left_out |= {f"concern: {why}": count for why, count in collection.left_out.items()}
    if collection.has_splits:
        examples, leaks = without_leaks(collection.examples)
        left_out |= {f"paper: {why}": count for why, count in leaks.items()}
    else:
        examples = split_by_family(collection.examples, settings.seed)
    made = _corpora(examples, settings) if corpus else {}
    by_split = {split: [each for each in examples if each.split == split] for split in SPLITS}
    if not settings.dry_run:
        _write_papers(out, by_split, made)
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
    tables = [
        as_table("reviewed papers", [{"split": split, **row} for split, row in counts.items()]),
        *(as_table(f"corpus {each['corpus']}, {each['split']}", each) for each in corpora.values()),
    ]
    emit({"splits": counts, "left_out": left_out, "corpora": corpora}, as_json=settings.as_json, table=Group(*tables))
    for why, count in left_out.items():
        notes.print(f"left out, {why}: {count}")
    notes.print(
        f"nothing was written to {out}: this was a dry run" if settings.dry_run else f"written to {out}", soft_wrap=True
    )


def _write_papers(
    out: Path, by_split: "Mapping[str, Sequence[ReviewExample]]", made: "Mapping[str, tuple[dict[str, Any], str]]"
) -> None:
    from evals.review.prompt import review_system_prompt
    from hub.cards.dataset import write_rows_card

    for split, mine in by_split.items():
        write_whole(out / f"{split}.jsonl", jsonl_text(mine))
    if made:
        write_whole(out / "system_prompt.txt", review_system_prompt())
    for split, (statistics, text) in made.items():
        write_whole(out / f"sft_{split}.jsonl", text)
        write_whole(out / f"sft_{split}_stats.json", json_text(statistics))
    written = (*by_split, *(f"sft_{name}" for name in made))
    write_rows_card(out, "reviews", [f"{name}.jsonl" for name in written])


def _corpora(
    examples: "tuple[ReviewExample, ...]", settings: ReviewDataSettings
) -> dict[str, tuple[dict[str, Any], str]]:
    """Return the statistics and the rows of a corpus to train on, by split."""
    from evals.review.corpus import CORPORA, CorpusRecipe
    from evals.review.prompt import Budget
    from training.data.tokens import ChatCounter
    from training.models.base import find_base, load_tokenizer

    given = {"min_confidence": settings.min_confidence, "min_concerns": settings.min_concerns}
    rules = CORPORA[str(settings.corpus).lower()]
    rules = replace(rules, **{name: each for name, each in given.items() if each is not None})
    found = find_base(settings.base, lambda _, message: notes.print(message))
    budget = Budget(settings.context, settings.reply_reserve, settings.overlap, settings.max_parts)
    recipe = CorpusRecipe(rules, budget, ChatCounter(load_tokenizer(found), found.public_name))
    return {split: _corpus(examples, split, recipe, settings.papers) for split in TAUGHT}


def _corpus(
    examples: "tuple[ReviewExample, ...]", split: Literal["train", "dev"], recipe: "CorpusRecipe", papers: str
) -> tuple[dict[str, Any], str]:
    from evals.review.corpus import corpus_statistics, make_corpus

    with progress_shown("counting papers") as progress:
        told = "{} of {} papers counted"
        made = make_corpus(examples, split, recipe, lambda done, of: progress(done / of, told.format(done, of)))
    text = jsonl_text((each.row for each in made.rows), by_alias=True)
    return corpus_statistics(made, recipe, Path(papers).name, (f"sft_{split}.jsonl", text)), text
