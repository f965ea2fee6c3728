"""Tables of cases, one YAML file each."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from evals.errors import LabError


def cases(name: str) -> Any:
    """Return the table of this name."""
    return yaml.safe_load(Path(__file__).with_name(f"{name}.yaml").read_text(encoding="utf-8"))


def not_refused(table: Iterable[Sequence[Any]], attempt: Callable[..., object]) -> list[tuple[Any, ...]]:
    """Return the cases that `attempt` does not refuse with the words that a case ends with, and what was said instead."""
    wrong = []
    for *case, words in table:
        try:
            attempt(*case)
            wrong.append((*case, words, "nothing"))
        except LabError as error:
            wrong += [] if words in str(error) else [(*case, words, str(error))]
    return wrong


def quick_or_slow(names: Iterable[str], quick: Sequence[str]) -> list[Any]:
    """Return the cases of a table as parameters; those of a kind that a quick one stands for are slow."""
    return [name if name in quick else pytest.param(name, marks=pytest.mark.slow) for name in names]
