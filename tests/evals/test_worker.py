"""Files that unpack to more than a machine has are refused with the limit that they came to, and the program goes on."""

import time
from itertools import pairwise
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from evals import worker
from evals.errors import BadConfig, LabError, UnreadableArticle
from evals.papers import read_article
from evals.papers.pdf import MOST_CHARACTERS
from evals.questions.sets import plain_rows
from evals.review.parse import parse
from evals.schema import NumberTruth
from evals.tables import MOST_ROWS, parquet_rows, read_table
from evals.verifiers import verify_answer
from tests.evals.pdfs import Put, pdf


def spin(send):
    send(1)
    while True:
        pass


def swell(send):
    send(bytearray(6_000_000))
    send(bytearray(6_000_000))


def take(send):
    send(len(bytearray(worker.MEMORY)))


def fail(send):
    raise ZeroDivisionError


@pytest.mark.parametrize(
    ("read", "seconds", "said"),
    [
        (spin, 1, "a.bin takes more than 1 seconds to read, or its file more than 600. Give a smaller file"),
        (swell, 60, "a.bin unpacks to more than 0.01 GB"),
        (take, 60, "a.bin needs more than 1 GB of memory to be read"),
    ],
)
def test_a_reader_is_ended_at_the_limit_that_it_comes_to(read, seconds, said, monkeypatch):
    for name, value in {"SECONDS": seconds, "MOST_READ": 10**7, "MEMORY": 2**30}.items():
        monkeypatch.setattr(worker, name, value)
    with pytest.raises(LabError, match=said):
        list(worker.read_apart(read, what=lambda: "a.bin", error=LabError))


def test_a_fault_of_a_reader_is_shown_with_its_place():
    with pytest.raises(RuntimeError, match=r"in fail(.|\n)*ZeroDivisionError"):
        list(worker.read_apart(fail, what=lambda: "a.bin", error=LabError))


def test_papers_and_tables_that_unpack_to_more_than_is_read_are_refused_in_words(tmp_path):
    page = [Put(50, 800 - n / 3, f"{n:04}, " * 17, 4) for n in range(MOST_CHARACTERS // 100 + 5)]
    with pytest.raises(UnreadableArticle, match=r"page 2 of a\.pdf has 204,510 characters; up to 200,000 are read"):
        read_article(pdf([page[:3], page]), "a.pdf")
    with pytest.raises(LabError, match=r"far-corner\.xlsx needs more than 4 GB of memory to be read"):
        read_table(Path(__file__).parent / "files/sheets/far-corner.xlsx")  # its last cell is XFD1048576
    rows = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"a": pyarrow.repeat("same", MOST_ROWS + 1)}), rows)
    with pytest.raises(BadConfig, match=r"a\.parquet has 5,000,001 rows; up to 5,000,000 are read"):
        next(parquet_rows(rows))


def test_lists_deep_in_each_other_are_refused_in_words(tmp_path):
    depth = 100_000
    for name, text in {
        "a.jsonl": "[" * depth,
        "a.json": f'[{{"id": {"[" * depth}',
        "a.yaml": "- a: " + "[" * 5000,
    }.items():
        file = tmp_path / name
        file.write_text(text)
        try:
            (fault,) = plain_rows(file)[1]
        except LabError as error:
            assert "nested too deeply" in str(error), name
        else:
            assert "nested too deeply" in fault.problem, name
    lines = (f"{name}: &{name} [{(',*' + last) * 9}]".replace("[,", "[") for last, name in pairwise("abcdefghij"))
    laughs = "\n".join(lines)
    article = read_article(f"---\na: &a [lol]\n{laughs}\ntitle: *j\n---\n# Moss\n\nIt grows.".encode(), "a.md")
    assert article.title == "Moss"


def test_long_repetitions_of_a_model_or_a_paper_are_read_in_time_that_grows_with_their_length():
    started = time.process_time()
    deep = parse("a", '{"a":[' * 5_000)
    assert deep.status == "failed" and not deep.concerns
    numbers = NumberTruth(kind="number", value=3.2, unit="mg")
    assert verify_answer(numbers, "How much is it?", "12-" * 10_000).verdict != "correct"
    assert len(read_article(b"a\n\n" * 20_000, "a.txt").sections[0].text) > 59_000
    assert time.process_time() - started < 30  # 2 on a free core; minutes before
