"""Receipts of what was published, kept beside what it was published from."""

from pathlib import Path

from pydantic import ValidationError

from evals.errors import LabError
from evals.schema.publishing import Receipt, Removal

FOLDER = "published"


def write_receipt(receipt: Receipt, folder: Path) -> Path:
    """Keep a receipt in `folder`/published, named after its repository, and return its file."""
    return _write(receipt, folder / FOLDER / f"{_named(receipt.repo)}.json")


def write_removal(removal: Removal, folder: Path) -> Path:
    """Keep the receipt of a removal in `folder`, named after repository and commit, and return its file."""
    return _write(removal, folder / f"{_named(removal.repo)}-{str(removal.revision)[:12]}.json")


def read_receipt(folder: Path, repo: str) -> Receipt | None:
    """Return the receipt of what was published from `folder` to a repository, None if there is none."""
    file = folder / FOLDER / f"{_named(repo)}.json"
    if not file.is_file():
        return None
    try:
        return Receipt.model_validate_json(file.read_text(encoding="utf-8"))
    except ValidationError:
        raise LabError(
            f"{file} is no receipt that this version can read; remove it and publish again: what is there"
            " already is not uploaded twice."
        ) from None


def _named(repo: str) -> str:
    return repo.replace("/", "--")


def _write(record: Receipt | Removal, file: Path) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_suffix(".part")
    unfinished.write_text(record.model_dump_json(indent=1) + "\n", encoding="utf-8")
    return unfinished.replace(file)
