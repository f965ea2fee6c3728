"""chain.json: where an adapter comes from, found by name and read.

PEFT records only the root base, so an adapter that was trained on top of another one loads, and
answers wrongly, without a word. The manifest names every stage in order, with checksums and a probe.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from evals.errors import ChainMismatch, MissingModel, first_problem
from evals.io import write_whole
from evals.schema import ChainManifest, ChainStage
from training.run.checkpoints import how_to_resume

FILE_NAME = "chain.json"
EMBEDDED = "embedded"
REVIEWER = "reviewer"
REFINER = "refiner"
OURS = {EMBEDDED: "grpo", REVIEWER: "review", REFINER: "refiner/grpo"}
"""Chains that come with Assay by name, and the folder of their last stage."""
BARE = "base:"
"""Prefix of a chain without adapters: base:embedded, base:org/name, base:folder."""
BASE_STAGE = "base"


@dataclass(frozen=True)
class Chain:
    """A manifest that was read, and the folder that its relative paths start from."""

    manifest: ChainManifest
    folder: Path

    def adapter_folder(self, stage: ChainStage) -> Path:
        """Return where the stage's adapter lies."""
        return (self.folder / stage.path).resolve()

    @property
    def tokenizer_folder(self) -> Path | None:
        """Where the chain's own tokenizer lies; None where it is asked with the base's."""
        return (self.folder / self.manifest.tokenizer).resolve() if self.manifest.tokenizer else None


def run_folders(environment: Mapping[str, str] = os.environ) -> tuple[Path, ...]:
    """Return the folders that runs are looked for in, those of ASSAY_RUNS or `runs`; new ones go into the first."""
    named = [Path(place).expanduser() for place in environment.get("ASSAY_RUNS", "").split(os.pathsep) if place]
    return tuple(named) or (Path("runs"),)


def chain_file(name: str | Path) -> Path:
    """Return the chain.json of a name: one of ours, a run folder from here or in `run_folders`, or the file itself."""
    if str(name) in OURS:
        return Path(__file__).parents[1] / EMBEDDED / OURS[str(name)] / FILE_NAME
    path = Path(name).expanduser()
    if path.suffix == ".json":
        return path
    places = [path / FILE_NAME, *(folder / path / FILE_NAME for folder in run_folders())]
    return min(places, key=lambda file: (not file.is_file(), not file.parent.is_dir()))


def read_chain(name: str | Path) -> Chain:
    """Return the chain called `name`; MissingModel if there is none, ChainMismatch if the file is not a chain."""
    file = chain_file(name)
    try:
        manifest = ChainManifest.model_validate_json(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise MissingModel(f"no chain {str(name)!r}: {_what_is_there(file)}") from error
    except (ValidationError, UnicodeDecodeError) as error:
        problem = "it is not UTF-8 text"
        if isinstance(error, ValidationError):
            field, problem, _ = first_problem(error)
            problem = f"{field or 'the file'}: {problem}"
        raise ChainMismatch(
            f"{file} is not a chain this version can read: {problem}. Write it anew by"
            " training the stage again, or use the version of Assay that wrote it."
        ) from error
    names = [BASE_STAGE, *(stage.name for stage in manifest.stages)]
    if len(set(names)) < len(names):  # one adapter would silently answer in another's place
        raise ChainMismatch(
            f"{file} has two stages of one name ({', '.join(names)}; {BASE_STAGE!r} is the base itself)."
            " Give each stage a name of its own by training it again."
        )
    if manifest.stages and manifest.stages[0].mode != "stack":
        raise ChainMismatch(
            f"{file} says that its first stage, {names[1]!r}, was trained by {manifest.stages[0].mode!r},"
            " but there is no stage before it; the file was changed. Train the stage again."
        )
    return Chain(manifest, file.resolve().parent)


def _what_is_there(file: Path) -> str:
    """Return what lies where a chain.json was looked for, and the way on."""
    folder = file.parent
    if unfinished := how_to_resume(folder):
        return f"{unfinished}."
    adapters = [each.parent for each in sorted(folder.glob("*/adapter_config.json"))]
    if (is_one := (folder / "adapter_config.json").is_file()) or adapters:
        where = "" if is_one else f" in {', '.join(each.name for each in adapters)}"
        return (
            f"{folder} holds an adapter as PEFT writes it{where}, and no {FILE_NAME}. `assay chain import BASE {folder}`"
            " makes a chain of it, which can be asked, served, trained on and published."
        )
    if (folder / "config.json").is_file():
        return (
            f"{folder} holds a whole model. Name it {BARE}{folder} to ask it; `assay chain import {folder} ADAPTER` makes"
            " a chain of adapters that were trained on it."
        )
    return (
        f"there is no {file}. Name a run folder that holds {FILE_NAME}, one in {', '.join(map(str, run_folders()))}, the"
        f" file itself, {', '.join(map(repr, OURS))}, or {BARE}{EMBEDDED} for the base model alone. `assay chain list`"
        " shows what is here."
    )


def mend_tokenizer(chain: Chain, file: Path, sha256: str) -> list[Path]:
    """Correct the tokenizer's checksum in a chain's file and in those of its earlier stages; return the files.

    The run of an earlier stage has a chain.json of its own, which is corrected where it holds the same base and the
    same first stages.
    """
    stages, base, mended = chain.manifest.stages, chain.manifest.base, []
    for place in dict.fromkeys((file, *(chain.adapter_folder(each).parent / FILE_NAME for each in stages[:-1]))):
        if not place.is_file():
            continue
        manifest = read_chain(place).manifest
        is_same = (manifest.base.weights_sha256, manifest.base.tokenizer_sha256) == (
            base.weights_sha256,
            base.tokenizer_sha256,
        )
        if is_same and [(each.sha256, each.probe) for each in manifest.stages] == [
            (each.sha256, each.probe) for each in stages[: len(manifest.stages)]
        ]:
            corrected = manifest.base.model_copy(update={"tokenizer_sha256": sha256})
            write_whole(place, manifest.model_copy(update={"base": corrected}).model_dump_json(indent=1) + "\n")
            mended.append(place)
    return mended


def active_adapters(stages: Sequence[ChainStage]) -> dict[str, frozenset[str]]:
    """Return which adapters are at work in each stage, the base first with none.

    "continue" went on training the adapter before it, so it stands in its place. The other modes add
    to all that came before: whether earlier adapters were merged while training or stayed beside the
    weights, what the stage computes is the base plus the sum of them.
    """
    active: dict[str, frozenset[str]] = {BASE_STAGE: frozenset()}
    current: list[str] = []
    for stage in stages:
        if stage.mode == "continue":
            current = current[:-1]
        current.append(stage.name)
        active[stage.name] = frozenset(current)
    return active


def last_adapters(chain: Chain) -> tuple[ChainStage, ...]:
    """Return the stages whose adapters are at work in the chain's last stage, in order."""
    stages = chain.manifest.stages
    active = active_adapters(stages)[stages[-1].name if stages else BASE_STAGE]
    return tuple(stage for stage in stages if stage.name in active)
