"""`assay data`: write questions from the fact tables, preference pairs and reviewed papers as JSONL files."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lab.commands import export_questions, questions, refiner_data, review_data
from lab.console import emit, notes, table_of

if TYPE_CHECKING:
    from evals.pairs import PairSet, Sample
    from evals.questions.statistics import DataStatistics
    from evals.schema import Example
    from training.samples import Draws

app = typer.Typer(
    no_args_is_help=True,
    help="Question sets of your own, and training and test questions, pairs and reviewed papers as JSONL files.",
)

app.command("refiner", epilog="Example: assay data refiner --out data/refiner")(
    refiner_data.refiner
)
app.command("review", epilog="Example: assay data review --corpus a --out data/review")(
    review_data.review
)

app.command("check")(questions.check)
app.command("new")(questions.new)
app.command("import")(questions.import_set)
app.command("export")(export_questions.export)

Out = Annotated[
    Path, typer.Option("--out", help="Folder for train.jsonl, test.jsonl, statistics.json.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of a table.")]


@app.command(epilog="Example: assay data kmp --out data/kmp --seed 7")
def kmp(
    out: Out,
    seed: Annotated[int, typer.Option(help="Chooses wordings and order.")] = 0,
    drill: Annotated[int, typer.Option(help="How often each row is there, 1 to 20.")] = 1,
    as_json: Json = False,
) -> None:
    """Write the questions about the kaempferol mouse study: training rows and 20 test questions."""
    from evals.questions import kmp_test, kmp_training

    statistics = _write(
        out, "kmp", {"seed": seed, "drill": drill}, kmp_training(seed, drill), kmp_test()
    )
    _report(statistics, out, as_json=as_json)


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
    import random

    from evals.questions import pathway_heldout, pathway_training

    tissues = tuple(dict.fromkeys(name.strip() for name in hold_out.split(",") if name.strip()))
    train = list(pathway_training(tissues))
    if seed:
        random.Random(seed).shuffle(train)
    settings: dict[str, int | str] = {"seed": seed, "hold_out": ",".join(tissues)}
    statistics = _write(out, "pathways", settings, tuple(train), pathway_heldout(tissues))
    _report(statistics, out, as_json=as_json)


@app.command(
    epilog="Example: assay data pairs --chain embedded --stage sft --data pathways-grpo-half --out data/pairs"
)
def pairs(
    out: Out,
    chain: Annotated[
        str | None, typer.Option(help="Draw answers from this chain (with --data).")
    ] = None,
    run: Annotated[
        Path | None, typer.Option(help="Or take the answers that a GRPO run has sampled.")
    ] = None,
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
    calibrate: Annotated[
        bool,
        typer.Option(
            "--calibrate",
            help="State in the answers how often claims of their kind are right, and add up to --per-question"
            " pairs that differ in the confidence alone, by ten points or more.",
        ),
    ] = False,
    seed: Annotated[int, typer.Option(help="Of the first answer; the others count up.")] = 0,
    as_json: Json = False,
) -> None:
    """Write preference pairs chosen by the verifiers, labelled as synthetic, from sampled answers."""
    from evals.calibrated import make_calibrated_pairs
    from evals.errors import BadConfig
    from evals.model import Sampling
    from evals.preferred import make_pairs
    from lab.settings import from_environment
    from training.runs import RunFolder
    from training.samples import Draws, RunSamples, run_samples

    if (chain is None) == (run is None):
        raise BadConfig("name one source of answers: --chain NAME to draw them, or --run FOLDER.")
    settings: dict[str, str | int | float] = {"margin": margin, "pairs per question": per_question}
    if run is not None:
        questions.know(from_environment().questions)
        found = run_samples(RunFolder(run))
        settings |= {"answers from": f"the run {run.resolve().name}"}
    else:
        draws = Draws(stage, samples, Sampling(max_new_tokens, temperature, seed=seed))
        found = RunSamples(_drawn(str(chain), data, draws, limit), 0)
        settings |= _asked(str(chain), data, draws._replace(stage=found.samples[0].origin.stage))
    if calibrate:
        settings |= {"confidence": "how often answers of the kind are right"}
    make = make_calibrated_pairs if calibrate else make_pairs
    made = make(found.samples, margin, per_question, found.unknown_questions)
    _write_pairs(out, made, settings, as_json=as_json)
    if not calibrate:
        notes.print(
            "nothing in these pairs holds down how sure a model grows of what it cannot know; --calibrate"
            " teaches what to say and how sure to be apart",
            soft_wrap=True,
        )


def _asked(chain: str, data: str, draws: "Draws") -> dict[str, str | int | float]:
    """Return how answers were drawn, as the statistics and the card tell it."""
    from training.data import public_name

    return {
        "answers from": f"the chain {Path(chain).name}",
        "stage": draws.stage,
        "questions": ", ".join(public_name(name.strip()) for name in data.split(",")),
        "answers per question": draws.count,
        "temperature": draws.sampling.temperature,
        "longest answer": draws.sampling.max_new_tokens,
        "seed": draws.sampling.seed,
    }


def _drawn(chain: str, data: str, draws: "Draws", limit: int | None) -> "tuple[Sample, ...]":
    """Return answers of a stage of a chain to training questions; test questions are refused."""
    from evals.pairs import SampleOrigin
    from lab.settings import from_environment
    from training.chain import load_chain
    from training.data import grpo_data
    from training.samples import chain_samples

    sources = [name.strip() for name in data.split(",") if name.strip()]
    examples = grpo_data(sources, draws.sampling.seed).examples[:limit]
    loaded = load_chain(chain, cache=from_environment().cache)
    stage = loaded.stages[-1] if draws.stage == "last" else draws.stage
    origin = SampleOrigin(
        source=loaded.manifest.name, stage=stage, stage_sha256=loaded.stage_checksums.get(stage)
    )
    notes.print(f"drawing {draws.count} answers to {len(examples)} questions from {stage}")
    prompt = loaded.manifest.system_prompt
    return tuple(chain_samples(loaded, origin, examples, prompt, draws._replace(stage=stage)))


def _write_pairs(
    out: Path,
    made: "PairSet",
    settings: "dict[str, str | int | float]",
    *,
    as_json: bool,
) -> None:
    """Write rows, card and, as the seal, statistics; and print what was written."""
    from evals.questions.rows import write_whole
    from hub.cards import pairs_card
    from lab.export import CARD, LINE_ENDS, ROWS, STATISTICS

    lines = "".join(row.model_dump_json().translate(LINE_ENDS) + "\n" for row in made.rows)
    statistics = made.statistics(settings, ROWS, lines.encode())
    write_whole(out / ROWS, lines)
    write_whole(out / CARD, str(pairs_card(statistics)))
    write_whole(out / STATISTICS, statistics.model_dump_json(indent=1) + "\n")
    rows = [
        *((f"{rule} pairs", count) for rule, count in statistics.by_rule.items()),
        *((f"of kind {kind}", count) for kind, count in statistics.by_kind.items()),
        *((f"left out: {why}", count) for why, count in statistics.left_out.items()),
        *(
            (f"right, of the claims to questions of kind {kind}", f"{part.right} of {part.claims}")
            for kind, part in statistics.accuracy.items()
        ),
        ("pairs", statistics.rows),
    ]
    table = table_of(f"synthetic pairs from {statistics.samples} answers", ("what", "count"), rows)
    emit(statistics, as_json=as_json, table=table)
    notes.print(f"written to {out}: {ROWS}, {CARD}, {STATISTICS}", soft_wrap=True)


def _write(
    out: Path,
    name: str,
    settings: dict[str, int | str],
    train: "tuple[Example, ...]",
    test: "tuple[Example, ...]",
) -> "DataStatistics":
    """Write the three files, each whole, and return the statistics. They come last, as the seal."""
    from evals.questions.rows import as_jsonl, write_whole
    from evals.questions.statistics import DataStatistics, split_statistics, versions

    texts = {"train": as_jsonl(train), "test": as_jsonl(test)}
    statistics = DataStatistics(
        name=name,
        settings=settings,
        splits={
            "train": split_statistics(train, texts["train"]),
            "test": split_statistics(test, texts["test"]),
        },
        versions=versions(),
    )
    for split, text in texts.items():
        write_whole(out / f"{split}.jsonl", text)
    write_whole(out / "statistics.json", statistics.model_dump_json(indent=1) + "\n")
    return statistics


def _report(statistics: "DataStatistics", out: Path, *, as_json: bool) -> None:
    """Print what was written, by kind and by tissue."""
    train, test = statistics.splits["train"], statistics.splits["test"]
    rows: list[tuple[str, str, int, int]] = []
    for group, of_train, of_test in (
        ("kind", train.kinds, test.kinds),
        ("tissue", train.tissues, test.tissues),
    ):
        for name in dict.fromkeys((*of_train, *of_test)):
            rows.append((group, name, of_train.get(name, 0), of_test.get(name, 0)))
    rows.append(("total", "", train.rows, test.rows))
    table = table_of(f"{statistics.name} questions", ("by", "name", "train", "test"), rows)
    emit(statistics, as_json=as_json, table=table)
    notes.print(f"written to {out}: train.jsonl, test.jsonl, statistics.json", soft_wrap=True)
