"""Published results: four forms read, impossible tables named (`cases/published_results.yaml`)."""

import json
from pathlib import Path

import pytest
import yaml

from evals.errors import LabError
from evals.review.published import read_published, share_of

CASES = yaml.safe_load((Path(__file__).parents[1] / "cases/published_results.yaml").read_text(encoding="utf-8"))
FORMS = CASES["forms"]


@pytest.fixture
def read(tmp_path: Path):
    def read_document(document: object):
        path = tmp_path / "x.summary.json"
        path.write_text(json.dumps(document), encoding="utf-8")
        return read_published(path)

    return read_document


def test_every_known_form_is_read_and_a_sound_file_has_no_fault(read) -> None:
    (summary,), (record,), (board,) = (read(FORMS[name]) for name in ("summary", "record", "board"))
    assert (summary.system, summary.form, summary.n_all) == ("x", "training summary", 221)
    assert (record.matcher, record.threshold, record.interval_recall) == ("hungarian", 0.65, (0.4, 0.6))
    assert (record.date, record.groups["other"].f1) == ("2026-03-30", 0.6)
    assert board.form == "leaderboard"
    assert [each.faults for each in (summary, record, board)] == [(), (), ()]


def test_sources_are_pooled_and_one_without_answers_is_named(read) -> None:
    (found,) = read(FORMS["sources"])
    assert found.recall == pytest.approx(1552 / 2329)
    (fault,) = found.faults
    assert "37 articles and not one predicted concern" in fault


def test_a_table_that_cannot_be_is_named_with_its_figures(read) -> None:
    for row in CASES["impossible"]:
        (found,) = read(FORMS["record"] | row["change"])
        assert any(row["fault"] in fault for fault in found.faults), (row, found.faults)


def test_another_file_is_refused_with_what_is_accepted(read) -> None:
    for row in CASES["refused"]:
        with pytest.raises(LabError, match=row["said"]):
            read(row["document"])


def test_a_rounded_share_is_told_from_one_that_no_count_gives() -> None:
    for value, n, k in CASES["shares"]:
        found = share_of(value, n)
        assert found is None if k is None else abs(found - k) <= 1, (value, n, found)
