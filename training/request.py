"""What a command line asks for: a YAML file of settings, overridden key by key.

    read_settings(SftSettings, Path("training/configs/embedded/sft.yaml"), {"epochs": "2"})

An unknown key, a wrong type or a value out of range is an error that names what is accepted.
Knows nothing of torch, so a plan can be shown in a moment.
"""

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TypeVar

from evals.errors import BadConfig
from training.config import StageSettings
from training.document import document_of
from training.setting import Setting, describe, read_value

SettingsType = TypeVar("SettingsType", bound=StageSettings)


@dataclass(frozen=True)
class Request:
    """What a command line asked for: the settings, and what to do with a folder that exists."""

    settings: StageSettings
    config: Path
    overrides: tuple[str, ...] = field(default=())
    overwrite: bool = False


def read_request(kind: type[StageSettings], arguments: Sequence[str]) -> Request:
    """Return what `--config F [--key value …] [--overwrite]` asks for; BadConfig if it makes no sense."""
    rest = list(arguments)
    overwrite = "--overwrite" in rest
    rest = [word for word in rest if word != "--overwrite"]
    pairs = _pairs(rest)
    config = pairs.pop("config", None)
    if config is None:
        raise BadConfig(
            "no settings file was named; add --config with one, such as"
            " --config training/configs/embedded/sft.yaml."
        )
    overrides = tuple(f"--{key}={value}" for key, value in pairs.items())
    return Request(read_settings(kind, Path(config), pairs), Path(config), overrides, overwrite)


def read_settings(
    kind: type[SettingsType], file: Path, overrides: Mapping[str, str] | None = None
) -> SettingsType:
    """Return the settings of a YAML file, `overrides` (key to text) put over them."""
    values = {key: (value, str(file)) for key, value in _yaml(file).items()}
    values |= {key: (value, "the command line") for key, value in (overrides or {}).items()}
    known = {each.name: Setting.of(kind, each.name) for each in fields(kind)}
    for key, (_, place) in values.items():
        if key not in known:
            raise BadConfig(_unknown(key, place, list(known)))
    read = {key: read_value(known[key], value, place) for key, (value, place) in values.items()}
    missing = [name for name, each in known.items() if each.is_required and name not in read]
    if missing:
        raise BadConfig(
            f"{file} says nothing about {', '.join(missing)}; add"
            f" {'; '.join(describe(kind, name) for name in missing)}."
        )
    return kind(**read)


def _yaml(file: Path) -> dict[str, object]:
    try:
        document = document_of(file.read_bytes(), str(file))
    except (FileNotFoundError, IsADirectoryError):
        raise BadConfig(
            f"there is no settings file {file}; those that come with Assay lie in training/configs."
        ) from None
    if not isinstance(document, dict):
        raise BadConfig(f"{file} holds no settings; write one `key: value` per line.")
    return {str(key): value for key, value in document.items()}


def _pairs(words: Sequence[str]) -> dict[str, str]:
    """Return `--key value` and `--key=value` as a mapping; dashes in a key may be underscores."""
    pairs: dict[str, str] = {}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        key, equals, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or not key:
            raise BadConfig(f"{word!r} is not a setting; write --key value, such as --epochs 2.")
        if not equals:
            if not rest or (rest[0].startswith("--") and not _is_number(rest[0])):
                raise BadConfig(f"{word} has no value; write {word} VALUE.")
            value = rest.pop(0)
        pairs[key.replace("-", "_")] = value
    return pairs


def _is_number(word: str) -> bool:
    try:
        return math.isfinite(float(word))
    except ValueError:
        return False


def _unknown(key: str, place: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]}?" if near else ""
    return f"{place} sets {key!r}, which is no setting.{hint} The settings are: {', '.join(known)}."
