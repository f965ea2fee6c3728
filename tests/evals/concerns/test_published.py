"""Published results: four forms read, impossible tables named."""

import json
from pathlib import Path

import pytest

from evals.errors import LabError
from evals.review.published import read_published, share_of

SUMMARY = {
    "model_dir": "somewhere",
    "split": "test",
    "eval_metrics": {
        "recall_overall": 0.4091919409191941,
        "precision_overall": 0.8706331045003813,
        "f1_micro": 0.5567261730562871,
        "recall_major": 0.5482345898169338,
        "n_articles": 981,
        "n_human_concerns": 13947,
        "n_tool_concerns": 6555,
        "n_zero_recall_articles": 22,
        "n_perfect_recall_articles": 221,
    },
}
RECORD = {
    "tool_name": "BM25",
    "benchmark_version": "1.0",
    "split": "test",
    "run_date": "2026-03-30T04:20:18Z",
    "recall_overall": 0.5,
    "precision_overall": 0.5,
    "f1_micro": 0.5,
    "ci_recall": {"lo": 0.4, "hi": 0.6, "n_bootstrap": 1000},
    "n_articles": 4,
    "n_human_concerns": 40,
    "n_tool_concerns": 40,
    "per_category": {
        "design_flaw": {
            "recall": 0.25,
            "precision": 0.5,
            "f1_micro": 1 / 3,
            "n_human_concerns": 20,
            "n_matched": 5,
        },
        "other": {
            "recall": 0.75,
            "precision": 0.5,
            "f1_micro": 0.6,
            "n_human_concerns": 20,
            "n_matched": 15,
        },
    },
    "matching_stats": {"n_matched_pairs": 20, "threshold": 0.65, "algorithm": "hungarian"},
}
SOURCES = {
    "Haiku": {
        "peerj": {
            "recall": 0.0,
            "precision": 0.0,
            "f1": 0.0,
            "n_articles": 37,
            "n_gt": 761,
            "n_tool": 0,
            "n_matched": 0,
        },
        "elife": {
            "recall": 0.9898,
            "precision": 0.3785,
            "f1": 0.5476,
            "n_articles": 273,
            "n_gt": 1568,
            "n_tool": 4100,
            "n_matched": 1552,
        },
    }
}
BOARD = [
    {
        "rank": 1,
        "tool_name": "A",
        "split": "test",
        "recall": 0.5,
        "precision": 0.5,
        "f1": 0.5,
        "n_articles": 600,
    }
]


def read(folder: Path, document: object, name: str = "x.summary.json"):
    path = folder / name
    path.write_text(json.dumps(document), encoding="utf-8")
    return read_published(path)


def test_every_known_form_is_read_and_a_sound_file_has_no_fault(tmp_path: Path) -> None:
    (summary,), (record,), (board,) = (read(tmp_path, each) for each in (SUMMARY, RECORD, BOARD))
    assert (summary.system, summary.form, summary.n_all) == ("x", "training summary", 221)
    assert (record.matcher, record.threshold, record.interval_recall) == (
        "hungarian",
        0.65,
        (0.4, 0.6),
    )
    assert board.form == "leaderboard"
    assert [each.faults for each in (summary, record, board)] == [(), (), ()]


def test_sources_are_pooled_and_one_without_answers_is_named(tmp_path: Path) -> None:
    (found,) = read(tmp_path, SOURCES)
    assert found.recall == pytest.approx(1552 / 2329)
    (fault,) = found.faults
    assert "37 articles and not one predicted concern" in fault


def changed(**fields: object) -> dict:
    return RECORD | fields


CATEGORY = RECORD["per_category"]
FAULTY = [
    (changed(f1_micro=0.62), "precision and recall make 0.5000"),
    (changed(soft_recall_overall=0.7), "averaged in different ways"),
    (changed(recall_overall=0.51, f1_micro=0.505), "no whole number of 40"),
    (
        changed(
            n_tool_concerns=20,
            precision_overall=1.0,
            recall_overall=0.5,
            f1_micro=2 / 3,
            n_articles=1,
            matching_stats={"n_matched_pairs": 25},
        ),
        "a list has only 20",
    ),
    (changed(ci_recall={"lo": 0.6, "hi": 0.7}), "outside its interval"),
    (
        changed(per_category=CATEGORY | {"other": {"recall": 0.625, "n_human_concerns": 39}}),
        "no whole number of 39",
    ),
    (
        changed(per_category=CATEGORY | {"other": {"recall": 1.0, "n_human_concerns": 20}}),
        "not of pooled counts",
    ),
    (
        changed(per_category={"other": CATEGORY["other"]}),
        "the groups have 20 human concerns together, the whole 40",
    ),
]


@pytest.mark.parametrize(("document", "words"), FAULTY)
def test_a_table_that_cannot_be_is_named_with_its_figures(document, words, tmp_path: Path) -> None:
    (found,) = read(tmp_path, document)
    assert any(words in fault for fault in found.faults), found.faults


BAD = [
    ({"hello": 1}, "no published result"),
    ({"tool_name": "x", "recall_overall": "high"}, "recall_overall"),
    ([], "no published result"),
]


@pytest.mark.parametrize(("document", "words"), BAD)
def test_another_file_is_refused_with_what_is_accepted(document, words, tmp_path: Path) -> None:
    with pytest.raises(LabError, match=words):
        read(tmp_path, document)


SHARES = [
    (0.625, 40, 25),
    (0.625, 39, None),
    (0.5, 0, None),
    (0.0, 0, 0),
    (1.0, 7, 7),
    (0.4975, 13947, 6939),
]


@pytest.mark.parametrize(("value", "n", "k"), SHARES)
def test_a_rounded_share_is_told_from_one_that_no_count_gives(value, n, k) -> None:
    found = share_of(value, n)
    assert (found is None) == (k is None)
    assert k is None or abs(found - k) <= 1
