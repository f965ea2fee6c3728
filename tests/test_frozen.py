"""What Assay did when `tests/frozen/data` was written it still does; `python -m tests.frozen` writes it anew."""

import pytest

from tests.frozen import table
from tests.frozen.verdicts import SOURCES, TABLES, verdicts

SLOW = ("cards", "figures", *(f"verdicts-{source}" for source in SOURCES))
EVERY = 12


def changed(name, was, now):
    assert was, f"the table {name} was never written: python -m tests.frozen --only {name}"
    found = table.differences(was, now)
    assert not found, table.told(name, found)


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in TABLES])
def test_nothing_in_the_frozen_table_has_changed(name):
    changed(name, table.load(name), TABLES[name]())


@pytest.mark.parametrize("source", SOURCES)
def test_one_in_twelve_frozen_verdicts_is_what_it_was(source):
    now = verdicts(source, EVERY)
    was = table.load(f"verdicts-{source}")
    changed(f"verdicts-{source}", {key: was[key] for key in now if key in was}, now)
