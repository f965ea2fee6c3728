import pytest

from tests.figures import BLOCK, BLOCKS, DOCUMENTS, TABLES, renewed, report


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_figure_in_the_documents_is_what_the_shipped_reports_say(document):
    text = document.read_text(encoding="utf-8")
    assert BLOCK.search(text), "no block of figures"
    assert renewed(text) == text, "write them anew: python -m tests.figures"


def test_every_block_of_figures_stands_in_a_document():
    named = [m["name"] for path in DOCUMENTS for m in BLOCK.finditer(path.read_text())]
    assert sorted(named) == sorted(BLOCKS)


@pytest.mark.parametrize("stage", ["sft", "dpo", "grpo"])
def test_trained_stages_end_their_answers_with_lines_that_can_be_read(stage: str):
    rows = [row.verdict for name in {name for name, *_ in TABLES} for row in report(name).rows if row.stage == stage]
    readable = [row for row in rows if row.read_by == "answer" and row.confidence.status == "stated"]
    assert len(rows) == 296 and len(readable) >= 0.98 * len(rows)
