"""The evaluations that lie beside a chain: which are of today's chain and questions, which are not.

A report of other adapters or other questions is no figure of the chain that is shown: it stays on
disk, is named, and comes with the command that measures again. A report that another version of the
verifiers judged can still be looked at, as an outdated one, until it is judged again.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from evals.errors import LabError
from evals.io import public_path
from evals.questions import DATASETS, data_sha256
from evals.questions.sets import load_questions
from evals.report import instrument, load_report, save_report
from evals.schema import ChainManifest, EvalReport, Example
from evals.schema.questions import Sampling
from lab.settings import EMBEDDED_RUNS
from lab.ui.text import say
from training.models.manifest import BARE, BASE_STAGE, read_chain

TRAINING = {"pathways-heldout": "pathways-train", "kmp-test": "kmp-train"}
"""The training rows that belong to a set of test questions."""
PART = re.compile(r"\[(?:train|dev|test|all)\]\s*$")


@dataclass(frozen=True)
class Outdated:
    """A report that no longer holds: `reason` says what changed, `command` brings it up to date.

    `report` is there only if its answers are still those of the chain, so that it can be looked at.
    """

    file: str
    reason: str
    command: str
    report: EvalReport | None = None


@dataclass(frozen=True)
class Evaluations:
    """What was measured of a chain: reports that hold today, and those that no longer do.

    `chain` is the name that the page lists it under, "" the lab's own. `files` are those of reports, by what they are of.
    """

    current: tuple[EvalReport, ...] = ()
    outdated: tuple[Outdated, ...] = ()
    chain: str = ""
    files: Mapping[str, Path] = field(default_factory=dict, compare=False)

    def own_file(self, report: EvalReport) -> Path | None:
        """Return the file of a report that did not come with Assay, which may be renamed and deleted; None of others."""
        file = self.files.get(report.data_name)
        return file if file and not file.resolve().is_relative_to(EMBEDDED_RUNS) else None

    def rename(self, report: EvalReport, title: str) -> str:
        """Give a report another name, which is returned; LabError for an empty one, or that of another report or a known set."""
        name, file = title.strip(), self.own_file(report)
        if file is None:
            raise LabError(say("manage.not_own", name=report.data_name))
        if not name or name in self.files or name in DATASETS:
            raise LabError(say("manage.no_name", title=name))
        save_report(report.model_copy(update={"data_name": name}), file)
        return name

    @property
    def reports(self) -> tuple[EvalReport, ...]:
        """Return what can be looked at, the most kinds of question first; an outdated report only alone."""
        measured = {report.data_name for report in self.current}
        old = (one.report for one in self.outdated if one.report is not None)
        found = (*self.current, *(report for report in old if report.data_name not in measured))
        return tuple(
            sorted(
                found,
                key=lambda report: (
                    -len({row.example.kind for row in report.rows}),
                    -len({row.example.id for row in report.rows}),
                ),
            )
        )

    def is_outdated(self, report: EvalReport) -> bool:
        """Return whether another version of the verifiers judged this report."""
        return any(one.report is report for one in self.outdated)


def read_evaluations(chain: str, *folders: Path) -> Evaluations:
    """Return the reports in `folders`, held against the chain called `chain`; none if it has none.

    Raises LabError for a file that is no report, and for a chain that cannot be read.
    """
    found = {}
    for path in (path for folder in folders for path in sorted(folder.glob("*.json"))):
        seen = path.stat() if path.is_file() else None
        found[path] = _load_cached(path, seen.st_mtime_ns, seen.st_size) if seen else load_report(path)
    if not found:
        return Evaluations()
    manifest = read_chain(chain).manifest
    current, outdated, files = [], [], dict[str, Path]()
    for path, report in found.items():
        data = report.data_name.split(" (first ")[0]  # so a shortened run is called
        limit = report.settings.get("limit")
        again = ["run", "--chain", chain, "--stage", "all", "--data", data, "--out", str(path)]
        again += ["--limit", str(limit)] if limit else []
        kept = None
        if not _is_of_these_weights(report, manifest):
            reason = "other weights than this chain's"
        elif data in DATASETS and data_sha256(DATASETS[data]()[: int(limit) if limit else None]) != report.data_sha256:
            reason = "questions that have changed since"  # a file of one's own is taken at its word
        elif report.versions != instrument():
            reason, again, kept = "another version of the verifiers", ["rescore", str(path)], report
        else:
            if any(report.data_name == each.data_name for each in current):  # the same questions, answered again
                report = report.model_copy(update={"data_name": f"{report.data_name} ({path.stem})"})
            current.append(report)
            files[report.data_name] = path
            continue
        files.setdefault(report.data_name, path)
        outdated.append(Outdated(path.name, reason, shlex.join(["assay", "eval", *again]), kept))
    return Evaluations(tuple(current), tuple(outdated), files=files)


def training_rows(data: str) -> tuple[Example, ...]:
    """Return the training rows that belong to a set, none where they are not known."""
    from training.data.tables import from_hub

    if data in DATASETS:
        return DATASETS[TRAINING[data]]() if data in TRAINING else ()
    return tuple(row for row in load_questions(f"{PART.sub('', data)}[all]", from_hub) if row.split == "train")


def about_run(chain: Any, stages: Sequence[str], sampling: Sampling, **options: Any) -> dict[str, Any]:
    """Return what a report says of the run behind it, but for its questions and command: chain, weights, settings."""
    from training.run.folder import versions

    hosted = chain.hosted or {}
    told = {"substitutions": "; ".join(chain.substitutions)} if chain.substitutions else {}
    told |= {f"hosted {stage}": hosted[stage].spending for stage in stages if stage in hosted}
    return {
        "chain_name": chain.manifest.name,
        "stage_checksums": {stage: chain.stage_checksums[stage] for stage in stages if stage not in hosted},
        "settings": {**asdict(sampling), **options, **told},
        "created_at": datetime.now(UTC),
        "libraries": {name: each for name, each in versions().items() if name not in instrument()},
    }


def command_line(**options: object) -> str:
    """Return the command line that makes the same report again, without this machine's folders."""
    given = {f"--{name.replace('_', '-')}": public(str(each)) for name, each in options.items() if each is not None}
    return shlex.join(["assay", "eval", "run", *(word for pair in given.items() for word in pair)])


def public(value: str) -> str:
    """Return an option's value as reports keep it: a path from here, or only its last part."""
    prefix = BARE if value.startswith(BARE) else ""
    return prefix + public_path(value.removeprefix(prefix))


@lru_cache(maxsize=16)
def _load_cached(path: Path, modified_ns: int, size: int) -> EvalReport:
    """Return the report in a file, the same object as long as the file stays what it was."""
    return load_report(path)


def _is_of_these_weights(report: EvalReport, manifest: ChainManifest) -> bool:
    """Return whether every stage in the report is one of the chain, with the same weights."""
    base, measured = manifest.base, dict(report.stage_checksums)
    here = {stage.name: stage.sha256 for stage in manifest.stages}
    is_base = measured.pop(BASE_STAGE, None) in (None, base.weights_sha256, base.packed_sha256)
    return is_base and measured.items() <= here.items()
