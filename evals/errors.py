"""Errors we raise on purpose. Catch `LabError` to catch them all.

    LabError                 something the person at the keyboard can act on; the message says how
    ├── BadRow               one row of an input file is wrong (file, line, field)
    ├── MissingModel         a base model, encoder or adapter is not there
    ├── ChainMismatch        an adapter chain does not fit the base, tokenizer or weights it was made for
    ├── BadConfig            a setting is unknown, out of range or contradicts another one
    ├── Unclear              a file of questions can be read in several ways, or in none
    ├── UnreadableArticle    a paper holds no text that can be read: scanned, locked, broken, too large
    ├── CannotWrite          a file cannot be written there; an OSError with its errno too
    ├── IncomparableReports  two reports were measured with different instruments
    └── TrainingStopped      a run cannot go on; its last good checkpoint is kept

To add one: a person must be able to act on it, and some caller must need to tell it apart.
A message carries four things: what was wrong, the value seen, what is accepted, what to do next.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import ValidationError


def first_problem(error: "ValidationError") -> tuple[str, str, Any]:
    """Return what a record refuses first: the field ("" for all of it), the problem, and the value seen."""
    first = error.errors()[0]
    # "Value error" is pydantic's word for our own sentences
    return ".".join(map(str, first["loc"])), first["msg"].removeprefix("Value error, "), first["input"]


class LabError(Exception):
    """Something the person using the lab can act on; the message says how."""


class BadRow(LabError, ValueError):
    """One row of an input file is wrong."""

    def __init__(self, path: object, line: int, field: str, problem: str) -> None:
        super().__init__(f"{path}, line {line}, field {field!r}: {problem}")
        self.line = line
        self.field = field
        self.problem = problem


class MissingModel(LabError):
    """A base model, encoder or adapter is not there."""


class ChainMismatch(LabError):
    """An adapter chain does not fit the base, tokenizer or weights it was made for."""


class BadConfig(LabError, ValueError):
    """A setting is unknown, out of range or contradicts another one."""


class Unclear(LabError):
    """A file can be read in several ways, or in none; `problem` is without what to tell the command."""

    def __init__(self, problem: str, remedy: str = "") -> None:
        super().__init__(". ".join(filter(None, [problem, remedy])))
        self.problem = problem


class UnreadableArticle(LabError):
    """A paper holds no text that can be read: scanned, locked, broken or too large."""


class CannotWrite(LabError, OSError):
    """A file cannot be written there; `errno` is the system's."""


class IncomparableReports(LabError):
    """Two reports were measured with different instruments."""


class TrainingStopped(LabError):
    """A run cannot go on: no room on the disk, a loss that is no number; what is good is kept."""
