"""A settings file as a form: its important settings as fields, the rest as YAML, and back again."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

import yaml

from evals.errors import BadConfig
from lab.wording import say
from training.setting import Setting, read_value
from training.stages import STAGES

SHIPPED = Path(__file__).resolve().parents[1] / "training" / "configs"
FIELDS = (
    "data",
    "chain",
    "output",
    "max_steps",
    "epochs",
    "learning_rate",
    "batch",
    "lora_r",
    "num_generations",
    "beta",
)
"""The settings with a field of their own; one that a stage does not know is left out of it."""
STAGE_IN_COMMAND = re.compile(rf"\b(?:training\.|assay train )({'|'.join(STAGES)})\b")
PROFILE_IN_COMMAND = re.compile(r"--config_file \S*accelerate/([\w-]+)\.yaml")
KEY = re.compile(r"^(\w+)\s*:")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,59}")


@dataclass(frozen=True)
class Recipe:
    """Settings on their way between form and file.

    `fields` holds what is typed, "" = not set; `rest` is YAML, comments and all; `profile` is how it
    is launched, "" = as accelerate finds best.
    """

    stage: str
    fields: Mapping[str, str]
    rest: str
    profile: str = ""


def recipes(own: Path) -> dict[str, Path]:
    """Return the settings files that can be started from, by name: those shipped, then one's own."""
    shipped = (file for file in sorted(SHIPPED.rglob("*.yaml")) if file.parent.name != "accelerate")
    found = {file.relative_to(SHIPPED).with_suffix("").as_posix(): file for file in shipped}
    mine = sorted(own.glob("*.yaml")) if own.is_dir() else []
    return found | {say("train.mine", name=file.stem): file for file in mine}


def read_recipe(file: Path) -> Recipe:
    """Return a settings file as a form; BadConfig if it cannot be read.

    The stage is the one that its first lines name as their command, SFT where they name none.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadConfig(
            f"{file.name} cannot be read ({type(error).__name__}); choose another settings file."
        ) from None
    head = "\n".join(line for line in text.splitlines() if line.startswith("#"))
    named, profile = STAGE_IN_COMMAND.search(head), PROFILE_IN_COMMAND.search(head)
    blocks = _blocks(text.splitlines())
    taken = {key: _shown("\n".join(block)) for key, block in blocks if key in FIELDS}
    rest = [line for key, block in blocks if key not in FIELDS for line in block]
    body = [line for line in rest if not STAGE_IN_COMMAND.search(line) or not line.startswith("#")]
    return Recipe(
        stage=named[1] if named else "sft",
        fields=taken,
        rest="\n".join(body).strip() + "\n",
        profile=profile[1] if profile else "",
    )


def text_of(recipe: Recipe, command: str) -> str:
    """Return a recipe as a settings file whose first line is the command that runs it.

    BadConfig for a field that cannot be read, or that is set in the YAML as well.
    """
    kind = STAGES[recipe.stage]
    known = {each.name for each in fields(kind)} & set(FIELDS)
    twice = [key for key, _ in _blocks(recipe.rest.splitlines()) if key in FIELDS]
    if twice:
        raise BadConfig(
            f"{', '.join(twice)} stands in the YAML and has a field of its own; set it in the field and"
            " take the line out of the YAML."
        )
    values = {
        name: read_value(Setting.of(kind, name), recipe.fields[name].strip(), say("train.form"))
        for name in FIELDS
        if name in known and recipe.fields.get(name, "").strip()
    }
    plain = {
        key: list(value) if isinstance(value, tuple) else value for key, value in values.items()
    }
    head = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=1000) if plain else ""
    return f"# {command}\n{head}{recipe.rest.strip()}\n"


def save(text: str, own: Path, name: str) -> Path:
    """Write a settings file under the user's own ones and return it; BadConfig if it is there already."""
    stem = name.strip().removesuffix(".yaml")
    if not NAME.fullmatch(stem):
        raise BadConfig(
            f"the name is {name!r}; it takes letters, digits, dots, dashes and underscores, up to 60,"
            " such as my-sft."
        )
    file = own / f"{stem}.yaml"
    try:
        own.mkdir(parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8") as content:
            content.write(text)
    except FileExistsError:
        raise BadConfig(
            f"there is a settings file {stem!r} already, and it stays as it is; save under another name."
        ) from None
    except OSError as error:
        raise BadConfig(
            f"{file} cannot be written ({error.strerror}); make room or mend its rights, or name another"
            " folder with ASSAY_CONFIGS."
        ) from None
    return file


def free_output(root: Path, stage: str) -> Path:
    """Return a run folder below `root` that is not there yet: sft-1, sft-2 and so on."""
    number = 1
    while (folder := root / f"{stage}-{number}").exists() or folder.with_name(
        f"{folder.name}.lab"
    ).exists():
        number += 1
    return folder


def _blocks(lines: list[str]) -> list[tuple[str, list[str]]]:
    """Return the lines of each setting with its key; comments and blank lines have the key ""."""
    blocks: list[tuple[str, list[str]]] = []
    for line in lines:
        match = KEY.match(line)
        if match:
            blocks.append((match[1], [line]))
        elif blocks and blocks[-1][0] and line.startswith((" ", "\t", "-")):
            blocks[-1][1].append(line)
        else:
            blocks.append(("", [line]))
    return blocks


def _shown(block: str) -> str:
    """Return the value of a setting as it is typed; lists with commas."""
    try:
        (value,) = yaml.safe_load(block).values()
    except yaml.YAMLError as error:
        raise BadConfig(f"the settings are not YAML: {' '.join(str(error).split())}") from None
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "" if value is None else str(value)
