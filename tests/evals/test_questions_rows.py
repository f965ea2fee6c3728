"""Examples survive the way to disk and back; a bad line is named, with its field."""

import json
import re
import subprocess
import sys

import pytest

from evals.errors import BadRow, LabError
from evals.questions import (
    DATASETS,
    SYSTEM_PROMPT,
    data_sha256,
    kmp_test,
    kmp_training,
    pathway_heldout,
    read_examples,
    write_examples,
)

SCRIPT = """
from evals.questions import DATASETS, data_sha256
print({name: data_sha256(rows()) for name, rows in DATASETS.items()})
"""


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "rows.jsonl"
    write_examples(path, kmp_test())
    return path


def spoil(path, line, change):
    """Change one line (from 1) of a file of rows."""
    lines = path.read_text(encoding="utf-8").splitlines()
    lines[line - 1] = change(lines[line - 1])
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def with_field(**fields):
    return lambda line: json.dumps(json.loads(line) | fields)


@pytest.mark.parametrize("name", sorted(DATASETS))
def test_rows_come_back_as_they_were_written(tmp_path, name):
    rows = DATASETS[name]()
    write_examples(tmp_path / "rows.jsonl", rows)
    assert read_examples(tmp_path / "rows.jsonl") == rows


def test_equal_rows_are_equal_bytes_and_leave_no_other_file(path):
    before = path.read_bytes()
    write_examples(path, kmp_test())
    assert path.read_bytes() == before
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda line: line[:40], "(whole line)"),
        (lambda line: "[]", "(whole line)"),
        (with_field(confidence=80), "confidence"),
        (with_field(surprise=1), "surprise"),
        (with_field(ground_truth={"kind": "oracle"}), "ground_truth"),
        (
            with_field(ground_truth={"kind": "count", "value": -3, "subject": "x"}),
            "ground_truth.count.value",
        ),
        (
            with_field(ground_truth={"kind": "count", "value": 3, "subject": " "}),
            "ground_truth.count.subject",
        ),
        (
            with_field(ground_truth={"kind": "count", "value": "many", "subject": "x"}),
            "ground_truth.count.value",
        ),
        (with_field(split="validation"), "split"),
        (with_field(id="kmp/test/dominant_stressor/heart"), "id"),
    ],
)
def test_a_bad_line_is_named_with_its_number_and_field(path, change, field):
    spoil(path, 3, change)
    with pytest.raises(BadRow, match=re.escape(f"{path}, line 3, field {field!r}: ")) as caught:
        read_examples(path)
    assert (caught.value.line, caught.value.field) == (3, field)


def test_each_of_several_bad_lines_is_named_with_its_field(path):
    for line in (2, 5, 9):
        spoil(path, line, with_field(confidence=None))
    with pytest.raises(BadRow, match=r"line 2, .*2 more bad rows: line 5, field '\w+'; line 9, field '\w+'\)"):
        read_examples(path)


def test_a_long_bad_value_is_cut(path):
    spoil(path, 1, with_field(confidence="x" * 10_000))
    with pytest.raises(BadRow) as caught:
        read_examples(path)
    assert len(str(caught.value)) < 500


def test_blank_lines_and_line_separators_in_text_are_no_rows(path):
    row = kmp_test()[0].model_copy(update={"prompt": "one\u2028two\x85three"})
    write_examples(path, [row])
    path.write_text("\n" + path.read_text(encoding="utf-8") + "\n\n", encoding="utf-8")
    assert read_examples(path) == (row,)


@pytest.mark.parametrize(
    ("content", "says"),
    [(None, "there is no file"), (b"", "holds no rows"), (b"\xff\xfe", "not UTF-8 at byte 0")],
)
def test_a_file_without_rows_says_what_to_do(tmp_path, content, says):
    path = tmp_path / "rows.jsonl"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(LabError, match=says):
        read_examples(path)
    with pytest.raises(LabError, match="is a folder"):
        read_examples(tmp_path)


def test_a_file_that_cannot_be_written_is_an_error_and_leaves_the_old_one(path):
    blocked = path / "below" / "rows.jsonl"
    before = path.read_bytes()
    with pytest.raises(LabError, match="cannot write"):
        write_examples(blocked, kmp_test())
    assert path.read_bytes() == before


def test_the_checksum_of_data_sees_every_change_but_not_the_order():
    rows = kmp_test()
    assert data_sha256(rows) == data_sha256(rows[::-1])
    assert data_sha256(rows) != data_sha256(rows[1:])
    changed = rows[0].model_copy(update={"confidence": 0.5})
    assert data_sha256(rows) != data_sha256((changed, *rows[1:]))


def test_another_process_makes_the_same_data(pytestconfig):
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        capture_output=True,
        text=True,
        check=True,
        cwd=pytestconfig.rootpath,
        env={"PYTHONPATH": ".", "PYTHONHASHSEED": "77"},
    )
    assert run.stdout.strip() == str({name: data_sha256(rows()) for name, rows in DATASETS.items()})


def test_the_named_data_sets_are_the_standard_ones():
    assert {name: len(rows()) for name, rows in DATASETS.items()} == {
        "pathways-heldout": 107,
        "kmp-test": 20,
        "kmp-rewordings": 169,
        "kmp-train": 562,
        "pathways-train": 144,
        "hallmark-train": 100,
        "missions-train": 55,
        "missions-parted-train": 55,
    }
    assert DATASETS["kmp-train"]() == kmp_training()
    assert DATASETS["pathways-heldout"]() == pathway_heldout()


def test_the_system_prompt_asks_for_the_form_that_answers_have():
    assert len(SYSTEM_PROMPT.split()) < 40
    assert SYSTEM_PROMPT.splitlines()[-2] == "Answer: {answer}"
    assert "Confidence: N%" in SYSTEM_PROMPT.splitlines()[-1]
