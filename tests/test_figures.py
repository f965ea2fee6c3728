import re

import pytest

from evals.report import HEADLINE
from evals.schema import EvalReport
from tests.ceiling import REPORT, ceiling
from tests.figures import BLOCK, BLOCKS, DOCUMENTS, cell, known_stage, renewed, summary


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_figure_in_the_documents_is_what_the_shipped_reports_say(document):
    text = document.read_text(encoding="utf-8")

    assert BLOCK.search(text), "no block of figures"
    assert renewed(text) == text, "write them anew: python -m tests.figures"


def test_every_block_of_figures_stands_in_a_document():
    named = [m["name"] for path in DOCUMENTS for m in BLOCK.finditer(path.read_text())]

    assert sorted(named) == sorted(BLOCKS)


def test_every_row_of_the_table_of_stages_is_of_one_group_of_questions():
    lines = [line.strip("| ").split(" | ") for line in BLOCKS["stages"]().splitlines()]
    rows = [row for row in lines if len(row) > 1 and row[1].split()[0] in ("all", "59")]
    names = [
        name for name, count in (("pathways-heldout", 12), ("kmp-test", 5)) for _ in range(count)
    ]
    assert len(rows) == len(names)
    for name, (stage, questions, accuracy, reward, n_stated, *_) in zip(names, rows, strict=True):
        group = "all" if questions.startswith("all") else HEADLINE
        found = summary(name, known_stage(name, stage.lower()), group)
        n = int(re.sub(r"\D", "", questions))
        assert [found.metrics[metric].n for metric in ("accuracy", "reward")] == [n, n]
        assert found.metrics["ece"].n == found.metrics["brier"].n == int(n_stated)
        assert accuracy == cell("accuracy", found.metrics["accuracy"])
        assert reward == cell("reward", found.metrics["reward"])


def test_the_page_says_how_much_reward_can_be_had_without_new_directions():
    now, most = ceiling(EvalReport.model_validate_json(REPORT.read_text(encoding="utf-8")))
    page = (REPORT.parents[4] / "docs/embedded-chain.md").read_text(encoding="utf-8")
    assert f"from {now:.3f} to {most:.3f} at most ({most / now - 1:+.0%}".replace("%", " %") in page
