"""Records that a visitor brings to the Refine tab in a JSONL file, for as long as the page is open."""

from collections.abc import Mapping
from pathlib import Path

from evals.errors import LabError
from evals.refiner.records import read_records
from evals.schema.refining import RefinerRecord
from lab.console import counted
from lab.views import notice
from lab.wording import say

Own = Mapping[str, RefinerRecord]
"""Records by the name they have in the list, which no example record has."""
PREFIX = "yours: "
LARGEST_MB, MOST = 10.0, 1_000


def read_own(file: str) -> tuple[dict[str, RefinerRecord], str]:
    """Return the records of an uploaded file, and a line about it.

    LabError names line and field of what is wrong, or what the file is too large for.
    """
    path = Path(file)
    megabytes = path.stat().st_size / 1e6
    if megabytes > LARGEST_MB:
        raise LabError(
            say("refine.own.large", file=path.name, megabytes=megabytes, limit=LARGEST_MB)
        )
    try:
        found = read_records(path)
    except LabError as error:  # a visitor knows the file by its name, not by where it was put
        raise LabError(str(error).replace(str(path), path.name)) from None
    if len(found) > MOST:
        raise LabError(say("refine.own.many", file=path.name, count=len(found), limit=MOST))
    line = say("refine.own.read", records=counted(len(found), "record"), file=path.name)
    plain = [RefinerRecord.model_validate(record.model_dump()) for record in found]
    return {f"{PREFIX}{record.id}": record for record in plain}, notice(line, "good")
