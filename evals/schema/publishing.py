"""What publishing leaves behind: where a chain's stages lie, what was planned, what was done."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from evals.schema.record import Record

PublicationKind = Literal["adapter", "model", "dataset", "space"]
Change = Literal["add", "change", "same", "remote_only"]
Visibility = Literal["private", "public"]


class PublishedStage(Record):
    """Where one stage's own adapter lies on the Hub. `revision` None = the repository this stands in.

    `folder` is where in it: below its root lies all of the chain up to there as one adapter or model.
    """

    name: str
    repo: str
    revision: str | None
    folder: Literal["", "stage"] = ""
    sha256: str
    config_sha256: str


class Lineage(Record):
    """lineage.json: the base and every stage of a published chain, pinned, in order."""

    schema_version: Literal[1] = 1
    base: str
    base_revision: str | None
    stages: tuple[PublishedStage, ...]


class PackedWeights(Record):
    """The quantised file that weights were unpacked from, and the Python package that it came in."""

    package: str
    version: str
    file: str
    quantisation: str
    sha256: str
    unpacked_with: str
    dtype: str


class BaseOrigin(Record):
    """origin.json: what a base is that was published with a chain.

    `original` is the Hub's model that it is a copy of; `weights_sha256` is over its safetensors,
    `recorded_sha256` is what chains know it by (of a packed one, the packed file).
    """

    schema_version: Literal[1] = 1
    original: str | None
    licence: str | None
    weights_sha256: str
    recorded_sha256: str
    packed: PackedWeights | None = None


class Diagnostic(Record):
    """What a check before publishing found; an error keeps everything from being uploaded.

    A secret's value is never part of it.
    """

    check: str
    path: str
    problem: str
    remedy: str
    line: int | None = None
    is_error: bool = True

    def __str__(self) -> str:
        return f"{self.path}{f', line {self.line}' if self.line else ''}: {self.problem}; {self.remedy}"


class PlannedFile(Record):
    """What publishing would do with one file; sizes in bytes."""

    path: str
    change: Change
    size: int = Field(ge=0)


class PublishPlan(Record):
    """What publishing would do. Nothing has been written."""

    kind: PublicationKind
    endpoint: str
    repo: str
    tag: str | None
    is_new: bool
    is_pull_request: bool
    visibility: Visibility
    parent: str | None
    files: tuple[PlannedFile, ...]
    upload_bytes: int = Field(ge=0)
    warnings: tuple[Diagnostic, ...] = ()


class Receipt(Record):
    """What was published, and where. `files` holds the SHA-256 of each file that was uploaded."""

    schema_version: Literal[1] = 1
    kind: PublicationKind
    endpoint: str
    repo: str
    revision: str
    tag: str | None
    pull_request: int | None
    visibility: Visibility
    outcome: Literal["published", "already there"]
    files: dict[str, str]
    finished_at: datetime
