"""One setting: what it means, its type and its range, and how a YAML value or a word becomes it."""

import dataclasses
import math
import types
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from evals.errors import BadConfig

REQUIRED: Any = dataclasses.MISSING
WORDS_FOR_TRUE = ("true", "yes", "on", "1")
WORDS_FOR_FALSE = ("false", "no", "off", "0")
WORDS_FOR_NONE = ("none", "null", "")


def setting(
    meaning: str, *, default: Any = REQUIRED, low: float | None = None, high: float | None = None
) -> Any:
    """Return a dataclass field that knows its meaning and its range (ends included)."""
    known = {"meaning": meaning, "low": low, "high": high}
    if default is REQUIRED:
        return dataclasses.field(metadata=known)
    return dataclasses.field(default=default, metadata=known)


@dataclass(frozen=True)
class Setting:
    """A field of a settings class with all that is needed to read and explain it."""

    name: str
    annotation: Any
    meaning: str
    low: float | None
    high: float | None
    is_required: bool

    @classmethod
    def of(cls, kind: Any, name: str) -> "Setting":
        """Return the setting called `name` of a settings class."""
        found = next(each for each in dataclasses.fields(kind) if each.name == name)
        return cls(
            name=name,
            annotation=get_type_hints(kind)[name],
            meaning=found.metadata["meaning"],
            low=found.metadata["low"],
            high=found.metadata["high"],
            is_required=found.default is dataclasses.MISSING,
        )

    @property
    def accepts(self) -> str:
        """What it takes, in words: "a whole number from 1 to 512"."""
        kind = self.annotation
        if get_origin(kind) is Literal:
            return "one of " + ", ".join(get_args(kind))
        if get_origin(kind) is tuple:
            return "a list (on the command line: with commas)"
        if get_origin(kind) in (Union, types.UnionType):
            return "names with numbers (on the command line: V1=0.6,V4=0.4), the name of a set, or none"
        words = {int: "a whole number", float: "a number", bool: "true or false"}
        return words.get(kind, "text") + self._range()

    def _range(self) -> str:
        if self.low is None:
            return ""
        return f" from {self.low:g} to {self.high:g}" if self.high else f" of {self.low:g} or more"


def describe(kind: Any, name: str) -> str:
    """Return one line about a setting: "epochs: passes over the data (a number from …)"."""
    known = Setting.of(kind, name)
    return f"{name}: {known.meaning} ({known.accepts})"


def read_value(known: Setting, value: object, place: str) -> Any:
    """Return `value` as the type of the setting; BadConfig, naming `place`, if it cannot be."""
    try:
        read = _read(known.annotation, value)
    except (ValueError, TypeError):
        raise _refused(known, value, place) from None
    if isinstance(read, int | float) and not isinstance(read, bool):
        below = known.low is not None and read < known.low
        above = known.high is not None and read > known.high
        if below or above or not math.isfinite(read):
            raise _refused(known, value, place)
    return read


def _refused(known: Setting, value: object, place: str) -> BadConfig:
    return BadConfig(
        f"{place} sets {known.name} to {value!r}; it takes {known.accepts}. It means: {known.meaning}."
    )


def _read(annotation: Any, value: object) -> Any:
    origin = get_origin(annotation)
    if origin is Literal:
        word = "off" if value is False else str(value)  # YAML reads a bare off as false
        if word not in get_args(annotation):
            raise ValueError(value)
        return word
    if origin is tuple:
        return _list(value)
    if origin in (Union, types.UnionType):
        return _numbers(value)
    if annotation is bool:
        return _truth(value)
    if isinstance(value, bool | dict | list) or value is None:
        raise TypeError(value)
    if annotation is int:
        return _whole(value)
    return annotation(value)


def _whole(value: Any) -> int:
    if isinstance(value, float) and not value.is_integer():
        raise ValueError(value)
    return int(value)


def _truth(value: object) -> bool:
    word = str(value).strip().lower()
    if word not in WORDS_FOR_TRUE + WORDS_FOR_FALSE:
        raise ValueError(value)
    return word in WORDS_FOR_TRUE


def _list(value: object) -> tuple[str, ...]:
    """Return a list's items as text; a text is split at its commas."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(value)
    raise TypeError(value)


def _numbers(value: object) -> str | Mapping[str, float] | None:
    """Return "V1=0.6,V4=0.4" or a mapping as names to numbers, a name as it is, None for none."""
    if value is None or (isinstance(value, str) and value.strip().lower() in WORDS_FOR_NONE):
        return None
    if isinstance(value, str) and "=" not in value:
        return value.strip()
    if isinstance(value, str):
        pairs = [part.split("=") for part in value.split(",")]
        return {name.strip(): float(number) for name, number in pairs}
    if isinstance(value, dict):
        return {str(name): float(number) for name, number in value.items()}
    raise TypeError(value)
