import pytest

from evals.compare import Difference


@pytest.mark.parametrize(
    ("name", "changes", "shown", "better"),
    [
        ("accuracy", {}, True, True),
        ("brier", {}, True, False),
        ("ece", {}, False, False),
        ("accuracy", {"p_holm": 0.05}, False, True),
        ("accuracy", {"p_holm": None}, False, True),
        ("accuracy", {"low": 0.0}, False, True),
        ("accuracy", {"value": 0.0}, True, False),
    ],
)
def test_a_difference_is_shown_only_by_interval_and_corrected_p(
    name: str, changes: dict[str, float | None], shown: bool, better: bool
) -> None:
    usual = {"first": 0.2, "second": 0.5, "value": 0.3, "low": 0.1, "high": 0.5, "p_holm": 0.01}
    found = Difference(metric=name, n=9, **usual | changes)
    assert (found.is_shown, found.is_better) == (shown, better)
