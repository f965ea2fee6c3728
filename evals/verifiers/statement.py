"""One direction that an answer states or denies, as `direction` reads it."""

from typing import NamedTuple


class Statement(NamedTuple):
    """One direction stated or denied: of which gene set (None = the one asked about), and where.

    `says` is UP, DOWN or UNCHANGED; `tissues` and `missions` are empty where none is named. `apart`
    are tissues it is expressly not said of; `is_of_all` tells of "in every mission".
    """

    pathway: str | None
    tissues: tuple[str, ...]
    missions: tuple[str, ...]
    says: str
    is_negated: bool
    first: int
    last: int
    apart: tuple[str, ...] = ()
    is_of_all: bool = False
