"""The stages by name, and recipes of several; nothing here brings in torch.

A new stage is a line in `STAGES`; its file has its settings on top. A recipe is the stages, data, measurement and published
figures of a known system, one YAML file each in `training/recipes`.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template

from pydantic import Field, ValidationError

from evals.errors import BadConfig, first_problem
from evals.schema import Metric, Record
from evals.schema.reports import Report
from training.config import StageSettings, written_settings
from training.dpo import DpoSettings
from training.grpo import GrpoSettings
from training.kto import KtoSettings
from training.refiner import RefinerSettings
from training.review import ReviewSettings
from training.reward import RewardSettings
from training.run.folder import RunFolder
from training.sft import SftSettings

STAGES: dict[str, type[StageSettings]] = {
    "sft": SftSettings,
    "dpo": DpoSettings,
    "kto": KtoSettings,
    "reward": RewardSettings,
    "grpo": GrpoSettings,
    "review": ReviewSettings,
    "refiner": RefinerSettings,
}


# ---- recipes ------------------------------------------------------------------------------------


FOLDER = Path(__file__).parent / "recipes"
TRAIN = "train"


class Input(Record):
    """What a recipe takes from outside: a published file by address and checksum, a folder, a server."""

    about: str
    default: str = ""
    """What was published; taken unless another is given."""
    url: str = ""
    sha256: str = ""
    instead: str = ""
    """What stands in where it is not to be had; empty if nothing can."""
    example: str = ""
    """What a dry run takes where nothing stands in."""


class Step(Record):
    """One `assay` command, and what it leaves below the output folder. In the words, $out and $INPUT are filled in."""

    run: str
    makes: str

    def words(self, values: Mapping[str, str]) -> list[str]:
        """Return the words after `assay`."""
        return [Template(word).substitute(values) for word in shlex.split(self.run)]

    @property
    def stage(self) -> str | None:
        """The stage that is trained, if one is."""
        command, name, *_ = self.run.split()
        return name if command == TRAIN else None

    def is_done(self, out: Path) -> bool:
        """Return whether a run is finished, or a file written."""
        record = RunFolder(out / self.makes).record() if self.stage else None
        return record.status == "finished" if record else not self.stage and (out / self.makes).exists()


class PublishedFigure(Record):
    """A figure of a report below the output folder, and what was published of it; without a stage of the first one."""

    name: str
    report: str
    metric: str
    stage: str = ""
    published: float | None = None

    def found(self, report: "Report[object]") -> Metric | None:
        """Return the figure over all rows of a report."""
        named = (each for each in report.summaries if each.group == "all" and not each.is_baseline)
        stage = next((each for each in named if self.stage in ("", each.stage)), None)
        return stage.metrics.get(self.metric) if stage else None


class SystemRecipe(Record):
    """All of a recipe's file."""

    title: str
    about: str
    hours: str
    base: str = ""
    """What $base stands for in the steps; their files name it too."""
    inputs: dict[str, Input] = Field(default_factory=dict)
    steps: tuple[Step, ...]
    figures: tuple[PublishedFigure, ...]
    differs: tuple[str, ...]
    """What is not the same as in the published run, a sentence each."""

    def settings_of(self, stage: str, words: Sequence[str]) -> list[str]:
        """Return what `--key value …` says for a stage; BadConfig where `--NAME.key` names a stage that it has not."""
        known = {step.stage for step in self.steps if step.stage}
        found, is_meant = list[str](), True
        for word in words:
            owner, dot, _ = word.removeprefix("--").partition("=")[0].rpartition(".")
            if not word.startswith("--") or not dot:
                is_meant = is_meant or word.startswith("--")
            elif owner not in known:
                raise BadConfig(f"{word} names no stage of the recipe; it has {', '.join(sorted(known))}")
            else:
                is_meant, word = owner == stage, f"--{word.removeprefix(f'--{owner}.')}"
            found += [word] if is_meant else []
        return found


def recipe_names() -> list[str]:
    """Return the names of the recipes that come with Assay."""
    return sorted(file.stem for file in FOLDER.glob("*.yaml"))


def system_recipe(name: str) -> SystemRecipe:
    """Return a recipe by name or from a file of one's own; BadConfig where there is none, or it is not one."""
    file = Path(name) if re.search(r"\.ya?ml$", name) else FOLDER / f"{name}.yaml"
    if not file.is_file():
        raise BadConfig(
            f"there is no recipe {name!r}; name one of {', '.join(recipe_names())}, or a YAML file of your own"
        )
    try:
        return SystemRecipe.model_validate(written_settings(file))
    except ValidationError as error:
        field, problem, _ = first_problem(error)
        raise BadConfig(f"{file}, field {field}: {problem}") from None
