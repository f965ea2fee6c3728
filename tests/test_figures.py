import pytest

from evals.schema import EvalReport
from tests.ceiling import REPORT, ceiling
from tests.figures import BLOCK, BLOCKS, DOCUMENTS, renewed


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_figure_in_the_documents_is_what_the_shipped_reports_say(document):
    text = document.read_text(encoding="utf-8")

    assert BLOCK.search(text), "no block of figures"
    assert renewed(text) == text, "write them anew: python -m tests.figures"


def test_every_block_of_figures_stands_in_a_document():
    named = [m["name"] for path in DOCUMENTS for m in BLOCK.finditer(path.read_text())]

    assert sorted(named) == sorted(BLOCKS)


def test_the_page_says_how_much_reward_can_be_had_without_new_directions():
    now, most = ceiling(EvalReport.model_validate_json(REPORT.read_text(encoding="utf-8")))
    page = (REPORT.parents[4] / "docs/embedded-chain.md").read_text(encoding="utf-8")
    assert f"from {now:.3f} to {most:.3f} at most ({most / now - 1:+.0%}".replace("%", " %") in page
