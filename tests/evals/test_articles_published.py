import pytest

from evals.papers.collection import Reading, example_of, from_flat
from evals.papers.families import family_of, split_by_family, without_leaks
from evals.schema import ReviewExample, TextOrigin

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
    reading = Reading("split")
    return example_of(row, reading, **options), reading


def test_a_row_of_the_benchmark_becomes_an_example_without_the_letters():
    example, reading = read(ROW, split="train")
    assert [(each.name, each.text) for each in example.sections] == [
        ("Methods", "m < 5"),
        ("METHODS", "again"),
    ]
    assert example.concerns[0].concern_text == "The sample is too small.\n\nPlease justify."
    assert (example.subjects, example.family) == (("Neuroscience",), "10.7554/elife.00001")
    assert (example.references[0].authors, example.references[0].year) == ("A B, C", "2019")
    assert "SECRET" not in example.model_dump_json()
    assert "concerns" not in example.article.model_dump()
    assert reading.left_out == {}


def test_rows_for_tasks_and_other_shapes_of_sections_are_read_too():
    row = {
        "article_id": "plos:9",
        "doi": "10.1/9",
        "title": "T",
        "sections": [{"name": "M", "text": "a"}, ["M", "b"]],
    }
    example, _ = read(row | {"concerns": [{"concern_text": "x" * 20, "category": "other", "severity": "minor"}]})
    assert (example.id, example.source) == ("plos:9", "plos")
    assert [(each.name, each.text) for each in example.sections] == [("M", "a"), ("M", "b")]
    assert (example.concerns[0].concern_id, example.concerns[0].reviewer_num) == ("plos:9:C1", 1)


def test_flat_rows_come_together_by_article():
    flat = [
        {
            **CONCERN,
            "concern_id": f"e:{n}",
            "article_id": "elife:1",
            "title": "T",
            "doi": "",
            "source": "elife",
        }
        for n in range(3)
    ]
    (row,) = from_flat(flat)
    example, _ = read(row)
    assert [each.concern_id for each in example.concerns] == ["e:0", "e:1", "e:2"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"concern_text": " "}, "concern_text is not what the benchmark allows"),
        ({"category": "novelty"}, "category is not what the benchmark allows"),
        ({"severity": None}, "severity is not what the benchmark allows"),
        (
            {"resolution_confidence": "high"},
            "resolution_confidence is not what the benchmark allows",
        ),
    ],
)
def test_a_concern_that_breaks_the_benchmarks_rules_is_left_out_and_counted(change, reason):
    example, reading = read(ROW | {"concerns": [CONCERN | change, "text"]})
    assert example.concerns == ()
    assert reading.left_out == {reason: 1, "is no object": 1}


@pytest.mark.parametrize(
    ("identity", "doi", "family"),
    [
        ("f1000:x", "10.12688/f1000research.27123.2", "10.12688/f1000research.27123"),
        ("f1000:10.12688/f1000research.27123.1", "", "10.12688/f1000research.27123"),
        ("elife:84798", "https://doi.org/10.7554/eLife.84798.3", "10.7554/elife.84798"),
        ("elife:84798", "10.7554/eLife.84798", "10.7554/elife.84798"),
        ("plos:1", "10.1371/journal.pone.0123456", "10.1371/journal.pone.0123456"),
        ("nature:1", "10.1038/s41467-020-1", "10.1038/s41467-020-1"),
        ("x:1", "10.1101/2020.01.02.123456v3", "10.1101/2020.01.02.123456"),
        ("own:study-7", "", "study-7"),
    ],
)
def test_all_versions_of_a_manuscript_are_one_family(identity, doi, family):
    assert family_of(identity, doi) == family


def example(name, family, split=None, source="s"):
    return ReviewExample(
        id=name,
        source=source,
        title=name,
        family=family,
        split=split,
        concerns=(),
        origin=TextOrigin(format="split"),
    )


def test_a_published_split_loses_what_leaks_and_keeps_its_test_set_whole():
    rows = [
        example("a1", "a", "train"),
        example("a2", "a", "test"),
        example("b1", "b", "train"),
        example("b2", "b", "dev"),
        example("c", "c", "train"),
    ]
    repair = without_leaks(rows)
    assert [each.id for each in repair.examples] == ["a2", "b2", "c"]
    assert repair.left_out == {
        "train has a version of the paper in test": 1,
        "train has a version of the paper in dev": 1,
    }


def test_families_are_never_divided_and_every_source_is_in_every_split():
    rows = [example(f"{s}{n}{v}", f"{s}{n}", source=s) for s in "xyz" for n in range(10) for v in "12"]
    split = split_by_family(rows)
    sides = {}
    for each in split:
        sides.setdefault(each.family, set()).add(each.split)
    assert all(len(found) == 1 for found in sides.values())
    assert {(each.source, each.split) for each in split} == {(s, p) for s in "xyz" for p in ("train", "dev", "test")}
    assert split == split_by_family(rows)
    assert split != split_by_family(rows, seed=1)
