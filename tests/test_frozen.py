"""What Assay did when `tests/frozen/data` was written it still does; `python -m tests.frozen` writes it anew."""

import pytest

from tests.frozen import table
from tests.frozen.every import TABLES


@pytest.mark.parametrize("name", TABLES)
def test_nothing_in_the_frozen_table_has_changed(name: str) -> None:
    was = table.load(name)
    assert was, f"the table {name} was never written: python -m tests.frozen --only {name}"
    found = table.differences(was, TABLES[name]())
    assert not found, table.told(name, found)
