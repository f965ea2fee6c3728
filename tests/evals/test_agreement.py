"""Each metric against independent implementations; `python -m tests.evals.agreement` prints the table."""

import pytest

from tests.evals.agreement import Agreement, agreements, table


@pytest.fixture(scope="module")
def found() -> list[Agreement]:
    return agreements(60)


def test_every_metric_agrees_with_independent_implementations(found: list[Agreement]) -> None:
    apart = {
        f"{each.rival.metric}, {each.rival.name}": each.difference
        for each in found
        if each.difference > each.rival.tolerance
    }
    assert apart == {}
    assert min(each.n for each in found) >= 5


def test_the_table_has_a_line_for_every_implementation(found: list[Agreement]) -> None:
    lines = table(found).splitlines()
    assert len(lines) == 2 + len(found)
    for name in ("scikit-learn roc_auc_score", "torchmetrics binary_auroc", "relplot smECE"):
        assert any(name in line for line in lines)
