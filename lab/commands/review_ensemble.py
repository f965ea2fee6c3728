"""`assay review ensemble`: several tools' concerns as one list."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evals.schema.reviews import Linkage, Strategy
from lab.commands.review_score import Encoders, Json, Vectors, find_cached
from lab.console import counted, emit, notes, table_of

if TYPE_CHECKING:
    from evals.concerns.encoder import Encoder
    from evals.concerns.ensemble import Tool
    from evals.concerns.threshold import Threshold


def ensemble(
    files: Annotated[list[Path], typer.Argument(help="Prediction files, two or more.")],
    out: Annotated[Path, typer.Option(help="The .jsonl file to write.")],
    strategy: Annotated[
        Strategy, typer.Option(help="Keep all, those enough tools say, or those all say.")
    ] = "union",
    threshold: Annotated[
        str, typer.Option(help="Similarity from which concerns are one, or auto to calibrate it.")
    ] = "auto",
    linkage: Annotated[
        Linkage, typer.Option(help="complete: all alike. single: chained, as published at 0.98.")
    ] = "complete",
    min_votes: Annotated[int, typer.Option(min=1, help="Tools that must agree, for vote.")] = 2,
    cap: Annotated[int | None, typer.Option(min=1, help="Keep the first N, after merging.")] = None,
    encoder: Encoders = "embedded",
    vectors: Vectors = None,
    seed: Annotated[int, typer.Option(min=0, help="For auto: same seed, same threshold.")] = 0,
    as_json: Json = False,
) -> None:
    """Merge the concerns of several tools; each keeps who said it, where and in which words.

    Only concerns of different tools are joined. The best supported stand first, then the more severe.
    With auto, the threshold is what one concern in a hundred reaches on another paper by chance.

    Example: assay review ensemble 8b.jsonl 9b.jsonl --strategy union --cap 20 --out both.jsonl

    Example: assay review ensemble 8b.jsonl 9b.jsonl --linkage single --threshold 0.98 --encoder
    specter2-base-mean --out published.jsonl
    """
    from evals.concerns.ensemble import Merging, merge
    from evals.concerns.measure import read_vectors
    from evals.concerns.provenance import drop_record, refuse_overlap
    from evals.concerns.similarity import LEXICAL
    from lab.commands.review import write_lines

    refuse_overlap(files, out)
    tools = _tools(files)
    found: Encoder | None = None
    if vectors is not None:
        found = read_vectors(vectors)
    elif encoder != LEXICAL:
        found = find_cached(encoder)
    chosen = _threshold(threshold, tools, found, seed)
    merging = Merging(strategy, chosen.value, linkage, min_votes, cap)
    merged = merge(tools, merging, found)
    write_lines(out, [row.model_dump(mode="json") for row in merged.rows])
    drop_record(out)
    notes.print(f"wrote {out}: {counted(merged.n_kept, 'concern')}, threshold {chosen.value:.3f}")
    document = {
        "out": str(out),
        "tools": [tool.name for tool in tools],
        "strategy": strategy,
        "linkage": linkage,
        "threshold": chosen.value,
        "threshold_from": chosen.origin,
        "encoder": found.name if found is not None else LEXICAL,
        "revision": found.revision if found is not None else "",
        **merged.model_dump(mode="json", exclude={"rows"}),
    }
    cells = [(name.replace("_", " "), value) for name, value in document.items()]
    emit(document, as_json=as_json, table=table_of("merged", ("what", "value"), cells))


def _tools(files: list[Path]) -> "list[Tool]":
    """Return the files as tools named by their stems, or by folder and stem where stems repeat."""
    from evals.concerns.ensemble import Tool
    from evals.jsonl import read_rows
    from evals.schema.reviews import PredictionRow

    stems = [file.stem for file in files]
    names = [
        file.stem if stems.count(file.stem) == 1 else f"{file.parent.name}/{file.stem}"
        for file in files
    ]
    return [
        Tool(name, tuple(read_rows(file, PredictionRow, key=lambda row: row.article_id)))
        for name, file in zip(names, files, strict=True)
    ]


def _threshold(
    written: str, tools: "list[Tool]", encoder: "Encoder | None", seed: int
) -> "Threshold":
    from evals.concerns.ensemble import merging_threshold
    from evals.concerns.threshold import Threshold, number_of

    if written == "auto":
        return merging_threshold(tools, encoder, seed)
    return Threshold(number_of(written), "given")
