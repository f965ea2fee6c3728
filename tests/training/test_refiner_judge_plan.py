"""A dry run of the refiner's stage refuses a judge that the run itself would refuse."""

from pathlib import Path

import pytest

from evals.errors import BadConfig
from training.launch.plan import Plan, plan_of

CONFIG = Path(__file__).parents[2] / "training" / "configs" / "embedded" / "refiner-grpo.yaml"
HERE, AWAY = "http://127.0.0.1:9/v1", "https://example.org/v1"


def dry(folder: Path, *words: str) -> Plan:
    where = (
        "--config",
        str(CONFIG),
        "--output",
        str(folder / "new"),
        "--chain",
        str(folder / "no"),
    )
    return plan_of("refiner", [*where, *words], is_dry=True)


@pytest.mark.parametrize(
    "words",
    [("--judge", AWAY), ("--judge", f"{HERE}?key=1")],
    ids=["away", "a secret in it"],
)
def test_an_address_that_may_not_be_asked_is_refused_before_the_run(tmp_path: Path, words):
    with pytest.raises(BadConfig, match=r"not on this machine|holds a user"):
        dry(tmp_path, *words)


def test_a_judge_that_may_be_asked_is_no_problem(tmp_path: Path):
    allowed = dry(tmp_path, "--judge", AWAY, "--judge_allow_remote", "true")
    assert len(allowed.problems) == len(dry(tmp_path, "--judge", "heuristic").problems) == 1


def test_a_key_that_is_not_set_here_is_named_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    words = ("--judge", HERE, "--judge_key_env", "ASSAY_NO_SUCH_KEY")
    monkeypatch.delenv("ASSAY_NO_SUCH_KEY", raising=False)
    assert ["ASSAY_NO_SUCH_KEY" in each for each in dry(tmp_path, *words).problems] == [False, True]
    monkeypatch.setenv("ASSAY_NO_SUCH_KEY", "x")
    assert len(dry(tmp_path, *words).problems) == 1
