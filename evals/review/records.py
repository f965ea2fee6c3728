"""The record beside rows of reviews, NAME.run.json: who gave the answers, and how."""

from collections.abc import Iterable
from pathlib import Path

from pydantic import ValidationError

from evals.errors import BadConfig, LabError
from evals.io import write_whole
from evals.schema.articles import ReviewRun
from evals.schema.reviews import MadeBy


def record_beside(rows: Path) -> Path:
    """Return where the record of how rows came about stands: NAME.run.json beside NAME.jsonl."""
    return rows.with_suffix(".run.json")


def check_out(read: Iterable[Path], out: Path, ending: str = ".jsonl") -> None:
    """Raise BadConfig if `out` has another ending, is the record of rows, or is one of the files that are read."""
    if out.suffix != ending or out.name.endswith(".run.json"):
        raise BadConfig(f"--out is {out}; name a file that ends in {ending}, and not in .run.json")
    if out.resolve() in [rows.resolve() for rows in read]:
        raise BadConfig(f"--out {out} is a file that is read; name another file")


def read_record(rows: Path) -> ReviewRun | None:
    """Return the record beside rows, None if there is none; LabError if it cannot be read."""
    file = record_beside(rows)
    try:
        return ReviewRun.model_validate_json(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (ValidationError, UnicodeDecodeError) as error:
        raise LabError(
            f"{file} says how the rows of {rows.name} came about, and cannot be read"
            f" ({str(error).splitlines()[0]}); put the original back, or move it away."
        ) from None


def copy_record(rows: Path, out: Path) -> bool:
    """Put the record beside `rows` beside `out` as well, which was made of them; return whether there is one.

    Without one, an older record beside `out` goes: it speaks of rows that are there no more.
    """
    record = read_record(rows)
    if record is None:
        drop_record(out)
    else:
        write_whole(record_beside(out), record.model_dump_json(indent=1) + "\n")
    return record is not None


def drop_record(rows: Path) -> None:
    """Remove the record beside rows that were written anew and of which no single run tells."""
    record_beside(rows).unlink(missing_ok=True)


def maker_of(rows: Path) -> MadeBy | None:
    """Return who gave the answers in a file of rows; None where no record stands beside it."""
    run = read_record(rows)
    if run is None:
        return None
    return MadeBy(
        **run.engine.model_dump(include=set(MadeBy.model_fields)),
        settings=run.settings,
        prompt_version=run.prompt_version,
        date=(run.ended_at or run.started_at).date(),
    )
