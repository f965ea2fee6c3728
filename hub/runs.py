"""A finished training run as it lies on disk, read for publishing: record, lineage, measurements."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from evals.errors import LabError
from evals.facts import load_provenance
from evals.report import load_report
from evals.schema import ChainManifest, ChainStage, EvalReport, RunRecord
from hub.cards.figures import Graded, graded, is_graded
from hub.cards.licences import Source

RECORD, CHAIN, METRICS, REPORTS = "run.json", "chain.json", "metrics.jsonl", "reports"
ADAPTER, WEIGHTS, CONFIG = "adapter", "adapter_model.safetensors", "adapter_config.json"
OWN_QUESTIONS = re.compile(r"(kmp|pathways|hallmark|refiner)-[a-z-]+(/[a-z]+)?")
"""Names of the data sets that this project makes from published figures."""
OWN_LICENCE = "apache-2.0"
Kept = TypeVar("Kept", RunRecord, ChainManifest)
HUB_ID = re.compile(r"[\w][\w.-]*/[\w][\w.-]*")


@dataclass(frozen=True)
class Base:
    """The model that a chain stands on, by its name on the Hub.

    `weights_sha256` is over the safetensors there, None where only the training record vouches for them;
    `original` is the model that a published copy was made from.
    """

    name: str
    revision: str | None
    licence: str | None
    weights_sha256: str | None = None
    original: str | None = None


@dataclass(frozen=True)
class Run:
    """A run folder. `reports` and `graded` are what measured this very adapter, the first by file name."""

    folder: Path
    record: RunRecord
    manifest: ChainManifest
    reports: dict[str, EvalReport]
    graded: tuple[Graded, ...] = ()

    @property
    def stage(self) -> ChainStage:
        """The stage that this run trained."""
        return self.manifest.stages[-1]

    @property
    def earlier(self) -> tuple[ChainStage, ...]:
        """The stages that it stands on, in order."""
        return self.manifest.stages[:-1]

    @property
    def adapter(self) -> Path:
        """The folder of the adapter that was trained here."""
        return (self.folder / self.stage.path).resolve()

    def folder_of(self, stage: ChainStage) -> Path:
        """Return the run folder of an earlier stage."""
        return (self.folder / stage.path).resolve().parent

    def data(self) -> tuple[Source, ...]:
        """Return what it was trained on, with licences where they are known."""
        named = self.record.config.get("data") or ()
        names = named if isinstance(named, list | tuple) else (named,)
        return tuple(Source(str(name), data_licence(str(name))) for name in names)


def read_run(folder: Path, more: Iterable[Path] = ()) -> Run:
    """Return the run in a folder; `more` are files of reports beside those in the folder.

    LabError for a folder that is no finished run of an adapter.
    """
    record = _read(folder / RECORD, RunRecord)
    manifest = _read(folder / CHAIN, ChainManifest)
    if record.status != "finished":
        raise LabError(
            f"the run in {folder} is {record.status}, and only a finished run is published; let it end"
            " (the same command goes on with it), or publish another."
        )
    if not manifest.stages:
        raise LabError(f"{folder / CHAIN} names no stage, so there is no adapter to publish.")
    sha256 = manifest.stages[-1].sha256
    files = {file.name: file for file in (*more, *sorted((folder / REPORTS).glob("*.json")))}
    others = [file for file in files.values() if is_graded(file)]
    reports = {name: load_report(file) for name, file in files.items() if file not in others}
    name = manifest.stages[-1].name
    mine = {file: report for file, report in reports.items() if report.stage_checksums.get(name) == sha256}
    return Run(folder, record, manifest, mine, graded(others, name, sha256))


def base_of(manifest: ChainManifest, name: str | None, revision: str | None) -> Base:
    """Return the base by its Hub id; `name` and `revision` go over what the chain says.

    LabError if neither gives a Hub id: the path of a folder leads nowhere for anybody else.
    """
    chosen = name or manifest.base.hub_id
    if chosen is None or not HUB_ID.fullmatch(chosen):
        raise LabError(
            f"the chain stands on {Path(chosen or manifest.base.source).name!r}, which is no model on the"
            " Hub; nobody else could load the adapter. Name the base's Hub id with --base ORG/NAME, or"
            " publish the base too with --with-base."
        )
    same = name is None or name == manifest.base.hub_id
    known = manifest.base.revision if same else None
    return Base(chosen, revision or known, manifest.base.licence)


def data_licence(name: str) -> str | None:
    """Return the licence of a training set: known for this project's own questions only.

    >>> data_licence("kmp-train[abstain:16]"), data_licence("pathways-train/liver"), data_licence("votes.jsonl")
    ('apache-2.0', 'apache-2.0', None)
    """
    return OWN_LICENCE if OWN_QUESTIONS.fullmatch(name.split("[")[0]) else None


def figures_behind(names: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """Yield file, source and licence of the figures that this project's questions are made from."""
    if any(data_licence(name) for name in names):
        for file, provenance in load_provenance().items():
            yield file, provenance.source, provenance.licence


def _read(file: Path, kind: type[Kept]) -> Kept:
    try:
        return kind.model_validate_json(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise LabError(
            f"{file.parent} is no run folder: it holds no {file.name}. Name a folder that `assay train`"
            " wrote, such as runs/grpo."
        ) from None
    except (ValidationError, UnicodeDecodeError) as error:
        problem = str(error).splitlines()
        detail = " ".join(problem[1:3]) if len(problem) > 1 else problem[0]
        raise LabError(f"{file} cannot be read: {detail}") from None
