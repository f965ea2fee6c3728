"""Receipts of what was published, kept beside what it was published from."""

from pathlib import Path

from pydantic import ValidationError

from evals.errors import LabError
from evals.schema.publishing import Receipt

FOLDER = "published"


def write_receipt(receipt: Receipt, folder: Path) -> Path:
    """Keep a receipt in `folder`/published, named after its repository, and return its file."""
    place = folder / FOLDER
    place.mkdir(parents=True, exist_ok=True)
    file = place / f"{receipt.repo.replace('/', '--')}.json"
    unfinished = file.with_suffix(".part")
    unfinished.write_text(receipt.model_dump_json(indent=1) + "\n", encoding="utf-8")
    return unfinished.replace(file)


def read_receipt(folder: Path, repo: str) -> Receipt | None:
    """Return the receipt of what was published from `folder` to a repository, None if there is none."""
    file = folder / FOLDER / f"{repo.replace('/', '--')}.json"
    if not file.is_file():
        return None
    try:
        return Receipt.model_validate_json(file.read_text(encoding="utf-8"))
    except ValidationError:
        raise LabError(
            f"{file} is no receipt that this version can read; remove it and publish again: what is there"
            " already is not uploaded twice."
        ) from None
