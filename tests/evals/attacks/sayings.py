"""Tables of single answers: `not_right.txt` must never be judged correct, `fair.txt` always.

[id of the question]
one answer a line, with the escapes of a Python string; lines that open with # are remarks
[id of the question] open: why the verifiers still get the following ones wrong
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet

HERE = Path(__file__).parent
OPEN = "] open: "


def sayings(name: str) -> Iterator[ParameterSet]:
    """Return (id of the question, answer) for every line of a table, in order.

    Those under "open:" are known faults: the test expects them to fail, and fails when they pass,
    so that a line that was mended is moved back into its question's table.
    """
    question, reason = "", ""
    for line in (HERE / name).read_text(encoding="utf-8").splitlines():
        if line.startswith("[") and OPEN in line:
            question, _, reason = line[1:].partition(OPEN)
        elif line.startswith("[") and line.endswith("]") and "/" in line:
            question, reason = line[1:-1], ""
        elif line and not line.startswith("#"):
            known = [pytest.mark.xfail(strict=True, reason=reason)] if reason else []
            yield pytest.param(question, line.encode().decode("unicode_escape"), marks=known)
