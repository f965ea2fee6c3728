"""One setting: what it means, its type and its range, and how a YAML value or a word becomes it."""

import dataclasses
import types
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from evals.errors import BadConfig

REQUIRED: Any = dataclasses.MISSING
WORDS_FOR_TRUE = ("true", "yes", "on", "1")
WORDS_FOR_FALSE = ("false", "no", "off", "0")
WORDS_FOR_NONE = ("none", "null", "")
MOST = 2**63 - 1
"""No number is larger: the libraries that training rests on count in 64 bits."""
SHOWN = 80
"""Characters of a value that an error shows."""


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
        low, high = _in_words(self.low), _in_words(self.high or 0)
        return f" from {low} to {high}" if self.high else f" of {low} or more"


def describe(kind: Any, name: str) -> str:
    """Return one line about a setting: "epochs: passes over the data (a number from …)"."""
    known = Setting.of(kind, name)
    return f"{name}: {known.meaning} ({known.accepts})"


def read_value(known: Setting, value: object, place: str) -> Any:
    """Return `value` as the type of the setting; BadConfig, naming `place`, if it cannot be."""
    try:
        read = _read(known.annotation, value)
    except BadConfig as error:  # a ValueError too, with more to say
        raise BadConfig(f"{place} sets {known.name} to what it cannot be: {error}") from None
    except (ValueError, TypeError, OverflowError):
        raise _refused(known, value, place) from None
    if isinstance(read, int | float) and not isinstance(read, bool):
        below = known.low is not None and read < known.low
        above = known.high is not None and read > known.high
        if below or above or not abs(read) <= MOST:  # so written, it refuses what is no number too
            raise _refused(known, value, place)
    return read


def _in_words(number: float) -> str:
    return str(number) if isinstance(number, int) else f"{number:g}"


def _refused(known: Setting, value: object, place: str) -> BadConfig:
    shown = repr(value)
    shown = shown if len(shown) <= SHOWN else shown[: SHOWN - 3] + "..."
    return BadConfig(
        f"{place} sets {known.name} to {shown}; it takes {known.accepts}. It means: {known.meaning}."
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
        return _pairs(value)
    if isinstance(value, dict):
        return {str(name): float(number) for name, number in value.items()}
    raise TypeError(value)


def _pairs(text: str) -> Mapping[str, float]:
    """Return "V1=0.6,V4=0.4" as a mapping; BadConfig for a name that stands twice."""
    read: dict[str, float] = {}
    for part in text.split(","):
        name, number = (word.strip() for word in part.split("="))
        if name in read:
            raise BadConfig(f"{name} stands twice in {text!r}; give each name one number.")
        read[name] = float(number)
    return read
