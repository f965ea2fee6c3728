"""Reviewed papers of a published benchmark: rows, files and folders read, families kept on one side of a split."""

import json
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from evals.errors import BadRow, LabError
from evals.papers.collection import example_of, from_flat, read_collection
from evals.papers.families import family_of, split_by_family, without_leaks
from evals.schema import TextOrigin
from tests.evals.reviewed import concern
from tests.evals.reviewed import example as reviewed

CASES = yaml.safe_load((Path(__file__).parent / "cases/papers.yaml").read_text(encoding="utf-8"))
CONCERN = {
    "concern_id": "elife:1:R1C1",
    "reviewer_num": 1,
    "concern_text": "The sample is <i>too small</i>. \n\n\n\nPlease justify.",
    "category": "statistical_methodology",
    "severity": "major",
    "resolution_confidence": 0.9,
    "a_later_field": 1,
}
ROW = {
    "id": "elife:1",
    "source": "elife",
    "doi": "10.7554/eLife.00001.2",
    "title": "T",
    "abstract": "A",
    "subjects": ["Research Article", "Neuroscience"],
    "editorial_decision": "major_revision",
    "published_date": "2020-05-01",
    "paper_text_sections": {"Methods": "m &lt; 5", "METHODS": "again", "Empty": "", "None": None},
    "structured_references": [{"authors": ["A B", "C"], "year": 2019, "title": "R", "journal": "J"}],
    "decision_letter_raw": "SECRET",
    "author_response_raw": "SECRET",
    "concerns": [CONCERN],
    "extraction_manifest_id": "m",
}


def read(row, **options):
    left_out = Counter()
    return example_of(row, TextOrigin(format="split"), left_out, **options), left_out


def sections(example):
    return [(each.name, each.text) for each in example.sections]


def test_a_row_of_the_benchmark_becomes_an_example_without_the_letters():
    example, left_out = read(ROW, split="train")
    assert sections(example) == [("Methods", "m < 5"), ("METHODS", "again")]
    assert example.concerns[0].concern_text == "The sample is too small.\n\nPlease justify."
    assert (example.subjects, example.family) == (("Neuroscience",), "10.7554/elife.00001")
    assert (example.references[0].authors, example.references[0].year) == ("A B, C", "2019")
    assert "SECRET" not in example.model_dump_json()
    assert "concerns" not in example.article.model_dump()
    assert left_out == {}


def test_rows_for_tasks_and_other_shapes_of_sections_are_read_too():
    row = {"article_id": "plos:9", "title": "T", "sections": [{"name": "M", "text": "a"}, ["M", "b"]]}
    example, _ = read(row | {"concerns": [{"concern_text": "x" * 20, "category": "other", "severity": "minor"}]})
    assert (example.id, example.source) == ("plos:9", "plos")
    assert sections(example) == [("M", "a"), ("M", "b")]
    assert (example.concerns[0].concern_id, example.concerns[0].reviewer_num) == ("plos:9:C1", 1)


def test_flat_rows_come_together_by_article():
    article = {"article_id": "elife:1", "title": "T", "doi": "", "source": "elife"}
    (row,) = from_flat([CONCERN | article | {"concern_id": f"e:{n}"} for n in range(3)])
    example, _ = read(row)
    assert [each.concern_id for each in example.concerns] == ["e:0", "e:1", "e:2"]


def test_a_concern_that_breaks_the_benchmarks_rules_is_left_out_and_counted():
    for field, value in CASES["no_concerns"]:
        example, left_out = read(ROW | {"concerns": [CONCERN | {field: value}, "text"]})
        assert example.concerns == ()
        assert left_out == {f"{field} is not what the benchmark allows": 1, "is no object": 1}


def test_all_versions_of_a_manuscript_are_one_family():
    assert [[name, doi, family_of(name, doi)] for name, doi, _ in CASES["families"]] == CASES["families"]


def version(name, family, split=None, source="s"):
    return reviewed([], id=name, family=family, split=split, source=source)


def test_a_published_split_loses_what_leaks_and_keeps_its_test_set_whole():
    given = [("a1", "a", "train"), ("a2", "a", "test"), ("b1", "b", "train"), ("b2", "b", "dev"), ("c", "c", "train")]
    repair = without_leaks([version(*each) for each in given])
    assert [each.id for each in repair.examples] == ["a2", "b2", "c"]
    assert repair.left_out == {
        "train has a version of the paper in test": 1,
        "train has a version of the paper in dev": 1,
    }


def test_families_are_never_divided_and_every_source_is_in_every_split():
    rows = [version(f"{s}{n}{v}", f"{s}{n}", source=s) for s in "xyz" for n in range(10) for v in "12"]
    split = split_by_family(rows)
    sides = {}
    for each in split:
        sides.setdefault(each.family, set()).add(each.split)
    assert all(len(found) == 1 for found in sides.values())
    assert {(each.source, each.split) for each in split} == {(s, p) for s in "xyz" for p in ("train", "dev", "test")}
    assert split == split_by_family(rows)
    assert split != split_by_family(rows, seed=1)


def test_split_files_of_the_benchmark_are_read_from_a_folder(tmp_path):
    row = {"id": "e:1", "source": "e", "doi": "", "title": "T", "concerns": []}
    (tmp_path / "train.jsonl").write_text(json.dumps(row) + "\n\n")
    (tmp_path / "val.jsonl").write_text(
        '{"id": "e:2", "title": "T", "concerns": [], "sections": {"M": "a", "M": "b"}}\n'
    )
    found = read_collection(str(tmp_path))
    assert [(each.id, each.split) for each in found.examples] == [("e:1", "train"), ("e:2", "dev")]
    assert [each.text for each in found.examples[1].sections] == ["a", "b"]
    assert found.has_splits


def test_our_own_rows_and_parquet_files_are_read_back(tmp_path):
    paper = reviewed([("Methods", "Text.")], [concern("The groups differ.")])
    (tmp_path / "mine.jsonl").write_text(paper.model_dump_json() + "\n")
    assert read_collection(str(tmp_path / "mine.jsonl")).examples == (paper,)
    row = {"article_id": "e:1", "source": "e", "doi": "10.1/1", "title": "T", "concerns": []}
    table = pa.Table.from_pylist([row | {"paper_text_sections": {"a": "x", "b": None}}])
    pq.write_table(table, tmp_path / "train-00000-of-00001.parquet")
    (found,) = read_collection(str(tmp_path)).examples
    assert (found.split, sections(found), found.origin.format) == ("train", [("a", "x")], "hub")


BAD_FILES = [
    ("{not json}\n", BadRow, "line 1.*is not JSON"),
    ("\n[1]\n", BadRow, "line 2.*no object"),
    ('{"id": "", "title": "T"}\n', BadRow, "line 1, field 'id'"),
    ('{"id": "a", "title": "T"}\n' * 2, LabError, "'a' twice"),
    ("", LabError, "holds no papers"),
]


def test_a_bad_file_is_named_with_its_line(tmp_path):
    for text, error, said in BAD_FILES:
        (tmp_path / "train.jsonl").write_text(text)
        with pytest.raises(error, match=said):
            read_collection(str(tmp_path / "train.jsonl"))


def test_a_place_without_papers_says_what_is_taken(tmp_path):
    with pytest.raises(LabError, match="name a folder with train"):
        read_collection(str(tmp_path / "none"))
    with pytest.raises(LabError, match="holds no split files"):
        read_collection(str(tmp_path))
