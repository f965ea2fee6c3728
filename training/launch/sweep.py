"""A sweep: one stage trained under several settings, each in a run folder of its own.

    stage: sft
    config: training/configs/embedded/sft.yaml
    output: runs/rates                      # rates/1, rates/2 …
    dev: ["pathways-grpo-half[direct]"]     # what the runs are compared on; never test rows
    grid: {learning_rate: [1.0e-3, 2.0e-3], lora_r: [4, 8]}     # or runs: [{learning_rate: 1.0e-3}, …]

Runs of stage review are compared on papers: `dev` is the folder of `assay data review`, of which the
development split alone is read, and `measure` may say how they are asked and scored
(`training.reviewer.measure.MeasureSettings`).

A sweep chooses nothing: it says what each run did on questions that it was not trained on. Knows
nothing of torch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from evals.errors import BadConfig
from evals.schema import Example, ReviewExample, RunRecord
from training.config import STAGES, document_of
from training.data.questions import sft_data
from training.data.tokens import TOO_LONG
from training.launch.accelerate import Launch
from training.launch.plan import Plan, plan_of
from training.models.manifest import read_chain
from training.reviewer.measure import MeasureSettings, development_papers, read_measure, refuse_learned
from training.run.folder import PROCESSES, changes, config_changes, public_config

KEYS = ("stage", "config", "output", "dev")
REVIEW, MEASURE = "review", "measure"
"""The stage that is compared on papers, and the key that only it has."""
MOST = 100
"""More runs than anyone waits for: likelier a slip in the grid."""


@dataclass(frozen=True)
class Trial:
    """One run of a sweep: its folder and the settings that are its own."""

    folder: Path
    changes: Mapping[str, str]

    def words(self, config: Path) -> tuple[str, ...]:
        """Return what its stage is told."""
        own = [word for key, value in self.changes.items() for word in (f"--{key}", value)]
        return ("--config", str(config), *own, "--output", str(self.folder))


@dataclass(frozen=True)
class Sweep:
    """Runs of one stage, and the questions, or papers and how they are read, that they are compared on."""

    stage: str
    config: Path
    output: Path
    dev: tuple[Example, ...]
    trials: tuple[Trial, ...]
    papers: tuple[ReviewExample, ...] = ()
    measure: MeasureSettings = field(default_factory=MeasureSettings)

    def plan(self, trial: Trial, launch: Launch, *, overwrite: bool = False) -> Plan:
        """Return the plan of a trial; BadConfig if it would be trained on what it is measured by."""
        words = (*trial.words(self.config), *(["--overwrite"] if overwrite else []))
        plan = plan_of(self.stage, words, launch)
        if self.stage == REVIEW:
            refuse_learned(self.papers, plan.data, trial.folder.name)
        both = [example.id for example in self.dev if example.prompt in plan.data.questions]
        if both:
            raise BadConfig(
                f"{len(both)} of {len(self.dev)} dev questions (such as {both[0]}) are in the training data"
                f" of {trial.folder.name} as well, so it would be measured by what it has seen; name other"
                " rows as dev."
            )
        return plan

    def refuse_other(self, trial: Trial, launch: Launch, known: RunRecord) -> None:
        """Raise BadConfig if the finished run in the trial's folder is of other settings or data.

        Of data from which rows were left out for their length the counts are compared, because only a
        tokenizer can tell which rows those were.
        """
        plan = self.plan(trial, launch, overwrite=True)
        stages = read_chain(plan.settings.chain).manifest.stages if plan.settings.chain.strip() else ()
        data = {**plan.data.record(), **{f"stage {stage.name}": stage.sha256 for stage in stages}}
        if any(TOO_LONG in key for key in known.data):
            data = {key: value for key, value in data.items() if key not in ("sha256", "rows")}
        seen = {key: known.data.get(key) for key in data}
        changed = [*config_changes(known, public_config(plan.settings)), *changes(seen, data)]
        if known.host.get(PROCESSES, launch.processes) != launch.processes:
            changed.append(f"{PROCESSES}: {known.host[PROCESSES]}, now {launch.processes}")
        if changed:
            raise BadConfig(
                f"{trial.folder} holds a finished run with other settings or data ({'; '.join(changed)});"
                " name another output in the sweep file, or move that folder away to train it anew."
            )


def read_sweep(file: Path) -> Sweep:
    """Return the sweep of a YAML file; BadConfig, naming what is wrong, if it is none."""
    document = _document(file)
    stage, config, output, dev = (document[key] for key in KEYS)
    if stage not in STAGES:
        raise BadConfig(f"{file} has stage {stage!r}; choose one of {', '.join(STAGES)}.")
    folder = Path(str(output))
    trials = tuple(
        Trial(folder / str(number), changes) for number, changes in enumerate(_changes(document, file), start=1)
    )
    if stage == REVIEW:
        values = document.get(MEASURE, {})
        if not isinstance(values, Mapping):
            raise BadConfig(f"{file}: {MEASURE} is a mapping, such as {MEASURE}: {{limit: 20}}.")
        if not isinstance(dev, str):
            raise BadConfig(
                f"{file} has dev {dev!r}; runs of stage {REVIEW} are compared on the papers of one folder or file,"
                " such as dev: runs/review/corpus."
            )
        measure = read_measure(values, str(file))
        papers = development_papers(dev, measure.limit)
        return Sweep(REVIEW, Path(str(config)), folder, (), trials, papers, measure)
    names = [dev] if isinstance(dev, str) else [str(name) for name in dev]
    return Sweep(str(stage), Path(str(config)), folder, sft_data(names, seed=0).items, trials)


def _document(file: Path) -> dict[str, Any]:
    try:
        document: Any = document_of(file.read_bytes(), str(file))
    except FileNotFoundError:
        raise BadConfig(f"there is no sweep file {file}; docs/training.md shows one.") from None
    found = set(document) if isinstance(document, dict) else set()
    which = found & {"grid", "runs"}
    of_review = {MEASURE} if found and document.get("stage") == REVIEW else set()
    if not set(KEYS) <= found or len(which) != 1 or found - {*KEYS, *which, *of_review}:
        raise BadConfig(
            f"{file} is no sweep: it needs {', '.join(KEYS)}, and either grid or runs (and for stage {REVIEW}"
            f" may have {MEASURE}), and nothing else; found"
            f" {', '.join(sorted(map(str, found))) or 'nothing'}."
        )
    return document


def _changes(document: Mapping[str, Any], file: Path) -> list[dict[str, str]]:
    """Return what each run sets, as text; every combination of a grid, the last key changing fastest."""
    try:
        if "runs" in document:
            found = [dict(run) for run in document["runs"]]
        else:
            grid = {key: list(values) for key, values in document["grid"].items()}
            found = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
    except (TypeError, ValueError, AttributeError):
        raise BadConfig(f"{file}: grid is a mapping of settings to lists of values, runs a list of mappings.") from None
    own = [key for key in ("output", "config") if any(key in each for each in found)]
    if not 1 <= len(found) <= MOST or own:
        raise BadConfig(
            f"{file} asks for {len(found)} runs{f' that set {own[0]}' if own else ''}; a sweep has 1 to"
            f" {MOST}, and gives each its own output."
        )

    def text(value: object) -> str:
        if isinstance(value, Mapping):
            return ",".join(f"{key}={number}" for key, number in value.items())
        is_list = isinstance(value, Sequence) and not isinstance(value, str)
        return ",".join(map(str, value)) if is_list else str(value)

    return [{str(key): text(value) for key, value in each.items()} for each in found]
