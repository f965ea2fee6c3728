"""Who gave a system's answers, where and how: what a table says of a reviewer beside its figures."""

from datetime import date
from typing import Literal

from evals.schema.record import Record


class MadeBy(Record):
    """Who answered, as far as the record of the run tells; no key and no path of any machine.

    A chain is known by its checksums. A server is known by its host, by the model that was asked for
    (`name`), and by what it said had answered (`served`), which may be several within one run.
    """

    kind: Literal["chain", "server"]
    name: str
    stage: str = ""
    host: str = ""
    served: tuple[str, ...] = ()
    settings: dict[str, float | int | str]
    constraint: str
    prompt_version: str
    checksums: dict[str, str]
    date: date
