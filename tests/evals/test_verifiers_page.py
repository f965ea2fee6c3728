"""docs/verifiers.md says what the code does."""

import re
from pathlib import Path

from evals.degree import LEVELS
from evals.verifiers import (
    MODES,
    PRESETS,
    VERIFIERS,
    applicable,
    instrument,
)
from tests.evals.scoring import KINDS

PAGE = (Path(__file__).parents[2] / "docs" / "verifiers.md").read_text(encoding="utf-8")


def rows_of(first: str) -> list[list[str]]:
    """Return the cells of the page's table whose first heading is `first`."""
    table = PAGE.partition(f"\n| {first} |")[2].partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def test_the_page_lists_the_weights_of_every_preset() -> None:
    listed = {
        row[0].split("`")[1]: {
            name: float(cell) for name, cell in zip(VERIFIERS, row[1:5], strict=True)
        }
        for row in rows_of("weights")
    }
    full = {name: {v: each.get(v, 0.0) for v in VERIFIERS} for name, each in PRESETS.items()}
    assert listed == full


def test_the_page_lists_what_applies_to_every_kind() -> None:
    listed = {
        kind: tuple(re.findall(r"V\d", row[1].partition(";")[0]))
        for row in rows_of("kind")
        for kind in row[0].split(", ")
    }
    assert listed == {kind: applicable(example.ground_truth) for kind, example in KINDS.items()}


def test_the_page_lists_every_word_for_a_confidence() -> None:
    listed = [
        (tuple(row[0].split(" (")[0].replace("; ", ", ").split(", ")), row[1], row[2])
        for row in rows_of("word")
    ]
    assert listed == [
        (
            (*level.adjectives, *level.adverbs),
            f"{level.value:.2f}",
            f"{level.lowest:.2f}–{level.highest:.2f}",
        )
        for level in LEVELS
    ]


def test_the_page_names_the_versions_and_the_modes() -> None:
    for name in (*instrument().values(), *MODES):
        assert f"`{name}`" in PAGE
